"""Dataflows whose operators forget behind watermarks, one for each kind, and updates for them."""

from random import Random

from hypothesis import strategies as st

import tidemill as tm

ROW = {"k": "string", "ts": "int64", "v": "int64"}
OTHER = {"k": "string", "us": "int64", "w": "int64"}
BUCKET = "ts div 4"


def inputs():
    """A flow with two inputs that have watermarks, less what is late, and a third without one, that is not in time."""
    flow = tm.Dataflow("forgetful")
    a = flow.input("a", ROW, watermark=("ts", 2))
    b = flow.input("b", OTHER, watermark=("us", 3))
    return flow, a, a.on_time("ts"), b.on_time("us")


def _closed(rows, **columns):
    return rows.with_columns(**columns, emit="on_close")


BY_TIME = tm.Window.partition_by("k").order_by("ts")
IN_BUCKET = tm.Window.partition_by("k", BUCKET).order_by("ts", "v")


def _twice(raw, a, b):
    """Partners of rows that are on time, and, in a loop, of all."""
    all_rows = raw.select("ts", w="v")
    found = all_rows.iterate(lambda x: x.concat(x.join(b, on={"ts": "us"}).select("ts", w="w_right")).distinct())
    return a.join(b, on={"ts": "us"}).select("ts", "w").concat(found)


KINDS = {
    "groups": lambda raw, a, b: a.group_by(bucket=BUCKET).agg(n=tm.count(), s=tm.sum("v"), m=tm.max("v")),
    "groups in order": lambda raw, a, b: a.group_by("k", bucket="(ts - 1) * 2").agg(
        all=tm.list("v", order_by="ts"), first=tm.first("v", order_by="ts")
    ),
    "groups of groups": lambda raw, a, b: a.group_by("k", "ts").agg(n=tm.count()).group_by(b=BUCKET).agg(m=tm.max("n")),
    "groups by a function": lambda raw, a, b: a.group_by("ts").reduce(
        lambda key, rows: [((key[0], sum(n for _, n in rows)), 1)], {"ts": "int64", "n": "int64"}
    ),
    "distinct": lambda raw, a, b: a.select("k", "ts").distinct(),
    "first of each": lambda raw, a, b: a.group_by("k", "ts").top_k(1, order_by="v"),
    "windows": lambda raw, a, b: a.with_columns(s=tm.sum("v").over(IN_BUCKET), r=tm.rank().over(IN_BUCKET)),
    "windows by bucket": lambda raw, a, b: (
        a.with_columns(bucket=BUCKET)
        .with_columns(n=tm.count().over(tm.Window.partition_by("bucket")))
        .group_by("bucket")
        .agg(n=tm.max("n"))
    ),
    "band join": lambda raw, a, b: a.join(b, on="k", where="us >= ts - 2 and us <= ts + 3"),
    "band join by distance": lambda raw, a, b: (
        a.join(b, on="k", where="abs(us - ts) <= 2").group_by("ts").agg(n=tm.count())
    ),
    "band join of one bound": lambda raw, a, b: a.join(b, on="k", where="us > ts + 1"),
    "join by range": lambda raw, a, b: a.cross_join(b).filter("ts < us and us < ts + 4"),
    "join by range and key": lambda raw, a, b: a.join(b, on="k", where="ts <= us and v < w"),
    "join by time": lambda raw, a, b: a.join(b, on={"ts": "us"}).group_by("ts").agg(s=tm.sum("w")),
    "self join": lambda raw, a, b: a.join(a.select("k", "ts", u="v"), on=["k", "ts"], where="u >= v"),
    "left join": lambda raw, a, b: a.join(b.select("w", ts="us"), on="ts", how="left"),
    "semi join": lambda raw, a, b: a.join(b.select("k", ts="us"), on=["k", "ts"], how="semi"),
    "anti join": lambda raw, a, b: a.join(b.select("k", ts="us"), on=["k", "ts"], how="anti"),
    "join with what is late": lambda raw, a, b: raw.join(b, on={"ts": "us"}),
    "one arrangement of two": lambda raw, a, b: a.join(b.select("w", ts="us"), on="ts").concat(
        a.join(raw.select("ts", w="v"), on="ts").select("k", "ts", "v", "w")
    ),
    "one arrangement, read in a loop too": lambda raw, a, b: _twice(raw, a, b.select("us", "w")),
    "union": lambda raw, a, b: a.concat(b.select("k", ts="us + 1", v="w")).group_by("ts").agg(n=tm.count()),
    "minus": lambda raw, a, b: a.concat(a.filter("v > 1").negate()).select("k", "ts").distinct(),
    "closed sessions": lambda raw, a, b: (
        _closed(raw.filter("v < 1"), start=tm.session("ts", 1).over(BY_TIME))
        .group_by("k", "start")
        .agg(n=tm.count(), end=tm.max("ts"))
    ),
    "sessions of each key": lambda raw, a, b: (
        _closed(raw.filter("v < 1"), start=tm.session("ts", 1).over(BY_TIME))
        .select("k", "start")
        .distinct()
        .group_by("k")
        .agg(n=tm.count(), last=tm.max("start"))
    ),
    "sorted": lambda raw, a, b: raw.sort_buffer("ts").group_by("ts").agg(n=tm.count(), m=tm.min("v")),
    "closed windows": lambda raw, a, b: (
        _closed(raw, s=tm.sum("v").over(BY_TIME.range_between(-2, 1))).group_by("ts").agg(s=tm.max("s"))
    ),
    "windows that wait for rows": lambda raw, a, b: (
        _closed(raw, s=tm.lead("v").over(BY_TIME)).group_by("ts").agg(s=tm.max("s"))
    ),
    "by the watermark": lambda raw, a, b: (
        a.with_columns(ts=tm.coalesce("ts", 0))
        .temporal_filter(valid_to="ts + 3", clock=a.watermark("ts"))
        .group_by("ts")
        .agg(n=tm.count())
    ),
    "above the watermark": lambda raw, a, b: (
        b.with_columns(us=tm.coalesce("us", 0))
        .dynamic_filter("us", ">", b.watermark("us").select(w="watermark - 1"))
        .select("k", "us")
        .distinct()
    ),
    "delayed": lambda raw, a, b: a.delay(4).group_by("ts").agg(n=tm.count()),
    "valid later": lambda raw, a, b: a.temporal_filter(valid_from="v * 3").group_by("ts").agg(n=tm.count()),
    "in a loop": lambda raw, a, b: a.select("ts").iterate(
        lambda x: x.concat(x.filter("ts < 12").select(ts="ts + 1")).distinct()
    ),
}
"""What is made of the first input as it is, and of both less what is late."""


def flow_of(*kinds):
    """A flow with outputs of these kinds."""
    flow, raw, a, b = inputs()
    for kind in kinds:
        flow.output(kind, KINDS[kind](raw, a, b))
    return flow


def updates(latest=8, spread=3):
    """Updates whose time of the event grows with their own, many of them late, some deletions."""
    row = st.tuples(st.sampled_from("ab"), st.none() | st.integers(-spread, spread), st.integers(0, 3))
    update = st.tuples(row, st.integers(0, latest), st.sampled_from([1, 1, 1, 1, 2, -1]))
    grown = update.map(lambda u: ((u[0][0], None if u[0][1] is None else u[0][1] + 2 * u[1], u[0][2]), u[1], u[2]))
    return st.lists(grown, min_size=4, max_size=24).map(_never_negative)


def many_updates(seed, latest=10, each=6):
    """The same, drawn once and more of them, close to the watermark on both sides of it."""
    random, found, there = Random(seed), [], []
    for time in range(latest):
        for _ in range(each):
            there.append((random.choice("ab"), 2 * time + random.randint(-4, 4), random.randint(0, 3)))
            found.append((there[-1], time, 1))
        for _ in range(each // 3):
            found.append((there.pop(random.randrange(max(len(there) - 2 * each, 0), len(there))), time, -1))
    return found


def _never_negative(found):
    """Without deletions of what is not there, which windows refuse; they come where what they delete may be late."""
    counts, kept = {}, []
    for row, time, diff in sorted(found, key=lambda u: u[1]):
        counts[row] = counts.get(row, 0) + diff
        if counts[row] < 0:
            counts[row] = 0
        else:
            kept.append((row, time, diff))
    return kept
