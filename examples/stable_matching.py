"""Stable matching (Gale and Shapley): students apply, schools choose, until nobody is refused any more.

In each iteration every student applies to the best school that has not refused them, and every school refuses all but
the one it likes best. When wishes change, only those applications are made again that now come out differently.
"""

import tidemill as tm

PAIR = {"student": "string", "school": "string"}


def best(offers: tm.Collection, of: str, by: str) -> tm.Collection:
    """Return for each one of a column the offer that comes first by another."""
    return offers.semijoin(offers.group_by(of).agg(**{by: tm.min(by)}), on=[of, by])


def build() -> tm.Dataflow:
    """Return the dataflow: wishes (a school is a student's nth choice, who is of nth rank to it) in, matches out."""
    flow = tm.Dataflow("matching")
    wishes = flow.input("wishes", {**PAIR, "choice": "int64", "rank": "int64"})
    with flow.letrec() as rec:
        refused = rec.declare("refused", PAIR)
        applied = best(wishes.antijoin(refused, on=["student", "school"]), "student", "choice")
        lost = applied.antijoin(best(applied, "school", "rank"), on=["student", "school"])
        rec.define("refused", refused.concat(lost.select("student", "school")).distinct())
    open_wishes = wishes.antijoin(rec["refused"], on=["student", "school"])
    flow.output("matches", best(open_wishes, "student", "choice").select("student", "school"))
    return flow


if __name__ == "__main__":  # match three students; then let a school think better of one
    with build().start(keep=1) as run:
        run.insert("wishes", [("Ann", "Art", 1, 2), ("Ann", "Law", 2, 1), ("Ann", "Sea", 3, 1)])
        run.insert("wishes", [("Ben", "Art", 1, 1), ("Ben", "Law", 2, 2), ("Ben", "Sea", 3, 2)])
        run.insert("wishes", [("Cem", "Law", 1, 3), ("Cem", "Art", 2, 3), ("Cem", "Sea", 3, 3)])
        run.advance()
        print(run.snapshot("matches"), end="\n\n")
        run.update("wishes", [(("Cem", "Law", 1, 3), 1, -1), (("Cem", "Law", 1, 0), 1, +1)])
        run.advance()
        print("Law would now rather have Cem:", run.changes("matches", since=0), sep="\n")
