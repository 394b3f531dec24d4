"""Casts that lose nothing are made where collections and values meet; what might lose something says what to cast."""

import datetime as dt
import decimal
import re

import pytest
from support.meeting_types import (
    COLLECTIONS,
    EXPRESSIONS,
    PAIRS,
    ROWS,
    VALUES,
    WIDE,
    fed,
    flow_of_collections,
    flow_of_values,
    held_by_both,
    meeting,
    one_of,
)

import tidemill as tm
from tidemill.errors import SchemaError
from tidemill.testing import check_equivalent

ENGINES = ["reference", "embedded"]
FED = {f"{side} {t}": fed(t) for side in "ab" for t in VALUES}
MEET = {f"{one} {other}": wanted for one, other in PAIRS if (wanted := held_by_both(one, other)) not in (None, "null")}


@pytest.mark.parametrize("how", [pytest.param(h, marks=[pytest.mark.slow] * (h != "concat")) for h in COLLECTIONS])
def test_collections_that_meet(how):
    flow, types = flow_of_collections(how)
    assert types == MEET
    check_equivalent(flow, FED, engines=ENGINES)


@pytest.mark.parametrize("how", COLLECTIONS)
def test_collections_that_do_not_meet(how):
    for name, a, b, _, wanted in meeting(tm.Dataflow()):
        if wanted is None:
            with pytest.raises(SchemaError, match=rf"{how}: column 'v' is .*, expected .*: cast one, as in col\('v'\)"):
                COLLECTIONS[how](a, b)
        elif name == "null null":
            assert str(COLLECTIONS[how](a, b).schema) == "(v: null)"


def test_values_come_out_in_the_type_of_both():
    """Python has 7 == 7.0 == Decimal(7): what kind of value comes out is looked at."""
    flow, types = flow_of_collections("concat")
    run = flow.start()
    for name, updates in FED.items():
        run.insert(name, [row for row, _, diff in updates if diff == 1])
    run.advance()
    python = {"int32": int, "int64": int, "float64": float, "bool": bool, "string": str, "date": dt.date}
    python |= {"timestamp": dt.datetime}
    for name, wanted in types.items():
        kind = decimal.Decimal if "decimal" in wanted else python.get(wanted, tuple)
        found = [v for (v,) in run.snapshot(name) if v is not None]
        assert {type(v) for v in found} == {kind}
        assert len(found) == len([t for t in name.split() if t != "null"])


@pytest.mark.slow
def test_bindings_and_bodies_of_loops():
    flow = tm.Dataflow()
    for name, start, b, given, wanted in meeting(flow):
        declared = str(start.schema.dtypes[0])

        def define(start=start, b=b, declared=declared):
            with flow.letrec() as rec:
                rec.declare("x", {"v": declared})
                rec.define("x", b)
            return rec["x"]

        for how, build in {"define": define, "iterate": lambda start=start, b=b: start.iterate(lambda v: b)}.items():
            if declared == "null" and (how == "define" or given == "null"):
                continue
            if wanted != declared:
                why = f"is {given}" if declared == "null" else f"is {given}, expected {declared}"
                with pytest.raises(SchemaError, match=re.escape(f"column 'v' {why}")):
                    build()
                continue
            made = build()
            assert str(made.schema.dtypes[0]) == declared
            flow.output(f"{how} {name}", made)
    check_equivalent(flow, FED, engines=ENGINES)


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_values_that_meet(what):
    flow, types = flow_of_values(what)
    wanted = dict.fromkeys(MEET, "bool") if what == "IN" else {**MEET, "null null": "null"}
    assert types == wanted
    check_equivalent(flow, {"rows": ROWS}, engines=ENGINES)


@pytest.mark.parametrize(
    ("column", "default", "wanted"),
    [
        ("int32", 1, "int32"), ("int32", 2**40, "int64"), ("int32", 0.5, "float64"), (WIDE, 1, WIDE),
        ("int64", decimal.Decimal("0.5"), "decimal(21,1)"), ("float64", None, "float64"),
        ("timestamp", "2026-01-02", "timestamp"),
    ],
)  # fmt: skip
def test_a_literal_default(column, default, wanted):
    rows = tm.Dataflow().input("a", {"w": "bool", "v": column})
    call = tm.lag("v", 1, default).over(tm.Window.partition_by("w").order_by("w"))
    assert str(rows.select(x=call).schema.dtypes[0]) == wanted


def test_a_default_that_might_lose_something():
    rows = tm.Dataflow().input("a", {"w": "bool", "v": "int64"})
    with pytest.raises(SchemaError, match=r"`CAST\(0.5 AS DOUBLE\)` is of type float64: expected int64; cast it"):
        rows.select(x=tm.lag("v", 1, 0.5).over(tm.Window.partition_by("w").order_by("w")))


def test_three_at_once_are_of_the_widest_type():
    flow = tm.Dataflow()
    narrow, wide, null = (one_of(flow, t, t) for t in ("int32", "int64", "null"))
    assert str(null.concat(narrow, wide).schema) == "(v: int64)"
    with pytest.raises(SchemaError, match="column 'v' is float64, expected int64"):
        null.concat(narrow, wide, one_of(flow, "float64", "f"))


def test_a_column_of_null_alone_is_kept_until_it_meets_a_type():
    flow = tm.Dataflow()
    a = flow.input("a", {"k": "int64", "v": "int32"})
    null = a.select("k", v=tm.lit(None))
    w = tm.Window.partition_by("k").order_by("v")
    ranked = null.with_columns(n=tm.row_number().over(w), most=tm.max("v").over(w)).distinct()
    joined = ranked.join(null.group_by("k", "v").agg(count=tm.count("v")), on="k")
    made = joined.select("k", "v", "n", "most", v2="v_right", c="count")
    flow.output("ranked", made.concat(a.select("k", "v", n="k", most="v", v2="v", c="k")))
    updates = [((1, 2), 0, 1), ((1, 3), 0, 1), ((2, None), 1, 1), ((1, 2), 2, -1)]
    check_equivalent(flow, {"a": updates}, engines=ENGINES)


@pytest.mark.parametrize(
    "use",
    [
        lambda flow, null: flow.output("o", null),
        lambda flow, null: flow.input("i", null.schema),
        lambda flow, null: flow.letrec().__enter__().declare("x", null.schema),
        lambda flow, null: null.map_rows(tuple, null.schema),
    ],
)
def test_a_column_of_null_alone_has_no_type_to_the_outside(use):
    flow = tm.Dataflow()
    with pytest.raises(
        SchemaError, match=r"'v' is a column of NULL alone, which has no type: give it one, as in lit\("
    ):
        use(flow, one_of(flow, "null", "a"))


def test_a_loop_that_begins_with_null():
    flow = tm.Dataflow()
    null, other = one_of(flow, "null", "a"), one_of(flow, "int64", "b")
    text = r"column 'v' is int64 and began as NULL.*: begin with lit\(None\)\.cast\('int64'\)"
    with pytest.raises(SchemaError, match=text):
        null.iterate(lambda v: other)
