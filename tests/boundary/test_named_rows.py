"""Rows whose values have names go by these, whatever their order; rows of plain values go by position."""

import dataclasses
import re
from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start
from support.tables import batches, read_back

import tidemill as tm
from tidemill.errors import RowError, UserFunctionError
from tidemill.expressions.schema import Schema
from tidemill.testing import check_equivalent

pyspark_sql = pytest.importorskip("pyspark.sql")

named: Any = namedtuple  # with fields that are known at run time only
COLUMNS = {"item": "string", "maker": "string", "price": "int64"}


class Tuple(NamedTuple):  # in another order than the columns, two of one type
    maker: str
    item: str
    price: int


@dataclasses.dataclass
class Data:
    maker: str
    item: str
    price: int


@attrs.define
class Attrs:
    maker: str
    item: str
    price: int


@attrs.frozen(slots=False)
class Frozen:
    price: int
    maker: str
    item: str


def spark_row(maker, item, price):
    return pyspark_sql.Row(maker=maker, item=item, price=price)


KINDS: dict[str, Any] = {
    "dict": lambda maker, item, price: {"maker": maker, "item": item, "price": price},
    "OrderedDict": lambda maker, item, price: OrderedDict(maker=maker, price=price, item=item),
    "NamedTuple": Tuple,
    "namedtuple": named("Made", ["maker", "item", "price"]),
    "PySpark's": spark_row,
    "dataclass": Data,
    "attrs": Attrs,
    "attrs, frozen": lambda maker, item, price: Frozen(price, maker, item),
}
GOOD = [("tea", "Ann", 3), ("rum", "Bob", None)]


@pytest.fixture(params=KINDS)
def make(request):
    """Make a row of a kind from values in the order of the columns."""
    kind = KINDS[request.param]
    return lambda item, maker, price: kind(maker=maker, item=item, price=price)


@pytest.fixture
def run(engine):
    flow = tm.Dataflow()
    flow.output("plain", flow.input("plain", COLUMNS))
    flow.output("keyed", flow.input("keyed", COLUMNS, key=["item", "maker"]))
    with start(flow, engine) as started:
        yield started


def contents(run, name):
    run.advance()
    return sorted(run.snapshot(name))


def test_insert_and_delete(run, make):
    rows = [make(*values) for values in GOOD]
    run.insert("plain", rows)
    assert contents(run, "plain") == sorted(GOOD)
    run.delete("plain", iter(rows[:1]))
    assert contents(run, "plain") == GOOD[1:]


def test_update(run, make):
    run.update("plain", [(make(*values), 0, 1) for values in GOOD])
    assert contents(run, "plain") == sorted(GOOD)


def test_upserts_and_deletes_by_key(run, make):
    run.upsert("keyed", [make(*values) for values in GOOD])
    run.insert("keyed", [make("tea", "Ann", 4)])
    assert contents(run, "keyed") == [("rum", "Bob", None), ("tea", "Ann", 4)]
    run.delete("keyed", (make(*values) for values in GOOD[:1]))
    assert contents(run, "keyed") == GOOD[1:]


KEYS = {
    "dict": {"maker": "Ann", "item": "tea"},
    "named tuple": named("Key", ["maker", "item"])("Ann", "tea"),
    "PySpark's": pyspark_sql.Row(maker="Ann", item="tea"),
    "dataclass": dataclasses.make_dataclass("Key", ["maker", "item"])("Ann", "tea"),
    "attrs": attrs.make_class("Key", ["maker", "item"])("Ann", "tea"),
    "tuple": ("tea", "Ann"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_deletes_of_keys_alone(run, kind):
    run.upsert("keyed", GOOD)
    run.advance()
    run.delete("keyed", [KEYS[kind]])
    assert contents(run, "keyed") == GOOD[1:]


def with_op(kind):
    names = ["op", "maker", "item", "price"]
    return {
        "dict": lambda **row: row,
        "named tuple": named("Change", names),
        "PySpark's": pyspark_sql.Row,
        "dataclass": dataclasses.make_dataclass("Change", names),
        "attrs": attrs.make_class("Change", names),
    }[kind]


@pytest.mark.parametrize("kind", ["dict", "named tuple", "PySpark's", "dataclass", "attrs"])
def test_feeds(run, kind):
    change = with_op(kind)
    feed = [change(op="i", maker=maker, item=item, price=price) for item, maker, price in GOOD]
    run.apply("keyed", (*feed, change(op="delete", maker="Ann", item="tea", price=None)))
    assert contents(run, "keyed") == GOOD[1:]


@pytest.mark.parametrize("kind", [k for k in KEYS if k != "tuple"])
def test_deletions_of_feeds_need_the_key_alone(run, kind):
    run.upsert("keyed", GOOD)
    run.advance()
    made = {
        "dict": {"op": "d", **KEYS["dict"]},
        "named tuple": named("Gone", ["op", "maker", "item"])("d", "Ann", "tea"),
        "PySpark's": pyspark_sql.Row(op="d", maker="Ann", item="tea"),
        "dataclass": dataclasses.make_dataclass("Gone", ["op", "maker", "item"])("d", "Ann", "tea"),
        "attrs": attrs.make_class("Gone", ["op", "maker", "item"])("d", "Ann", "tea"),
    }[kind]
    run.apply("keyed", (made,))
    assert contents(run, "keyed") == GOOD[1:]


def test_constants_and_check_equivalent(make):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", COLUMNS).concat(flow.constant(COLUMNS, [make("tea", "Ann", 3)])))
    flow.output("k", flow.input("k", COLUMNS, key="item"))
    updates = [(make(*values), time, 1) for time, values in enumerate(GOOD)]
    check_equivalent(flow, {"x": updates, "k": [*updates, (make("tea", "Ann", 3), 2, -1)]})
    with flow.start() as run:
        run.advance()
        assert list(run.snapshot("o")) == [("tea", "Ann", 3)]


def test_results_of_functions(engine, make):
    flow = tm.Dataflow()
    x = flow.input("x", COLUMNS)
    flow.output("mapped", x.map_rows(lambda row: make(*row), COLUMNS))
    swapped = {name: COLUMNS[name] for name in ("maker", "item", "price")}
    flow.output("as it is", x.map_rows(lambda row: row, swapped))
    flow.output("reduced", x.group_by("item").reduce(lambda key, rows: [(make(*key, *rows[0][0]), 1)], COLUMNS))
    flow.output("odd", x.select(**{"two words": "item"}).map_rows(lambda row: row, {"two words": "string"}))
    with start(flow, engine) as run:
        run.insert("x", GOOD)
        run.advance()
        assert sorted(run.snapshot("mapped")) == sorted(run.snapshot("reduced")) == sorted(GOOD)
        assert sorted(run.snapshot("as it is")) == [("Ann", "tea", 3), ("Bob", "rum", None)]
        assert sorted(run.snapshot("odd")) == [("rum",), ("tea",)]


SCHEMA = Schema.of(COLUMNS)


def test_rows_without_names_go_by_position():
    assert read_back(SCHEMA, [pyspark_sql.Row("tea", "Ann", 3), ["rum", "Bob", None]]) == GOOD


WRONG = {
    "dict": ({"item": "tea", "prize": 3, "maker": "Ann"}, "the keys are ['item', 'prize', 'maker']"),
    "named tuple": (
        named("Wrong", ["item", "prize", "maker"])("tea", 3, "Ann"),
        "the fields of Wrong are ['item', 'prize', 'maker']",
    ),
    "PySpark's": (
        pyspark_sql.Row(item="tea", prize=3, maker="Ann"),
        "the fields of Row are ['item', 'prize', 'maker']",
    ),
    "dataclass": (
        dataclasses.make_dataclass("Wrong", ["item", "prize", "maker"])("tea", 3, "Ann"),
        "the fields of Wrong are ['item', 'prize', 'maker']",
    ),
    "attrs": (
        attrs.make_class("Wrong", ["item", "prize", "maker"])("tea", 3, "Ann"),
        "the fields of Wrong are ['item', 'prize', 'maker']",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_missing_and_unknown_fields_are_named(run, kind):
    row, what = WRONG[kind]
    text = f"{what}, expected ['item', 'maker', 'price']: 'price' is missing: did you mean 'prize'?; too many: 'prize'"
    place = r"Input '\w+' \(.*test_named_rows.py:\d+\), row 1: "
    for put in (
        lambda: run.insert("plain", [GOOD[0], row]),
        lambda: run.delete("plain", [GOOD[0], row]),
        lambda: run.update("plain", [(GOOD[0], 0, 1), (row, 0, 1)]),
        lambda: run.upsert("keyed", [GOOD[0], row]),
        lambda: run.delete("keyed", [GOOD[0], row]),
    ):
        with pytest.raises(RowError, match=place + re.escape(text)):
            put()
    with pytest.raises(RowError, match="'op' is missing"):
        run.apply("keyed", [row])
    assert contents(run, "plain") == []


def test_a_field_that_is_there_twice():
    with pytest.raises(RowError, match="'item' is there 2 times"):
        read_back(SCHEMA, [pyspark_sql.types._create_row(["item", "item", "price"], ["tea", "tea", 3])])


def test_named_tuples_say_how_to_go_by_position():
    pair = named("Pair", ["a", "b", "c"])("tea", "Ann", 3)
    with pytest.raises(RowError, match=r"rows with names go by name: tuple\(row\) goes by position"):
        read_back(SCHEMA, [pair])
    assert read_back(SCHEMA, [tuple(pair)]) == GOOD[:1]


def test_a_function_that_returns_rows_of_other_names(engine):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", COLUMNS).map_rows(lambda row: row, {"item": "string", "by": "string", "of": int}))
    with start(flow, engine) as run:
        run.insert("x", GOOD)
        with pytest.raises(UserFunctionError, match="fields of Row are .*'by' is missing: add it; 'of' is missing"):
            run.advance()


@examples(15)
@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_names_changes_nothing(batch, dice):
    schema, rows = batch
    order = list(schema.names)
    dice.shuffle(order)
    places = [schema.index(name) for name in order]
    fields = named("Row", [f"f{i}" for i in range(len(order))])
    fields.__columns__ = tuple(order)  # names that Python would not allow
    moved = [[row[i] for i in places] for row in rows]
    for given_rows in (
        [dict(zip(order, row, strict=True)) for row in moved],
        [fields(*row) for row in moved],
        [pyspark_sql.types._create_row(order, row) for row in moved],
    ):
        assert repr(read_back(schema, given_rows)) == repr(rows)


def test_fields_of_a_class_that_is_no_tuple_are_no_columns():
    class Row:  # as SQLAlchemy's, in which it is something else
        @property
        def _fields(self):
            return ("a", "b")

    flow = tm.Dataflow()
    flow.output("o", flow.input("r", {"a": "int64", "b": "int64"}))
    run = flow.start()
    with pytest.raises(tm.errors.RowError, match="is not a row"):
        run.insert("r", [Row()])
