"""What is wrong is said in the same words as by the other engines: node, row, the user's line; and only what is wrong."""

from types import SimpleNamespace

import pytest
from support.running import KV, new_flow

import tidemill as tm
from tidemill.errors import (
    CountOverflowError,
    EngineError,
    ExpressionError,
    NegativeCountError,
    RowError,
    SchemaError,
    TimeError,
    UserFunctionError,
)
from tidemill.renderer.spark.dataframes import updates_of
from tidemill.renderer.spark.session import check_session
from tidemill.testing import all_at_once, check_equivalent


def frame(spark, flow, updates, name="a"):
    node = flow.graph.inputs[name]
    lines = [(*row, *(time if isinstance(time, tuple) else (time,)), diff) for row, time, diff in updates]
    names = ("time",) if len(flow.graph.coordinates) == 1 else flow.graph.coordinates
    return updates_of(spark, node, lines, [*names, "diff"])


def render(spark, build, updates, *, schema=KV, coordinates=1, **options):
    flow = new_flow(coordinates)
    flow.output("out", build(flow.input("a", schema, **options)))
    out = tm.render(flow, spark, {"a": frame(spark, flow, updates)}, in_driver=0)["out"]  # executors take loops, too
    return sorted(map(tuple, out.collect()), key=repr)


def message(build, updates, **options):
    """What the embedded engine says."""
    flow = new_flow()
    flow.output("out", build(flow.input("a", KV, **options)))
    with flow.start() as run, pytest.raises(tm.TidemillError) as caught:
        run.update("a", updates)
        run.close_inputs()
    return (
        type(caught.value),
        str(caught.value).partition(" (")[0],
        str(caught.value).partition(":")[2].partition(",")[2],
    )


def running_sum(rows):
    return rows.with_columns(s=tm.sum("v").over(tm.Window.order_by("k"), strategy="prefix_sum"))


NINES = f"cast('{'9' * 38}' as decimal(38,0))"
FAILING = {
    "division by zero": (lambda a: a.select(x="k / v"), [((1, 0), 0, 1)]),
    "in a filter": (lambda a: a.filter("k / v > 1"), [((1, 0), 0, 1), ((2, 1), 0, 1)]),
    "overflow": (lambda a: a.select(x="k + v"), [((2**63 - 1, 1), 0, 1)]),
    "-2**63": (lambda a: a.select(x="-k - 1"), [((2**63 - 1, 1), 0, 1)]),
    "by kernel": (lambda a: a.select(x="date_from_unix_date(cast(v as int))"), [((1, 2**31 - 1), 0, 1)]),
    "sum overflows": (lambda a: a.group_by("k").agg(s=tm.sum("v")), [((1, 2**63 - 1), 0, 1), ((1, 1), 0, 1)]),
    "running sum overflows": (running_sum, [((1, 2**63 - 1), 0, 1), ((2, 1), 0, 1)]),
    "running sum of decimals": (lambda a: running_sum(a.select("k", v=NINES)), [((1, 1), 0, 1), ((2, 1), 0, 1)]),
    "negative count": (lambda a: a.group_by("k").agg(s=tm.min("v")), [((1, 7), 0, -1)]),
    "negative count in top_k": (lambda a: a.group_by("k").top_k(1, order_by="v"), [((1, 7), 0, -1)]),
    "map_rows raises": (lambda a: a.map_rows(lambda r: (r.k, 1 // r.v), KV), [((1, 0), 0, 1)]),
    "map_rows returns nonsense": (lambda a: a.map_rows(lambda r: (r.k, "x"), KV), [((1, 0), 0, 1)]),
    "threshold": (lambda a: a.threshold(lambda row, n: 1), [((1, 0), 0, 1)]),
    "reduce raises": (lambda a: a.group_by("k").reduce(lambda key, rows: rows[7], KV), [((1, 0), 0, 1)]),
    "a loop that does not settle": (lambda a: a.iterate(lambda h: h.select("k", v="v + 1"), error_at=3), [((1, 0), 0, 1)]),
}  # fmt: skip


def test_counts_that_overflow_are_refused_and_the_largest_that_fit_are_right(spark):
    def pairs(a):
        return a.join(a.select("k"), on="k")

    many = [((1, 0), 0, 2**31)]
    assert render(spark, pairs, many) == [(1, 0, 0, 2**62)]
    with pytest.raises(CountOverflowError, match="beyond 2"):
        render(spark, lambda a: pairs(a).concat(pairs(a).consolidate()), many)


@pytest.mark.parametrize("case", FAILING)
def test_errors_are_those_of_the_embedded_engine(spark, case):
    build, updates = FAILING[case]
    kind, beginning, _ = message(build, updates)
    with pytest.raises(kind) as caught:
        render(spark, build, updates)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(beginning)
    assert "test_errors.py:" in str(caught.value)


def test_the_users_traceback_is_kept(spark):
    def worked(row):
        return (row.k, 1 // row.v)

    with pytest.raises(UserFunctionError, match=r"'.*worked' raised ZeroDivisionError") as caught:
        render(spark, lambda a: a.map_rows(worked, KV), [((1, 0), 0, 1)])
    assert "return (row.k, 1 // row.v)" in str(caught.value.__cause__)


GONE = [((1, 0), 0, 1), ((1, 0), 0, -1), ((4, 2), 0, 1)]


@pytest.mark.parametrize(
    "build",
    [
        lambda a: a.select("k", x="k / v"),
        lambda a: a.filter("k / v > 1").select("k", x="k / v"),
        lambda a: a.map_rows(lambda r: (r.k, r.k // r.v), {"k": "int64", "x": "int64"}).select(
            "k", x="cast(x as double)"
        ),
    ],
)
def test_what_is_taken_back_at_once_is_no_error(spark, build):
    assert render(spark, build, GONE) == [(4, 2.0, 0, 1)]


def test_what_no_row_needs_is_no_error(spark):
    """Spark may compute a condition for rows that the join leaves out."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on="k").filter("10 / v > 1"))
    given = {"a": [((1, 0), 0, 1), ((2, 5), 0, 1)], "b": [((2, 7), 0, 1)]}
    check_equivalent(flow, given, engines=["embedded", "spark"], batchings=[all_at_once])


def test_partial_sums_may_overflow(spark):
    most = 2**63 - 1
    updates = [((1, most), 0, 1), ((1, most), 0, 1), ((1, -most), 0, 1), ((1, -1), 0, 1)]
    assert render(spark, lambda a: a.group_by("k").agg(s=tm.sum("v")), updates) == [(1, most - 1, 0, 1)]


def test_means_of_large_sums_are_rounded_once(spark):
    updates = [((1, 2**53 + 1), 0, 1), ((1, 2**53 + 2), 0, 1), ((1, 0), 0, 1)]
    assert render(spark, lambda a: a.group_by("k").agg(x=tm.avg("v")), updates) == [(1, (2**54 + 3) / 3, 0, 1)]


def test_counts_that_are_too_large(spark):
    build = lambda a: a.concat(a).join(a, on="k").select("k")  # noqa: E731
    with pytest.raises(tm.errors.StepError, match=r"Join.*beyond 2\*\*31"):
        render(spark, build, [((1, 1), 0, 2**31)] * 2)


@pytest.mark.parametrize("coordinates", [1, 2])
def test_unique(spark, coordinates):
    at = (lambda t: t) if coordinates == 1 else (lambda t: (t, 0))
    fine = [((1, 1), at(0), 1), ((1, 1), at(2), -1), ((1, 1), at(3), 1)]
    more = {"coordinates": coordinates, "unique": True}
    assert len(render(spark, lambda a: a, fine, **more)) == 3
    with pytest.raises(NegativeCountError, match=r"is unique, but row \(1, 1\) has the count 2"):
        render(spark, lambda a: a, [*fine, ((1, 1), at(3), 1)], **more)


# What comes in, and the session.


@pytest.mark.parametrize(
    ("schema", "updates", "error", "text"),
    [
        (KV, [((1, 1), -1, 1)], TimeError, r"Input 'a'.*a time is NULL or out of range.*'time': '-1'"),
        (KV, [((1, 1), 0, 2**31 + 1)], RowError, r"a diff is NULL or beyond 2\*\*31"),
        (KV, [((1, -(2**63)), 0, 1)], RowError, r"column v: int64 holds what is not a valid int64 here: overflow"),
        (
            {"k": "int64 not null", "v": "int64"},
            [((None, 1), 0, 1)],
            RowError,
            "column k: int64 not null is NULL.*in 1 of 1 rows",
        ),
    ],
)
def test_bad_rows(spark, schema, updates, error, text):
    flow = new_flow()
    flow.output("out", flow.input("a", schema))
    given = (
        frame(spark, flow, updates)
        if None not in updates[0][0]
        else spark.sql("SELECT CAST(NULL AS BIGINT) AS k, 1L AS v")
    )
    with pytest.raises(error, match=text):
        tm.render(flow, spark, {"a": given})


@pytest.mark.parametrize(
    ("sql", "error", "text"),
    [
        ("SELECT 1L AS k, 2L AS w", RowError, "'v' is missing.*"),
        ("SELECT 1L AS k, 2L AS v, 3 AS more", RowError, "too many: 'more'"),
        (
            "SELECT 1L AS k, '2' AS v",
            RowError,
            "column 'v' is of Spark's type string: expected bigint for v: int64; cast it",
        ),
        ("SELECT 1L AS k, 2L AS v, 1.5D AS time", RowError, "column 'time' is of Spark's type double: expected bigint"),
    ],
)
def test_bad_columns(spark, sql, error, text):
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    with pytest.raises(error, match=text):
        tm.render(flow, spark, {"a": spark.sql(sql)})


def test_names(spark):
    flow = new_flow()
    flow.output("out", flow.input("a", {"TIME": "int64", "k": "int64"}))
    df = spark.sql("SELECT 2 AS k, 7L AS TIME, 3 AS epoch, 2 AS n")
    out = tm.render(flow, spark, {"a": df}, time="epoch", diff="n")["out"]
    assert out.columns == ["TIME", "k", "epoch", "n"]
    assert [tuple(r) for r in out.collect()] == [(7, 2, 3, 2)]
    with pytest.raises(
        SchemaError, match=r"differ only in capitals, which spark.sql.caseSensitive=false does not distinguish"
    ):
        tm.render(flow, spark, {"a": df})
    with pytest.raises(SchemaError, match="clash: rename them with time= and diff="):
        tm.render(flow, spark, {"a": df}, time="k")
    with pytest.raises(tm.errors.UnknownNameError, match="no input 'b'"):
        tm.render(flow, spark, {"b": df})
    with pytest.raises(tm.errors.UnknownNameError, match="no DataFrame for the input 'a'"):
        tm.render(flow, spark, {})
    with pytest.raises(RowError, match="list is not a Spark DataFrame"):
        tm.render(flow, spark, {"a": [(1, 2)]}, time="epoch")


def test_two_coordinates_by_name(spark):
    flow = new_flow(2)
    flow.output("out", flow.input("a", {"k": "int64"}).distinct())
    out = tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 3 AS correction")})["out"]
    assert out.columns == ["k", "event", "correction", "diff"]
    assert [tuple(r) for r in out.collect()] == [(1, 0, 3, 1)]


def test_a_session_with_other_settings(spark):
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(EngineError, match=r"spark.sql.ansi.enabled=false: expected true, since overflow"):
            tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 2L AS v")})
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


def test_a_session_of_an_older_spark():
    with pytest.raises(EngineError, match=r"the session has Spark 3.5.1: expected 4.0 or later"):
        check_session(SimpleNamespace(version="3.5.1"))


def test_executors_that_lack_a_module_of_the_users(spark, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def same(row):\n    return row\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here

    with pytest.raises(EngineError, match="No module named 'only_here': the Python of Spark's executors"):
        render(spark, lambda a: a.map_rows(only_here.same, KV), [((1, 1), 0, 1)])


def summed(spark, tmp_path):
    """A run of which the executors take every step, and a DataFrame for it."""
    flow = new_flow()
    flow.output("out", flow.input("a", KV).group_by("k").agg(s=tm.sum("v")))
    run = flow.start(tm.Spark(spark, tmp_path, in_driver=0))
    return run, spark.sql("SELECT 1L AS k, id AS v FROM range(5)")


def test_a_live_run_on_a_session_with_other_settings(spark, tmp_path):
    """What the driver takes does not touch the session; what the executors take is refused until it is right."""
    run, given = summed(spark, tmp_path)
    run.insert("a", given)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(EngineError, match=r"spark.sql.ansi.enabled=false: expected true"):
            run.insert("a", given)
        with pytest.raises(EngineError, match=r"spark.sql.ansi.enabled=false: expected true"):
            run.advance()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    run.advance()
    assert list(run.snapshot("out")) == [(1, 10)]
    run.close()


def test_executors_that_write_to_other_disks(spark, tmp_path, monkeypatch):
    from pyspark.sql.readwriter import DataFrameWriter

    run, given = summed(spark, tmp_path / "state")
    run.insert("a", given)
    to = DataFrameWriter.parquet
    with monkeypatch.context() as patch:
        patch.setattr(DataFrameWriter, "parquet", lambda self, path: to(self, path.replace("state", "elsewhere")))
        with pytest.raises(
            EngineError, match="Spark's executors wrote 5 rows there, and 0 are there: some executors have other disks"
        ):
            run.insert("a", given)
        with pytest.raises(EngineError, match="give tm.Spark a state= on one that they all share"):
            run.advance()
    assert list(tmp_path.glob("elsewhere/**/part-*.parquet"))
    run.advance()
    assert list(run.snapshot("out")) == [(1, 10)]
    run.close()


def test_expression_errors_say_what_failed(spark):
    with pytest.raises(ExpressionError, match=r"Map 'map' .*, row \(1, 0\): division by zero in `k / v`"):
        render(spark, lambda a: a.select(x="k / v"), [((1, 0), 0, 1)])


# Executors that are lost.


def cut_off(frame):
    """A DataFrame cut off from its past, and how to lose what is kept of it, as with the executors that have it."""
    cut = frame.localCheckpoint()
    return cut, lambda: cut._jdf.queryExecution().logical().rdd().unpersist(True)


def test_an_input_that_went_with_an_executor(spark):
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    given, lose = cut_off(frame(spark, flow, [((1, 1), 0, 1)]))
    assert tm.render(flow, spark, {"a": given})["out"].count() == 1
    lose()
    with pytest.raises(EngineError, match="executors went, .*an input's DataFrame.*make it anew") as caught:
        tm.render(flow, spark, {"a": given})
    assert "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(caught.value.__cause__)


@pytest.mark.parametrize(("times", "fine"), [(2, True), (3, False)])
def test_a_step_that_loses_executors_is_taken_again(spark, monkeypatch, times, fine):
    """Each of the first attempts loses what its first round has worked out."""
    from tidemill.renderer.spark import step

    attempts, of_feedback = [], step.Step.of_feedback

    def losing(self, node, now):
        of_feedback(self, node, now)
        if self not in attempts:
            attempts.append(self)
            if len(attempts) <= times:
                for key, (sent, *_) in self._sent.items():
                    cut, lose = cut_off(sent.data)
                    self._sent[key] = [sent.of(cut, rows=sent.rows, depth=0)]
                    lose()

    monkeypatch.setattr(step.Step, "of_feedback", losing)
    build = lambda a: a.iterate(lambda here: here.filter("v > 0").select("k", v="v - 1").concat(a).distinct())  # noqa: E731
    if fine:
        assert render(spark, build, [((1, 1), 0, 1)]) == [(1, 0, 0, 1), (1, 1, 0, 1)]
    else:
        with pytest.raises(EngineError, match="in each of 3 attempts"):
            render(spark, build, [((1, 1), 0, 1)])
    assert len(attempts) == 3
