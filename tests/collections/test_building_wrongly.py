"""A wrong graph fails where it is built, and the message says what, where, and what to do."""

import re
from pathlib import Path

import pytest
from support.running import KV

import tidemill as tm
from tidemill.errors import GraphError, SchemaError, TidemillError, UnknownColumnError, UnknownNameError


@pytest.fixture
def flow():
    return tm.Dataflow("routes")


@pytest.fixture
def a(flow):
    return flow.input("a", KV)


@pytest.fixture
def s(flow):
    return flow.input("s", {"k": "string", "x": "float64"})


def refused(kind, text):
    """The error of that kind with that text; nothing is said of tidemill's own files."""
    return pytest.raises(kind, match=re.escape(text))


COLUMNS = [
    (lambda a: a.select("kk"), UnknownColumnError, "no column `kk` in (k: int64, v: int64): "),
    (lambda a: a.select(x="k + w"), UnknownColumnError, "no column `w`"),
    (
        lambda a: a.select(x=tm.col("key")),
        UnknownColumnError,
        "no column `key` in (k: int64, v: int64): there are: 'k', 'v'",
    ),
    (lambda a: a.filter("w > 1"), UnknownColumnError, "no column `w`"),
    (lambda a: a.drop("w"), UnknownColumnError, "no column 'w'"),
    (lambda a: a.rename(w="k"), UnknownColumnError, "no column 'w'"),
    (lambda a: a.arrange_by("w"), UnknownColumnError, "no column 'w'"),
    (lambda a: a.group_by("w"), UnknownColumnError, "no column `w`"),
    (lambda a: a.group_by("k").agg(n=tm.sum("w")), UnknownColumnError, "no column `w`"),
    (lambda a: a.join(a, on="w"), UnknownColumnError, "no column 'w'"),
    (lambda a: a.fill_null({"w": 1}), UnknownColumnError, "no column `w`"),
]
TYPES = [
    (lambda a: a.select(x="k + 'x'"), SchemaError, "`k + 'x'` gets int64 and string"),
    (lambda a: a.filter("k + 1"), SchemaError, "is of type int64: expected bool"),
    (lambda a: a.group_by("k").agg(n=tm.sum("k = 1")), SchemaError, "expected a number"),
    (lambda a: a.group_by("k").agg(n=1), SchemaError, "n=1 is not an aggregate"),
    (lambda a: a.group_by("k").agg(), SchemaError, "agg() without aggregates"),
    (lambda a: a.select(), SchemaError, "select() without columns: name at least one"),
    (lambda a: a.drop("k", "v"), SchemaError, "drop() would leave no column"),
    (lambda a: a.select("k", k="v"), SchemaError, "column 'k' is given twice"),
    (lambda a: a.rename(v="k"), SchemaError, "column 'k' is given twice"),
    (lambda a: a.fill_null("x"), SchemaError, "no column of (k: int64, v: int64) can hold that value"),
    (lambda a: a.map_rows(lambda r: r, {"x": "itn64"}), SchemaError, "did you mean 'int64'"),
    (lambda a: a.map_rows(lambda r: r, "int64"), SchemaError, "'int64' is not a schema"),
    (lambda a: a.map_rows(7, KV), GraphError, "map_rows: 7 is not a function"),
    (lambda a: a.threshold(7), GraphError, "threshold: 7 is not a function"),
    (lambda a: a.group_by("k").reduce(7, KV), GraphError, "reduce: 7 is not a function"),
    (lambda a: a.join(a, on=7), SchemaError, "on=7: expected a column name"),
    (lambda a: a.join(a, on="k", how="outer"), SchemaError, "how='outer': expected one of inner, left"),
    (lambda a: a.join(7, on="k"), GraphError, "join: 7 is not a collection of this dataflow"),
    (
        lambda a: a.concat(a.select("k")),
        SchemaError,
        "concat: the columns are (k: int64), expected (k: int64, v: int64)",
    ),
    (lambda a: a.delay(-1), TidemillError, "-1 is not a time here"),
    (lambda a: a.delay((1, 2)), TidemillError, "(1, 2) is not a time here"),
    (lambda a: a.iterate(lambda c: c, error_at=0), GraphError, "error_at=0: expected a number of iterations"),
    (lambda a: a.iterate(lambda c: c, return_at="3"), GraphError, "return_at='3': expected a number of iterations"),
    (lambda a: a.iterate(lambda c: c, error_at=3, return_at=3), GraphError, "exclude each other"),
    (lambda a: a.iterate(lambda c: c.select("k")), SchemaError, "the body of 'iterate': the columns are (k: int64)"),
    (lambda a: a.iterate(lambda c: None), GraphError, "the body of iterate 'iterate': None is not a collection"),
]


@pytest.mark.parametrize(("build", "kind", "text"), [*COLUMNS, *TYPES])
def test_columns_and_types(a, build, kind, text):
    with refused(kind, text):
        build(a)


def test_join_keys_of_different_types(a, s):
    with refused(SchemaError, "join: key k: int64 cannot equal k: string: the types must be the same"):
        a.join(s, on="k")


def test_a_decimal_out_of_bounds(flow):
    with refused(SchemaError, "decimal(39,2) is no type"):
        flow.input("d", {"d": "decimal(39,2)"})


def test_names_must_differ(flow, a):
    with pytest.raises(
        GraphError, match=r"Input 'a' \(.*test_building_wrongly.py:\d+\) has the name of Input 'a' \(.*:\d+\)"
    ):
        flow.input("a", KV)
    flow.output("o", a)
    with refused(GraphError, "names of outputs must differ"):
        flow.output("o", a)
    with refused(GraphError, "7 is not a name of an input"):
        flow.input(7, KV)


def test_collections_of_another_dataflow(flow, a):
    other = tm.Dataflow("other").input("b", KV)
    place = rf"Input 'b' \({re.escape(str(Path(__file__)))}:\d+\) is of dataflow 'other', not of 'routes'"
    for build in (lambda: a.concat(other), lambda: a.join(other, on="k"), lambda: a.iterate(lambda c: other)):
        with pytest.raises(GraphError, match=place):
            build()
    with pytest.raises(GraphError, match="of one dataflow"):
        flow.output("o", other)


def test_collections_of_an_inner_scope_do_not_escape(flow, a):
    leaked = []
    a.iterate(lambda here: leaked.append(here) or here.distinct())
    for build in (leaked[0].distinct, lambda: a.concat(leaked[0]), lambda: a.join(leaked[0], on="k")):
        with pytest.raises(
            GraphError, match=r"(?s)iterate block 'iterate' \(.*:\d+\) is used outside of it.*return it"
        ):
            build()
    with pytest.raises(GraphError, match=r"inside the loop /iterate: return it from the body"):
        flow.output("o", leaked[0])


def test_collections_of_a_loop_used_in_one_beside_it(flow, a):
    leaked = []

    def outer(here):
        here.iterate(lambda inner: leaked.append(inner) or inner)
        return here.iterate(lambda inner: inner.concat(leaked[0]))

    with pytest.raises(GraphError, match="return it from the body"):
        a.iterate(outer)


def test_a_body_that_returns_what_belongs_to_an_inner_block(flow, a):
    leaked = []

    def outer(here):
        here.iterate(lambda inner: leaked.append(inner) or inner)
        return leaked[0]

    with pytest.raises(GraphError, match="what an inner block found is returned from its body|used outside of it"):
        a.iterate(outer)


def test_a_binding_declared_not_null_that_can_be_null(flow):
    rows = flow.input("rows", KV)
    with flow.letrec() as block:
        block.declare("p", {"k": "int64 not null", "v": "int64"})
        with refused(SchemaError, "binding 'p': column 'k' is declared not null and can be NULL"):
            block.define("p", rows)
        block.define("p", rows.select(k="coalesce(k, 0)", v="v"))


def test_bindings_declared_and_never_defined(flow):
    with (
        pytest.raises(
            GraphError, match=r"Variable 'p' \(.*test_building_wrongly.py:\d+\) has no definition: define 'p'"
        ),
        flow.letrec() as block,
    ):
        block.declare("p", KV)


def test_bindings_that_are_not_there_or_twice(flow, a):
    with flow.letrec("paths") as block:
        p = block.declare("path", KV)
        with refused(GraphError, "binding 'path' of 'paths' is declared twice"):
            block.declare("path", KV)
        with refused(UnknownNameError, "'paths' has no binding 'pathh': did you mean 'path'?"):
            block.define("pathh", a)
        with refused(UnknownNameError, "'paths' has no binding 'q'"):
            block.previous("q")
        with refused(SchemaError, "binding 'path': the columns are (k: int64), expected (k: int64, v: int64)"):
            block.define("path", a.select("k"))
        block.define("path", p.concat(a).distinct())
        with refused(GraphError, "binding 'path' of 'paths' is defined twice"):
            block.define("path", a)
    with refused(UnknownNameError, "'paths' has no binding 'q'"):
        block["q"]


def test_an_error_inside_a_block_is_the_one_that_is_seen(flow):
    with pytest.raises(ZeroDivisionError), flow.letrec() as block:
        block.declare("p", KV)
        raise ZeroDivisionError


def test_a_started_dataflow_is_frozen(flow, a):
    flow.output("o", a)
    with (
        flow.start(tm.Reference()),
        refused(GraphError, "dataflow 'routes' has been started and cannot change any more"),
    ):
        flow.input("b", KV)
    with refused(GraphError, "build all of it first"):
        a.distinct()


def test_a_block_left_open(flow, a):
    block = flow.letrec("open")
    block.__enter__()
    with pytest.raises(GraphError, match=r"the letrec block 'open' \(.*\) is still open: end it first"):
        flow.start(tm.Reference())


def test_coordinates_of_time():
    for time in ((), ("x", "x")):
        with refused(GraphError, "expected one or more different names of coordinates"):
            tm.Dataflow("d", time=time)


def test_expressions_have_no_truth(a):
    with refused(SchemaError, "write `(a) & (b)` for Python's `a and b`, `(a) | (b)` for `a or b`"):
        a.filter(tm.col("k") > 1 and tm.col("v") > 1)
