"""The k-core: the largest circle in which everybody has k friends inside. One goes, and others may have to follow.

A loop drops who has fewer than k friends left, then those who thereby have too few, and so on. A friendship that ends
may undo the whole circle; when it is renewed all of them are back, without the circle having been worked out anew.
"""

import tidemill as tm


def build(k: int = 2) -> tm.Dataflow:
    """Return the dataflow: friendships in, given in one direction or both; who is in the k-core out."""
    flow = tm.Dataflow("k_core")
    friends = flow.input("friends", {"a": "string", "b": "string"})
    both = friends.concat(friends.select(a="b", b="a")).filter("a <> b").distinct()

    def drop(core: tm.Collection) -> tm.Collection:
        stay = core.group_by("a").agg(friends=tm.count()).filter(tm.col("friends") >= k)
        return core.semijoin(stay, on="a").semijoin(stay, on={"b": "a"})

    flow.output("core", both.iterate(drop).group_by("a").agg(friends=tm.count()))
    return flow


if __name__ == "__main__":  # end a friendship in a ring of five, and renew it
    ring = [("Ann", "Ben"), ("Ben", "Cem"), ("Cem", "Dora"), ("Dora", "Eve"), ("Eve", "Ann"), ("Eve", "Finn")]
    with build().start(keep=1) as run:
        run.insert("friends", ring)
        run.advance()
        print(run.snapshot("core"), end="\n\n")
        run.delete("friends", [("Cem", "Dora")])
        run.advance()
        print("Cem and Dora part:", run.changes("core", since=0), sep="\n", end="\n\n")
        run.insert("friends", [("Cem", "Dora"), ("Cem", "Eve")])
        run.advance()
        print("They make up, and Cem gets to know Eve:", run.changes("core", since=1), sep="\n")
