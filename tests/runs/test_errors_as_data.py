"""What an error says is there as data: operator, line, column, row, time; rows that do not fit can be collected."""

import copy
import datetime as dt
import decimal
import os
import pickle
import subprocess
import sys
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.errors import (
    ExpressionError,
    IterationLimitError,
    NegativeCountError,
    RowError,
    TidemillError,
    TimeError,
    UnknownColumnError,
    UserFunctionError,
)
from tidemill.renderer.spark.failures import TaskError, decoded_error, with_encoded_errors
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.site import Site


def raising(*_):
    what = "x"
    raise KeyError(what)


BIG = 2**62
NEGATIVE = [((1, 2), 5, -1)]
ROW = [((1, 2), 5, 1)]
# What is built, the updates, the error, and of its data operator, column, row and time.
STEPS = {
    "an expression": (
        lambda a: a.select("k", q="10 DIV v"), [((1, 0), 5, 1)], ExpressionError, "Map 'map'", "q", (1, 0), 5,
    ),
    "an expression that is summed": (  # where the two maps are one
        lambda a: a.select("k", q="10 DIV v").group_by("k").agg(total=tm.sum("q")), [((1, 0), 5, 1)],
        ExpressionError, "Map 'map'", "q", (1, 0), 5,
    ),
    "an expression called otherwise afterwards": (
        lambda a: a.rename(v="w").select("k", q="10 DIV w").select(w="k", r="q").select("w", s="r"), [((1, 0), 5, 1)],
        ExpressionError, "Map 'map'", "q", (1, 0), 5,
    ),
    "one of two expressions under the other's name": (
        lambda a: a.select("k", q="10 DIV v", r="k").select("k", r="q", q="r"), [((1, 0), 5, 1)],
        ExpressionError, "Map 'map'", "q", (1, 0), 5,
    ),
    "a filter": (
        lambda a: a.filter("10 DIV v > 1"), [((1, 0), 5, 1)], ExpressionError, "Filter 'filter'", None, (1, 0), 5,
    ),
    "a sum": (
        lambda a: a.group_by("k").agg(total=tm.sum("v")), [((7, BIG), 5, 3)], ExpressionError, None, "total", (7,), None,
    ),
    "map_rows": (lambda a: a.map_rows(raising, KV), ROW, UserFunctionError, "map_rows", None, (1, 2), 5),
    "flat_map": (lambda a: a.flat_map(raising, KV), ROW, UserFunctionError, "flat_map", None, (1, 2), 5),
    "a value of map_rows": (
        lambda a: a.map_rows(lambda r: (1, "x"), KV), ROW, UserFunctionError, "map_rows", "v", (1, 2), 5,
    ),
    "reduce": (
        lambda a: a.group_by("k").reduce(raising, KV), ROW, UserFunctionError, "Reduce 'reduce'", None, (1,), None,
    ),
    "threshold": (
        lambda a: a.threshold(raising), ROW, UserFunctionError, "Threshold 'threshold'", None, (1, 2), None,
    ),
    "inspect": (lambda a: a.inspect(raising), ROW, UserFunctionError, "Inspect 'inspect'", None, (1, 2), 5),
    "delay": (lambda a: a.delay(raising), ROW, UserFunctionError, "Retime 'retime'", None, None, 5),
    "top_k": (
        lambda a: a.group_by("k").top_k(1, order_by="v"), NEGATIVE, NegativeCountError, None, None, (1, 2), None,
    ),
    "a loop": (
        lambda a: a.iterate(lambda c: c.select("k", v="v + 1"), error_at=3, name="up"), ROW, IterationLimitError,
        "Feedback 'up'", None, (1, 6), None,
    ),
    "in a loop": (
        lambda a: a.iterate(lambda c: c.select("k", v="10 DIV v").concat(a).distinct(), return_at=3), [((1, 20), 5, 1)],
        ExpressionError, "Map 'map'", "v", (1, 0), 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("case", STEPS)
def test_errors_of_steps(engine, case, passes):
    build, updates, kind, operator, column, row, time = STEPS[case]
    flow = new_flow()
    flow.output("out", build(flow.input("a", KV)))
    with start(flow, engine, passes=passes) as run:
        run.update("a", updates)
        with pytest.raises(TidemillError) as caught:
            run.advance_to(9)
    error = caught.value
    assert type(error) is kind
    assert operator is None or error.operator == operator
    assert error.operator is not None
    assert error.site is not None
    assert error.site.file == __file__
    if case != "a loop":  # which of the rows that still change is named is the engine's choice
        assert error.row == row
    assert (error.column, error.time) == (column, time)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(again) == str(error)
        assert (again.operator, again.site, again.row, again.time) == (
            error.operator,
            error.site,
            error.row,
            error.time,
        )


def test_errors_of_unique_inputs(engine):
    flow = new_flow(2)
    flow.output("out", flow.input("a", KV, unique=True))
    with start(flow, engine) as run:
        run.update("a", [((1, 2), (3, 4), 2)])
        with pytest.raises(NegativeCountError) as caught:
            run.close_inputs()
    assert (caught.value.operator, caught.value.row, caught.value.time) == ("Input 'a'", (1, 2), (3, 4))


def by(make):
    return lambda run: run.insert("a", make)


BATCHES = {
    "a tuple": (by([(1, 1), (1, "x")]), "v", (1, "x"), 1),
    "a dict": (by([{"k": None, "v": 1.5}]), "v", {"k": None, "v": 1.5}, 0),
    "a row too short": (by([(1, 1), (2, 2), (1,)]), None, (1,), 2),
    "a field too few": (by([{"k": 1}]), "v", {"k": 1}, 0),
    "an update": (lambda run: run.update("a", [((1, "x"), 0, 1)]), "v", (1, "x"), 0),
    "a deletion": (lambda run: run.delete("a", [(1, "x")]), "v", (1, "x"), 0),
    "an Arrow table": (by(pa.table({"k": [1, 2], "v": [1.0, 1.5]})), "v", (2, 1.5), 1),
    "a column of another type": (by(pa.table({"k": [1, 2], "v": ["x", "y"]})), "v", None, None),
    "a frame of pandas": (by(pd.DataFrame({"k": [1, 2], "v": [1, "x"]})), "v", (2, "x"), 1),
    "a frame of Polars": (by(pl.DataFrame({"k": [1, 2], "v": [1.0, 1.5]})), "v", (2, 1.5), 1),
    "a NULL in a key": (lambda run: run.upsert("keyed", [(1, 1), (None, 1)]), None, (None, 1), 1),
    "a feed": (lambda run: run.apply("keyed", [(1, 1, "i"), (None, 1, "i")]), "k", (None, 1, "i"), 1),
}  # fmt: skip


@pytest.fixture
def run(engine):
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    flow.output("keyed", flow.input("keyed", KV, key="k"))
    with start(flow, engine) as started:
        yield started


@pytest.mark.parametrize("case", BATCHES)
def test_errors_of_rows(run, case):
    put, column, row, index = BATCHES[case]
    with pytest.raises(RowError) as caught:
        put(run)
    error = caught.value
    assert error.operator in ("Input 'a'", "Input 'keyed'")
    assert error.site.file == __file__
    assert (error.column, error.row, error.row_index) == (column, row, index)


def test_errors_of_times_and_of_building(run):
    run.advance_to(3)
    for ask in (lambda: run.insert("a", [(1, 1)], time=1), lambda: run.snapshot("out", at=1)):
        with pytest.raises(TimeError) as late:
            ask()
        assert late.value.time == 1
        assert late.value.operator in ("Input 'a'", "Output 'out'")
    with pytest.raises(UnknownColumnError) as unknown:
        tm.Dataflow().input("a", KV).select("w")
    assert unknown.value.column == "w"
    assert unknown.value.site.file == __file__
    assert TidemillError("x").operator is TidemillError("x").row is None


def test_errors_from_executors_keep_their_data():
    row = (
        1,
        None,
        "ö",
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 1),
        decimal.Decimal("1.50"),
        b"\xff",
        (1.5, "a"),
    )
    made = ExpressionError("overflow", "x + 1", 3).about(
        operator="Map 'm'", site=Site("flow.py", 7), column="q", row=row, time=(1, 2)
    )

    def task(_):
        raise made
        yield

    with pytest.raises(TaskError) as raised:
        list(with_encoded_errors(task)(iter(())))
    again = decoded_error(raised.value)
    assert type(again) is ExpressionError
    assert str(again) == str(made)
    names = ("operator", "site", "column", "row", "time", "row_index")
    assert [getattr(again, n) for n in names] == [getattr(made, n) for n in names]


TASKS = {
    "an expression": (lambda x: x.select("k", q="k DIV v"), ("Map 'map'", "q", (2, 0), (5, 6))),
    "a filter": (lambda x: x.filter("k DIV v > 1"), ("Filter 'filter'", None, (2, 0), (5, 6))),
    "map_rows": (lambda x: x.filter("v = 0").map_rows(raising, KV), ("map_rows", None, (1, 1), (0, 1))),
}


@pytest.mark.parametrize("case", TASKS)
def test_errors_of_what_executors_run(case):
    """The task of Spark's executors, run here."""
    build, data = TASKS[case]
    node = build(new_flow(2).input("x", KV)).node
    columns = {"c0": [1, 2], "c1": [1, 0], "t0": [0, 5], "t1": [1, 6], "diff": [1, 1]}
    with pytest.raises(TaskError) as raised:
        list(with_encoded_errors(row_task(node, 2))(iter([pa.RecordBatch.from_pydict(columns)])))
    error = decoded_error(raised.value)
    assert error is not None
    assert (error.operator, error.column, error.row, error.time) == data
    assert error.site is not None
    assert error.site.file == __file__


# -- collecting what does not fit -----------------------------------------------------------------------------------

GOOD, BAD = [(1, 1), (None, 2), (3, None)], [(1, "x"), (1,), (2.5, 1)]


@pytest.mark.parametrize("make", [list, tuple, iter], ids=lambda m: m.__name__)
def test_the_rows_that_fit_are_taken(run, make):
    rows = [GOOD[0], BAD[0], BAD[1], GOOD[1], BAD[2], GOOD[2]]
    refused = run.insert("a", make(rows), on_error="collect")
    assert [row for row, _ in refused] == BAD
    assert [error.row_index for _, error in refused] == [1, 2, 4]
    assert [error.column for _, error in refused] == ["v", None, "k"]
    assert "row 1 (1, 'x'): column v: int64: 'x' (str) is not a valid int64" in str(refused[0].error)
    assert all(error.row == row and error.operator == "Input 'a'" for row, error in refused)
    run.advance()
    assert sorted(run.snapshot("out"), key=repr) == sorted(GOOD, key=repr)


def test_nothing_and_all_may_be_refused(run):
    assert run.insert("a", GOOD, on_error="collect") == []
    assert len(run.insert("a", BAD, on_error="collect")) == len(BAD)
    assert run.insert("a", [], on_error="collect") == []
    assert run.insert("a", GOOD) is None
    run.advance()
    assert len(run.snapshot("out")) == 2 * len(GOOD)


def test_many_rows_are_refused_by_their_numbers(run):
    rows = [(i, "x" if i % 7 == 0 else i) for i in range(3000)]
    refused = run.insert("a", rows, on_error="collect")
    assert [error.row_index for _, error in refused] == list(range(0, 3000, 7))
    assert all(f"row {error.row_index} " in str(error) for _, error in refused)
    run.advance()
    assert len(run.snapshot("out")) == 3000 - len(refused)


TABLES = {
    "Arrow": pa.table({"v": [1.0, 1.5, None], "k": [1, 2, 3]}),
    "Arrow, too late a time": pa.table({"v": [1.0, 1.5, None], "k": [1, 2, 3]}).replace_schema_metadata({"a": "b"}),
    "Polars": pl.DataFrame({"v": [1.0, 1.5, None], "k": [1, 2, 3]}),
    "pandas": pd.DataFrame({"v": [1.0, 1.5, np.nan], "k": [1, 2, 3]}),
    "pandas, objects": pd.DataFrame({"v": [1, "x", None], "k": [1, 2, 3]}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_rows_of_tables_that_fit_are_taken(run, kind):
    ((row, error),) = run.insert("a", TABLES[kind], on_error="collect")
    assert row == {"v": "x" if "objects" in kind else 1.5, "k": 2}
    assert (error.row_index, error.column) == (1, "v")
    run.advance()
    assert sorted(run.snapshot("out")) == [(1, 1), (3, None)]


def test_values_that_python_has_nothing_for_are_refused(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"t": "timestamp", "s": "string"}))
    times = pa.array([0, 2**62, None], pa.timestamp("us"))
    text = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"b", b"\xff"]).buffers())
    with start(flow, engine) as run:
        refused = run.insert("x", pa.table({"t": times, "s": text}), on_error="collect")
        assert [error.column for _, error in refused] == ["t", "s"]
        run.advance()
        assert list(run.snapshot("x")) == [(dt.datetime(1970, 1, 1), "a")]


def test_upserts_that_fit_are_taken(run):
    refused = run.upsert("keyed", [(1, 1), (None, 2), (1, 3), (4, "x")], on_error="collect")
    assert [row for row, _ in refused] == [(None, 2), (4, "x")]
    assert "has a NULL in it" in str(refused[0].error)
    assert run.insert("keyed", [(2, 2), ("x", 2)], on_error="collect")[0].row == ("x", 2)
    run.advance()
    assert sorted(run.snapshot("keyed")) == [(1, 3), (2, 2)]


@pytest.mark.parametrize("make", [pa.Table.from_pydict, pl.DataFrame, pd.DataFrame], ids=["Arrow", "Polars", "pandas"])
def test_upserts_of_tables_that_fit_are_taken(run, make):
    ((row, error),) = run.upsert("keyed", make({"k": [1, None, 4], "v": [1, 2, 3]}), on_error="collect")
    assert (row, error.row_index) == ({"k": None, "v": 2}, 1)
    run.advance()
    assert sorted(run.snapshot("keyed")) == [(1, 1), (4, 3)]


def test_deletes_that_fit_are_taken(run):
    run.insert("a", [*GOOD, *GOOD])
    refused = run.delete("a", [GOOD[0], BAD[0], GOOD[1], BAD[1]], on_error="collect")
    assert [(row, error.row_index) for row, error in refused] == [(BAD[0], 1), (BAD[1], 3)]
    run.advance()
    assert sorted(run.snapshot("out"), key=repr) == sorted([*GOOD, GOOD[2]], key=repr)


def test_deletes_by_key_that_fit_are_taken(run):
    """Keys and whole rows, each on its own, whatever is beside it."""
    run.upsert("keyed", [(i, i) for i in range(8)])
    run.advance()
    rows = [(1,), "x", (2, 2), (None,), {"k": 3}, {"j": 4}, ("x",), (5, "x"), {"v": 6, "k": 6}]
    refused = run.delete("keyed", rows, on_error="collect")
    assert [row for row, _ in refused] == ["x", (None,), {"j": 4}, ("x",), (5, "x")]
    assert [error.row_index for _, error in refused] == [1, 3, 5, 6, 7]
    run.advance()
    assert [k for k, _ in run.snapshot("keyed")] == [0, 4, 5, 7]


@pytest.mark.parametrize("make", [pa.Table.from_pydict, pl.DataFrame, pd.DataFrame], ids=["Arrow", "Polars", "pandas"])
@pytest.mark.parametrize("more", [{}, {"v": [1, 2, 3]}])
def test_deletes_by_tables_of_keys_that_fit_are_taken(run, make, more):
    run.upsert("keyed", [(i, i) for i in range(5)])
    run.advance()
    ((row, error),) = run.delete("keyed", make({"k": [1, None, 4], **more}), on_error="collect")
    assert (row["k"], error.row_index) == (None, 1)
    with pytest.raises(RowError):
        run.delete("keyed", make({"j": [2]}), on_error="collect")
    run.advance()
    assert [k for k, _ in run.snapshot("keyed")] == [0, 2, 3]


def test_what_is_refused_whole_all_the_same(run):
    for rows in (pa.table({"k": [1]}), "rows", 7, {"k": 1}, tm.read_csv("nowhere.csv")):
        with pytest.raises(RowError):
            run.insert("a", rows, on_error="collect")
    with pytest.raises(TidemillError, match="on_error='ignore': expected 'raise', or 'collect'"):
        run.insert("a", GOOD, on_error="ignore")
    with pytest.raises(TimeError):
        run.insert("a", GOOD, time=-1, on_error="collect")
    run.advance()
    assert len(run.snapshot("out")) == 0


# -- users' functions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["map_rows", "flat_map", "inspect", "delay", "threshold", "reduce"])
def test_a_function_that_raises_is_called_once_and_shown_once(method):
    calls = []

    def wrong(*args):
        calls.append(args)
        what = "the users"
        raise KeyError(what)

    flow = new_flow()
    a = flow.input("a", KV)
    built = {
        "map_rows": lambda: a.map_rows(wrong, KV), "flat_map": lambda: a.flat_map(wrong, KV),
        "inspect": lambda: a.inspect(wrong), "delay": lambda: a.delay(wrong),
        "threshold": lambda: a.threshold(wrong), "reduce": lambda: a.group_by("k").reduce(wrong, KV),
    }[method]()  # fmt: skip
    flow.output("out", built)
    with start(flow, "embedded") as run:
        run.insert("a", [(1, 2)])
        with pytest.raises(UserFunctionError) as caught:
            run.advance()
    assert len(calls) == 1
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("raise KeyError(what)") == 1
    assert text.count("KeyError: 'the users'\n") == 1
    assert "During handling" not in text


def test_what_cancels_out_is_shown_to_no_function(engine):
    flow = new_flow()
    flow.output("out", flow.input("a", KV).map_rows(raising, KV))
    with start(flow, engine) as run:
        run.insert("a", [(1, 2)])
        run.delete("a", [(1, 2)])
        run.advance()
        assert len(run.snapshot("out")) == 0


def test_an_expression_that_fails_is_told_once():
    flow = new_flow()
    flow.output("out", flow.input("a", KV).select(q="10 DIV v"))
    with start(flow, "embedded") as run:
        run.insert("a", [(1, 0)])
        with pytest.raises(ExpressionError) as caught:
            run.advance()
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert "During handling" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("method", ["map_rows", "flat_map"])
def test_functions_are_called_by_the_names_of_their_methods(engine, method):
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("out", getattr(a, method)(raising, KV))
    with start(flow, engine) as run:
        run.insert("a", [(1, 2)])
        with pytest.raises(
            UserFunctionError, match=rf"^{method} \(.*test_errors_as_data.py:\d+\): the function 'raising'"
        ):
            run.advance()


# -- notebooks --------------------------------------------------------------------------------------------------------


IN_A_NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.showtraceback = lambda *_, **__: None
cells = [
    "import tidemill as tm",
    "flow = tm.Dataflow()\\nc = flow.input('c', {'k': 'int64'})",
    "def late(c):\\n    return c.select('w')",
    "late(c)",
    "flow.output('o', c.select(q='10 DIV k'))\\nrun = flow.start()\\nrun.insert('c', [(0,)])\\nrun.advance()",
    "run.insert('c', [('x',)])",
]
for cell in cells:
    error = shell.run_cell(cell, store_history=True).error_in_exec
    if error is not None:
        print(f"{error.site} | {error}")
print(shell.user_ns["flow"].explain())
"""


@pytest.mark.slow
def test_errors_in_notebooks_name_the_cell(tmp_path):
    pytest.importorskip("IPython")
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-c", IN_A_NOTEBOOK]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    building, step, batch, *explained = done.stdout.splitlines()
    assert building.startswith("In [3], line 2 | no column `w`")
    assert building.endswith("(In [3], line 2)")
    assert step.startswith("In [5], line 1 | Map 'map' (In [5], line 1), row (0,): division by zero")
    assert batch.startswith("In [2], line 2 | Input 'c' (In [2], line 2), row 0 ('x',)")
    assert "[In [2], line 2]" in explained[1]
