"""The trees that users build, and what binding makes of them: types, casts, SQL text, errors."""

# ruff: noqa: E501 - tables of examples

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from tidemill.errors import ExpressionError, SchemaError, UnknownColumnError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundCall, BoundColumn, BoundLiteral
from tidemill.expressions.expr import Expr, col, lit
from tidemill.expressions.functions import choice
from tidemill.expressions.functions import numbers as nu
from tidemill.expressions.functions import text as tx
from tidemill.expressions.functions.choice import when
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, expr, to_sql
from tidemill.expressions.structure import identical, output_name
from tidemill.expressions.types import BOOL, FLOAT64, INT32, INT64, STRING, dtype
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

SCHEMA = Schema.of(
    {
        "a": "int64", "b": "int64", "n": "int32 not null", "f": "float64", "d": "decimal(10,2)", "s": "string",
        "t": "timestamp", "day": "date", "p": "bool", "raw": "binary", "two words": "int64", "big": "decimal(38,18)",
    }
)  # fmt: skip


def bound(text: str) -> Bound:
    return bind(expr(text), SCHEMA)


OPERATORS = [
    (col("a") + 1, "a + 1"),
    (1 + col("a"), "1 + a"),
    (col("a") - 1, "a - 1"),
    (1 - col("a"), "1 - a"),
    (col("a") * 2, "a * 2"),
    (2 * col("a"), "2 * a"),
    (col("a") / 2, "a / 2"),
    (2 / col("a"), "2 / a"),
    (col("a") // 2, "FLOOR_DIVIDE(a, 2)"),
    (2 // col("a"), "FLOOR_DIVIDE(2, a)"),
    (col("a") % 2, "a % 2"),
    (2 % col("a"), "2 % a"),
    (-col("a"), "-a"),
    (col("a") == 1, "a = 1"),
    (col("a") != 1, "a <> 1"),
    (col("a") < 1, "a < 1"),
    (col("a") <= 1, "a <= 1"),
    (col("a") > 1, "a > 1"),
    (col("a") >= 1, "a >= 1"),
    (col("p") & True, "p AND TRUE"),
    (True & col("p"), "TRUE AND p"),
    (col("p") | False, "p OR FALSE"),
    (False | col("p"), "FALSE OR p"),
    (~col("p"), "NOT p"),
    (col("a").eq_null_safe(None), "a IS NOT DISTINCT FROM NULL"),
    (col("a").is_null(), "a IS NULL"),
    (col("a").is_not_null(), "NOT a IS NULL"),
    (col("a").cast("string"), "CAST(a AS STRING)"),
    (col("a").isin([1, None]), "a IN (1, NULL)"),
    (col("a").isin([]), "FALSE"),
    (col("a").between(1, 2), "a >= 1 AND a <= 2"),
    (col("a").fill_null(0), "COALESCE(a, 0)"),
    (col("s").like("a%"), "s LIKE 'a%'"),
    (col("s").startswith("x"), "STARTSWITH(s, 'x')"),
    (col("s").endswith("x"), "ENDSWITH(s, 'x')"),
    (col("s").contains("it's"), r"CONTAINS(s, 'it\'s')"),
    (col("a").alias("x"), "a"),
    (when(col("p"), 1).when(col("a") > 1, 2), "CASE WHEN p THEN 1 WHEN a > 1 THEN 2 END"),
    (when(col("p"), 1).otherwise(0), "CASE WHEN p THEN 1 ELSE 0 END"),
    (choice.coalesce(col("a"), col("n")), "COALESCE(a, n)"),
    (choice.nullif(col("a"), 0), "CASE WHEN a = 0 THEN NULL ELSE a END"),
    (choice.least(col("a"), 1), "LEAST(a, 1)"),
    (choice.greatest(col("a"), 1), "GREATEST(a, 1)"),
    (nu.abs(col("a")), "ABS(a)"),
    (tx.upper(col("s")), "UPPER(s)"),
    (tx.lower(col("s")), "LOWER(s)"),
    (tx.length(col("s")), "LENGTH(s)"),
    (tx.concat(col("s"), lit("x")), "CONCAT(s, 'x')"),
    (tx.substring(col("s"), 1, 2), "SUBSTRING(s, 1, 2)"),
    (tx.trim(col("s")), "TRIM(s)"),
    (col("two words") + 1, "`two words` + 1"),
]


@pytest.mark.parametrize(("expression", "text"), OPERATORS, ids=[t for _, t in OPERATORS])
def test_operators_and_functions_print_as_sql_and_read_back(expression: Expr, text: str) -> None:
    tree = bind(expression, SCHEMA)
    assert to_sql(tree) == text
    assert bound(text) == tree
    assert hash(bound(text)) == hash(tree)


SQL = [
    ("a / b", "a / b", "float64"),
    ("a + n", "a + n", "int64"),
    ("n + 1", "n + 1", "int32"),
    ("n + 3000000000", "n + 3000000000", "int64"),
    ("n + 1L", "CAST(n AS BIGINT) + 1", "int64"),
    ("f > 1.5", "f > 1.5", "bool"),
    ("f + 1e3", "f + 1000", "float64"),
    ("a div b", "a DIV b", "int64"),
    ("n div n", "n DIV n", "int64"),
    ("mod(a, b)", "a % b", "int64"),
    ("d + d", "d + d", "decimal(11,2)"),
    ("d * d", "d * d", "decimal(21,4)"),
    ("d * 2", "d * 2", "decimal(12,2)"),
    ("d + a", "d + a", "decimal(23,2)"),
    ("d * f", "d * f", "float64"),
    ("d / 2", "d / 2", "decimal(14,6)"),
    ("big * big", "big * big", "decimal(38,6)"),
    ("big + 1", "big + 1", "decimal(38,17)"),
    ("a - (b - 1)", "a - (b - 1)", "int64"),
    ("(a - b) - 1", "a - b - 1", "int64"),
    ("a - -1", "a - -1", "int64"),
    ("-(-a)", "-(-a)", "int64"),
    ("(a + 1) * b", "(a + 1) * b", "int64"),
    ("p = (a = b)", "p = (a = b)", "bool"),
    ("not (p or a is null) and p", "NOT (p OR a IS NULL) AND p", "bool"),
    ("a is not null", "NOT a IS NULL", "bool"),
    ("a in (1, n, null)", "a IN (1, n, NULL)", "bool"),
    ("a not between 1 and 2", "NOT (a >= 1 AND a <= 2)", "bool"),
    ("a <=> b", "a IS NOT DISTINCT FROM b", "bool"),
    ("a is distinct from b", "NOT a IS NOT DISTINCT FROM b", "bool"),
    ("p is true", "p IS NOT DISTINCT FROM TRUE", "bool"),
    ("case a when 1 then 'x' else s end", "CASE WHEN a = 1 THEN 'x' ELSE s END", "string"),
    ("if(p, a, 0)", "CASE WHEN p THEN a ELSE 0 END", "int64"),
    ("case when p then n else f end", "CASE WHEN p THEN n ELSE f END", "float64"),
    ("ifnull(a, 0)", "COALESCE(a, 0)", "int64"),
    ("s || 'x'", "CONCAT(s, 'x')", "string"),
    ("ltrim(s) = rtrim(s)", "LTRIM(s) = RTRIM(s)", "bool"),
    ("substring(s, 2)", "SUBSTRING(s, 2, 2147483647)", "string"),
    ("char_length(raw)", "LENGTH(raw)", "int32"),
    ("raw = x'00ff'", "raw = X'00ff'", "bool"),
    ("day >= '2020-01-31'", "day >= CAST('2020-01-31' AS DATE)", "bool"),
    ("day >= date'2020-01-31'", "day >= CAST('2020-01-31' AS DATE)", "bool"),
    ("t < timestamp'2020-01-31 10:00:00'", "t < CAST('2020-01-31 10:00:00' AS TIMESTAMP_NTZ)", "bool"),
    ("t > day", "t > day", "bool"),
    ("cast(s as decimal(5, 1))", "CAST(s AS DECIMAL(5, 1))", "decimal(5,1)"),
    ("cast(null as int)", "CAST(NULL AS INT)", "int32"),
    ("cast('NaN' as double)", "CAST('NaN' AS DOUBLE)", "float64"),
    ("a::timestamp is null or true", None, None),
    ("1.50", "1.50", "decimal(3,2)"),
    ("`two words`", "`two words`", "int64"),
    ("s not like 'x'", "NOT s LIKE 'x'", "bool"),
    ("-5L", "-5", "int64"),
]


@pytest.mark.parametrize(("text", "printed", "of_type"), SQL, ids=[t for t, _, _ in SQL])
def test_sql_text(text: str, printed: str | None, of_type: str | None) -> None:
    if printed is None or of_type is None:
        with pytest.raises(SchemaError, match="there is no cast from int64 to timestamp"):
            bound(text)
        return
    tree = bound(text)
    assert (to_sql(tree), tree.dtype) == (printed, dtype(of_type))
    assert bound(printed) == tree


ERRORS = [
    (
        "a + s",
        "`a + s` gets int64 and string: + expects two numbers, or a date or timestamp and an interval; cast one of them",
    ),
    ("a = s", "`a = s` gets int64 and string: = expects values of one type, or numbers; cast one of them"),
    ("a and p", "`a AND p` gets int64 and bool: AND expects two or more conditions (bool); cast one of them"),
    ("not a", "`NOT a` gets int64: NOT expects a condition (bool); cast the argument"),
    ("-s", "`-s` gets string: - expects a number; cast the argument"),
    ("f div 2", "`f DIV 2` gets float64 and int64: DIV expects two whole numbers or decimals; cast the argument"),
    ("upper(a)", "`UPPER(a)` gets int64: UPPER expects a string; cast the argument"),
    ("concat(s, a)", "`CONCAT(s, a)` gets string and int64: CONCAT expects strings; cast one of them"),
    ("a in (1, 'x')", "`a IN (1, 'x')` gets int64 and int64 and string: IN expects values of one type, or numbers"),
    ("coalesce(a, p)", "`COALESCE(a, p)` gets int64 and bool: COALESCE expects values of one type, or numbers"),
    (
        "case when a then 1 end",
        "`CASE WHEN a THEN 1 END` gets int64 and int64 and null: CASE expects conditions (bool)",
    ),
    ("day = 'yesterday'", "`day = 'yesterday'` gets date and string: = expects values of one type, or numbers"),
    ("cast(day as int)", "`day` is of type date: there is no cast from date to int32"),
    ("null", "NULL alone has no type: give it one, as in lit(None).cast('int64') or CAST(NULL AS BIGINT)"),
    ("null = null", "NULL has no type in `NULL = NULL`: give it one, as in CAST(NULL AS BIGINT)"),
    ("s like s", "`s` in `s LIKE s` has to be a literal"),
    ("s like 'a\\\\b'", r"LIKE pattern 'a\\b' has a \ that escapes neither % nor _ nor \: double it"),
    ("substring(s, a, 1)", "`a` in `SUBSTRING(s, a, 1)` has to be a literal"),
    ("x + 1", "no column `x` in (a: int64, b: int64"),
    ("sum(a)", "`SUM(a)` is not supported in a scalar expression: an aggregate is no function of one row"),
    ("foo(a)", "FOO(a) in `foo(a)` is not supported in a scalar expression"),
    ("(select 1)", "(SELECT 1) in `(select 1)` is not supported in a scalar expression"),
    ("t.a", "`t.a` gets timestamp and string: FIELD expects a struct and the name of a field"),
    ("try_cast(day as int)", "TRY_CAST: there is no cast from date to int32"),
    ("cast(a as uuid)", "`a` is of type int64: there is no cast from int64 to uuid"),
    ("s like 'x' escape '/'", "s LIKE 'x' ESCAPE '/' in"),
    ("trim(both 'x' from a)", "`TRIM_OF(a, 'x')` gets int64 and string: TRIM_OF expects a string and characters"),
    (
        "a + interval 1 day",
        "`a + INTERVAL '1' DAY` gets int64 and interval of days: + expects two numbers, or a date or",
    ),
    ("a +", "`a +` is not a SQL expression: "),
    ("1; 2", "`1; 2` is not a SQL expression: expected one."),
    ("", "`` is not a SQL expression: "),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[t for t, _ in ERRORS])
def test_what_cannot_be_bound_says_why(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bound(text)
    assert message in str(caught.value)


def test_an_unknown_column_is_its_own_error_with_a_hint() -> None:
    with pytest.raises(UnknownColumnError, match="no column `orign` in .*did you mean 'origin'"):
        bind(col("orign"), Schema.of({"origin": "string"}))


def test_comparing_expressions_builds_an_expression_and_has_no_truth_value() -> None:
    with pytest.raises(SchemaError, match=r"write `\(a\) & \(b\)` for Python's `a and b`"):
        bool(col("a") == 1)
    assert identical(col("a") == 1, expr("a = 1"))
    assert not identical(lit(1), lit(1.0))
    assert not identical(lit(0.0), lit(-0.0))
    assert len({col("a"): 1, col("b"): 2}) == 2


@pytest.mark.parametrize("value", [object(), decimal.Decimal("NaN"), [1], {"a": 1}])
def test_what_cannot_be_a_literal(value: object) -> None:
    with pytest.raises(SchemaError, match="cannot be a literal: expected bool, int, float, str"):
        lit(value)


def test_names() -> None:
    assert [output_name(e) for e in (col("a"), col("a") + 1, (col("a") + 1).alias("x"), expr("a + 1 AS y"), expr("a"))] == [
        "a", None, "x", "y", "a",
    ]  # fmt: skip
    for bad in ("", 5):
        with pytest.raises(SchemaError, match="is not a column name"):
            col(bad)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="is not SQL text"):
        expr(5)  # type: ignore[arg-type]


def test_strings_are_columns_by_exact_name_and_sql_otherwise() -> None:
    assert bind(as_expr("two words", SCHEMA), SCHEMA) == BoundColumn(10, "two words", INT64, nullable=True)
    assert bind(as_expr("a + 1", SCHEMA), SCHEMA) == bind(col("a") + 1, SCHEMA)
    assert bind(as_expr(5, SCHEMA), SCHEMA) == BoundLiteral(5, INT64)
    kept = col("a")
    assert as_expr(kept, SCHEMA) is kept


def test_numpy_scalars_are_literals() -> None:
    numpy = pytest.importorskip("numpy")
    assert bind(col("a") + numpy.int64(1), SCHEMA) == bind(col("a") + 1, SCHEMA)


def test_expected_types() -> None:
    assert bind(lit(None), SCHEMA, expected=INT64) == BoundLiteral(None, INT64)
    assert bind(lit(1), SCHEMA, expected=INT32) == BoundLiteral(1, INT32)
    assert bind(lit(1), SCHEMA, expected=FLOAT64) == BoundLiteral(1.0, FLOAT64)
    assert bind(col("n"), SCHEMA, expected=INT64).dtype == INT64
    with pytest.raises(SchemaError, match="`a` is of type int64: expected bool"):
        bind(col("a"), SCHEMA, expected=BOOL)
    with pytest.raises(SchemaError, match="`a` is of type int64: expected int32"):
        bind(col("a"), SCHEMA, expected=INT32)


@pytest.mark.parametrize(
    ("text", "nullable"),
    [("n", False), ("n + 1", False), ("n + a", True), ("a is null", False), ("a <=> 1", False), ("coalesce(a, 1)", False),
     ("coalesce(a, b)", True), ("case when a > 1 then 1 else 2 end", False), ("case when p then 1 end", True),
     ("greatest(a, 1)", False), ("n in (1, null)", True), ("cast(n as string)", False)],
)  # fmt: skip
def test_nullability(text: str, nullable: bool) -> None:
    assert bound(text).nullable is nullable


def test_bound_trees() -> None:
    tree = bound("a + 1 > n")
    assert tree.columns() == {0, 2}
    assert tree == BoundCall(
        "gt",
        (
            BoundCall("add", (BoundColumn(0, "a", INT64), BoundLiteral(1, INT64)), INT64),
            BoundCall("cast", (BoundColumn(2, "n", INT32, nullable=False),), INT64, nullable=False),
        ),
        BOOL,
    )
    assert pickle.loads(pickle.dumps(tree)) == tree  # noqa: S301 - our own
    assert to_sql(tree) == "a + 1 > n"
    assert to_sql(tree, explicit=True) == "a + CAST(1 AS BIGINT) > CAST(n AS BIGINT)"
    assert BoundLiteral(0.0, FLOAT64) != BoundLiteral(-0.0, FLOAT64)
    assert BoundLiteral(float("nan"), FLOAT64) == BoundLiteral(float("nan"), FLOAT64)


VALUES = [True, 5, -5, 2**62, 1.5, -1.5, -0.0, 0.0, 1e300, 1e-300, float("nan"), float("inf"), float("-inf"), "it's \\ \n 'x'",
          "", b"\x00\xff", dt.date(1, 1, 1), dt.datetime(2020, 2, 29, 1, 2, 3, 450), decimal.Decimal("-0.05"),
          decimal.Decimal("12345678901234567890.5"), 2**70]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("explicit", [False, True])
def test_literals_print_and_read_back(value: object, explicit: bool) -> None:
    tree = bind(lit(value), SCHEMA)
    assert bound(to_sql(tree, explicit=explicit)) == tree


@pytest.mark.slow
def test_sqlglot_is_not_imported_without_sql() -> None:
    code = (
        "import sys, tidemill.expressions.binding, tidemill.renderer.embedded.expressions.evaluator;"
        "assert 'sqlglot' not in sys.modules, 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code


def test_expression_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(ExpressionError("overflow", "a + 1", 3)))  # noqa: S301 - our own
    assert (str(error), error.reason, error.sql, error.row_index) == ("overflow in `a + 1`", "overflow", "a + 1", 3)


# Evaluation by example, in both evaluators.

ROW = (7, 2, 3, 1.5, decimal.Decimal("2.50"), " ab ", dt.datetime(2020, 1, 31, 10, 5, 6, 700_000), dt.date(2020, 1, 31),
       True, b"\x00\xff", -7, decimal.Decimal("1.5"))  # fmt: skip
NULLS = (None, None, 3, None, None, None, None, None, None, None, None, None)
MAX = 2**63 - 1
D = decimal.Decimal


def arrays(*rows: tuple[object, ...]) -> list[pa.Array]:
    return [pa.array([r[i] for r in rows], f.dtype.arrow) for i, f in enumerate(SCHEMA)]


EXAMPLES = [
    ("a / b", 3.5), ("a div b", 3), ("`two words` div b", -3), ("a % b", 1), ("`two words` % b", -1), ("-7.5D % 2", -1.5),
    ("a + 1 > b", True), ("d * d", D("6.2500")), ("big * big", D("2.250000")), ("d + 0.005", D("2.505")),
    ("cast(2.345 as decimal(5,2))", D("2.35")), ("cast(-2.345 as decimal(5,2))", D("-2.35")), ("abs(`two words`)", 7),
    ("cast(-1.9D as int)", -1), ("cast(2.5 as int)", 2), ("cast(' +12 ' as bigint)", 12), ("cast('1e3' as double)", 1000.0),
    ("cast(f as string)", "1.5"), ("cast(1e7 as string)", "1.0E7"), ("cast(1.5e-5 as string)", "1.5E-5"),
    ("cast(123456.5D as string)", "123456.5"), ("cast(1D as string)", "1.0"), ("cast(d as string)", "2.50"),
    ("cast(t as string)", "2020-01-31 10:05:06.7"), ("cast(day as string)", "2020-01-31"), ("cast(p as string)", "true"),
    ("cast(t as date)", dt.date(2020, 1, 31)), ("cast(day as timestamp)", dt.datetime(2020, 1, 31)),
    ("cast(' Yes ' as boolean)", True), ("cast('2020-01-31T10:00' as timestamp)", dt.datetime(2020, 1, 31, 10)),
    ("cast(0.1D as decimal(3,2))", D("0.10")), ("cast(p as int)", 1), ("cast(a as boolean)", True),
    ("upper('stra\u00dfe')", "STRASSE"), ("upper(s)", " AB "), ("lower('\u00c4B')", "\u00e4b"), ("length(s)", 4),
    ("length(raw)", 2), ("concat(s, 'x', s)", " ab x ab "), ("trim(s)", "ab"), ("ltrim(s)", "ab "), ("rtrim(s)", " ab"),
    ("substring('Spark SQL', 5, 3)", "k S"), ("substring('Spark SQL', -3, 2)", "SQ"), ("substring('Spark SQL', 0, 2)", "Sp"),
    ("substring('Spark SQL', -15, 8)", "Sp"), ("substring('Spark SQL', 5)", "k SQL"), ("substring('ab', 1, -1)", ""),
    ("s like '_a%'", True), ("'a\nb' like 'a_b'", True), ("'a%b' like 'a\\\\%b'", True), ("'axb' like 'a\\\\%b'", False),
    ("'a.c' like 'abc'", False), ("startswith(s, ' a')", True), ("endswith(s, 'b')", False), ("contains(s, 'ab')", True),
    ("least(a, b, null)", 2), ("greatest(a, b, null)", 7), ("cast(greatest(f, cast('NaN' as double)) as string)", "NaN"),
    ("least(f, cast('NaN' as double))", 1.5), ("cast('NaN' as double) = cast('NaN' as double)", True),
    ("cast('NaN' as double) > cast('Infinity' as double)", True), ("f < cast('NaN' as double)", True), ("-0.0D = 0.0D", True),
    ("cast('NaN' as double) in (1.0D, cast('NaN' as double))", True), ("a in (1, 7)", True), ("0.0D in (-0.0D, null)", True), ("a in (1, null)", None),
    ("a not in (1, null)", None), ("nullif(a, 7)", None), ("nullif(a, 8)", 7), ("p and null", None), ("not p and null", False),
    ("p or null", True), ("null <=> a", False), ("case when a > 100 then 1 / 0 else 2.0D end", 2.0),
    ("coalesce(a, 1 div 0)", 7), ("case when null then 1 when p then 2 end", 2), ("if(p, 1, 2)", 1),
    ("case a when 7 then 'x' end", "x"), ("case a when 8 then 'x' end", None), ("-n", -3), ("n % -1", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[t for t, _ in EXAMPLES])
def test_values(text: str, value: object) -> None:
    tree = bound(text)
    assert evaluate(tree, ROW) == value
    found = compile_scalar(tree)(arrays(ROW, ROW), 2)
    assert found.to_pylist() == [value, value]
    assert found.type == tree.dtype.arrow


@pytest.mark.parametrize("text", ["a + 1", "a / 0", "f % 0", "-a", "a < b", "a in (1)", "upper(s)", "cast(s as int)", "not p",
                                  "least(a, b)", "s like 'x'", "concat(s, 'x')", "s like null", "substring(s, null, 1)"])  # fmt: skip
def test_null_gives_null(text: str) -> None:
    tree = bound(text)
    assert evaluate(tree, NULLS) is None
    assert compile_scalar(tree)(arrays(NULLS), 1).to_pylist() == [None]


FAILURES = [
    ("a / 0", "division by zero in `a / 0`"), ("f / 0", "division by zero in `f / 0`"), ("a div 0", "division by zero in `a DIV 0`"),
    ("a % 0", "division by zero in `a % 0`"), ("f % 0", "division by zero in `f % 0`"), ("d / 0.0", "division by zero in `d / 0.0`"),
    (f"a + {MAX}", f"overflow in `a + {MAX}`"), (f"-a - {MAX - 6}", f"overflow in `-a - {MAX - 6}`"),
    (f"-{MAX} - 1 + 0 * a", f"overflow in `-{MAX} - 1`"), ("n + 2147483647", "overflow in `n + 2147483647`"),
    (f"a * {MAX}", f"overflow in `a * {MAX}`"), (f"n * {-(2**61)} - {2**61}", "overflow in"),
    ("-(n - 2147483647 - 4)", "overflow in `-(n - 2147483647 - 4)`"), ("abs(n - 2147483647 - 4)", "overflow in `ABS("),
    ("cast(a * 1000000000 as int)", "7000000000 does not fit int32 in `CAST(a * 1000000000 AS INT)`"),
    ("cast(1e30 as bigint)", "1e+30 does not fit int64"), ("cast(cast('NaN' as double) as int)", "nan does not fit int32"),
    ("cast(-9223372036854775808D as bigint)", "does not fit int64"), ("cast('-9223372036854775808' as bigint)", "does not fit int64"),
    ("cast('1.5' as int)", "'1.5' does not fit int32"), ("cast('0x1F' as int)", "'0x1F' does not fit int32"),
    ("cast(s as double)", "' ab ' does not fit float64 in `CAST(s AS DOUBLE)`"), ("cast(s as boolean)", "' ab ' does not fit bool"),
    ("cast('2020-02-30' as date) > day", "'2020-02-30' does not fit date"), ("cast('0000-01-01' as date)", "does not fit date"),
    ("cast('2020-01-01 25:00' as timestamp)", "does not fit timestamp"), ("cast(d as decimal(2,2))", "2.50 does not fit decimal(2,2)"),
    ("cast(a as decimal(3,3))", "7 does not fit decimal(3,3)"), ("cast('1e8' as decimal(9,1))", "'1e8' does not fit decimal(9,1)"),
    ("cast(cast('Infinity' as double) as decimal(9,1))", "inf does not fit decimal(9,1)"),
    ("cast(raw as string)", r"b'\x00\xff' does not fit string in `CAST(raw AS STRING)`"),
    ("big * 1000000000000000000.0 * 1000000000000000000.0 * 1000", "overflow in"), ("not p or 1 / 0 > 1", "division by zero in `1 / 0`"),
    ("p and a / 0 > 1", "division by zero in `a / 0`"), ("coalesce(a div 0, 1)", "division by zero in `a DIV 0`"),
    ("case when a / 0 > 1 then 1 else 2 end", "division by zero in `a / 0`"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[t for t, _ in FAILURES])
def test_rows_without_a_value(text: str, message: str) -> None:
    tree = bound(text)
    with pytest.raises(ExpressionError) as expected:
        evaluate(tree, ROW)
    assert message in str(expected.value)
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(tree)(arrays(NULLS, ROW, ROW), 3)
    assert str(caught.value) == str(expected.value)
    assert caught.value.row_index == (1 if evaluates(tree, NULLS) else 0)
    assert compile_scalar(tree)(arrays(), 0).to_pylist() == []


def evaluates(tree: Bound, row: tuple[object, ...]) -> bool:
    try:
        evaluate(tree, row)
    except ExpressionError:
        return False
    return True


def test_the_first_offending_row_is_named() -> None:
    tree = bind(expr("10 / x"), Schema.of({"x": "int64"}))
    values = [1] * 1000
    values[617] = values[800] = 0
    with pytest.raises(ExpressionError, match="division by zero in `10 / x`") as caught:
        compile_scalar(tree)([pa.array(values)], 1000)
    assert caught.value.row_index == 617


def test_columns_may_be_given_by_a_callable_that_is_asked_only_for_those_used() -> None:
    asked: list[int] = []

    def column(index: int) -> pa.Array:
        asked.append(index)
        return pa.array([1, 2])

    assert compile_scalar(bound("a + 1"))(column, 2).to_pylist() == [2, 3]
    assert asked == [0]
    assert compile_scalar(bound("1 + 1"))(column, 2).to_pylist() == [2, 2]


def test_a_branch_is_evaluated_only_for_its_rows() -> None:
    tree = bind(expr("case when x = 0 then -1 when y then 10 div x else x end"), Schema.of({"x": "int64", "y": "bool"}))
    columns = [pa.array([0, 5, 7, None, 2]), pa.array([True, True, None, True, False])]
    assert compile_scalar(tree)(columns, 5).to_pylist() == [-1, 2, 7, None, 2]
    tree = bind(expr("coalesce(x, 6 div y)"), Schema.of({"x": "int64", "y": "int64"}))
    assert compile_scalar(tree)([pa.array([1, None, None]), pa.array([0, 2, None])], 3).to_pylist() == [1, 3, None]


def test_string_results_keep_their_type_where_no_row_has_a_value() -> None:
    tree = bound("cast(s as int)")
    assert compile_scalar(tree)(arrays(NULLS), 1).type == INT32.arrow
    assert bound("s").dtype == STRING
