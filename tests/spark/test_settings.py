"""Whatever a session is set to, a dataflow means the same in it, or is refused by a message that names the setting.

The kind: a setting of Spark's that gives other values, other types, other batches, other errors, or rows that go
missing without one. What cannot be made harmless is refused by `check_session`, the one place that looks at settings.
"""

import collections
import contextlib
import datetime as dt
import decimal
import functools

import pytest

import tidemill as tm
from tidemill.boundary.rows import python_rows
from tidemill.errors import EngineError, RowError, UserFunctionError
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark.dataframes import frame_of_rows
from tidemill.renderer.spark.session import SETTINGS, SETTINGS_OF_FILES

D = decimal.Decimal
SCHEMA = Schema.of(
    {
        "k": "string", "v": "int64", "n": "int32", "f": "float64", "d": "decimal(10,2)", "w": "decimal(38,10)", "p": "bool",
        "raw": "binary", "day": "date", "t": "timestamp", "many": "list<string>", "Ω `x`": "string",
    }
)  # fmt: skip
ROWS = [
    ("a", 1, 7, 0.5, D("1.25"), D("0.1000000000"), True, b"x", dt.date(1, 1, 1), dt.datetime(1500, 2, 28, 1, 2, 3, 4), ["p", None], "y"),
    ("a", 2**62, -3, 1e9, D("-0.05"), D("9" * 28 + ".5000000000"), False, b"\xff", dt.date(1582, 10, 10), dt.datetime(2020, 3, 8, 2, 30), [], "z"),
    ("b", -5, 0, -3.5, None, None, None, None, None, None, None, None),
    ("B", None, 2, -0.1, D("3.00"), D("-2.0000000000"), True, b"", dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), ["q"], "${HOME}"),
    ("", 5, None, 2.0**-20, D("99999999.99"), D("7.0000000000"), False, b"a\x00", dt.date(1899, 12, 30), dt.datetime(2011, 12, 30, 12), ["", "r"], r"\d'"),
    ("ß a", 5, 4, None, D("0.10"), D("0.0000000001"), True, b"y", dt.date(2020, 2, 29), dt.datetime(1900, 1, 1), ["s"], " 1 "),
]  # fmt: skip
NATIVE = {
    "plus": "v % 1000 + n", "whole": "v div 7", "less": "f < 1e22 or f > 1.5e-3", "floats": "f * 2.5 + 1e0",
    "decimals": "d * 1.05 + 0.005", "wide": "w * d / 3", "rounded": "round(d, 1)", "cast": "cast(d as double)",
    "text": r"concat(k, '\\d', 'it\'s', '${HOME}', `Ω ``x```)", "like": r"k like 'a%' or k like '%\\_'", "part": "substring(k, 1, 1)",
    "padded": "lpad(k, 4, 'xy')", "words": "trim(upper(k))", "coalesced": "coalesce(k, 'none')", "case": "case when p then v else n end",
    "in": "k in ('a', 'B', 'zz', 'y1', 'y2', 'y3', 'y4', 'y5', 'y6', 'y7', 'y8', 'y9')", "hash": "xxhash64(k, v, n, f, d, day, t, raw)",
    "hour": "date_trunc('hour', t)", "apart": "timestampdiff(minute, t, timestamp '2020-01-01 00:00:00')", "y": "year(day)",
    "late": "day > date '1582-10-12'", "after": "t > timestamp '2011-12-30 00:30:00'", "shown": "cast(t as string)", "bits": "n & 5",
    "null": "v is null and not p", "least": "least(v, n)",
}  # fmt: skip
KERNELS = {
    "size": "size(many)", "first": "get(many, 0)", "replaced": "regexp_replace(k, 'a', '<$0>')", "read": "cast(k as binary)",
    "moved": "t - interval 90 minutes", "n": "n", "together": r"concat(k, `Ω ``x```, cast(raw = binary('a') as string))",
}  # fmt: skip


def core(x):
    """A compact dataflow with all that Spark is asked to do: expressions, aggregates, joins, loops, order, functions."""
    short = x.select("k", "v", "f", "d", "t", "day", small="v % 100")
    yield "native", x.select(**NATIVE)
    yield "kernels", x.select(**KERNELS)
    yield "groups", short.group_by("k").agg(
        n=tm.count(), s=tm.sum("small"), f=tm.sum("f"), d=tm.sum("d"), mean=tm.avg("f"), spread=tm.variance("f"), first=tm.min("day"),
        last=tm.max("t"), every=tm.list("small"))  # fmt: skip
    yield "joined", short.select("k", "v").join(short.select("k", "day", "t").distinct(), on="k")
    order = tm.Window.partition_by("k").order_by("t", "v")
    yield "ordered", short.with_columns(place=tm.row_number().over(order), sum=tm.sum("small").over(order))


def flow_of(names=None):
    flow = tm.Dataflow()
    for name, collection in core(flow.input("x", SCHEMA)):
        if names is None or name in names:
            flow.output(name, collection)
    return flow


@functools.cache
def expected():
    with flow_of().start(tm.Reference()) as run:
        run.insert("x", ROWS)
        run.advance()
        return {name: sorted(map(repr, run.changes(name))) for name in run.graph.outputs}


def rendered(spark):
    frames = tm.render(flow_of(), spark, {"x": frame_of_rows(spark, SCHEMA, ROWS)})
    return {name: updates(frame) for name, frame in frames.items()}


def updates(frame):
    counts = collections.Counter()
    for *row, time, diff in python_rows(frame.toArrow()):
        counts[tuple(row), time] += diff
    return sorted(repr((*of, diff)) for of, diff in counts.items())


@contextlib.contextmanager
def set_to(spark, settings, prefix="spark.sql."):
    """Within the block, the session has these settings."""
    before = {prefix + name: spark.conf.get(prefix + name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(prefix + name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def kept_flow():
    """Rows that are kept, in files and in the driver, of all types."""
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    flow.output("kept", x.distinct())
    flow.output("joined", x.join(x.select("k", other="day", binary="raw", lists="many"), on="k"))
    flow.output("groups", x.group_by("k", "day").agg(n=tm.count(), last=tm.max("t")))
    return flow


def lived(engine):
    """What is seen of a run: executors write what they are given, the driver reads some of it, executors read it all."""
    seen = []
    with kept_flow().start(engine) as run:
        for new, old in ((ROWS[:5], []), (ROWS[5:], ROWS[2:3]), ([], ROWS[:2] + ROWS[3:])):
            run.insert("x", new)
            run.delete("x", old)
            run.advance()
            seen.append({name: sorted(map(repr, run.changes(name))) for name in run.graph.outputs})
    return seen


@functools.cache
def lived_on_reference():
    return lived(tm.Reference())


RULES = ("ConstantFolding", "NullPropagation", "PushDownPredicates", "ColumnPruning", "CollapseProject")
OF_BATCHES = {
    "execution.arrow.useLargeVarTypes": "true",
    "execution.arrow.maxRecordsPerBatch": "1",
    "execution.arrow.maxBytesPerBatch": "16b",
    "execution.arrow.compression.codec": "zstd",
    "execution.arrow.localRelationThreshold": "0b",
    "execution.arrow.pyspark.validateSchema.enabled": "true",
    "execution.arrow.pyspark.selfDestruct.enabled": "true",
    "execution.arrow.pyspark.enabled": "false",
    "execution.pandas.structHandlingMode": "dict",
    "execution.pyspark.binaryAsBytes": "false",
}
OF_MEANING = {
    "session.timeZone": "Pacific/Apia",
    "timestampType": "TIMESTAMP_NTZ",
    "storeAssignmentPolicy": "LEGACY",
    "mapKeyDedupPolicy": "LAST_WIN",
    "caseSensitive": "true",
    "variable.substitute": "false",
    "function.concatBinaryAsString": "true",
    "datetime.java8API.enabled": "true",
    "ansi.doubleQuotedIdentifiers": "true",
    "ansi.enforceReservedKeywords": "true",
    "parser.quotedRegexColumnNames": "true",
    "legacy.timeParserPolicy": "LEGACY",
    "legacy.exponentLiteralAsDecimal.enabled": "true",
    "legacy.literal.pickMinimumPrecision": "false",
    "legacy.decimal.retainFractionDigitsOnTruncate": "true",
    "legacy.castComplexTypesToString.enabled": "true",
    "legacy.typeCoercion.datetimeToString.enabled": "true",
    "legacy.charVarcharAsString": "true",
    "legacy.interval.enabled": "true",
    "legacy.sizeOfNull": "false",
    "legacy.statisticalAggregate": "true",
    "legacy.lpadRpadAlwaysReturnString": "true",
}
OF_PLANS = {
    "adaptive.enabled": "false",
    "shuffle.partitions": "1",
    "autoBroadcastJoinThreshold": "-1",
    "leafNodeDefaultParallelism": "7",
    "execution.useHashAggregateExec": "false",
    "execution.useObjectHashAggregateExec": "false",
    "subexpressionElimination.enabled": "false",
    "constraintPropagation.enabled": "false",
    "crossJoin.enabled": "false",
    "groupByAliases": "false",
    "groupByOrdinal": "false",
    "windowExec.buffer.in.memory.threshold": "1",
    "sessionWindow.buffer.in.memory.threshold": "1",
    "optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in RULES),
}
COMPILED = {
    "codegen.wholeStage": "true",
    "codegen.factoryMode": "CODEGEN_ONLY",
    "shuffle.partitions": "17",
    "optimizer.inSetConversionThreshold": "2",
    "optimizer.collapseProjectAlwaysInline": "true",
    "join.preferSortMergeJoin": "false",
}
OF_FILES = {
    "execution.arrow.useLargeVarTypes": "true",
    "session.timeZone": "Australia/Lord_Howe",
    "sources.default": "json",
    "files.maxRecordsPerFile": "1",
    "files.maxPartitionBytes": "100b",
    "parquet.compression.codec": "lzo",  # which Spark does not have
    "parquet.datetimeRebaseModeInRead": "LEGACY",
    "parquet.outputTimestampType": "INT96",
    "parquet.inferTimestampNTZ.enabled": "false",
    "parquet.binaryAsString": "true",
    "parquet.writeLegacyFormat": "true",
    "parquet.mergeSchema": "true",
    "parquet.enableVectorizedReader": "false",
    "parquet.filterPushdown": "false",
    "parquet.fieldId.read.enabled": "true",
}
OF_ERRORS = {
    "error.messageFormat": "MINIMAL",
    "legacy.raiseErrorWithoutErrorClass": "true",
    "pyspark.jvmStacktrace.enabled": "true",
    "execution.pyspark.udf.hideTraceback.enabled": "true",
    "execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Settings that are harmless, in groups: a test for each would take as many times as long."""


def test_there_are_many():
    groups = [OF_BATCHES, OF_MEANING, OF_PLANS, COMPILED, OF_FILES, OF_ERRORS]
    assert len({name for group in groups for name in group}) >= 60


@pytest.mark.parametrize(
    "settings", [OF_BATCHES, OF_MEANING, OF_PLANS, COMPILED], ids=["batches", "meaning", "plans", "compiled"]
)
def test_a_whole_history_is_the_same(spark, settings, caplog):
    caplog.set_level("INFO", "tidemill.spark")
    with set_to(spark, settings):
        assert rendered(spark) == expected()
    assert not caplog.records, "nothing had to be done again, with care"


def test_a_live_run_is_the_same_whatever_becomes_of_files(spark, tmp_path):
    with set_to(spark, OF_FILES):
        assert lived(tm.Spark(spark, tmp_path, in_driver=2)) == lived_on_reference()


def test_files_that_are_gone_are_an_error_where_others_may_be(spark, tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64"}))
    with set_to(spark, {"files.ignoreMissingFiles": "true"}), flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run:
        run.insert("x", spark.range(9).toDF("k"))
        run.advance()
        shown = run.snapshot("o").to_spark()
        assert shown.count() == 9
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        for path in kept:
            path.rename(f"{path}.gone")
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            shown.collect()
        for path in kept:
            path.with_name(f"{path.name}.gone").rename(path)


def test_errors_are_understood(spark):
    """Spark's, of which what no row depends on is none, and ours, from executors and of what is not as it has to be."""
    flow = tm.Dataflow()
    x = flow.input("x", {"v": "int64 not null", "f": "float64"})
    flow.output("whole", x.select(q="100 div v"))
    flow.output("spread", x.agg(v=tm.variance("f"), s=tm.sum("f")))
    lines = [((5, 1e300), 0, 1), ((0, 2.0**-1000), 0, 1), ((0, 2.0**-1000), 0, -1), ((4, -1.0), 1, 1)]
    failing = tm.Dataflow()
    failing.output("o", failing.input("x", {"v": "int64 not null"}).map_rows(lambda row: (1 // row.v,), {"w": "int64"}))
    frame = spark.sql("SELECT CAST(id AS bigint) AS v FROM range(3)")
    with set_to(spark, OF_ERRORS):
        tm.testing.check_equivalent(
            flow, {"x": lines}, engines=["reference", "spark"], batchings=[tm.testing.all_at_once]
        )
        with pytest.raises(UserFunctionError, match="division or modulo by zero"):
            tm.render(failing, spark, {"x": frame})["o"].collect()
        with pytest.raises(RowError, match="column v: int64 not null is NULL"):
            tm.render(failing, spark, {"x": frame.selectExpr("nullif(v, 1) AS v")})["o"].collect()


OTHERWISE = {
    "spark.sql.ansi.enabled": "false", "spark.sql.parser.escapedStringLiterals": "true", "spark.sql.retainGroupColumns": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": "0",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
}  # fmt: skip


@pytest.mark.parametrize("name", [*SETTINGS, *SETTINGS_OF_FILES])
def test_the_others_are_refused_by_name(spark, tmp_path, name):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"k": "int64"}))
    frame = spark.range(9).toDF("k")
    with flow.start(tm.Spark(spark, tmp_path, in_driver=2)) as run, set_to(spark, {name: OTHERWISE[name]}, ""):
        with pytest.raises(EngineError, match=f"the session has {name}={OTHERWISE[name]}: expected .*, since"):
            run.insert("x", frame)
        if name in SETTINGS:
            with pytest.raises(EngineError, match=f"the session has {name}={OTHERWISE[name]}"):
                tm.render(flow, spark, {"x": frame})
