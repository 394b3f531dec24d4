"""How long it takes to make a dataflow of SQL: a script of many views, each over tables and the views before it."""

from __future__ import annotations

from statistics import median
from time import process_time

import tidemill as tm
from benchmarks.runner import Figures, seconds

_TABLES = """
    CREATE TABLE sales (
        id BIGINT PRIMARY KEY, item BIGINT NOT NULL, shop BIGINT, amount DECIMAL(12, 2), sold TIMESTAMP);
    CREATE TABLE items (item BIGINT PRIMARY KEY, category STRING, price DECIMAL(12, 2));
    CREATE TABLE shops (shop BIGINT PRIMARY KEY, city STRING, opened DATE);
    CREATE VIEW v0 AS SELECT s.id, s.item, s.shop, s.amount, CAST(s.sold AS DATE) AS day FROM sales s WHERE amount > 0;
"""
_VIEWS = (
    "SELECT v.id, v.item, v.shop, v.amount, v.day FROM {before} v JOIN items USING (item) WHERE price < 100 + {number}",
    "SELECT max(id) AS id, item, shop, sum(amount) AS amount, max(day) AS day FROM {before} GROUP BY item, shop",
    """SELECT id, item, shop, amount, day FROM {before} v
        WHERE amount > (SELECT avg(amount) FROM {before} w WHERE w.shop = v.shop) OR id = {number}""",
    """SELECT id, item, shop, amount, day FROM {before}
        QUALIFY row_number() OVER (PARTITION BY shop ORDER BY amount DESC, id) <= 10""",
    """SELECT id, item, v.shop, CASE WHEN city LIKE 'A%' THEN amount * 2 ELSE amount END AS amount, day
        FROM {before} v LEFT JOIN shops s ON v.shop = s.shop AND opened <= day""",
    """SELECT id, item, shop, amount, day FROM {before}
        WHERE item IN (SELECT item FROM items WHERE category = 'c{number}')
        UNION SELECT id, item, shop, amount, day FROM v0 WHERE id < {number}""",
)
"""Each has the columns of v0, so that any may read any."""


def planning(*, views: int, rounds: int) -> Figures:
    """Seconds of processor time from the text of a script to a dataflow: the median of some rounds, after one more.

    Of six kinds of views, in turn: a join, groups, a correlated subquery, a limit of partitions, a left join, a union.
    Every seventh reads the first again. ``tpcds`` says what each query of TPC-DS takes (*plan_cpu_ms*).
    """
    text = script(views)
    taken = [seconds(lambda: tm.Dataflow.from_sql(text), process_time) for _ in range(rounds + 1)][1:]
    return {"planning": [{"views": views, "cpu_s": median(taken)}]}


def script(views: int) -> str:
    """Return the text of so many views."""
    parts = [_TABLES]
    for number in range(1, views + 1):
        before = f"v{0 if number % 7 == 0 else number - 1}"
        text = _VIEWS[number % len(_VIEWS)].format(before=before, number=number)
        parts.append(f"CREATE VIEW v{number} AS {text};")
    parts.append(f"CREATE MATERIALIZED VIEW answer AS SELECT * FROM v{views};")
    return "\n".join(parts)
