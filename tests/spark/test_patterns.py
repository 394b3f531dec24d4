r"""Patterns against Spark's: LIKE over all short patterns and texts, regular expressions against Java's, and their limits.

The kind of defect: an engine's own reading of patterns, and patterns that go on for ever on one engine alone.
"""

import itertools
import random

import pytest
from pyspark.sql import functions as F  # noqa: N812
from support.running import new_flow

import tidemill as tm
from tidemill.errors import ExpressionError, SchemaError, StepError
from tidemill.expressions.binding import bind
from tidemill.expressions.functions.patterns import like_complaint, matches_like
from tidemill.expressions.functions.regular_expressions import read_pattern
from tidemill.expressions.functions.searches import extracted, found, replaced
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.spark.scalars import native_sql
from tidemill.testing import all_at_once, check_equivalent

SCHEMA = Schema.of({"s": "string"})
LETTERS = "\\ab%_"
TEXTS = ["".join(t) for n in range(4) for t in itertools.product(LETTERS, repeat=n)]
LIKES = [p for n in range(5) for p in map("".join, itertools.product(LETTERS, repeat=n)) if not like_complaint(p)]


def answers(spark, texts, columns):
    """What Spark gives for each expression, a hundred in a select."""
    frame = spark.createDataFrame([(t,) for t in texts], "c0 string").coalesce(1).cache()
    found = []
    for k in range(0, len(columns), 100):
        rows = frame.select(*(c.alias(f"v{i}") for i, c in enumerate(columns[k : k + 100]))).collect()
        found += [list(values) for values in zip(*rows)]
    frame.unpersist()
    return found


def test_like(spark):
    trees = [bind(tm.col("s").like(p), SCHEMA) for p in LIKES]
    native = [(p, native_sql(t)) for p, t in zip(LIKES, trees)]
    assert {p.count("%") > 3 for p, text in native if text is None} == {True}
    native = [(p, text) for p, text in native if text is not None]
    for (pattern, _), values in zip(native, answers(spark, TEXTS, [F.expr(text) for _, text in native])):
        assert values == [matches_like(t, pattern) for t in TEXTS], pattern


@pytest.mark.parametrize(
    "where", [r"s like '%\\\\doc'", r"s not like '%\\\\doc'", r"s ilike '%\\\\DOC'", "s like '%a%a%a%a%a%a%b'"]
)
def test_engines_agree_on_like(spark, where):
    """The last one would take Java some 10^10 tries."""
    flow = new_flow()
    flow.output("out", flow.input("x", {"s": "string"}).filter(where))
    rows = [(r"C:\doc",), ("C:doc",), (r"\DOC",), (None,), ("a" * 400,), ("a" * 9 + "b",)]
    given = {"x": [(row, 0, 1) for row in rows]}
    check_equivalent(flow, given, engines=["embedded", "reference", tm.Spark(spark)], batchings=[all_at_once])


ONES = [
    "a",
    "b",
    "A",
    r"\n",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\s",
    r"\S",
    r"\W",
    r"\d",
    r"[^\s]",
    r"[a-c\n]",
    r"\r",
    "[A-b]",
    r"\.",
]


def pattern_of(dice, depth):
    def one():
        if depth and dice.random() < 0.4:
            return dice.choice(["(", "(", "(?:"]) + pattern_of(dice, depth - 1) + ")"
        return dice.choice(ONES) if dice.random() < 0.9 else dice.choice(["$", "^", r"\b"])

    def some():
        parts = [one() for _ in range(dice.randint(1, 3))]
        times = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "++"]
        return "".join(p if p in ("$", "^", r"\b") or dice.random() < 0.6 else p + dice.choice(times) for p in parts)

    return "|".join(some() for _ in range(dice.choice([1, 1, 2])))


def test_regular_expressions_are_javas(spark):
    """All that is left to RE2, on texts that end in the end of a line as well, which PCRE2 takes then."""
    dice = random.Random(3)
    texts = ["".join(dice.choices("aabbA\n\r _.\u2028", k=dice.randint(0, 7))) for _ in range(80)] + [
        "",
        "a\r\n",
        "\r\n",
        "ab\n",
    ]
    patterns = [dice.choice(["", "", "(?i)", "(?s)"]) + pattern_of(dice, 2) for _ in range(80)]
    asked = []
    for pattern in patterns:
        asked.append((F.regexp_like("c0", F.lit(pattern)), found(pattern), pattern))
        asked.append((F.regexp_replace("c0", pattern, "<$0>"), replaced(pattern, "<$0>"), pattern))
        for group in range(min(read_pattern(pattern).groups, 2) + 1):
            asked.append((F.regexp_extract("c0", pattern, group), extracted(pattern, group), (pattern, group)))
    proven = [(column, search, what) for column, search, what in asked if search.in_re2 is not None]
    assert len(proven) > 150
    for (_, search, what), values in zip(proven, answers(spark, texts, [column for column, _, _ in proven])):
        assert [search(t) for t in texts] == values, what


def test_the_limit_of_steps_names_the_row(spark):
    flow = new_flow()
    flow.output("out", flow.input("x", {"k": "int64", "s": "string"}).filter("s rlike '(?=(a|a)*b?$)[ab]'"))
    data = spark.createDataFrame([(1, "aab"), (2, "a" * 200_000 + "!")], "k bigint, s string")
    with pytest.raises(StepError, match="needs more than .* steps") as caught:
        tm.render(flow, spark, {"x": data}, in_driver=0)["out"].collect()
    assert caught.value.row[0] == 2
    assert caught.value.row[1].startswith("'aaaa")  # long texts are cut on their way to the driver, for Spark's logs
    assert len(str(caught.value)) < 4_500


def test_a_text_that_would_be_too_long(spark):
    flow = new_flow()
    flow.output("out", flow.input("x", {"s": "string"}).select(n="length(repeat(s, 100000000))"))
    data = spark.createDataFrame([("a" * 3,)], "s string")
    with pytest.raises(ExpressionError, match="would have more than 268,435,456 characters"):
        tm.render(flow, spark, {"x": data}, in_driver=0)["out"].collect()


def test_a_float_beyond_the_range_is_refused_by_spark_too(spark):
    with pytest.raises(SchemaError, match="beyond the range"):
        bind(expr("1e400"), SCHEMA)
    with pytest.raises(Exception, match="INVALID_NUMERIC_LITERAL_RANGE"):
        spark.sql("select 1e400").collect()
