"""Two user times: the day a sale was made, and the correction by which it was known.

Every (day, correction) is a version of the truth: revenue up to that day, as the books stood after that correction.
Days close as they pass, in the first column of the table, while corrections to days long gone may still come: what is
final is bounded by an antichain. Totals change at (1, 1), too, though no update came at that time: they follow from a
sale at (1, 0) and a correction at (0, 1).
"""

import tidemill as tm


def build() -> tm.Dataflow:
    """Return the dataflow: sales in, each shop's revenue out."""
    flow = tm.Dataflow("books", time=("day", "correction"))
    sales = flow.input("sales", {"shop": "string", "amount": "int64"})
    flow.output("revenue", sales.group_by("shop").agg(revenue=tm.sum("amount")))
    return flow


if __name__ == "__main__":  # report two days; then a third one, and a correction to the first
    with build().start(keep=9) as run:
        run.update("sales", [(("Oslo", 100), (0, 0), +1), (("Oslo", 50), (1, 0), +1), (("Rome", 70), (1, 0), +1)])
        run.advance_to(tm.Antichain([(2, 0), (0, 1)]))
        print("Final but for corrections, days 0 and 1:", run.snapshot("revenue", at=(1, 0)), sep="\n", end="\n\n")

        run.insert("sales", [("Rome", 30)], time=(2, 0))
        run.update("sales", [(("Oslo", 100), (0, 1), -1), (("Oslo", 10), (0, 1), +1)])
        run.advance_to(tm.Antichain([(3, 0), (0, 2)]))
        print("What a third day and correction 1 changed:", run.changes("revenue", since=(1, 0)), sep="\n", end="\n\n")
        for correction in 0, 1:
            for day in 0, 1, 2:
                print(f"day {day}, correction {correction}:", *run.snapshot("revenue", at=(day, correction)))
