"""Flows of each operator over columns of one family of types, with rows for them, for all engines."""

import datetime as dt

from support.running import new_flow

import tidemill as tm
from tidemill.boundary.values import NAN

STRUCTS = {
    "k": "int64",
    "s": "struct<a: int64, b: string>",
    "t": "struct<f: float64, l: list<struct<d: decimal(30,2)>>>",
}


def of_structs(coordinates=1):
    """Return a flow of each operator that compares, orders, keeps or hashes structs."""
    flow = new_flow(coordinates)
    x = flow.input("x", STRUCTS)
    flow.output("expressions", x.select(
        a="s.a", b=tm.col("s").field("b"), d="GET(t.l, 0).d", again=tm.struct(k="k", s="s", f="t.f"), null="s IS NULL",
        same="t <=> named_struct('f', t.f, 'l', t.l)", least="LEAST(s, named_struct('a', k, 'b', 'b'))",
        chosen="CASE WHEN k > 1 THEN s ELSE COALESCE(s, named_struct('a', 1, 'b', 'x')) END", hash="XXHASH64(s, t)",
        both="named_struct('a', k, 'b', 'b') IN (s)", lists="ARRAY(s)",
    ).filter("d IS NULL OR d >= 0"))  # fmt: skip
    flow.output("groups", x.group_by("s").agg(
        n=tm.count(), most=tm.max("t"), least=tm.min("t"), each=tm.count_distinct("t"), listed=tm.collect_list("s"),
        first=tm.first("t", order_by=["k", tm.desc("t")]),
    ))  # fmt: skip
    flow.output("pairs", x.distinct().join(x.select("s", m="k"), on="s", nulls_equal=True))
    flow.output("plain pairs", x.join(x.select("t", m="k").distinct(), on="t", how="left"))
    flow.output("top", x.group_by("k").top_k(1, order_by=[tm.desc("s"), "t"]))
    flow.output("places", x.with_columns(
        place=tm.rank().over(tm.Window.partition_by("s").order_by("t")),
        before=tm.lag("t").over(tm.Window.order_by("s", "t", "k")),
    ))  # fmt: skip
    return flow


STRUCT_ROWS = [
    (1, (1, "x"), (0.5, ((None,), None))), (2, None, None), (1, (1, None), (NAN, ())), (2, (None, None), (-0.0, None)),
    (3, (1, "x"), (0.0, None)),
]  # fmt: skip

TIMES = {"z": "timestamptz", "t": "time", "i": "interval", "u": "uuid", "ts": "timestamp", "d": "date"}


def of_times(coordinates=1):
    """Return a flow of each operator that compares, orders, keeps or hashes these."""
    flow = new_flow(coordinates)
    x = flow.input("x", TIMES)
    flow.output("sums", x.filter("z > '2000-01-01'").select(
        apart="ts - CAST(z AS TIMESTAMP_NTZ)", zones="z - z", days="d - ts", clocks="t - TIME '09:30'", later="z + i",
        day="INTERVAL '1' DAY + z", earlier="ts - i", of_day="d + i", both="i + i", less="i - INTERVAL '1' HOUR",
        more="INTERVAL '1' DAY - i", one="INTERVAL '90' MINUTE",
    ))  # fmt: skip
    flow.output("parts", x.select(
        h="HOUR(z)", day="EXTRACT(DAY FROM z)", begin="DATE_TRUNC('day', z)", th="HOUR(t)", tm="MINUTE(t)", ts="SECOND(t)",
        ih="HOUR(i)", im="MINUTE(i)", days="EXTRACT(DAY FROM i)", s="SECOND(i)", clock="CAST(ts AS TIME)",
        date="CAST(z AS DATE)", zone="CAST(ts AS TIMESTAMP_LTZ)", unix="UNIX_MICROS(z)",
    ))  # fmt: skip
    text = {name: f"CAST({name} AS STRING)" for name in ("z", "t", "i", "u")}
    back = {f"{name}_back": f"CAST(CAST({name} AS STRING) AS {of})" for name, of in
            (("z", "TIMESTAMP_LTZ"), ("t", "TIME"), ("i", "INTERVAL DAY TO SECOND"), ("u", "UUID"))}  # fmt: skip
    flow.output("text", x.select(**text, **back))
    flow.output("tests", x.select(
        a="i > INTERVAL '1' DAY", b="t BETWEEN '10:00' AND '11:00'", c="u = '6BA7B810-9DAD-11D1-80B4-00C04FD430C8'",
        d="z IN (z)", e="COALESCE(i, INTERVAL '1' DAY)", f="GREATEST(t, TIME '12:00')", g="XXHASH64(z, t, i, u)",
        h="CASE WHEN i IS NULL THEN z ELSE z + i END", l="ARRAY(z, z)", s=tm.struct(i="i", u="u"),
    ))  # fmt: skip
    flow.output("groups", x.group_by("z", "t", "i", "u").agg(n=tm.count()))
    flow.output("of groups", x.group_by("d").agg(
        most=tm.max("i"), least=tm.min("z"), each=tm.count_distinct("t"), ids=tm.collect_list("u"), most_u=tm.max("u"),
        first=tm.first("t", order_by=["i", "z"]),
    ))  # fmt: skip
    flow.output(
        "pairs", x.distinct().join(x.select("t", "i", "u", "z", w="ts"), on=["z", "t", "i", "u"], nulls_equal=True)
    )
    flow.output("top", x.group_by("d").top_k(1, order_by=[tm.desc("i"), "u", "z"]))
    flow.output("places", x.with_columns(n=tm.rank().over(tm.Window.partition_by("t", "u").order_by("i", "z"))))
    return flow


UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=2))
A, B = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c9"
TIME_ROWS = [
    (dt.datetime(2024, 1, 1, 1, tzinfo=EAST), dt.time(10), dt.timedelta(hours=25, microseconds=5), A,
     dt.datetime(2024, 1, 1), dt.date(2024, 1, 1)),
    (dt.datetime(2024, 3, 10, 2, 30, tzinfo=UTC), dt.time(23, 59, 59, 500000), -dt.timedelta(hours=25), B.upper(),
     dt.datetime(2024, 3, 10, 2, 30), dt.date(2024, 1, 1)),
    (None,) * 6, (dt.datetime(9, 12, 31, 23, tzinfo=UTC), None, None, None, None, None),
]  # fmt: skip
