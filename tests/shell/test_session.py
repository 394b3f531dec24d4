"""A session: what statements come to, that what fails leaves no trace, and that a database says the same."""

import datetime as dt

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.errors import RowError, SqlError, StateError, TidemillError
from tidemill.shell import once
from tidemill.shell.session import SqlSession

SHOP = """
    CREATE TABLE sales (id BIGINT PRIMARY KEY, item STRING, amount INT, price DOUBLE);
    CREATE VIEW large AS SELECT * FROM sales WHERE amount > 3;
    CREATE MATERIALIZED VIEW totals AS SELECT item, sum(amount) AS total FROM large GROUP BY item;
    INSERT INTO sales VALUES (1, 'tea', 4, 0.1), (2, 'tea', 5, NULL), (3, 'milk', 1, 2);
"""


def said(session, text):
    """Return what statements are answered with: lines, and rows or changes as tuples."""
    found = []
    for answer in session.execute(text):
        if answer.text:
            found.append(answer.text)
        if answer.table is not None:
            found.append(list(answer.table))
    return found


@pytest.fixture
def shop():
    session = SqlSession()
    said(session, SHOP)
    yield session
    session.close()


def rows(session, text):
    (found,) = said(session, text)
    return found


def test_a_query_is_of_this_moment(shop):
    assert rows(shop, "SELECT item, total FROM totals") == [("tea", 9)]
    said(shop, "DELETE FROM sales WHERE id = 1")
    assert rows(shop, "SELECT t.total, l.id FROM totals t JOIN large l USING (item)") == [(5, 2)]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "duckdb", "materialize", "risingwave"])
def test_the_present_time_in_a_query_is_the_clock_s(dialect, monkeypatch):
    moment = dt.datetime(2026, 3, 1, 12, 30, 0, 5)
    monkeypatch.setattr(once, "_present", lambda: moment)
    session = SqlSession(dialect)
    said(session, "CREATE TABLE t (id BIGINT PRIMARY KEY, ts TIMESTAMP)")
    said(session, "INSERT INTO t VALUES (1, now()), (2, TIMESTAMP '2026-02-28 12:00:00')")
    assert rows(session, "SELECT now(), current_timestamp AS c, current_date AS d") == [(moment, moment, moment.date())]
    recent = "SELECT id, ts < now() FROM t WHERE ts > now() - INTERVAL '1 day' AND date '2026-03-02' > current_date"
    assert rows(session, recent) == [(1, False)]
    assert rows(session, "SELECT max(n) FROM (SELECT now() AS n FROM t GROUP BY now()) s ORDER BY 1") == [(moment,)]
    said(session, "UPDATE t SET ts = now() - INTERVAL '1 hour' WHERE id = 2")
    assert rows(session, "SELECT ts FROM t WHERE id = 2") == [(moment - dt.timedelta(hours=1),)]
    with pytest.raises(SqlError, match="not supported"):
        said(session, "CREATE VIEW v AS SELECT now() AS n FROM t")
    said(session, "CREATE TABLE now (t TIMESTAMP NOT NULL); INSERT INTO now VALUES (TIMESTAMP '2026-03-01 12:00:00')")
    assert rows(session, "SELECT id FROM t WHERE ts > now()") == [(1,)]  # the table's, as views have it
    said(session, "CREATE VIEW w AS SELECT id FROM t WHERE ts > now()")
    assert rows(session, "SELECT id FROM w") == [(1,)]
    with pytest.raises(SqlError, match="w"):
        said(session, "DROP TABLE now")
    with pytest.raises(SqlError, match="not supported"):
        said(session, "SELECT now()")
    session.close()


@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "materialize"])
def test_an_age_is_that_of_today(dialect, monkeypatch):
    monkeypatch.setattr(once, "_present", lambda: dt.datetime(2026, 3, 1, 12, 30))
    session = SqlSession(dialect)
    assert rows(session, "SELECT age(TIMESTAMP '2025-01-30 06:00:00') AS a") == [((13, 1, 18 * 3_600_000_000),)]
    assert rows(session, "SELECT age(TIMESTAMP '2026-03-01') < INTERVAL '1 day' AS young") == [(True,)]
    with pytest.raises(SqlError, match="compare with now"):
        said(session, "CREATE TABLE t (ts TIMESTAMP); CREATE VIEW v AS SELECT age(ts) AS a FROM t")
    session.close()


def test_errors_of_the_present_time_point_to_it():
    session = SqlSession()
    with pytest.raises(SqlError, match=r"line 1, column 8") as error:
        said(session, "SELECT 1 + now()")
    assert "now()" in str(error.value)
    session.close()


def test_pivots_are_queries():
    session = SqlSession("duckdb")
    said(session, "CREATE TABLE t (a BIGINT, b BIGINT); INSERT INTO t VALUES (1, 2), (2, 3)")
    assert rows(session, "PIVOT t ON a IN (1, 2) USING sum(b)") == [(2, 3)]
    assert sorted(rows(session, "UNPIVOT t ON a, b")) == [("a", 1), ("a", 2), ("b", 2), ("b", 3)]
    session.close()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("id DESC", [3, 2, 1]),
        ("1", [1, 2, 3]),
        ("price", [2, 1, 3]),
        ("price NULLS LAST", [1, 3, 2]),
        ("price DESC", [3, 1, 2]),
        ("item, amount DESC", [3, 2, 1]),
        ("amount % 3, id DESC", [3, 1, 2]),
        ("id DESC LIMIT 2", [3, 2]),
        ("amount * -1 LIMIT 1", [2]),
    ],
)
def test_a_query_has_its_order(shop, order, expected):
    assert [r[0] for r in rows(shop, f"SELECT id FROM sales ORDER BY {order}")] == expected


def test_the_order_of_groups_and_unions(shop):
    text = "SELECT item, count(*) AS n FROM sales GROUP BY item ORDER BY sum(amount)"
    assert rows(shop, text) == [("milk", 1), ("tea", 2)]
    union = "SELECT id FROM sales UNION ALL SELECT amount FROM sales ORDER BY "
    assert rows(shop, union + "id DESC") == [(5,), (4,), (3,), (2,), (1,), (1,)]
    with pytest.raises(SqlError):
        said(shop, union + "price")


@pytest.mark.parametrize("dialect", ["spark", "duckdb", "postgres"])
def test_nulls_have_the_place_that_the_dialect_gives_them(dialect):
    session = SqlSession(dialect)
    said(session, "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (NULL), (2)")
    ascending, descending = ([r[0] for r in rows(session, f"SELECT a FROM t ORDER BY a{d}")] for d in ("", " DESC"))
    assert ascending == ([None, 1, 2] if dialect == "spark" else [1, 2, None])
    assert descending == ([None, 2, 1] if dialect == "postgres" else [2, 1, None])


def test_lists_and_structs_with_nulls_in_them_have_their_order():
    session = SqlSession("spark")
    said(session, "CREATE TABLE t (id BIGINT, a BIGINT, x DOUBLE)")
    said(
        session,
        "INSERT INTO t VALUES (1, NULL, 1.0), (2, 3, double('NaN')), (3, 3, NULL), (4, 3, 2.0), (5, NULL, NULL)",
    )
    for value in ("array(CAST(a AS DOUBLE), x)", "named_struct('a', a, 'x', x)"):
        found = [rows(session, f"SELECT id FROM t ORDER BY {value}{way}") for way in ("", " DESC")]
        assert found == [[(5,), (1,), (3,), (4,), (2,)], [(2,), (4,), (3,), (1,), (5,)]]


def test_a_view_made_later_is_loaded_and_told_of(shop):
    assert said(shop, "SUBSCRIBE totals") == ["totals:", [("tea", 9)]]
    said(shop, "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM sales")
    assert rows(shop, "SELECT n FROM n") == [(3,)]
    said(shop, "SUBSCRIBE n")
    assert said(shop, "INSERT INTO sales (id, item, amount) VALUES (4, 'tea', 10)") == [
        "INSERT 1",
        "totals:",
        [(("tea", 9), 3, -1), (("tea", 19), 3, 1)],
        "n:",
        [((3,), 3, -1), ((4,), 3, 1)],
    ]
    said(shop, "UNSUBSCRIBE totals")
    assert said(shop, "UPDATE sales SET amount = NULL WHERE item = 'tea'") == ["UPDATE 3"]
    assert said(shop, "SUBSCRIBE (SELECT max(amount) AS most FROM sales)")[1] == [(1,)]


def test_a_transaction_is_an_epoch_and_sees_itself(shop):
    said(shop, "SUBSCRIBE totals; BEGIN; DELETE FROM sales WHERE id = 1; INSERT INTO sales VALUES (5, 'tea', 7, 0)")
    assert rows(shop, "SELECT total FROM totals") == [(12,)]
    assert rows(shop, "SELECT id FROM sales WHERE item = 'tea'") == [(2,), (5,)]
    said(shop, "UPDATE sales SET amount = 8 WHERE id = 5")
    assert said(shop, "COMMIT") == ["COMMIT", "totals:", [(("tea", 9), 2, -1), (("tea", 13), 2, 1)]]
    said(shop, "BEGIN; DELETE FROM sales; ROLLBACK")
    assert rows(shop, "SELECT count(*) FROM sales") == [(3,)]


def test_merge(shop):
    said(shop, "CREATE TABLE news (id BIGINT, amount INT); INSERT INTO news VALUES (1, 100), (3, 0), (9, 9)")
    merge = """
        MERGE INTO sales AS s USING news AS n ON s.id = n.id
        WHEN MATCHED AND n.amount = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET amount = s.amount + n.amount, item = CASE WHEN s.id = 1 THEN 'one' END
        WHEN NOT MATCHED AND n.amount > 5 THEN INSERT (id, amount, item) VALUES (n.id, n.amount, NULL)
    """
    assert said(shop, merge) == ["MERGE 4"]
    assert rows(shop, "SELECT id, item, amount FROM sales") == [(1, "one", 104), (2, "tea", 5), (9, None, 9)]


def test_a_row_that_matches_several_is_refused(shop):
    said(shop, "CREATE TABLE news (id BIGINT, amount INT); INSERT INTO news VALUES (1, 100), (1, 101)")
    for text in (
        "UPDATE sales SET amount = news.amount FROM news WHERE sales.id = news.id",
        "MERGE INTO sales USING news ON sales.id = news.id WHEN MATCHED THEN UPDATE SET amount = news.amount",
    ):
        with pytest.raises(SqlError, match="several"):
            said(shop, text)
    said(shop, "DELETE FROM sales USING news WHERE sales.id = news.id")
    assert rows(shop, "SELECT id FROM sales") == [(2,), (3,)]


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("DECLARE n INT", "statement DECLARE is not supported: but DECLARE RECURSIVE VIEW", (1, 1)),
        ("DECLARE RECURSIVE VIEW sales(x INT)", "`sales` is there already", (1, 1)),
        ("DECLARE RECURSIVE VIEW v(x DECIMAL(99, 2))", "DECIMAL|precision|digits", (1, 28)),
        ("SELECT 1 AS a; SELCT 2", "statement SELCT: did you mean 'SELECT'", (1, 16)),
        ("INSERT INTO sales VALUES (1, 'x')", "2 values for 4 columns", (1, 27)),
        ("INSERT INTO sales (id, nope) VALUES (1, 2)", "no column nope", (1, 24)),
        ("INSERT INTO totals VALUES ('x', 1)", "only tables are changed", (1, 13)),
        ("INSERT INTO sails VALUES ('x', 1)", "no table sails: did you mean 'sales'", (1, 13)),
        ("UPDATE sales SET amount = 1, amount = 2", "set twice", (1, 30)),
        ("SELECT id FROM sales\nWHERE nope = 1", "no column `nope`", (2, 7)),
        ("DROP VIEW large", "is read by totals", (1, 1)),
        ("COMMIT", "no transaction", (1, 1)),
        ("SUBSCRIBE large", "a view that is not kept", (1, 11)),
        ("COPY sales FROM 'x' WITH (FORMAT json)", "FORMAT json is not there", (1, 17)),
        ("CREATE TABLE sales (a INT)", "is there already", (1, 14)),
        ("SELECT 'never ends", "not SQL as it is read here", None),
    ],
)
def test_errors_point_to_the_place_and_change_nothing(shop, text, message, place):
    before = rows(shop, "SELECT * FROM sales"), rows(shop, "SHOW TABLES")
    with pytest.raises(SqlError, match=message) as caught:
        said(shop, text)
    assert place is None or (caught.value.line, caught.value.column) == place
    assert (rows(shop, "SELECT * FROM sales"), rows(shop, "SHOW TABLES")) == before


def test_columns_hold_what_their_types_have(tmp_path):
    """300000 was a SMALLINT in the shell, "a" a CHAR(3): only the text of CREATE TABLE itself would have checked it."""
    session = SqlSession()
    said(session, "CREATE TABLE t (i SMALLINT PRIMARY KEY, c CHAR(3), v VARCHAR(2), r REAL)")
    said(session, "INSERT INTO t VALUES (1, 'a', 'xy  ', 0.1), (2, 'abc  ', 'x ', 2)")
    said(session, "CREATE MATERIALIZED VIEW m AS SELECT c || '.' AS c, v FROM t")
    held = [(1, "a  ", "xy", 0.10000000149011612), (2, "abc", "x ", 2.0)]
    for text, reason in (
        ("INSERT INTO t VALUES (300000, 'a', 'x', 1)", "300000 does not fit smallint"),
        ("UPDATE t SET v = 'xyz' WHERE i = 1", "'xyz' does not fit varchar"),
        ("MERGE INTO t USING (SELECT 2 AS j) s ON i = j WHEN MATCHED THEN UPDATE SET c = 'long'", "fit char"),
    ):
        with pytest.raises(TidemillError, match=reason):
            said(session, text)
    assert rows(session, "SELECT * FROM t") == held
    assert rows(session, "SELECT * FROM m") == [("a  .", "xy"), ("abc.", "x ")]
    said(session, f"COPY t TO '{tmp_path / 't.parquet'}'")
    assert said(session, "UPDATE t SET c = 'b' WHERE c = 'a  '; DELETE FROM t WHERE c = 'abc'") == [
        "UPDATE 1",
        "DELETE 1",
    ]
    assert rows(session, "SELECT c FROM t") == [("b  ",)]
    said(session, f"DELETE FROM t; COPY t FROM '{tmp_path / 't.parquet'}'")
    assert rows(session, "SELECT * FROM t") == held
    session.close()


@pytest.mark.parametrize(
    "text", ["CREATE TABLE t (c CHAR(3))", "SELECT '1'::char(3) AS x", "CREATE VIEW v AS SELECT 'a'::char(3) AS x"]
)
def test_chars_are_of_scripts(text):
    session = SqlSession("postgres")
    with pytest.raises(SqlError, match="is of scripts, and not of the shell"):
        said(session, text)
    assert not session.definitions
    assert said(session, "CREATE TABLE t (c VARCHAR(3))") == ["CREATE TABLE t"]
    session.close()


def test_a_step_that_fails_is_none(shop):
    said(shop, "CREATE MATERIALIZED VIEW quotients AS SELECT id, 12 / amount AS q FROM sales")
    for text in ("INSERT INTO sales VALUES (8, 'x', 0, 0)", "UPDATE sales SET amount = 0"):
        with pytest.raises(TidemillError, match="division by zero"):
            said(shop, text)
    with pytest.raises(RowError):
        said(shop, "INSERT INTO sales VALUES (8, 'x', 1.5, 0)")
    assert rows(shop, "SELECT count(*), sum(q) FROM quotients") == [(3, 12 / 4 + 12 / 5 + 12)]
    with pytest.raises(TidemillError, match="division by zero"):
        said(shop, "CREATE MATERIALIZED VIEW bad AS SELECT 1 / (amount - amount) AS x FROM sales")
    assert [r[0] for r in rows(shop, "SHOW TABLES")] == ["sales", "large", "totals", "quotients"]
    said(shop, "INSERT INTO sales VALUES (8, 'x', 1, 0)")


def test_files(shop, tmp_path):
    for file, options in (("a.parquet", ""), ("b.csv", ""), ("c.csv", " WITH (HEADER false, DELIMITER ';')")):
        assert said(shop, f"COPY sales TO '{tmp_path / file}'{options}") == ["COPY 3"]
        session = SqlSession()
        said(session, "CREATE TABLE sales (id BIGINT PRIMARY KEY, item STRING, amount INT, price DOUBLE)")
        assert said(session, f"COPY sales FROM '{tmp_path / file}'{options}") == ["COPY 3"]
        assert rows(session, "SELECT * FROM sales") == rows(shop, "SELECT * FROM sales")
    said(shop, f"COPY (SELECT item FROM sales WHERE id = 1) TO '{tmp_path / 'd.parquet'}'")
    assert pq.read_table(tmp_path / "d.parquet").to_pylist() == [{"item": "tea"}]


def test_saved_and_loaded(shop, tmp_path):
    shop.save(tmp_path / "shop")
    with pytest.raises(StateError, match="not there yet"):
        shop.save(tmp_path / "shop")
    other = SqlSession()
    other.load(tmp_path / "shop")
    for text in ("SHOW TABLES", "SELECT * FROM sales", "SELECT * FROM totals"):
        assert rows(other, text) == rows(shop, text)
    with pytest.raises(StateError, match="already"):
        other.load(tmp_path / "shop")
    with pytest.raises(StateError, match="expected a folder that was saved"):
        SqlSession().load(tmp_path / "nowhere")


ODD = "SELECT a AS x, b AS y FROM edges UNION SELECT e.x, edges.b FROM even e JOIN edges ON e.y = edges.a"
EVEN = "SELECT odd.x, edges.b AS y FROM odd JOIN edges ON odd.y = edges.a"


@pytest.fixture(params=["spark", "postgres", "duckdb"])
def paths(request):
    """A session of edges, and of two recursive views that wait for the second of them."""
    session = SqlSession(request.param)
    said(session, "CREATE TABLE edges (a INT, b INT); INSERT INTO edges VALUES (1, 2), (2, 3), (3, 4)")
    declared = "DECLARE RECURSIVE VIEW odd (x INT, y INT); DECLARE RECURSIVE VIEW even (x INT, y INT)"
    both = "CREATE VIEW odd and CREATE VIEW even"
    assert said(session, declared) == [
        "DECLARE RECURSIVE VIEW odd waits for CREATE VIEW odd",
        f"DECLARE RECURSIVE VIEW even waits for {both}",
    ]
    assert said(session, f"CREATE VIEW odd AS {ODD}") == ["CREATE VIEW odd waits for CREATE VIEW even"]
    yield session
    session.close()


def test_recursive_views_are_made_with_the_last_one(paths):
    assert said(paths, "CREATE VIEW ends AS SELECT y, count(*) AS n FROM odd GROUP BY y") == [
        "CREATE VIEW ends waits for CREATE VIEW even"
    ]
    assert said(paths, f"CREATE MATERIALIZED VIEW even AS {EVEN}") == [
        "CREATE MATERIALIZED VIEW even: odd, ends, even are made"
    ]
    assert rows(paths, "SELECT * FROM even") == [(1, 3), (2, 4)]
    assert rows(paths, "SELECT ends.y, n FROM ends LEFT JOIN odd ON odd.x = ends.y WHERE odd.x IS NULL") == [(4, 2)]
    assert said(paths, "SUBSCRIBE even; INSERT INTO edges VALUES (4, 5)")[-1] == [((1, 5), 3, 1), ((3, 5), 3, 1)]
    said(paths, "BEGIN; DELETE FROM edges WHERE a = 4")
    assert rows(paths, "SELECT odd.x, even.y FROM odd JOIN even ON odd.x = even.x WHERE odd.y = 2") == [(1, 3)]
    assert said(paths, "COMMIT")[-1] == [((1, 5), 4, -1), ((3, 5), 4, -1)]
    said(paths, "CREATE VIEW longer AS SELECT * FROM even")
    with pytest.raises(SqlError, match="`odd, even, ends` is read by longer: drop these first"):
        said(paths, "DROP VIEW odd")
    assert said(paths, "DROP VIEW longer; DROP VIEW odd") == ["DROP VIEW longer", "DROP VIEW odd, even, ends"]
    assert rows(paths, "SHOW TABLES") == [("edges", "table", 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM odd", "view `odd` waits for CREATE VIEW even"),
        ("SUBSCRIBE odd", "view `odd` waits for CREATE VIEW even"),
        ("SUBSCRIBE SELECT * FROM even", "view `even` waits for CREATE VIEW even"),
        ("EXPLAIN SELECT * FROM even", "view `even` waits for CREATE VIEW even"),
        ("DESCRIBE odd", "view `odd` waits for CREATE VIEW even"),
        ("CREATE TABLE odd (a INT)", "view `odd` waits for CREATE VIEW even"),
        ("DECLARE RECURSIVE VIEW odd (x INT)", "`odd` is there already"),
        (f"CREATE VIEW odd AS {ODD}", "`odd` is there already"),
        ("CREATE VIEW even AS SELECT", "."),
        ("CREATE VIEW even AS SELECT x, nope FROM odd", "no column `nope`"),
        ("BEGIN; DECLARE RECURSIVE VIEW v (x INT)", "outside of transactions"),
    ],
)
def test_what_waits_is_named_and_stays_as_it_is(paths, text, message):
    before = rows(paths, "SHOW TABLES")
    assert before[1:] == [("odd", "waiting view", None), ("even", "declared view", None)]
    with pytest.raises(SqlError, match=message):
        said(paths, text)
    if paths.in_transaction:
        said(paths, "ROLLBACK")
    assert rows(paths, "SHOW TABLES") == before
    assert rows(paths, "WITH odd AS (SELECT 1 AS z) SELECT * FROM odd") == [(1,)]
    said(paths, f"CREATE VIEW even AS {EVEN}")
    assert rows(paths, "SELECT count(*) FROM odd") == [(4,)]


def test_what_waits_can_be_forgotten(paths):
    assert said(paths, "DROP VIEW even") == ["DROP VIEW odd, even"]
    assert said(paths, "CREATE VIEW even AS SELECT 1 AS a") == ["CREATE VIEW even"]


def test_recursive_views_are_saved_waiting_and_made(paths, tmp_path):
    for folder in ("waiting", "made"):
        paths.save(tmp_path / folder)
        other = SqlSession(paths.dialect_name)
        other.load(tmp_path / folder)
        assert rows(other, "SHOW TABLES") == rows(paths, "SHOW TABLES")
        if folder == "waiting":
            for session in (other, paths):
                said(session, f"CREATE VIEW even AS {EVEN}")
        said(other, "INSERT INTO edges VALUES (4, 5)")
        assert rows(other, "SELECT * FROM even") == [(1, 3), (1, 5), (2, 4), (3, 5)]
        other.close()


def test_errors_of_recursive_views_point_to_their_lines():
    session = SqlSession()
    text = "CREATE TABLE t (a INT);\n\nDECLARE RECURSIVE VIEW v (x INT); DECLARE RECURSIVE VIEW w (x INT);\n"
    text += "CREATE VIEW v AS SELECT nope FROM t;  CREATE VIEW w AS SELECT x FROM v"
    with pytest.raises(SqlError, match="no column `nope`") as caught:
        said(session, text)
    assert (caught.value.line, caught.value.column) == (4, 25)


VALUES = st.one_of(st.none(), st.integers(-2, 3)).map(lambda v: "NULL" if v is None else str(v))
CONDITIONS = st.sampled_from(
    ["a = 1", "a > b", "b IS NULL", "a + 1 = b OR a IS NULL", "TRUE", "a IN (SELECT x FROM u)"]
)


@st.composite
def scripts(draw):
    """Statements of tables t and u, which may have copies of rows and NULLs."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["insert", "insert", "into u", "update", "delete", "select", "merge"]))
        pairs = draw(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3))
        written = ", ".join(f"({a}, {b})" for a, b in pairs)
        condition = draw(CONDITIONS)
        found.append(
            {
                "insert": f"INSERT INTO t VALUES {written}",
                "into u": f"INSERT INTO u (y, x) VALUES {written}",
                "update": f"UPDATE t SET b = a, a = {draw(VALUES)} WHERE {condition}",
                "delete": f"DELETE FROM t WHERE {condition}",
                "select": f"INSERT INTO t SELECT y, x FROM u WHERE x > {draw(st.integers(-2, 3))}",
                "merge": "MERGE INTO t USING (SELECT DISTINCT x FROM u) s ON t.a = s.x WHEN MATCHED AND b IS NULL THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET b = s.x WHEN NOT MATCHED THEN INSERT VALUES (s.x, 7)",
            }[kind]
        )
    if draw(st.booleans()):
        start = draw(st.integers(0, len(found)))
        found = [*found[:start], "BEGIN", *found[start:], draw(st.sampled_from(["COMMIT", "ROLLBACK"]))]
    return found


TABLES = "CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (x INTEGER, y INTEGER);"
VIEW = "SELECT a, count(*) AS n, sum(b) AS total FROM t LEFT JOIN u ON t.a = u.x GROUP BY a"


@pytest.mark.slow
@given(scripts())
@examples(60)
def test_a_database_says_the_same(script):
    session = SqlSession("duckdb")
    said(session, f"{TABLES} CREATE MATERIALIZED VIEW v AS {VIEW}")
    with duckdb.connect() as judge:
        judge.execute(f"{TABLES} CREATE VIEW v AS {VIEW}")
        for statement in script:
            judge.execute(statement)
            said(session, statement)
            query = "SELECT 't', a, b, 0 FROM t UNION ALL SELECT 'u', x, y, 0 FROM u UNION ALL SELECT 'v', a, n, total FROM v"
            expected = sorted(judge.execute(query).fetchall(), key=repr)
            assert sorted(rows(session, query), key=repr) == expected, statement
    session.close()


def test_copies_of_a_row_are_all_updated():
    session = SqlSession()
    said(session, "CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    assert said(session, "UPDATE t SET a = a + 1 WHERE b = 'x'") == ["UPDATE 2"]
    assert rows(session, "SELECT * FROM t") == [(2, "x"), (2, "x"), (2, "y")]


def test_columns_of_a_query_that_is_inserted_may_have_one_name():
    session = SqlSession()
    said(session, "CREATE TABLE t (a INT, b INT); CREATE TABLE u (g INT); INSERT INTO u VALUES (2), (1)")
    said(
        session,
        "INSERT INTO t SELECT g, g FROM u; INSERT INTO t (b, a) WITH w AS (SELECT 3 AS g) SELECT w.g, w.g FROM w",
    )
    said(session, "INSERT INTO t SELECT u.g, v.g FROM u, u AS v ORDER BY u.g DESC, v.g LIMIT 1")
    assert said(session, "SELECT * FROM t ORDER BY a, b") == [[(1, 1), (2, 1), (2, 2), (3, 3)]]
    for text, message in [
        ("INSERT INTO t SELECT g FROM u", "1 values for 2 columns"),
        ("INSERT INTO t SELECT g, h FROM u", "no column `h`"),
    ]:
        with pytest.raises(SqlError, match=message) as raised:
            said(session, text)
        assert (raised.value.line, raised.value.column) == (
            1,
            text.index("SELECT" if "1 values" in message else "h") + 1,
        )


def test_words_in_quotes_are_no_clauses():
    session = SqlSession()
    said(session, "CREATE TABLE t (a INT, `where` STRING); INSERT INTO t VALUES (1, 'WHERE'), (2, 'SET')")
    said(session, "UPDATE t SET `where` = 'FROM' WHERE `where` = 'WHERE'")
    assert rows(session, "SELECT * FROM t ORDER BY `where` DESC") == [(2, "SET"), (1, "FROM")]


def test_a_row_that_several_cases_of_merge_are_about_is_refused():
    session = SqlSession()
    said(session, "CREATE TABLE t (id INT, v INT); CREATE TABLE s (id INT, f STRING, v INT)")
    said(session, "INSERT INTO t VALUES (1, 10), (2, 20); INSERT INTO s VALUES (1, 'u', 5), (1, 'd', 6)")
    merge = """MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.f = 'd' THEN DELETE
        WHEN MATCHED AND s.f = 'u' THEN UPDATE SET v = s.v"""
    with pytest.raises(SqlError, match="matches several rows"):
        said(session, merge)
    assert rows(session, "SELECT * FROM t") == [(1, 10), (2, 20)]


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE sales SET id = 7",
        "UPDATE sales SET id = 2 WHERE id = 1",
        "INSERT INTO sales (id) VALUES (8), (8)",
        "MERGE INTO sales USING (VALUES (8), (8)) AS n (i) ON id = i WHEN NOT MATCHED THEN INSERT (id) VALUES (i)",
    ],
)
def test_no_statement_gives_two_rows_one_key(shop, text):
    before = rows(shop, "SELECT * FROM sales")
    with pytest.raises(SqlError, match="key"):
        said(shop, text)
    assert rows(shop, "SELECT * FROM sales") == before
    said(shop, "UPDATE sales SET id = 4 - id")  # 3, 2, 1
    assert rows(shop, "SELECT id, amount FROM sales") == [(1, 1), (2, 5), (3, 4)]
    said(shop, "INSERT INTO sales (id, amount) VALUES (1, 9)")  # in the place of the row that has it
    assert rows(shop, "SELECT id, amount FROM sales") == [(1, 9), (2, 5), (3, 4)]
