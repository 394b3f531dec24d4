"""Mutual recursion: can rivals be split into two teams? Only if nobody is an odd number of rivalries from themselves.

A walk of even length is one of odd length and a step more, and the other way round: two bindings of a ``letrec`` block,
each seeing what the other holds by now. One rivalry can make teams impossible, and once it is over nothing of what it
brought about is left, though all of that went on supporting itself round the cycles.
"""

import tidemill as tm

PAIR = {"a": "string", "b": "string"}


def build() -> tm.Dataflow:
    """Return the dataflow: rivalries in; who is stuck, and each one's team, named after its first member, out."""
    flow = tm.Dataflow("rivals")
    rivals = flow.input("rivals", PAIR)
    steps = rivals.concat(rivals.select(a="b", b="a")).distinct()
    with flow.letrec() as rec:
        odd, even = rec.declare("odd", PAIR), rec.declare("even", PAIR)
        rec.define("odd", steps.concat(even.join(steps, on={"b": "a"}).select("a", b="b_right")).distinct())
        rec.define("even", odd.join(steps, on={"b": "a"}).select("a", b="b_right").distinct())
    stuck = rec["odd"].filter("a = b").select("a")
    flow.output("stuck", stuck)
    flow.output("teams", rec["even"].antijoin(stuck, on="a").group_by("a").agg(team=tm.min("b")))
    return flow


if __name__ == "__main__":  # make a team of friends rivals, and friends again
    with build().start(keep=1) as run:
        run.insert("rivals", [("Ann", "Ben"), ("Ben", "Cem"), ("Cem", "Dora"), ("Dora", "Ann"), ("Eve", "Finn")])
        run.advance()
        print(run.snapshot("teams"), end="\n\n")
        run.insert("rivals", [("Ann", "Cem")])
        run.advance()
        print("Ann and Cem fall out:", run.changes("teams", since=0), run.snapshot("stuck"), sep="\n", end="\n\n")
        run.delete("rivals", [("Ann", "Cem")])
        run.advance()
        print("Ann and Cem make up:", run.changes("teams", since=1), sep="\n")
