"""What users hold shows itself by the users' names, and completes to what is theirs to call."""

import re

import pytest
from support.running import start

import tidemill as tm
from tidemill.renderer.runs.metrics import Metrics, OperatorMetrics


@pytest.fixture
def flow():
    made = tm.Dataflow("routes")
    flights = made.input("flights", {"origin": "string", "delay": "int64"})
    made.output("late", flights.filter("delay > 15").group_by("origin").agg(n=tm.count()))
    return made


def test_a_dataflow(flow):
    assert repr(flow) == (
        "Dataflow('routes'), times (epoch), 4 operators\n"
        "  input 'flights' (origin: string, delay: int64)\n"
        "  output 'late' (origin: string, n: int64 not null)"
    )


def test_a_run(engine, flow):
    run = start(flow, engine)
    assert repr(run) == (
        "Run of 'routes', 0 steps taken\n"
        "  input 'flights', complete up to Antichain(0)\n"
        "  output 'late', complete up to Antichain(0)"
    )
    run.advance()
    assert "1 steps taken" in repr(run)
    assert "output 'late', complete up to Antichain(1)" in repr(run)
    run.close()
    assert repr(run) == "Run of 'routes', closed"


def test_metrics(engine, flow):
    with start(flow, engine) as run:
        run.insert("flights", [("JFK", 20)])
        run.advance()
        shown = repr(run.metrics()).splitlines()
    assert shown[0].split() == ["operator", "in", "out", "state", "batches", "waiting", "seconds", "memory", "line"]
    assert any(re.fullmatch(r"#0 Input 'flights' .* test_shown.py:\d+", line) for line in shown[1:-1])
    assert any(re.fullmatch(r"#\d Output 'late' .* test_shown.py:\d+", line) for line in shown[1:-1])


def test_of_many_operators_metrics_show_the_slowest_first_and_the_rest_in_a_line():
    made = [
        OperatorMetrics(
            id=i, kind="Map", name="map", records_in=i, records_out=1, state_rows=2, batches=1, seconds=i % 10 + i / 100
        )
        for i in range(45)
    ]
    _, *lines, _ = repr(Metrics(made)).splitlines()
    seconds = [float(line.split()[-3]) for line in lines[:-1]]
    assert seconds == sorted((o.seconds for o in made), reverse=True)[:20]
    assert lines[0].startswith("#39 Map")
    rest = sorted(made, key=lambda o: -o.seconds)[20:]
    assert lines[-1].split()[:6] == ["and", "25", "others", str(sum(o.records_in for o in rest)), "25", "50"]
    assert lines[-1].split()[-3] == f"{sum(o.seconds for o in rest):.4f}"


def test_groups_and_blocks(flow):
    c = flow.constant({"k": "string", "v": "int64"}, [])
    assert repr(c.group_by("k", big="v > 2")) == "Grouped(Collection(k: string, v: int64) by k, v > 2 AS big)"
    assert repr(c.group_by()) == "Grouped(Collection(k: string, v: int64) by nothing)"
    with flow.letrec("paths") as block:
        block.declare("p", {"k": "string", "v": "int64"})
        assert repr(block) == "LetRec('paths', p(k: string, v: int64), not defined yet)"
        block.define("p", c)
    assert repr(block) == "LetRec('paths', p(k: string, v: int64))"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (tm.col("x") + 1, "x + 1"),
        ((tm.col("a b") > 1) & ~tm.col("c"), "(`a b` > 1) & (~c)"),
        (tm.col("x").cast("int32").alias("y"), "CAST(x AS int32) AS y"),
        (tm.lit("it's"), r"'it\'s'"),
        (tm.lit(None), "NULL"),
        (tm.when(tm.col("x") > 1, 2), "CASE WHEN x > 1 THEN 2 ELSE NULL END"),
        (tm.when(tm.col("x") > 1, 2).otherwise(tm.col("y")), "CASE WHEN x > 1 THEN 2 ELSE y END"),
        (tm.expr("coalesce(x, 0)"), "COALESCE(x, 0)"),
        (tm.sum("x") / tm.count(), "SUM(x) / COUNT(*)"),
        (tm.lag("x").over(tm.Window.partition_by("k").order_by("t")), None),
    ],
    ids=str,
)
def test_expressions_as_sql(expression, text):
    assert text is None or repr(expression) == text
    assert "(function=" not in repr(expression)
    assert "(name=" not in repr(expression)


def public(value):
    return {n for n in dir(value) if not n.startswith("_")}


def test_completion_offers_what_users_call(flow):
    c = flow.constant({"k": "string"}, [])
    with flow.letrec() as block:
        block.define("p", block.declare("p", c.schema).concat(c).distinct())
    assert public(c) >= {"select", "filter", "group_by", "schema"}
    assert not public(c) & {"node", "builder", "aligned_to", "map_columns", "filter_by", "reduce_by"}
    assert public(c.group_by("k")) == {"agg", "reduce", "top_k"}
    assert public(block) == {"declare", "define", "previous"}
    pictures = {"explore", "to_dot", "to_html", "to_mermaid", "to_networkx", "to_svg"}
    assert public(flow) == {
        "constant",
        "explain",
        "explain_sql",
        "from_sql",
        "input",
        "letrec",
        "name",
        "output",
        "plan",
        "sql",
        "start",
        *pictures,
    }
    with flow.start() as run:
        assert public(run) >= {"insert", "advance", "snapshot", "keep"}
        assert not public(run) & {"executor", "graph", "passes"}
    assert public(tm) >= {"Dataflow", "Grouped", "LetRec", "Metrics", "Run", "sum"}
    assert not public(tm) & {"boundary", "dataflow", "renderer", "site", "TYPE_CHECKING"}


@pytest.mark.parametrize("kind", [tm.Run, tm.Grouped, tm.LetRec, tm.Metrics], ids=lambda k: k.__name__)
def test_what_users_hold_is_documented(kind):
    assert len(kind.__doc__.strip().splitlines()) > 3
    for name in set(vars(kind)) - {"executor", "graph", "passes"}:
        member = getattr(kind, name)
        if not name.startswith("_") and callable(member) and name != "node_of":
            assert member.__doc__, name


def test_a_value_is_a_line_whatever_is_in_it():
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"s": "string", "i": "int64"}))
    with flow.start() as run:
        run.insert("x", [("two\nlines, \x1b[31mred", 1), ("long " * 1000, 2)])
        run.advance()
        lines = repr(run.snapshot("o")).split("\n")
        assert [line.rsplit(maxsplit=1)[1] for line in lines[2:]] == ["2", "1"]
        assert r"two\nlines, \x1b[31mred" in lines[3]
        assert max(map(len, lines)) < 220
