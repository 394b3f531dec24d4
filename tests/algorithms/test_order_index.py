"""Order indexes sort as rows do, in every type and direction; unique ones tell rows apart or say that they cannot."""

import datetime as dt
import decimal
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start
from support.windows import PLACED, placed_updates

import tidemill as tm
from tidemill.algorithms import order_index, unique_index
from tidemill.errors import SchemaError, UserFunctionError
from tidemill.testing import check_equivalent

VALUES: dict[str, list[Any]] = {
    "int64": [0, -1, 5, 2**63 - 1, -(2**63) + 1],
    "int32": [0, -1, 7, 2**31 - 1, -(2**31)],
    "float64": [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, -5e-324],
    "bool": [True, False],
    "string": ["", "a", "a\0", "a\0b", "ab", "é", "\0", "\U0001f600", "\uffff"],
    "binary": [b"", b"\0", b"\xff", b"\0\xff", b"\0\0", bytes(16), b"\xff" * 16],
    "date": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31)],
    "decimal(10,2)": [decimal.Decimal("1.25"), decimal.Decimal("-3.10"), decimal.Decimal("-3.11")],
    "decimal(38,4)": [decimal.Decimal("1.25"), decimal.Decimal("-123456789012345678901234567890.1")],
    "list<int64>": [(), (1,), (1, None), (None,), (1, 2), (2,)],
    "list<list<string>>": [(), (("a",),), ((), ()), (("a", "b"),), (None,)],
}
columns = st.tuples(st.sampled_from(list(VALUES)), st.booleans(), st.sampled_from(["first", "last"]), st.booleans())


def flow_of(types):
    flow = tm.Dataflow("orders")
    return flow, flow.input(
        "rows", {f"c{i}": f"{name}{'' if null else ' not null'}" for i, (name, *_, null) in enumerate(types)}
    )


@examples(60)
@given(types=st.lists(columns, min_size=1, max_size=3), data=st.data())
def test_indexes_sort_as_rows_do(engine, types, data):
    flow, rows = flow_of(types)
    order = [(tm.desc if down else tm.asc)(f"c{i}", nulls=nulls) for i, (_, down, nulls, _) in enumerate(types)]
    lists = {f"c{i}": tm.list(f"c{i}", order_by=order) for i in range(len(types))}
    flow.output("indexed", order_index(rows, order_by=order))
    flow.output("sorted", rows.group_by(all=tm.lit(1)).agg(**lists))
    given_rows = data.draw(
        st.lists(
            st.tuples(*(st.sampled_from(VALUES[name] + [None] * null) for name, *_, null in types)),
            min_size=1,
            max_size=12,
        )
    )
    with start(flow, engine) as run:
        run.insert("rows", given_rows)
        run.close_inputs()
        indexed = sorted(run.snapshot("indexed"), key=lambda row: row[-1])
        ((_, *by_column),) = run.snapshot("sorted")
    assert repr([row[:-1] for row in indexed]) == repr(list(zip(*by_column)))
    for one, other in zip(indexed, indexed[1:]):  # equal indexes are of equal rows
        assert (one[-1] == other[-1]) == (repr(one[:-1]) == repr(other[:-1]))


def test_a_column_that_is_never_null_takes_no_byte_for_it(engine):
    flow, rows = flow_of([("int32", False, "first", False), ("date", False, "first", True)])
    flow.output("indexed", order_index(rows, order_by=["c0", tm.desc("c1")]).select("index"))
    with start(flow, engine) as run:
        run.insert("rows", [(1, None), (-1, dt.date(1970, 1, 2))])
        run.close_inputs()
        assert [r.hex(" ") for (r,) in run.snapshot("indexed")] == [
            "7f ff ff ff 02 7f ff ff fe", "80 00 00 01 03 00 00 00 00",
        ]  # fmt: skip


@pytest.mark.parametrize("hash_bits", [0, 1, 64])
@examples(15)
@given(data=st.data())
def test_unique_indexes_tell_rows_apart(engine, hash_bits, data):
    flow = tm.Dataflow("ties")
    rows = flow.input("rows", PLACED)
    unique = unique_index(rows, order_by="i", partition_by="p", hash_bits=hash_bits)
    flow.output("unique", unique)
    row = st.tuples(st.sampled_from([0, None]), st.sampled_from([0, 1, None]), st.integers(0, 2))
    given_rows = data.draw(st.lists(row, max_size=12))
    with start(flow, engine) as run:
        run.insert("rows", given_rows)
        run.advance_to(1)
        for there, gone in ((given_rows, given_rows[::2]), (given_rows[1::2], given_rows[1::2]), ([], [])):
            found = list(run.snapshot("unique"))
            assert sorted((row[:3] for row in found), key=repr) == sorted(there, key=repr)
            assert len({(p, index) for p, _, _, index in found}) == len(set(there))
            run.delete("rows", gone)
            run.advance()


def test_equal_hashes_are_told_apart_in_the_order_of_rows(engine):
    flow = tm.Dataflow("ties")
    rows = flow.input("rows", PLACED)
    flow.output("unique", unique_index(rows, order_by="i", hash_bits=0))
    with start(flow, engine) as run:
        run.insert("rows", [(0, 1, 5), (0, 1, 4), (0, 1, 4)])
        run.advance_to(1)
        numbers = {row[:3]: row[3][-1] for row in run.snapshot("unique")}
        assert numbers == {(0, 1, 4): 0, (0, 1, 5): 1}
        run.delete("rows", [(0, 1, 4)])
        run.advance_to(2)
        assert {row[:3]: row[3][-1] for row in run.snapshot("unique")} == numbers
        run.delete("rows", [(0, 1, 4)])
        run.advance_to(3)
        assert {row[:3]: row[3][-1] for row in run.snapshot("unique")} == {(0, 1, 5): 0}


def test_running_out_of_collision_bits_is_an_error(engine):
    flow = tm.Dataflow("ties")
    flow.output("unique", unique_index(flow.input("rows", PLACED), order_by="i", hash_bits=0, collision_bits=1))
    with start(flow, engine) as run:
        run.insert("rows", [(0, 1, 4), (0, 1, 5)])
        run.advance_to(1)
        run.insert("rows", [(0, 1, 6)])
        with pytest.raises(UserFunctionError, match="3 different rows agree in .* 1 collision bits distinguish 2"):
            run.advance_to(2)
        run.delete("rows", [(0, 1, 4)])
        run.advance_to(2)
        assert len(run.snapshot("unique")) == 2


@pytest.mark.parametrize("bits", [{"hash_bits": 65}, {"collision_bits": 32}])
def test_numbers_of_bits_that_cannot_be(bits):
    rows = tm.Dataflow().input("rows", PLACED)
    with pytest.raises(SchemaError, match="expected 0 to 64 and 0 to 31"):
        unique_index(rows, order_by="i", **bits)


@examples(10)
@given(data=st.data())
def test_engines_agree_on_unique_indexes(engines, data):
    flow = tm.Dataflow("ties", time=("event", "correction"))
    flow.output(
        "unique", unique_index(flow.input("rows", PLACED), order_by=tm.desc("i"), partition_by="p", hash_bits=1)
    )
    check_equivalent(flow, {"rows": data.draw(placed_updates(2))}, engines=engines)
