"""The same ten results said in SQL, for DuckDB: an independent computation, and something to measure against."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from tidemill.demo.script import FlightChange

_DELAYS: Final = """count(*) AS flights, count(*) FILTER (dep_delay IS NULL) AS cancelled,
    count(*) FILTER (dep_delay >= 15) AS late, avg(dep_delay) AS mean_delay"""

QUERIES: Final = {
    "carriers": f"SELECT airline, month, {_DELAYS} FROM flights JOIN airlines USING (carrier) GROUP BY ALL",  # noqa: S608 - no user's text
    "aircraft": f"""
        SELECT manufacturer, CASE WHEN year IS NULL THEN 'unknown' WHEN year > 2008 THEN 'under 5'
            WHEN year > 1998 THEN '5 to 14' ELSE '15 and over' END AS age, {_DELAYS}
        FROM flights JOIN planes USING (tailnum) GROUP BY ALL""",  # noqa: S608
    "weather": f"""
        SELECT origin, CASE WHEN visib < 1 THEN 'fog' WHEN precip > 0 THEN 'rain' WHEN wind_speed >= 20 THEN 'wind'
            ELSE 'fair' END AS sky, {_DELAYS}
        FROM flights JOIN weather USING (origin, time_hour) GROUP BY ALL""",  # noqa: S608
    "routes": """
        WITH routes AS (
            SELECT origin, coalesce(airport, dest) AS "to", count(arr_delay) AS flights, avg(arr_delay) AS mean_delay
            FROM flights LEFT JOIN airports ON dest = faa GROUP BY ALL HAVING count(arr_delay) >= 30)
        SELECT * FROM routes
        QUALIFY row_number() OVER (PARTITION BY origin ORDER BY mean_delay DESC, "to") <= 5""",
    "chains": """
        WITH RECURSIVE departed AS (
            SELECT id, tailnum, day, scheduled, dep_delay >= 15 AS late
            FROM flights WHERE tailnum IS NOT NULL AND dep_delay IS NOT NULL),
        moments AS (
            SELECT *, lag(scheduled) OVER aircraft AS before, lag(day) OVER aircraft AS day_before
            FROM (SELECT DISTINCT tailnum, day, scheduled FROM departed)
            WINDOW aircraft AS (PARTITION BY tailnum ORDER BY scheduled)),
        links AS (
            SELECT e.id AS earlier, l.id AS later
            FROM departed AS l
            JOIN moments AS m ON m.tailnum = l.tailnum AND m.scheduled = l.scheduled AND m.day - m.day_before <= 1
            JOIN departed AS e ON e.tailnum = l.tailnum AND e.scheduled = m.before
            WHERE e.late AND l.late),
        chains AS (
            SELECT id, id AS chain, 1::BIGINT AS length
            FROM departed WHERE late AND id NOT IN (SELECT later FROM links)
            UNION
            SELECT later, chain, length + 1 FROM chains JOIN links ON id = earlier)
        SELECT * FROM chains""",
    "lengths": """
        SELECT length, count(*) AS chains
        FROM (SELECT chain, max(length) AS length FROM out_chains GROUP BY chain) GROUP BY length""",
    "longest": """
        SELECT id, chain, length, tailnum, manufacturer, model, airline, carrier, flight, day, sched_dep_time, origin,
            dest, dep_delay
        FROM out_chains JOIN flights USING (id) JOIN airlines USING (carrier) LEFT JOIN planes USING (tailnum)
        WHERE chain IN (SELECT chain FROM out_chains WHERE length = (SELECT max(length) FROM out_chains))""",
    "inherited": """
        SELECT carrier, count(*) FILTER (before >= 15), count(*) FILTER (before < 15), count(*) FILTER (before IS NULL)
        FROM (
            SELECT carrier, dep_delay,
                lag(dep_delay) OVER (PARTITION BY tailnum, day ORDER BY scheduled, id) AS before
            FROM flights WHERE tailnum IS NOT NULL AND dep_delay IS NOT NULL)
        WHERE dep_delay >= 15 GROUP BY carrier""",
    "rolling": """
        SELECT origin, day, sum(minutes) OVER week / sum(n) OVER week
        FROM (SELECT origin, day, count(dep_delay) AS n, sum(dep_delay) AS minutes FROM flights GROUP BY ALL)
        WINDOW week AS (PARTITION BY origin ORDER BY day RANGE BETWEEN 6 PRECEDING AND CURRENT ROW)""",
    "worst": """
        SELECT day, id, dep_delay, rank() OVER (PARTITION BY day ORDER BY dep_delay DESC) AS place
        FROM flights WHERE dep_delay IS NOT NULL QUALIFY place <= 3""",
}


class Warehouse:
    """The current flights in DuckDB, changed as the dataflow's input is."""

    def __init__(self, tables: dict[str, Any]) -> None:
        import duckdb  # noqa: PLC0415 - of the extra

        self._connection = duckdb.connect()
        for name, table in tables.items():
            self._connection.register("given", table)
            self._connection.execute(f"CREATE TABLE {name} AS FROM given")

    @property
    def threads(self) -> int:
        """How many threads a query may use."""
        (threads,) = self._connection.execute("SELECT current_setting('threads')").fetchall()[0]
        return int(threads)

    def apply(self, change: FlightChange) -> None:
        """Delete and insert flights."""
        for statement, table in (
            ("DELETE FROM flights WHERE id IN (SELECT id FROM given)", change.deleted),
            ("INSERT INTO flights FROM given", change.inserted),
        ):
            self._connection.register("given", table)
            self._connection.execute(statement)

    def flights(self) -> Any:
        """Return the current flights as an Arrow table."""
        return self._connection.sql("FROM flights").to_arrow_table()

    def compute(self) -> float:
        """Compute all results anew, into tables, and return the seconds that took."""
        start = time.perf_counter()
        for name, query in QUERIES.items():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE out_{name} AS {query}")
        return time.perf_counter() - start

    def result(self, name: str) -> Counter[tuple[Any, ...]]:
        """Return the rows of a result computed before, with their counts."""
        return Counter(self._connection.execute(f"FROM out_{name}").fetchall())

    def close(self) -> None:
        """Let go of the data."""
        self._connection.close()
