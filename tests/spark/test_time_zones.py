"""Timestamps are wall time without zone: neither the session's time zone nor Python's own changes what anything means.

The kind: something of Spark's, or of Python's, takes such a timestamp for a moment in some zone. So all there is over
dates and timestamps is compared with the reference engine where clocks of zones change: an hour, half an hour, a day.
"""

import datetime as dt
import functools
import os
import random
import time
import zoneinfo

import pytest

import tidemill as tm
from tidemill.expressions.binding import bind
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions.dates import AGE, DATES
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.spark import large_windows, strategy
from tidemill.renderer.spark.dataframes import frame_of_rows
from tidemill.renderer.spark.scalars import NATIVE, native_sql

CHANGING = ("America/New_York", "Pacific/Apia", "Australia/Lord_Howe")  # by hours; by a day, once; by half an hour
ZONES = ("UTC", *CHANGING)
ZONE = "spark.sql.session.timeZone"
SCHEMA = Schema.of({"t": "timestamp", "r": "timestamp", "day": "date", "n": "int32", "i": "int64", "s": "string"})
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
PARTS = ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear", "hour", "minute", "second",
         "last_day", "unix_seconds", "unix_millis", "unix_micros")  # fmt: skip
TEXTS = [
    *[f"{part}({of})" for part in PARTS for of in ("t", "day")],
    *[f"extract({part} from t)" for part in ("second", "yearofweek", "dow_iso", "doy")],
    *[f"date_trunc('{unit}', {of})" for unit in UNITS for of in ("t", "day")],
    *[f"timestampdiff({unit}, {of})" for unit in UNITS for of in ("t, r", "day, r", "r, day")],
    *[f"(age({of})).{part}" for part, _ in AGE.fields for of in ("t, r", "day, r", "r, day")],
    *[f"timestampadd({unit}, n, {of})" for unit in UNITS for of in ("t", "day")],
    *[f"trunc({of}, '{unit}')" for unit in UNITS[:4] for of in ("t", "day")],
    *[f"{of} {sign} interval {by}" for of in ("t", "day") for sign in "+-" for by in ("1 month", "1 day", "90 minutes")],
    *[f"{a} {sign} {b}" for sign in ("=", "<", "<=>") for a, b in (("t", "r"), ("t", "day"), ("day", "r"))],
    "datediff(t, r)", "datediff(day, r)", "unix_date(day)", "date_from_unix_date(n)", "add_months(t, n)", "date_add(t, n)",
    "date_sub(day, n)", "make_date(2011, 12, abs(n) % 31 + 1)", "timestamp_seconds(i)", "timestamp_millis(i)",
    "timestamp_micros(i)", "least(t, r)", "greatest(t, day)", "t in (r, day)", "coalesce(t, day)", "if(n > 0, t, day)",
    "xxhash64(t, day)", "cast(t as string)", "cast(t as date)", "cast(day as timestamp)", "cast(s as timestamp)",
    "cast(s as date)", "t = '2011-12-30 01:00:00'", "t < timestamp '2011-12-30 01:00:00'", "day >= date '2011-12-30'",
    "coalesce(cast(null as timestamp), timestamp '2020-03-08 02:30:00')", "concat(s, cast(t as string))",
    "date_trunc('minute', date_trunc('hour', greatest(t, r)))", "timestampdiff(hour, date_trunc('day', t), t)",
]  # fmt: skip
"""Every function, operator, cast and literal of dates and timestamps."""


@functools.cache
def changes(name):
    """The wall times before and after each change of a zone's clocks from 1900 to 2100."""
    zone, found = zoneinfo.ZoneInfo(name), []
    offset = lambda at: at.astimezone(zone).utcoffset()  # noqa: E731
    at, step = dt.datetime(1890, 1, 1, tzinfo=dt.UTC), dt.timedelta(days=7)
    while at.year < 2100:
        low, high = at, at + step
        while high - low > dt.timedelta(seconds=1) and offset(low) != offset(high):
            middle = low + (high - low) // 2
            low, high = (middle, high) if offset(middle) == offset(at) else (low, middle)
        if offset(at) != offset(at + step):
            found += [(high.replace(microsecond=0, tzinfo=None) + offset(of)) for of in (at, at + step)]
        at += step
    return found


def test_clocks_change_by_hours_by_half_an_hour_and_by_a_day():
    sizes = [{b - a for a, b in zip(*[iter(changes(zone))] * 2, strict=True)} for zone in CHANGING]
    assert all(dt.timedelta(minutes=minutes) in of for of, minutes in zip(sizes, (60, 24 * 60, 30), strict=True))


@functools.cache
def rows():
    """Moments at changes of clocks, and some way off on either side, with others not far from them, or far."""
    dice = random.Random(5)
    all_changes = [at for zone in CHANGING for at in changes(zone)]
    near = [dt.timedelta(minutes=m, microseconds=u) for m in (-60, -30, -1, 0, 1, 29, 30, 59, 60) for u in (-1, 0, 1)]
    found = []
    for at in dice.sample(all_changes, 250) + [at for zone in CHANGING[1:2] for at in changes(zone)]:
        t = at + dice.choice(near)
        r = (dice.choice(all_changes) if dice.random() < 0.5 else at) + dice.choice(near)
        day = dice.choice((t, r)).date()
        seconds = int((t - dt.datetime(1970, 1, 1)).total_seconds())
        found.append((t, r, day, dice.randint(-40, 40), seconds, str(r)))
    return found


@functools.cache
def expected():
    """What the reference engine makes of every expression."""
    with flow_of(range(len(TEXTS))).start(tm.Reference()) as run:
        run.insert("x", rows())
        run.advance()
        return sorted(map(repr, run.snapshot("o")))


def flow_of(numbers):
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    flow.output("o", x.select(row="concat(s, cast(t as string))", **{f"v{k}": TEXTS[k] for k in numbers}))
    return flow


def rendered(spark):
    """What Spark makes of every expression: those that it computes itself, and those that kernels do, apart."""
    frame = frame_of_rows(spark, SCHEMA, rows())
    found, names = {}, [f"v{k}" for k in range(len(TEXTS))]
    native = {k for k, text in enumerate(TEXTS) if native_sql(bind(expr(text), SCHEMA)) is not None}
    for numbers in filter(None, (native, {*range(len(TEXTS))} - native)):
        for row in tm.render(flow_of(sorted(numbers)), spark, {"x": frame})["o"].toArrow().to_pylist():
            found.setdefault(row["row"], {"row": row["row"]}).update(row)
    return sorted(repr(tuple(of[name] for name in ("row", *names))) for of in found.values())


def test_every_function_is_there():
    def functions(tree):
        if hasattr(tree, "function"):
            yield tree.function
            for arg in tree.args:
                yield from functions(arg)

    of_moments = {f.name for f in DATES}
    assert of_moments <= {*FUNCTIONS}
    trees = [bind(expr(text), SCHEMA) for text in TEXTS]
    assert of_moments <= {f for tree in trees for f in functions(tree)}
    native = {f.name for f in DATES} & NATIVE
    assert native <= {f for tree in trees if native_sql(tree) is not None for f in functions(tree)}


@pytest.fixture
def in_zone(spark):
    """Sets the session's zone, until the end of the test."""
    before = spark.conf.get(ZONE)
    yield lambda zone: spark.conf.set(ZONE, zone)
    spark.conf.set(ZONE, before)


@pytest.mark.parametrize("zone", ZONES)
def test_functions_are_the_same_in_all_sessions(spark, in_zone, zone):
    in_zone(zone)
    assert rendered(spark) == expected()


@pytest.mark.parametrize("zone", CHANGING[1:])
def test_so_are_those_of_kernels(spark, in_zone, monkeypatch, zone):
    columns_only = lambda bound: native_sql(bound) if not hasattr(bound, "args") else None  # noqa: E731
    monkeypatch.setattr(strategy, "native_sql", columns_only)
    in_zone(zone)
    assert rendered(spark) == expected()


@pytest.fixture
def python_in_zone(spark, monkeypatch):
    """Sets Python's own zone, in this process and in those of the executors, until the end of the test."""
    environment = spark.sparkContext.environment

    def set_to(zone):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setitem(environment, "TZ", zone)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_python_does_not_matter_either(spark, python_in_zone):
    python_in_zone("Pacific/Apia")
    assert os.environ["TZ"] == time.tzname[0] or time.tzname[0] in ("+13", "-11", "WSST")
    told = spark.range(1).mapInPandas(_zone_of_worker, "zone string").collect()
    assert told == [("Pacific/Apia",)]
    assert rendered(spark) == expected()
    with flow_of(range(len(TEXTS))).start() as run:
        run.insert("x", rows())
        run.advance()
        assert sorted(map(repr, run.snapshot("o"))) == expected()


def _zone_of_worker(frames):
    import pandas as pd

    for _ in frames:
        yield pd.DataFrame({"zone": [os.environ["TZ"]]})


# -- all else that is over moments ------------------------------------------------------------------------------------


EVENTS = {"t": "timestamp", "u": "string", "v": "int64"}


def over_moments():
    """Groups, joins, window frames, sessions, watermarks and filters by moments."""
    flow = tm.Dataflow()
    x = flow.input("x", EVENTS)
    y = flow.input("y", EVENTS, watermark=("t", dt.timedelta(minutes=45)))
    w = tm.Window.partition_by("u").order_by("t")
    by_day = tm.Window.partition_by("cast(t as date)").order_by("t")
    flow.output(
        "groups",
        x.group_by(hour="date_trunc('hour', t)", day="cast(t as date)").agg(
            n=tm.count(), first=tm.min("t"), last=tm.max("t"), of=tm.sum("v")
        ),
    )
    flow.output(
        "frames",
        x.with_columns(
            near=tm.sum("v").over(w.range_between(-tm.interval(minutes=90), tm.interval(minutes=30))),
            month=tm.count().over(w.range_between(-tm.interval(months=1), 0)),
            before=tm.lag("t").over(by_day),
        ),
    )
    flow.output("sessions", x.with_columns(start=tm.session("t", tm.interval(minutes=45)).over(w)))
    flow.output("pairs", x.join(y, on="u", where="t_right between t - interval 1 hour and t + interval 90 minutes"))
    flow.output("sorted", y.sort_buffer("t"))
    flow.output("late", y.late_rows("t"))
    flow.output("above", x.dynamic_filter("t", ">", y.agg(least=tm.min("t")).select(m="least + interval 1 day")))
    clock = y.agg(now=tm.max("t")).filter("now is not null")
    flow.output("valid", x.temporal_filter("t - interval 1 year", "t + interval 90 minutes", clock=clock))
    flow.output("at times", x.temporal_filter(None, "pmod(unix_seconds(date_trunc('hour', t)), 7)"))
    flow.output("apart", x.select("u", hours="timestampdiff(hour, t, timestamp '2011-12-30 00:30:00')").distinct())
    return flow


@functools.cache
def events():
    """Rows at changes of clocks, of users of whom each has those of one change."""
    dice = random.Random(8)
    found = []
    for zone in CHANGING:
        for at in dice.sample(changes(zone), 8) + changes("Pacific/Apia")[-4:]:
            found += [(at + dt.timedelta(minutes=dice.choice((-90, -30, 0, 15, 59, 60))), str(at.date()), dice.randint(0, 9))
                      for _ in range(5)]  # fmt: skip
    return found


def played(engine):
    """What is seen of a run: much at once, then less, some of it taken back."""
    seen, found = [], events()
    with over_moments().start(engine) as run:
        for new, old in ((found[:60], []), (found[60:63], found[:9]), ([], found[20:29])):
            run.insert("x", new)
            run.insert("y", new)
            run.delete("x", old)
            run.advance()
            seen.append({name: sorted(map(repr, run.changes(name))) for name in run.graph.outputs})
    return seen


@functools.cache
def played_by_reference():
    return played(tm.Reference())


@pytest.mark.parametrize(("zone", "in_driver"), [(CHANGING[0], 20), (CHANGING[2], 0)])
def test_the_driver_and_executors_of_a_live_run_agree(spark, tmp_path, in_zone, zone, in_driver):
    """Executors take the first step, and the driver what takes rows of it back; or executors take all."""
    in_zone(zone)
    assert played(tm.Spark(spark, tmp_path, in_driver=in_driver)) == played_by_reference()


def test_a_whole_history_is_the_same_where_a_day_is_missing(spark, in_zone, monkeypatch):
    monkeypatch.setattr(large_windows, "LARGE", 3)  # days of more rows are cut into ranges of their order
    monkeypatch.setattr(large_windows, "RANGE_ROWS", 2)
    in_zone("Pacific/Apia")
    flow, found = over_moments(), events()
    updates = {
        "x": [(row, k % 3, 1) for k, row in enumerate(found)],
        "y": [(row, k // 50, 1) for k, row in enumerate(found)],
    }
    updates["x"] += [(row, time + 1, -1) for row, time, _ in updates["x"][::4]]
    tm.testing.check_equivalent(
        flow, {**updates, "y.watermark": []}, engines=["reference", "spark"], batchings=[tm.testing.all_at_once]
    )
