"""LIKE and ILIKE of any or all of several patterns; the answers are those of Spark 4.3."""

import pytest

import tidemill as tm
from tidemill.errors import SqlError

TEXTS = ["ab", "ba", None, "xyz", "A%"]


def answers(condition, dialect):
    flow = tm.Dataflow()
    flow.input("t", {"s": "string", "a": int})
    flow.output("o", flow.sql(f"SELECT a, {condition} AS found FROM t", dialect=dialect))
    with flow.start() as run:
        run.insert("t", [(text, number) for number, text in enumerate(TEXTS)])
        run.advance()
        found = dict(iter(run.snapshot("o")))
        return [found[number] for number in range(len(TEXTS))]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s LIKE ANY ('a%', '%a')", [True, True, None, False, False]),
        ("s LIKE SOME ('a%')", [True, False, None, False, False]),
        ("s LIKE ALL ('a%', '%b')", [True, False, None, False, False]),
        ("s NOT LIKE ALL ('a%', '%a')", [False, False, None, True, True]),
        ("s NOT LIKE ANY ('a%', '%a')", [True, True, None, True, True]),
        ("NOT s LIKE ALL ('a%', '%b')", [False, True, None, True, True]),
        ("s LIKE ANY ('a%', NULL)", [True, None, None, None, None]),
        ("s NOT LIKE ALL ('a%', NULL)", [False, None, None, None, None]),
        ("s ILIKE ANY ('a%', 'X%')", [True, False, None, True, True]),
        ("s NOT ILIKE ALL ('a%', 'X%')", [False, True, None, False, False]),
        ("s NOT ILIKE ANY ('a%', NULL)", [None, True, None, True, None]),
    ],
)
def test_any_or_all_of_several_patterns(condition, expected):
    assert answers(condition, "spark") == expected
    assert answers(condition.replace("SOME", "ANY").replace("(", "(ARRAY[").replace(")", "])"), "postgres") == expected


@pytest.mark.parametrize(
    ("condition", "dialect", "said"),
    [
        ("s LIKE ANY (SELECT s FROM t)", "spark", r"as in LIKE ANY \('a%', 'b%'\)"),
        ("s LIKE ALL ()", "spark", r"as in LIKE ANY \('a%', 'b%'\)"),
        ("s LIKE ANY ('a', 'b')", "postgres", r"as in LIKE ANY \(ARRAY\['a%', 'b%'\]\)"),
        ("s LIKE ANY (ARRAY[])", "postgres", r"as in LIKE ANY \(ARRAY\['a%', 'b%'\]\)"),
        ("s LIKE ANY (['a%'])", "duckdb", "DuckDB's LIKE is of one pattern"),
        ("s LIKE 'a\\_'", "duckdb", "a backslash is no escape"),
    ],
)
def test_what_is_refused_is_said(condition, dialect, said):
    with pytest.raises(SqlError, match=said):
        answers(condition, dialect)
