"""A running balance as the books stood: entries by the day they count for, and the correction by which they were known.

The balance after an entry is a window over all earlier ones of the account. Times have two coordinates: a correction to
an early day moves every later balance, at this correction and on every later day of it, and leaves the balances as they
were known before.
"""

import tidemill as tm


def build() -> tm.Dataflow:
    """Return the dataflow: entries in, each with the balance after it out."""
    flow = tm.Dataflow("balance", time=("day", "correction"))
    entries = flow.input("entries", {"account": "string", "number": "int64", "amount": "int64"})
    so_far = tm.Window.partition_by("account").order_by("number")
    flow.output("balances", entries.with_columns(balance=tm.sum("amount").over(so_far)))
    return flow


if __name__ == "__main__":  # report three days; then a correction to the first
    with build().start(keep=9) as run:
        for day, amount in enumerate([100, -30, 50]):
            run.insert("entries", [("till", day + 1, amount)], time=(day, 0))
        run.advance_to(tm.Antichain([(3, 0), (0, 1)]))
        print("After three days:", run.snapshot("balances", at=(2, 0)), sep="\n", end="\n\n")
        run.update("entries", [(("till", 1, 100), (0, 1), -1), (("till", 1, 10), (0, 1), +1)])
        run.advance_to(tm.Antichain([(3, 0), (0, 2)]))
        print("What a correction to the first changes:", run.changes("balances", since=(2, 0)), sep="\n", end="\n\n")
        for correction in 0, 1:
            print(f"Day 2, correction {correction}:", *run.snapshot("balances", at=(2, correction)))
