"""Nexmark: persons, the auctions they open and the bids they make, as a stream, and questions about it in SQL."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED

_OF_FIFTY: Final = {"person": 1, "auction": 3, "bid": 46}
"""Events of each kind in each fifty."""
_BEGIN: Final = 1_436_918_400_000
"""2015-07-15, in milliseconds since 1970."""
_FIRST: Final = 1000
_RECENT: Final = 100
"""So many of the last auctions are bid for, and so many of the last persons bid."""
_SIDE: Final = 10_000
_CITIES: Final = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")


def events(number: int, rate: int) -> dict[str, pa.Table]:
    """Return so many events, so many a second; half of the bids are for one auction in a hundred.

    Events come in order, each a millisecond or more after another, where there are up to a thousand a second.
    """
    random = np.random.default_rng(SEED)
    place = np.arange(number)
    at = _BEGIN + place * 1000 // rate
    in_fifty = place % 50
    of = {"person": in_fifty < 1, "auction": (in_fifty >= 1) & (in_fifty < 4), "bid": in_fifty >= 4}
    persons, auctions = (np.cumsum(of[kind]) for kind in ("person", "auction"))
    return {
        "person": _persons(random, at[of["person"]]),
        "auction": _auctions(random, at[of["auction"]], persons[of["auction"]]),
        "bid": _bids(random, at[of["bid"]], persons[of["bid"]], auctions[of["bid"]]),
        "side": pa.table({"key": np.arange(_SIDE), "value": [f"side {n}" for n in range(_SIDE)]}),
    }


def _times(milliseconds: Any) -> pa.Array:
    return pa.array(milliseconds * 1000).cast(pa.timestamp("us"))


def _recent(random: Any, so_far: Any) -> Any:
    """Return ids, half of them the hot one of their hundred, the others among the last."""
    hot = (so_far - 1) // _RECENT * _RECENT
    any_ = np.maximum(so_far - 1 - random.integers(0, _RECENT, len(so_far)), 0)
    return _FIRST + np.where(random.random(len(so_far)) < 0.5, hot, any_)


def _picked(random: Any, texts: Any, number: int) -> pa.Array:
    return pa.array(texts).take(pa.array(random.integers(0, len(texts), number)))


def _texts(before: str, numbers: Any) -> list[str]:
    return [f"{before}{n}" for n in numbers.tolist()]


def _prices(random: Any, number: int) -> Any:
    return np.round(10 ** (random.random(number) * 6) * 100).astype(np.int64)


def _persons(random: Any, at: Any) -> pa.Table:
    number = len(at)
    return pa.table({
        "id": _FIRST + np.arange(number), "name": _texts("Person ", random.integers(0, 100, number)),
        "email": _texts("person@", np.arange(number)), "city": _picked(random, _CITIES, number),
        "state": _picked(random, _STATES, number), "ts": _times(at),
    })  # fmt: skip


def _auctions(random: Any, at: Any, persons: Any) -> pa.Table:
    number = len(at)
    return pa.table({
        "id": _FIRST + np.arange(number), "item": _texts("item ", random.integers(0, 1000, number)),
        "initial_bid": _prices(random, number), "reserve": _prices(random, number), "ts": _times(at),
        "expires": _times(at + random.integers(1000, 20_000, number)), "seller": _recent(random, persons),
        "category": 10 + random.integers(0, 5, number),
    })  # fmt: skip


def _bids(random: Any, at: Any, persons: Any, auctions: Any) -> pa.Table:
    number = len(at)
    ids = random.integers(0, 10_000, number)
    named = random.random(number) < 0.5
    channels = np.where(named, np.array(_CHANNELS)[random.integers(0, 4, number)], _texts("channel-", ids))
    urls = [
        f"https://www.nexmark.com/a{n % 7}/b{n % 11}/c{n % 13}/item.htm?query=1" + ("" if known else f"&channel_id={n}")
        for n, known in zip(ids.tolist(), named.tolist(), strict=True)
    ]
    return pa.table({
        "auction": _recent(random, auctions), "bidder": _recent(random, persons), "price": _prices(random, number),
        "channel": pa.array(channels.tolist()), "url": urls, "ts": _times(at),
        "extra": _texts("accio cc ", random.integers(0, 10**6, number)),
    })  # fmt: skip


_WITHIN = "a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"
_WINNING = "QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) = 1"
_RANKS = """count(*) FILTER (WHERE price < 10000) AS low,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
    count(*) FILTER (WHERE price >= 1000000) AS high"""
_DISTINCT = """count(DISTINCT bidder) AS bidders, count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
    count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high_bidders, count(DISTINCT auction) AS auctions,
    count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions,
    count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions"""
_CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"

QUERIES: Final = {
    "q0": "SELECT auction, bidder, price, ts FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, ts FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) AS mean FROM (
        SELECT max(b.price) AS final, a.category FROM auction a JOIN bid b ON {_WITHIN} GROUP BY a.id, a.category) q
        GROUP BY category""",
    "q5": """SELECT auction, window_start, count(*) AS number FROM hop(bid, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
        GROUP BY auction, window_start QUALIFY count(*) >= max(count(*)) OVER (PARTITION BY window_start)""",
    "q6": f"""SELECT seller, id, avg(final) OVER (
            PARTITION BY seller ORDER BY ts, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean
        FROM (SELECT a.id, a.seller, b.price AS final, b.ts FROM auction a JOIN bid b ON {_WITHIN} {_WINNING}) q""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.ts FROM bid b JOIN (
            SELECT max(price) AS most, window_end FROM tumble(bid, ts, INTERVAL 10 SECONDS) GROUP BY window_end) m
        ON b.price = m.most AND b.ts >= m.window_end - INTERVAL 10 SECONDS AND b.ts < m.window_end""",
    "q8": """SELECT p.id, p.name, p.window_start
        FROM (SELECT DISTINCT id, name, window_start FROM tumble(person, ts, INTERVAL 10 SECONDS)) p
        JOIN (SELECT DISTINCT seller, window_start FROM tumble(auction, ts, INTERVAL 10 SECONDS)) a
        ON p.id = a.seller AND p.window_start = a.window_start""",
    "q9": f"""SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.ts
        FROM auction a JOIN bid b ON {_WITHIN} {_WINNING}""",
    "q11": """SELECT bidder, count(*) AS bids, window_start, window_end
        FROM session(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL 10 SECONDS)
        GROUP BY bidder, window_start, window_end""",
    "q12": """SELECT bidder, count(*) AS bids, window_start FROM tumble(bid, ts, INTERVAL 10 SECONDS)
        GROUP BY bidder, window_start""",
    "q13": "SELECT b.auction, b.bidder, b.price, b.ts, s.value FROM bid b JOIN side s ON b.auction % 10000 = s.key",
    "q14": """SELECT auction, bidder, 0.908 * price AS price, ts,
            CASE WHEN hour(ts) >= 8 AND hour(ts) <= 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night'
                ELSE 'other' END AS moment, length(extra) - length(replace(extra, 'c', '')) AS letters
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""SELECT CAST(ts AS DATE) AS day, count(*) AS bids, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY CAST(ts AS DATE)""",
    "q16": f"""SELECT channel, CAST(ts AS DATE) AS day, max(date_format(ts, 'HH:mm')) AS minute, count(*) AS bids,
        {_RANKS}, {_DISTINCT} FROM bid GROUP BY channel, CAST(ts AS DATE)""",
    "q17": f"""SELECT auction, CAST(ts AS DATE) AS day, count(*) AS bids, {_RANKS}, min(price) AS least,
        max(price) AS most, avg(price) AS mean, sum(price) AS total FROM bid GROUP BY auction, CAST(ts AS DATE)""",
    "q18": """SELECT auction, bidder, price, channel, url, ts FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC, price DESC) <= 1""",
    "q19": """SELECT auction, bidder, price, channel, url, ts FROM bid
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, ts, bidder) <= 10""",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts, a.item, a.initial_bid, a.expires, a.seller
        FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0'
            WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2'
            WHEN lower(channel) = 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id
        FROM bid WHERE {_CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
        split_part(url, '/', 6) AS dir3 FROM bid""",
}  # fmt: skip
"""q10 is left out, which is about files to write; q12, of the time at which bids are seen, is by their own."""

_TUMBLED = """(SELECT *, time_bucket(INTERVAL 10 SECONDS, ts) AS window_start,
    window_start + INTERVAL 10 SECONDS AS window_end FROM {})"""
_HOPPED = """(SELECT *, time_bucket(INTERVAL 2 SECONDS, ts) - hops.range * INTERVAL 2 SECONDS AS window_start
    FROM bid, range(5) AS hops)"""
_SESSIONS = """(SELECT bidder, session, min(ts) OVER each AS window_start,
        max(ts) OVER each + INTERVAL 10 SECONDS AS window_end
    FROM (SELECT bidder, ts, sum(is_new) OVER (PARTITION BY bidder ORDER BY ts) AS session
        FROM (SELECT bidder, ts, CASE WHEN ts < lag(ts) OVER (PARTITION BY bidder ORDER BY ts) + INTERVAL 10 SECONDS
            THEN 0 ELSE 1 END AS is_new FROM bid))
    WINDOW each AS (PARTITION BY bidder, session))"""
IN_DUCKDB: Final = {
    "hop(bid, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)": _HOPPED,
    "session(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL 10 SECONDS)": _SESSIONS,
    **{f"tumble({t}, ts, INTERVAL 10 SECONDS)": _TUMBLED.format(t) for t in ("bid", "person", "auction")},
    "date_format(ts, 'HH:mm')": "strftime(ts, '%H:%M')",
}
"""What DuckDB writes otherwise, by what stands in the queries."""
