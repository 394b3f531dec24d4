"""Flights as they take off: a rolling mean delay and the busy spells of each airport, each given once and for all.

Reports come up to ten minutes late. A row is given when no report before the last row of its frame can come any more;
what comes later still is late, and told apart.
"""

import datetime as dt

import tidemill as tm

MINUTE = dt.timedelta(minutes=1)
BY_AIRPORT = tm.Window.partition_by("origin").order_by("t")


def build() -> tm.Dataflow:
    """Return the dataflow: flights in; means of three flights around each, spells of flights, and late reports out."""
    flow = tm.Dataflow("rolling delays")
    columns = {"t": "timestamp", "origin": "string", "delay": "int64"}
    flights = flow.input("flights", columns, watermark=("t", 10 * MINUTE))
    mean = tm.avg("delay").over(BY_AIRPORT.rows_between(-1, 1))
    flow.output("means", flights.with_columns(mean=mean, emit="on_close"))
    spells = flights.with_columns(start=tm.session("t", 15 * MINUTE).over(BY_AIRPORT), emit="on_close")
    flow.output("spells", spells.group_by("origin", "start").agg(end=tm.max("t"), flights=tm.count()))
    flow.output("late", flights.late_rows("t"))
    return flow


if __name__ == "__main__":  # report flights in batches, the second with two that belong to the first
    six = dt.datetime.fromisoformat("2013-07-01T06:00")
    batches = [[(0, "JFK", 5), (9, "JFK", 20), (4, "LGA", 0), (21, "JFK", 2)], [(12, "JFK", 35), (3, "LGA", 9)]]
    with build().start() as run:
        for batch in [*batches, [(60, "LGA", 1), (61, "JFK", 4)]]:
            run.insert("flights", [(six + m * MINUTE, origin, delay) for m, origin, delay in batch])
            run.advance()
            print("Means:", run.changes("means"), sep="\n", end="\n\n")
        print("Spells:", run.snapshot("spells"), "", "Late:", run.snapshot("late"), sep="\n")
