"""Sessions of clicks, by a loop over LAG: a click goes on with the session of the click before it, or begins one.

It goes on within 30 minutes of that click and two hours of that session's start, which depends in turn on the clicks
before: no window alone can say it. Each round of the loop settles one more click of every user. Clicks at one time
count once. A late click changes the sessions behind it, and nothing else.
"""

import datetime as dt

import tidemill as tm

BEFORE = tm.Window.partition_by("user").order_by("t")
GOES_ON = "timestampdiff('minute', last, t) <= 30 and timestampdiff('minute', start_before, t) <= 120"


def build() -> tm.Dataflow:
    """Return the dataflow: clicks in, sessions out."""
    flow = tm.Dataflow("sessions")
    clicks = flow.input("clicks", {"user": "string", "t": "timestamp"})

    def settle(c: tm.Collection) -> tm.Collection:
        c = c.with_columns(last=tm.lag("t").over(BEFORE), start_before=tm.lag("start").over(BEFORE))
        return c.select("user", "t", start=f"case when {GOES_ON} then start_before else t end")

    settled = clicks.distinct().with_columns(start="t").iterate(settle)
    flow.output("sessions", settled.group_by("user", "start").agg(end=tm.max("t"), clicks=tm.count()))
    return flow


if __name__ == "__main__":  # report the sessions of a morning; then what a late click changes
    nine, minute = dt.datetime.fromisoformat("2026-01-01T09:00"), dt.timedelta(minutes=1)
    minutes = {"ann": [0, 20, 55, 80, 105], "bob": [0, 25, 50, 75, 100, 125]}
    with build().start(keep=1) as run:
        run.insert("clicks", [(user, nine + m * minute) for user, clicks in minutes.items() for m in clicks])
        run.advance()
        print("Sessions:", run.snapshot("sessions"), sep="\n", end="\n\n")
        run.insert("clicks", [("ann", nine + 40 * minute)])
        run.advance()
        print("What a click of ann's at 9:40 changes:", run.changes("sessions", since=0), sep="\n")
