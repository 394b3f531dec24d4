"""WITH MUTUALLY RECURSIVE and WITH RECURSIVE: fixed points that are kept up to date, limits, and what is refused."""

import pytest

import tidemill as tm
from tidemill.sql.dialects import DIALECTS

EDGES = [(1, 2), (2, 3), (3, 4)]


def answers(text, *changes, dialect="materialize"):
    """What a query holds after each batch of edges: (inserted, deleted)."""
    flow = tm.Dataflow()
    flow.input("edges", {"a": "int64", "b": "int64"})
    flow.output("o", flow.sql(text, dialect))
    found = []
    with flow.start() as run:
        for inserted, deleted in changes:
            run.insert("edges", inserted)
            run.delete("edges", deleted)
            run.advance()
            found.append(sorted(run.snapshot("o")))
    return found


REACH = """
WITH MUTUALLY RECURSIVE
    reach (a bigint, b bigint) AS (
        SELECT * FROM edges
        UNION
        SELECT edges.a, reach.b FROM edges, reach WHERE edges.b = reach.a
    )
SELECT * FROM reach
"""


def test_reachability_loses_a_cycle_that_only_supports_itself():
    first, closed, cut = answers(REACH, (EDGES, []), ([(4, 1)], []), ([], [(1, 2), (2, 3)]))
    assert first == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
    assert closed == [(a, b) for a in (1, 2, 3, 4) for b in (1, 2, 3, 4)]
    assert cut == [(3, 1), (3, 4), (4, 1)]


def test_bindings_see_the_most_recent_contents_of_each_other():
    text = """
    WITH MUTUALLY RECURSIVE
        odd_path (a bigint, b bigint) AS (
            SELECT * FROM edges
            UNION
            SELECT edges.a, even_path.b FROM edges, even_path WHERE edges.b = even_path.a
        ),
        even_path (a bigint, b bigint) AS (
            SELECT edges.a, odd_path.b FROM edges, odd_path WHERE edges.b = odd_path.a
            UNION
            SELECT path1.a, path2.b FROM odd_path path1, odd_path path2 WHERE path1.b = path2.a
        )
    SELECT 'odd' AS kind, a, b FROM odd_path UNION ALL SELECT 'even', a, b FROM even_path
    """
    (found,) = answers(text, (EDGES, []))
    assert found == [
        ("even", 1, 3), ("even", 2, 4), ("odd", 1, 2), ("odd", 1, 4), ("odd", 2, 3), ("odd", 3, 4),
    ]  # fmt: skip


def test_sequence_and_not_at_once():
    text = """
    WITH MUTUALLY RECURSIVE
        one (x bigint) AS (SELECT a FROM edges),
        two (x bigint) AS (SELECT * FROM one),
        three (x bigint) AS (SELECT * FROM one EXCEPT ALL SELECT * FROM two)
    SELECT * FROM three
    """
    assert answers(text, (EDGES, [])) == [[]]


UP = "up (i bigint) AS (SELECT 1 UNION SELECT i + 1 FROM up WHERE i < 3) SELECT * FROM up"


def test_limits():
    assert answers(f"WITH MUTUALLY RECURSIVE (RECURSION LIMIT 4) {UP}", ([], [])) == [[(1,), (2,), (3,)]]
    assert answers(f"WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 2) {UP}", ([], [])) == [[(1,), (2,)]]
    with pytest.raises(tm.errors.IterationLimitError, match="'up' still changed in iteration 3"):
        answers(f"WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3) {UP}", ([], []))


def test_aggregates_windows_and_nested_blocks_inside():
    text = """
    WITH MUTUALLY RECURSIVE
        far (a bigint, most bigint) AS (
            SELECT a, max(b) FROM (
                SELECT * FROM edges UNION ALL SELECT edges.a, far.most FROM edges JOIN far ON edges.b = far.a
            ) q GROUP BY a
        ),
        placed (a bigint, place bigint) AS (SELECT a, row_number() OVER (ORDER BY most, a) FROM far),
        again (a bigint, b bigint) AS (
            WITH MUTUALLY RECURSIVE
                back (a bigint, b bigint) AS (
                    SELECT b, a FROM edges UNION SELECT edges.b, back.b FROM edges, back WHERE edges.a = back.a
                )
            SELECT back.a, placed.place FROM back, placed WHERE back.b = placed.a
        )
    SELECT * FROM again
    """
    (found,) = answers(text, (EDGES, []))
    assert found == [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)]


def test_a_binding_hides_a_table_and_assigns_numbers():
    text = "WITH MUTUALLY RECURSIVE edges (a int, b decimal(5, 1)) AS (SELECT 1, 2.25 UNION SELECT a, b FROM edges) "
    flow = tm.Dataflow()
    flow.input("edges", {"a": "int64", "b": "int64"})
    made = flow.sql(f"{text} SELECT * FROM edges", "materialize")
    assert [str(f.dtype) for f in made.schema] == ["int32", "decimal(5,1)"]


def test_with_recursive_counts_copies():
    text = (
        "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM edges UNION ALL SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a) "
    )
    (found,) = answers(f"{text} SELECT * FROM r", ([(1, 2), (1, 3), (2, 4), (3, 4)], []), dialect="spark")
    assert found == [(1, 2), (1, 3), (1, 4), (1, 4), (2, 4), (3, 4)]
    with pytest.raises(tm.errors.IterationLimitError, match="letrec 'r'"):
        answers("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", ([], []))


@pytest.mark.parametrize(
    "text, reason",
    [
        # what the design of this syntax shows as its first example, in which a comma is too many
        (REACH.replace(")\nSELECT", "),\nSELECT"), "nothing stands beside a comma"),
        (REACH.replace("FROM reach\n", "FROM path1\n"), "no table `path1`"),
        (REACH.replace("b bigint)", "b bigint, c bigint)"), "binding `reach` has 3 columns, and its query 2"),
        (
            "WITH MUTUALLY RECURSIVE x (a text) AS (SELECT a FROM edges) SELECT * FROM x",
            "column `a` is declared string, and its query gives int64",
        ),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT max(n) FROM r) SELECT * FROM r", "reads itself below group"),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT x.n FROM r x, r y) SELECT * FROM r", "more than once"),
        ("WITH RECURSIVE r(n) AS (SELECT n FROM r) SELECT * FROM r", "is no UNION"),
        (
            "SELECT (WITH MUTUALLY RECURSIVE x (i bigint) AS (SELECT edges.a) SELECT max(i) FROM x) m FROM edges",
            "reads columns of a query around it",
        ),
    ],
)
def test_refused(text, reason):
    with pytest.raises(tm.errors.SqlError, match=reason) as caught:
        answers(text, ([], []))
    assert caught.value.line


def test_declared_views_are_the_fixed_points_of_their_sets():
    text = """
        DECLARE RECURSIVE VIEW closure(x INT, y INT);
        CREATE TABLE edges(x INT, y INT);
        CREATE LOCAL VIEW step(a, b) AS SELECT e.x, closure.y FROM edges e JOIN closure ON e.y = closure.x;
        CREATE MATERIALIZED VIEW closure AS (SELECT * FROM edges) UNION ALL (SELECT * FROM step);
        CREATE MATERIALIZED VIEW n AS SELECT x, count(*) AS n FROM closure GROUP BY x;
        CREATE MATERIALIZED VIEW steps AS SELECT count(*) AS n FROM step;
    """
    flow = tm.Dataflow.from_sql(text)
    with flow.start() as run:
        run.insert("edges", [(0, 1), (1, 2), (2, 0)])
        run.advance()
        assert sorted(run.snapshot("n")) == [(0, 3), (1, 3), (2, 3)]
        assert list(run.snapshot("steps")) == [(9,)]
        run.delete("edges", [(2, 0)])
        run.advance()
        assert sorted(run.snapshot("closure")) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_declared_views_are_in_every_dialect(dialect):
    """PostgreSQL's family took what follows DECLARE as the text of a command: "statement DECLARE is not supported"."""
    text = """
        CREATE TABLE e(x INT, y INT);
        DECLARE RECURSIVE VIEW v(x INT, y INT);
        CREATE MATERIALIZED VIEW v AS SELECT * FROM e UNION SELECT v.x, e.y FROM v JOIN e ON v.y = e.x;
    """
    with tm.Dataflow.from_sql(text, dialect=dialect).start() as run:
        run.insert("e", [(0, 1), (1, 2)])
        run.advance()
        assert sorted(run.snapshot("v")) == [(0, 1), (0, 2), (1, 2)]


def test_declared_views_read_each_other_in_one_loop():
    text = """
        CREATE TABLE e(x INT, y INT);
        DECLARE RECURSIVE VIEW odd(x INT, y INT);
        DECLARE RECURSIVE VIEW even(x INT, y INT);
        CREATE MATERIALIZED VIEW odd AS SELECT x, y FROM e UNION SELECT even.x, e.y FROM even JOIN e ON even.y = e.x;
        CREATE MATERIALIZED VIEW even AS SELECT odd.x, e.y FROM odd JOIN e ON odd.y = e.x;
    """
    flow = tm.Dataflow.from_sql(text)
    updates = {"e": [((0, 1), 0, 1), ((1, 2), 0, 1), ((2, 3), 0, 1), ((1, 2), 1, -1), ((1, 3), 1, 1), ((3, 0), 2, 1)]}
    tm.testing.check_equivalent(flow, updates, engines=["reference", "embedded"])
    with flow.start() as run:
        run.insert("e", [(0, 1), (1, 2), (2, 3)])
        run.advance()
        assert sorted(run.snapshot("odd")) == [(0, 1), (0, 3), (1, 2), (2, 3)]
        assert sorted(run.snapshot("even")) == [(0, 2), (1, 3)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("declare recursive view v(n int); create view w as select 1 as n", "view `v` is declared, and never made"),
        ("declare recursive view v(n int); create view w as select 1 as n", "write CREATE VIEW v AS ... behind it"),
        ("declare recursive view v(n int); declare recursive view v(n int)", "view `v` is declared twice"),
        (
            "declare recursive view v(n int); create view a as select n from v; create view A as select n from v",
            "view `a` is made twice: give one of them another name",
        ),
        (
            "declare recursive view v(n int); create view v as select 'x' as n",
            "`n` is declared int32, and its query gives",
        ),
        ("declare recursive view v(n int); create view v(m) as select n from v", "are named where it is declared"),
        ("declare recursive view v; create view v as select 1 as n", "not SQL as it is read here"),
        ("declare n int", "statement DECLARE is not supported"),
    ],
)
def test_what_is_declared_wrong_is_refused(text, reason):
    with pytest.raises(tm.errors.SqlError, match=reason):
        tm.Dataflow().sql(text)
