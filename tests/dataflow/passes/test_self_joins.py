"""Self-joins over a band of one column: which become windows, and that the same comes out of all of them."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, new_flow

import tidemill as tm
from tidemill.dataflow.passes.pipeline import optimised
from tidemill.dataflow.passes.row_keys import without_keys
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

COLUMNS = {"k": "int64", "t": "int64", "i": "int32", "f": "float64", "d": "date", "p": "timestamp", "s": "string",
           "m": "decimal(6,2)", "x": "int64"}  # fmt: skip
WHOLE = list(COLUMNS)
START = dt.datetime(2026, 3, 31)
MOST = 2**63 - 1
VALUES: dict[str, list[Any]] = {
    "k": [1, 2, None],
    "t": [0, 1, 2, 5, 6, None],
    "i": [0, 1, 5, None],
    "f": [0.1, 0.2, 0.30000000000000004, -0.0, float("nan"), float("inf"), None],
    "d": [START.date() + dt.timedelta(days) for days in (0, 1, 5)] + [None],
    "p": [START + dt.timedelta(minutes=m) for m in (0, 1, 5, -45_000)] + [None],
    "s": ["a", "b", "", None],
    "m": [Decimal("-1.50"), Decimal(0), Decimal("0.01"), None],
    "x": [1, -7, 4, None],
}
PLAIN = {"n": tm.count(), "c": tm.count("x_right"), "s1": tm.sum("x_right"), "average": tm.avg("x_right")}
REPEATABLE = {
    "least": tm.min("s_right"), "most": tm.max("f_right"), "every": tm.bool_and("x_right > 0"),
    "some": tm.bool_or("x_right > 0"), "distinct": tm.count_distinct("x_right"),
}  # fmt: skip
OF_ONE_ROW = {
    "floats": tm.sum("f_right"), "mean": tm.avg("f_right"), "spread": tm.variance("x_right"),
    "dev": tm.stddev("f_right"), "kept": tm.sum("x_right").filter("s_right = 'a'"),
}  # fmt: skip


def summed(pairs, *keys, **more):
    return pairs.group_by(*(keys or WHOLE)).agg(n=tm.count(), total=tm.sum("x_right"), most=tm.max("f_right"), **more)


def joined(where, **on):
    return lambda a: summed(a.join(a, **(on or {"on": "k"}), where=where))


def renamed(a):
    return a.rename(**{name: f"{name}_right" for name in WHOLE if name != "k"})


FRAMED = {
    "between": joined("t_right between t - 5 and t"),
    "comparisons": joined("t_right <= t and t_right > t - 5"),
    "turned round": joined("t >= t_right and t - 5 < t_right"),
    "offsets beside": joined("t_right + 5 >= t and t_right - 1 <= t + 1"),
    "a difference": joined("t - t_right between 0 and 5"),
    "a distance": joined("abs(t - t_right) <= 1"),
    "a distance, strictly": joined("2 > abs(t_right - t)"),
    "several bounds": joined("t_right >= t - 5 and t_right > t - 2 and t_right <= t + 1 and t_right < t + 5"),
    "rows before": joined("t_right < t"),
    "rows after and peers": joined("t_right >= t"),
    "one place": joined("t_right = t + 1"),
    "an empty frame": joined("t_right < t and t_right > t"),
    "far away": joined(f"t_right >= t - {MOST} and t_right <= t + 1"),
    "no key": joined("t_right between t - 5 and t", on=[]),
    "several keys": joined("t_right between t - 5 and t", on=["k", "s", "i"]),
    "nulls as keys": joined("t_right between t - 5 and t", on=["k", "s"], nulls_equal=True),
    "integers of 32 bits": joined("i_right between i - 1 and i + 4"),
    "of both widths": joined("i_right + cast(4 as bigint) >= i and i_right <= i"),
    "floats as they stand": joined("f_right >= f - 0.1 and f_right <= f + 0.2"),
    "floats before": joined("f_right < f"),
    "floats at and before": joined("f_right <= f"),
    "days": joined("d_right between d - 1 and d + interval 4 days"),
    "days, strictly": joined("d_right > d - 5 and d_right < d"),
    "minutes": joined("p_right between p - interval 5 minutes and p"),
    "minutes, beside": joined("p_right + interval 5 minutes > p and p_right <= p"),
    "months": joined("p_right >= p - interval 1 month and p_right <= p"),
    "days of timestamps": joined("p_right > p - interval 1 day and p_right <= p + interval 32 days"),
    "strings after": joined("s_right > s"),
    "decimals between": joined("m_right >= m and m_right <= m"),
    "a distance of less than nothing": joined("abs(t - t_right) < 0"),
    "a cross join and a filter": lambda a: summed(
        a.cross_join(a).filter("k = k_right").filter("t_right <= t and t_right >= t - 5")
    ),
    "null-safe equality": lambda a: summed(a.cross_join(a).filter("k <=> k_right and t_right between t - 5 and t")),
    "floats equal": lambda a: summed(a.cross_join(a).filter("f = f_right and t_right between t - 5 and t")),
    "another name": lambda a: summed(a.join(renamed(a), on="k", where="t_right between t - 5 and t")),
    "computed columns": lambda a: summed(
        a.with_columns(low=tm.col("t") - 5).join(a, on="k").filter("t_right between low and t")
    ),
    "columns between": lambda a: summed(
        a.join(a, on="k").with_columns(ago="t - t_right").filter("ago >= 0").filter("ago < 5")
    ),
    "groups of the right side": lambda a: (
        a.cross_join(a).filter("k = k_right and t_right between t - 5 and t + 1")
        .group_by(*(f"{name}_right" for name in WHOLE)).agg(total=tm.sum("x"), f=tm.sum("f"))
    ),
    "expressions as keys": lambda a: (
        a.join(a, on="k", where="t_right between t - 5 and t")
        .group_by(*WHOLE, following="10 div (x - 1)").agg(n=tm.count())
    ),
    "groups of several rows": lambda a: (
        a.join(a, on="k", where="t_right between t - 5 and t").group_by("t", "k").agg(**PLAIN, **REPEATABLE)
    ),
    "groups of several rows, some alone": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by("t", "k").agg(**PLAIN, **REPEATABLE)
    ),
    "copies of rows": lambda a: (
        (some := a.select("k", "t", y="s", z="f")).join(some, on="k", where="t_right between t - 5 and t")
        .group_by("k", "t", "y").agg(n=tm.count(), m=tm.count("y_right"), least=tm.min("z_right"))
    ),
    "all aggregates": lambda a: (
        a.join(a, on="k", where="t_right between t - 5 and t").group_by(*WHOLE).agg(**PLAIN, **REPEATABLE, **OF_ONE_ROW)
    ),
    "expressions of aggregates": lambda a: (
        a.join(a, on="k", where="t_right between t - 5 and t").group_by(*WHOLE)
        .agg(share="sum(x_right) / count(*)", total=tm.sum("x_right * 2") + tm.col("t"))
    ),
}  # fmt: skip

JOINED = {
    "no band": joined("k is not null"),
    "two bands": joined("t_right < t and i_right < i"),
    "another condition": joined("t_right between t - 5 and t and x_right > 0"),
    "a condition on both": joined("t_right between t - 5 and t and x_right <> x"),
    "an offset of the row": joined("t_right between t - x and t"),
    "twice the value": joined("t_right <= t + t"),
    "one row's values": joined("t < i"),
    "two columns": joined("t_right <= i"),
    "other keys": joined("i_right <= i", on={"k": "t"}),
    "floats moved on the other side": joined("f_right + 0.1 >= f and f_right <= f"),
    "floats moved, strictly": joined("f_right > f - 0.1"),
    "decimals moved": joined("m_right >= m - 1 and m_right <= m"),
    "months on the other side": joined("p_right + interval 1 month >= p"),
    "an argument of the row": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by(*WHOLE).agg(total=tm.sum("x"))
    ),
    "an argument of both rows": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by(*WHOLE).agg(total=tm.max("s || s_right"))
    ),
    "an argument that can fail beside nobody": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by(*WHOLE).agg(total=tm.max("cast(s_right as int)"))
    ),
    "rows in an order": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by(*WHOLE).agg(l=tm.first("x_right", order_by="t_right"))
    ),
    "groups by the key": lambda a: a.join(a, on="k", where="t_right < t").group_by("k").agg(n=tm.count()),
    "groups by both rows": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by(*WHOLE, "t_right").agg(n=tm.count())
    ),
    "floats of several rows": lambda a: (
        a.join(a, on="k", where="t_right < t").group_by("k", "t").agg(n=tm.sum("f_right"))
    ),
    "no groups": lambda a: a.join(a, on="k", where="t_right < t").agg(n=tm.count()),
    "pairs that others read": lambda a: (
        summed(pairs := a.join(a, on="k", where="t_right < t")).select("k", "n")
        .concat(pairs.select("k", n="t"))
    ),
    "two collections": lambda a: summed(a.join(a.filter("x > 0"), on="k", where="t_right < t")),
    "outer joins": lambda a: summed(a.join(a, on="k", how="left", where="t_right < t")),
}  # fmt: skip


FORMS: dict[str, Any] = {**FRAMED, **JOINED}


def built(make, coordinates=1):
    flow = new_flow(coordinates)
    flow.output("out", make(flow.input("a", COLUMNS).distinct()))
    return flow


def is_framed(flow):
    after = flow.explain(passes=["frame_self_joins"]).partition("\nafter ")[2]
    return "RANGE BETWEEN" in after or "GROUPS BETWEEN" in after


@pytest.mark.parametrize("what", FRAMED)
def test_the_forms_that_become_windows(what):
    assert is_framed(built(FRAMED[what]))


@pytest.mark.parametrize("what", JOINED)
def test_the_forms_that_stay_joins(what):
    assert not is_framed(built(JOINED[what]))


@pytest.mark.slow
@pytest.mark.parametrize("what", FORMS)
@examples(8)
@given(data=st.data())
def test_the_same_comes_out(what, data):
    coordinates = data.draw(st.sampled_from([1, 2, 3]))
    flow = built(FORMS[what], coordinates)
    found = data.draw(updates(COLUMNS, coordinates, values=VALUES, max_size=16), label="a")
    for passes in (["frame_self_joins"], True):
        check_equivalent(flow, {"a": found}, batchings=[all_at_once, time_by_time, shuffled(1)], passes=passes)


# Rows of which several have the same key and time, and which are not told apart by what a window is over.
ALIKE = [(1, 0, 10), (1, 0, 20), (1, 3, 5), (1, 3, None), (1, 9, 7), (2, 3, 1), (None, 3, 100), (1, None, 100)]
KTX = {"k": "int64", "t": "int64", "x": "int64"}


def test_groups_of_several_rows_count_what_is_near_once_for_each_of_them():
    flow = new_flow()
    a = flow.input("a", KTX, unique=True)
    near = a.join(a, on="k", where="t_right between t - 5 and t")
    flow.output("out", near.group_by("k", "t").agg(n=tm.count(), total=tm.sum("x_right"), mean=tm.avg("x_right")))
    assert is_framed(flow)
    expected = {(1, 0, 4, 60, 15.0), (1, 3, 8, 70, 35 / 3), (1, 9, 1, 7, 7.0), (2, 3, 1, 1, 1.0)}
    for passes in (False, ["frame_self_joins"], True):
        with flow.start(passes=passes) as run:
            run.insert("a", ALIKE)
            run.advance()
            assert set(run.snapshot("out")) == expected


def test_sums_overflow_where_those_of_the_pairs_do():
    flow = new_flow()
    a = flow.input("a", KTX, unique=True)
    near = a.join(a, on="k", where="t_right <= t")
    flow.output("out", near.group_by("k", "t").agg(total=tm.sum("x_right")))
    rows = [(1, 0, 2**62), (1, 0, None)]
    for passes in (False, True):
        with flow.start(passes=passes) as run:
            run.insert("a", rows)
            with pytest.raises(tm.errors.StepError, match="overflow"):
                run.advance()
    for passes in (False, True):
        with flow.start(passes=passes) as run:
            run.insert("a", [(1, 0, 2**62), (1, 0, -(2**62))])
            run.advance()
            assert list(run.snapshot("out")) == [(1, 0, 0)]


KNOWN = {
    "an input": (lambda flow: flow.input("a", KTX), False),
    "a unique input": (lambda flow: flow.input("a", KTX, unique=True), True),
    "an input with a key": (lambda flow: flow.input("a", KTX, key=["k", "t"]), True),
    "some of its rows": (lambda flow: flow.input("a", KTX, unique=True).filter("x > 1").consolidate(), True),
    "columns, the key among them": (lambda flow: flow.input("a", KTX, key=["k", "t"]).select("k", "t", x="k"), True),
    "a group's sums": (lambda flow: flow.input("a", KTX).group_by("k", "t").agg(x=tm.sum("x")), True),
    "rows of both": (lambda flow: (a := flow.input("a", KTX).distinct()).concat(a), False),
    "rows taken away": (lambda flow: flow.input("a", KTX).distinct().negate(), False),
    "a user's counts": (lambda flow: flow.input("a", KTX).threshold(lambda row, count: count), False),
    "common rows": (lambda flow: (a := flow.input("a", KTX)).intersect(a.filter("x > 0")), True),
    "rows less rows": (lambda flow: (a := flow.input("a", KTX)).except_all(a.filter("x > 0")), False),
    "a constant": (lambda flow: flow.constant(KTX, ALIKE), True),
    "a constant with copies": (lambda flow: flow.constant(KTX, ALIKE * 2), False),
    "later": (lambda flow: flow.input("a", KTX, unique=True).delay(1), True),
    "later by a function": (lambda flow: flow.input("a", KTX, unique=True).delay(lambda time: time + 1), False),
}  # fmt: skip


@pytest.mark.parametrize("what", KNOWN)
def test_only_of_rows_that_are_known_to_be_there_once(what):
    make, framed = KNOWN[what]
    flow = new_flow()
    a = make(flow)
    near = a.join(a, on="k", where="t_right between t - 5 and t")
    flow.output("out", near.group_by(*KTX).agg(n=tm.count(), total=tm.sum("x_right")))
    assert is_framed(flow) == framed
    given = {} if "constant" in what else {"a": [(row, i % 3, 1) for i, row in enumerate(ALIKE)]}
    if "key" in what:
        given = {"a": [(row, time, diff) for row, time, diff in given["a"] if None not in row[:2]]}
    check_equivalent(flow, given, passes=True)


def test_an_input_may_have_negative_counts_as_without_the_pass():
    flow = built(FRAMED["between"])
    plain = new_flow()
    a = plain.input("a", COLUMNS)
    plain.output("out", FRAMED["between"](a))
    row = (1, 1, 1, 0.5, None, None, "a", None, 1)
    for one in (flow, plain):
        check_equivalent(one, {"a": [(row, 0, -1)]}, passes=True)


def steps(a):
    """Rows that come to be within 5 of what is near three more, again and again, up to 20."""

    def body(here):
        rows = here.distinct()
        near = rows.join(rows, on="k", where="t_right between t - 5 and t").group_by("k", "t").agg(n=tm.count())
        return near.filter("n >= 2 and t < 20").select("k", t="t + n").concat(a).distinct()

    return a.iterate(body, error_at=60)


def near_in_a_loop(a):
    """What is near is the same in all rounds, and looked at in each of them."""

    def body(here):
        near = a.join(a, on="k", where="t_right between t - 5 and t").group_by("k", "t").agg(n=tm.count())
        return here.join(near, on=["k", "t"]).select("k", t="t + n").concat(a).filter("t < 20").distinct()

    return a.iterate(body, error_at=60)


@pytest.mark.parametrize("make", [steps, near_in_a_loop])
@examples(10)
@given(data=st.data())
def test_in_a_loop(make, data):
    coordinates = data.draw(st.sampled_from([1, 2]))
    flow = new_flow(coordinates)
    flow.output("out", make(flow.input("a", {"k": "int64", "t": "int64"}).distinct()))
    found = data.draw(updates({"k": "int64", "t": "int64"}, coordinates, values={"k": [1, 2, None], "t": range(9)}))
    assert "RANGE BETWEEN 5 PRECEDING AND CURRENT ROW" in flow.explain(passes=True)
    for passes in (["frame_self_joins"], True):
        check_equivalent(flow, {"a": found}, batchings=[all_at_once, time_by_time, shuffled(1)], passes=passes)


def test_the_groups_of_a_band_join_in_a_loop_are_worked_out_outside_of_it():
    flow = new_flow()
    flow.output("out", near_in_a_loop(flow.input("a", {"k": "int64", "t": "int64"}).distinct()))
    with flow.start() as run:
        (windowed,) = (n for n in run.graph.nodes if n.kind == "Reduce" and "RANGE" in n.describe())
        assert windowed.scope is run.graph.root


def records(passes, rows):
    """How many rows pass between operators when rows come in, and when one more does."""
    flow = new_flow()
    a = flow.input("a", KTX, unique=True)
    near = a.join(a, on="k", where="t_right between t - 2 and t").group_by(*KTX).agg(total=tm.sum("x_right"))
    flow.output("out", near)
    with flow.start(passes=passes) as run:
        counts = [0]
        for given in ([(1, t, t) for t in range(rows)], [(1, rows // 2, -1)]):
            run.insert("a", given)
            run.advance()
            counts.append(sum(o.records_out for o in run.metrics()))
    return counts[1], counts[2] - counts[1]


def test_a_step_costs_what_the_frame_does():
    load, step = records(True, 200)
    assert load < 10 * 200
    assert step < 50
    assert records(False, 200)[0] > 200 * 200
    assert records(True, 400)[1] == step
    assert records(False, 400)[1] > 2 * 400


def test_keys_that_nobody_holds_rows_to_tell_no_rows_apart():
    """As in DataFrames that are rendered: of two rows with one key, both are in the one group that they are in."""
    flow = new_flow()
    a = flow.input("a", KTX, key=["k", "t"])
    a.join(a, on="x")  # read by nobody: its errors count
    flow.output("out", a.join(a, on="k", where="t_right <= t").group_by("k", "t").agg(s=tm.stddev("x_right")))
    flow.graph.freeze()
    framed, joined_still = optimised(flow.graph), optimised(without_keys(flow.graph))
    assert not any(n.kind == "Join" for n in framed.nodes)
    assert any(n.kind == "Join" for n in joined_still.nodes)
    assert list(joined_still.inputs) == ["a"]
    assert len(without_keys(flow.graph).nodes) == len(flow.graph.nodes)
    assert without_keys(plain := built(FRAMED["between"]).graph) is plain
