"""Flights that leave later than the mean of the year so far: a dynamic filter, kept up to date day by day.

With every day the mean moves a little, and flights of all days before come and go between the old mean and the new.
Only these are looked at: the flights lie in order of their delay. Needs the data of tidemill[demo].
"""

import tidemill as tm
from tidemill.demo.data import load


def build() -> tm.Dataflow:
    """Return the dataflow: flights in; those above the mean delay, and how many from each airport, out."""
    flow = tm.Dataflow("later than most")
    flights = flow.input("flights", {"id": "int64", "origin": "string", "delay": "int64"})
    late = flights.dynamic_filter("delay", ">", flights.agg(mean=tm.avg("delay")))
    flow.output("late", late)
    flow.output("by_origin", late.group_by("origin").agg(n=tm.count()))
    return flow


if __name__ == "__main__":  # take the first day of the year in, then the second
    year = load()
    with build().start() as run:
        for day in 1, 2:
            flights = year.of_days(day, day).select(["id", "origin", "dep_delay"])
            run.insert("flights", flights.rename_columns(["id", "origin", "delay"]))
            run.advance()
            print(f"Day {day}:", run.snapshot("by_origin"), sep="\n")
        gone = [delay for (_, _, delay), time, diff in run.changes("late") if time == 1 and diff < 0]
        print(f"{len(gone)} of the first day's are not later than most any more, by", *sorted(set(gone)), "minutes.")
