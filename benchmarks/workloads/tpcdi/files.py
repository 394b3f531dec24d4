"""What the files of TPC-DI hold: a history, and batches that go on from it, each a day later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.workload import SEED
from benchmarks.workloads.tpcdi.columns import (
    DAY,
    blanked,
    days,
    decimals,
    moments,
    named,
    numbers,
    picked,
    texts,
)
from benchmarks.workloads.tpcdi.finwire import finwire

Files = dict[str, pa.Table]

_FIRST: Final = (dt.date(2017, 7, 7) - dt.date(1970, 1, 1)).days
"""The day of the first batch, since 1970."""
_YEARS: Final = 8
"""Customers come, and trade, over so many years before it."""
_MARKET_DAYS: Final = 730
_OPEN: Final = 0.03
"""The part of trades that the first batch leaves open."""
_EACH: Final = {
    "hr": 5, "companies": 0.5, "securities": 0.74, "customers": 4, "prospects": 5, "trades": 130, "watches": 100,
}  # fmt: skip
"""Thousands of each at scale 1."""
_STATUSES: Final = {
    "ACTV": "Active", "CMPT": "Completed", "CNCL": "Canceled", "PNDG": "Pending", "SBMT": "Submitted",
    "INAC": "Inactive",
}  # fmt: skip
_TYPES: Final = {
    "TMB": ("Market Buy", False, True), "TMS": ("Market Sell", True, True), "TSL": ("Stop Loss", True, False),
    "TLS": ("Limit Sell", True, False), "TLB": ("Limit Buy", False, False),
}  # fmt: skip
_LAST: Final = (
    "Adams",
    "Baker",
    "Chen",
    "Diaz",
    "Evans",
    "Fischer",
    "Garcia",
    "Hoang",
    "Ivanova",
    "Jones",
    "Kim",
    "Lopez",
)
_GIVEN: Final = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gail", "Hugo", "Ines", "Jack", "Kate", "Liam", "Mia")
_CITIES: Final = ("Bend", "Boise", "Dallas", "Kent", "Lisbon", "Ottawa", "Salem", "Tampa", "Waco", "York")


class Source:
    """The systems whose files are read; what they have done so far decides what they may do next."""

    def __init__(self, scale: float) -> None:
        self.random = np.random.default_rng(SEED)
        self.many = {name: max(4, round(1000 * each * scale)) for name, each in _EACH.items()}
        self.batch = 0
        self.dsn = 0

    def first(self) -> Files:
        """Return the files of the first batch: what is there once, and the history."""
        self.batch = 1
        return {
            **_references(), "hr": self._hr(), "finwire": self._finwire(), **self._market(np.arange(_MARKET_DAYS) + 1),
            "customer_mgmt": self._customer_mgmt(), **self._trade_history(), "watch_history": self._watches(),
            "prospect": self._prospects(), "batch_date": self._batch_date(),
        }  # fmt: skip

    def next(self, share: float) -> tuple[Files, Files]:
        """Return rows that are gone, and the files of the next batch: a share of the history changes, or comes."""
        self.batch += 1
        gone, prospects = self._changed_prospects(share)
        come = {
            **self._market(np.zeros(1, int)), "customer": self._changed_customers(share),
            "account": self._changed_accounts(share), **self._trades_of_a_day(share),
            "watch_history": self._watches_of_a_day(share), "prospect": prospects, "batch_date": self._batch_date(),
        }  # fmt: skip
        return {"prospect": gone}, come

    @property
    def today(self) -> int:
        """The batch's day, since 1970."""
        return _FIRST + self.batch - 1

    def _some(self, of: int, share: float) -> Any:
        """Return random places, a share of so many, at least one."""
        return np.sort(self.random.choice(of, min(of, max(1, round(of * share))), replace=False))

    def _flags(self, number: int, flags: Any) -> dict[str, Any]:
        """Return what stands at the beginning of rows of changes."""
        self.dsn += number
        return {
            "batch": numbers(np.full(number, self.batch), pa.int32()), "cdc_flag": flags,
            "cdc_dsn": numbers(np.arange(self.dsn - number, self.dsn)),
        }  # fmt: skip

    def _batch_date(self) -> pa.Table:
        return pa.table({"batch": numbers([self.batch], pa.int32()), "day": days([self.today])})

    # -- who there is --------------------------------------------------------------------------------------------------

    def _hr(self) -> pa.Table:
        n, random = self.many["hr"], self.random
        is_broker = random.random(n) < 0.3
        is_broker[:2] = True
        self.brokers = np.flatnonzero(is_broker) + 1
        return pa.table({
            "employee_id": numbers(np.arange(1, n + 1)), "manager_id": numbers(random.integers(1, n + 1, n)),
            "first_name": picked(random, _GIVEN, n), "last_name": picked(random, _LAST, n),
            "middle_initial": blanked(random, picked(random, "ABCDEFG", n), 0.3),
            "job_code": numbers(np.where(is_broker, 314, random.integers(315, 400, n)), pa.int32()),
            "branch": texts("branch ", random.integers(0, 40, n)),
            "office": texts("OFFICE", random.integers(0, 900, n)),
            "phone": texts("(555) ", random.integers(1_000_000, 9_999_999, n)),
        })  # fmt: skip

    def _finwire(self) -> pa.Table:
        lines, self.symbols = finwire(self.random, self.many["companies"], self.many["securities"], _FIRST)
        return pa.table({"line": pa.array(lines)})

    def _person(self, ids: Any, version: Any) -> dict[str, Any]:
        """Return what is known of a customer; address and mail change with the version."""
        random, n = self.random, len(ids)
        return {
            "tax_id": texts("", ids % 1_000_000_000, 9), "gender": picked(random, ["M", "F", "m", "f", "x", None], n),
            "tier": numbers(np.where(ids % 100 == 1, 9, random.integers(1, 4, n)), pa.int32()),
            "dob": days(np.where(random.random(n) < 0.002, -40_000, random.integers(-12_000, 11_000, n))),
            "last_name": texts("Name", ids), "first_name": named(_GIVEN, ids % len(_GIVEN)),
            "middle_initial": blanked(random, picked(random, "ABCDEFG", n), 0.3),
            "address_1": texts("", ids * 10 + version), "address_2": blanked(random, texts("Apt ", ids % 97), 0.9),
            "postal_code": texts("", ids % 99_999, 5), "city": named(_CITIES, (ids + version) % len(_CITIES)),
            "state": texts("S", ids % 50), "country": picked(random, ["United States of America", "Canada", None], n),
            "email_1": texts("mail", ids * 10 + version), "email_2": blanked(random, texts("more", ids), 0.5),
            "phone_country": blanked(random, picked(random, ["1", "44"], n), 0.5),
            "phone_area": blanked(random, texts("", random.integers(200, 999, n)), 0.2),
            "phone_local": blanked(random, texts("", random.integers(1_000_000, 9_999_999, n)), 0.1),
            "phone_extension": blanked(random, texts("", random.integers(1, 999, n)), 0.7),
            "local_tax_id": texts("L", random.integers(0, 150, n)),
            "national_tax_id": texts("N", random.integers(0, 150, n)),
        }  # fmt: skip

    def _customer_mgmt(self) -> pa.Table:
        """Return actions in the order of their times: all customers come, some with their accounts change and go."""
        random, n = self.random, self.many["customers"]
        start, end = (_FIRST - 365 * _YEARS) * DAY, _FIRST * DAY
        born = np.sort(random.integers(start, end - 30 * DAY, n))
        owner = np.concatenate([np.arange(n), self._some(n, 0.7)])  # of accounts: the first comes with the customer
        opened = np.concatenate(
            [born, born[owner[n:]] + 1 + (random.random(len(owner) - n) * (end - born[owner[n:]] - 2)).astype(np.int64)]
        )
        self.owner, self.opened, self.version = owner, opened // 1_000_000 * 1_000_000, np.zeros(n, np.int64)
        self.left = np.zeros(n, bool)
        moved, left = self._some(n, 0.4), self._some(n, 0.05)
        changed, closed = self._some(len(owner), 0.3), self._some(len(owner), 0.08)

        def later(than: Any) -> Any:
            return than + 1_000_000 + (random.random(len(than)) * (end - than - 2_000_000)).astype(np.int64)

        none = np.zeros(0, np.int64)
        kinds = [
            ("NEW", born, np.arange(n), np.arange(n)), ("ADDACCT", opened[n:], owner[n:], np.arange(n, len(owner))),
            ("UPDCUST", later(born[moved]), moved, none), ("INACT", later(born[left]), left, none),
            ("UPDACCT", later(opened[changed]), owner[changed], changed),
            ("CLOSEACCT", later(opened[closed]), owner[closed], closed),
        ]  # fmt: skip
        self.left[left] = True
        self.version[moved] = 1
        parts = [self._actions(*kind) for kind in kinds]
        whole = pa.concat_tables(parts, promote_options="default")
        at = np.asarray(whole["action_at"].cast(pa.int64()))
        return whole.take(pa.array(np.argsort(at, kind="stable"))).combine_chunks()

    def _actions(self, kind: str, at: Any, customers: Any, accounts: Any) -> pa.Table:
        random, n = self.random, len(customers)
        found = {
            "action_type": pa.array([kind] * n, pa.string()), "action_at": moments(at),
            "customer_id": numbers(customers + 1),
        }  # fmt: skip
        if kind in ("NEW", "UPDCUST"):
            person = self._person(customers + 1, np.full(n, int(kind == "UPDCUST")))
            if kind == "UPDCUST":  # says what is new
                person = {name: blanked(random, values, 0.5) for name, values in person.items()}
            found |= person
        if len(accounts):
            found |= {"account_id": numbers(accounts + 1)}
        if kind in ("NEW", "ADDACCT", "UPDACCT"):
            share = 0.5 if kind == "UPDACCT" else 0
            found |= {name: blanked(random, values, share) for name, values in self._account(accounts).items()}
        return pa.table(found)

    def _account(self, accounts: Any) -> dict[str, Any]:
        random, n = self.random, len(accounts)
        return {
            "tax_status": numbers(random.integers(0, 3, n), pa.int32()),
            "broker_id": numbers(random.choice(self.brokers, n)),
            "account_name": texts("account ", random.integers(0, 10**6, n)),
        }  # fmt: skip

    def _changed_customers(self, share: float) -> pa.Table:
        """Return customers who changed, and new ones; these get an account each."""
        known = len(self.version)
        old, new = self._some(known, share), np.arange(known, known + max(1, round(known * share / 2)))
        self.version = np.concatenate([self.version, np.zeros(len(new), np.int64)])
        self.left = np.concatenate([self.left, np.zeros(len(new), bool)])
        self.version[old] += 1
        ids = np.concatenate([old, new])
        self.new = new
        leaves = (self.random.random(len(ids)) < 0.1) & (ids < known)
        self.left[ids] |= leaves
        return pa.table({
            **self._flags(len(ids), named("UI", (ids >= known).astype(int))), "customer_id": numbers(ids + 1),
            "status_id": named(["ACTV", "INAC"], self.left[ids].astype(int)),
            **self._person(ids + 1, self.version[ids]),
        })  # fmt: skip

    def _changed_accounts(self, share: float) -> pa.Table:
        known = len(self.owner)
        old = self._some(known, share)
        self.owner = np.concatenate([self.owner, self.new])
        self.opened = np.concatenate([self.opened, np.full(len(self.new), self.today * DAY)])
        ids = np.concatenate([old, np.arange(known, len(self.owner))])
        closes = (self.random.random(len(ids)) < 0.2) & (ids < known)
        return pa.table({
            **self._flags(len(ids), named("UI", (ids >= known).astype(int))), "account_id": numbers(ids + 1),
            "customer_id": numbers(self.owner[ids] + 1), "status_id": named(["ACTV", "INAC"], closes.astype(int)),
            **self._account(ids),
        })  # fmt: skip

    def _prospect_rows(self, ids: Any) -> pa.Table:
        """Return what an agency sells; every second is a customer, if not at the address of before."""
        random, n = self.random, len(ids)
        who = ids % (2 * len(self.version))
        person = self._person(who + 1, np.zeros(n, np.int64))
        names = ("last_name", "first_name", "middle_initial", "gender", "address_1", "address_2", "postal_code", "city",
                 "state", "country")  # fmt: skip
        kids, cards, cars = (random.integers(0, most, n) for most in (6, 10, 6))
        return pa.table({
            "batch": numbers(np.full(n, self.batch), pa.int32()), "agency_id": texts("agency", ids),
            **{name: person[name] for name in names},
            "phone": blanked(random, texts("555-", random.integers(1000, 9999, n)), 0.2),
            "income": numbers(random.integers(10_000, 300_000, n), missing=random.random(n) < 0.1),
            "number_cars": numbers(cars, pa.int32()), "number_children": numbers(kids, pa.int32()),
            "marital_status": picked(random, ["S", "M", "D", "W", None], n),
            "age": numbers(random.integers(18, 90, n), pa.int32()),
            "credit_rating": numbers(random.integers(300, 850, n), pa.int32()),
            "own_or_rent": picked(random, ["O", "R", "U", None], n),
            "employer": blanked(random, texts("firm ", ids % 500), 0.1),
            "number_credit_cards": numbers(cards, pa.int32()),
            "net_worth": numbers(random.integers(-50_000, 2_000_000, n), missing=random.random(n) < 0.1),
        })  # fmt: skip

    def _prospects(self) -> pa.Table:
        self.prospects = self._prospect_rows(np.arange(self.many["prospects"]))
        return self.prospects

    def _changed_prospects(self, share: float) -> tuple[pa.Table, pa.Table]:
        """Return rows of prospects who are sold no more, and those who changed or are new; others are not sent."""
        there = np.asarray(self.prospects["agency_id"])
        lost = self._some(len(there), share / 2)
        names = {there[i] for i in lost.tolist()}
        leaves = np.array([name in names for name in there.tolist()])
        gone, kept = self.prospects.filter(pa.array(leaves)), self.prospects.filter(pa.array(~leaves))
        known = np.array([int(name[6:]) for name in kept["agency_id"].to_pylist()], np.int64)
        changed = np.unique(known[self._some(len(known), share)])
        made = self._prospect_rows(
            np.concatenate([changed, known.max() + 1 + np.arange(max(1, round(len(known) * share / 2)))])
        )
        self.prospects = pa.concat_tables([kept, made]).combine_chunks()
        return gone, made

    # -- what they do --------------------------------------------------------------------------------------------------

    def _market(self, ago: Any) -> Files:
        """Return a row for each security and each day, so many days before the batch's."""
        random, names = self.random, self.symbols
        at = np.repeat(self.today - np.sort(ago)[::-1], len(names))
        if not hasattr(self, "close"):
            self.close = random.integers(500, 20_000, len(names))
        steps = random.normal(0, 0.02, (len(ago), len(names))).cumsum(axis=0)
        close = np.clip(self.close * np.exp(steps), 100, 500_000).astype(np.int64)
        self.close, close = close[-1], close.ravel()
        above, below = random.random((2, len(close))) * 0.05
        return {"daily_market": pa.table({
            "batch": numbers(np.full(len(at), self.batch), pa.int32()), "day": days(at),
            "symbol": named(names, np.tile(np.arange(len(names)), len(ago))), "close": decimals(close, 8),
            "high": decimals(close * (1 + above), 8), "low": decimals(close * (1 - below), 8),
            "volume": numbers(random.integers(1_000, 1_000_000, len(close))),
        })}  # fmt: skip

    def _trade_rows(self, ids: Any, at: Any, statuses: Any, flags: Any = None) -> pa.Table:
        """Return rows of trades as they are now; one that is done has a price, a fee, a commission and a tax."""
        random, n = np.random.default_rng(SEED + self.batch), len(ids)
        kind, account, symbol, quantity, bid = (
            self.trades[k][ids] for k in ("kind", "account", "symbol", "quantity", "bid")
        )
        open_ = statuses < 2
        price = bid * (0.97 + 0.06 * random.random(n))
        none = pa.nulls(n, pa.string())
        first = self._flags(n, none if flags is None else flags)
        fee = np.where(random.random(n) < 0.001, quantity * price * 2, random.integers(100, 2_000, n))
        return pa.table({
            **first, "trade_id": numbers(ids), "event_at": moments(at), "status_id": named(_EVENTS, statuses),
            "trade_type_id": named(list(_TYPES), kind), "is_cash": pa.array(ids % 3 > 0),
            "symbol": named(self.symbols, symbol), "quantity": numbers(quantity), "bid_price": decimals(bid, 8),
            "account_id": numbers(account + 1), "executor": picked(random, _GIVEN, n),
            "trade_price": decimals(price, 8, open_), "fee": decimals(fee, 10, open_),
            "commission": decimals(random.integers(200, 5_000, n), 10, open_),
            "tax": decimals(random.integers(0, 9_000, n), 10, open_),
        })  # fmt: skip

    def _drawn(self, n: int, accounts: Any, first: int) -> dict[str, Any]:
        random = self.random
        return {
            "kind": random.choice(5, n, p=[0.3, 0.3, 0.1, 0.15, 0.15]), "account": accounts,
            "symbol": random.integers(0, len(self.symbols), n), "quantity": random.integers(1, 900, n) * 10,
            "bid": random.integers(500, 20_000, n), "first": first + np.arange(n),
        }  # fmt: skip

    def _trade_history(self) -> Files:
        """Return trades as they are, what happened to them, and what they did to cash and to what customers hold."""
        random, n = self.random, self.many["trades"]
        end = _FIRST * DAY
        account = random.integers(0, len(self.owner), n)
        begun = self.opened[account] + 60_000_000
        at = begun + (random.random(n) * np.maximum(end - begun - 3_600_000_000, 0)).astype(np.int64)
        order = np.argsort(at, kind="stable")
        at, account = at[order], account[order]
        self.trades = self._drawn(n, account, 0)
        ids = np.arange(n)
        limit = self.trades["kind"] >= 2
        sent = np.where(limit, at + random.integers(60, 86_400, n) * 1_000_000, at)
        done = sent + random.integers(1, 300, n) * 1_000_000
        self.open = random.random(n) < _OPEN
        final = np.where(self.open, 1, np.where(limit & (random.random(n) < 0.2), 3, 2))
        history = [
            (ids[limit], at[limit], 0),
            (ids, sent, 1),
            *((ids[final == s], done[final == s], s) for s in (2, 3)),
        ]
        completed = ids[final == 2]
        return {
            "trade": self._trade_rows(ids, np.where(self.open, sent, done), final),
            "trade_history": pa.concat_tables(_history(*part) for part in history).combine_chunks(),
            **self._settled(completed, done[completed]),
        }  # fmt: skip

    def _trades_of_a_day(self, share: float) -> Files:
        """Return trades that are done now, and new ones, half of them done."""
        random, known = self.random, len(self.open)
        n = max(2, round(known * share))
        drawn = self._drawn(n, random.integers(0, len(self.owner) - len(self.new), n), known)
        self.trades = {name: np.concatenate([self.trades[name], drawn[name]]) for name in drawn}
        waiting = np.flatnonzero(self.open)
        ended = waiting[self._some(len(waiting), min(1, share / _OPEN))] if len(waiting) else waiting
        ids = np.concatenate([ended, known + np.arange(n)])
        done = np.concatenate([np.ones(len(ended), bool), np.zeros(n, bool)])
        self.open = np.concatenate([self.open, np.ones(n, bool)])
        self.open[ended] = False
        at = self.today * DAY + 34_200_000_000 + np.sort(random.integers(0, 23_400, len(ids))) * 1_000_000
        status = np.where(
            done, np.where(random.random(len(ids)) < 0.1, 3, 2), np.where(self.trades["kind"][ids] >= 2, 0, 1)
        )
        paid = status == 2
        return {
            "trade": self._trade_rows(ids, at, status, named("UI", (~done).astype(int))),
            **self._settled(ids[paid], at[paid]),
        }  # fmt: skip

    def _settled(self, ids: Any, at: Any) -> Files:
        random, n = self.random, len(ids)
        sells = np.isin(self.trades["kind"][ids], (1, 2, 3))
        quantity = self.trades["quantity"][ids]
        of = np.where(sells, (ids * random.random(n)).astype(np.int64), ids)
        amount = quantity * self.trades["bid"][ids] * np.where(sells, 1, -1)
        batch = numbers(np.full(n, self.batch), pa.int32())
        return {
            "cash_transaction": pa.table({
                "batch": batch, "account_id": numbers(self.trades["account"][ids] + 1), "paid_at": moments(at),
                "amount": decimals(np.clip(amount, -(10**9), 10**9), 10),
                "name": picked(random, ["sold", "bought", "fee"], n),
            }),
            "holding_history": pa.table({
                "batch": batch, "first_trade_id": numbers(of), "trade_id": numbers(ids),
                "quantity_before": numbers(np.where(sells, quantity, 0)),
                "quantity_after": numbers(np.where(sells, 0, quantity)),
            }),
        }  # fmt: skip

    def _watch_rows(self, pairs: Any, at: Any, action: str) -> pa.Table:
        n = len(pairs)
        return pa.table({
            "batch": numbers(np.full(n, self.batch), pa.int32()),
            "customer_id": numbers(pairs // len(self.symbols) + 1),
            "symbol": named(self.symbols, pairs % len(self.symbols)),
            "watched_at": moments(at), "action": pa.array([action] * n, pa.string()),
        })  # fmt: skip

    def _watches(self) -> pa.Table:
        """Return which securities customers began to watch, and gave up to watch."""
        random, n = self.random, self.many["watches"]
        pairs = np.unique(random.integers(0, len(self.version) * len(self.symbols), n))
        begun = self.opened[pairs // len(self.symbols)]
        at = begun + (random.random(len(pairs)) * (_FIRST * DAY - begun)).astype(np.int64)
        ends = random.random(len(pairs)) < 0.5
        until = at[ends] + (random.random(int(ends.sum())) * (_FIRST * DAY - at[ends])).astype(np.int64)
        self.watched = pairs[~ends]
        rows = [self._watch_rows(pairs, at, "ACTV"), self._watch_rows(pairs[ends], until, "CNCL")]
        return pa.concat_tables(rows).combine_chunks()

    def _watches_of_a_day(self, share: float) -> pa.Table:
        random, n = self.random, max(1, round(self.many["watches"] * share))
        given_up = self._some(len(self.watched), share)
        begun = np.setdiff1d(random.integers(0, len(self.version) * len(self.symbols), n), self.watched)
        rows = [
            self._watch_rows(pairs, self.today * DAY + random.integers(0, 86_400, len(pairs)) * 1_000_000, action)
            for pairs, action in ((self.watched[given_up], "CNCL"), (begun, "ACTV"))
        ]
        self.watched = np.concatenate([np.delete(self.watched, given_up), begun])
        return pa.concat_tables(rows).combine_chunks()


_EVENTS: Final = ("PNDG", "SBMT", "CMPT", "CNCL")


def _history(ids: Any, at: Any, status: int) -> pa.Table:
    return pa.table({
        "trade_id": numbers(ids), "event_at": moments(at), "status_id": named(_EVENTS, np.full(len(ids), status)),
    })  # fmt: skip


def _references() -> Files:
    """Return what the files of references hold, and the calendar and the clock."""
    calendar = [dt.date(1950, 1, 1) + dt.timedelta(n) for n in range(25_933)]
    clock = np.arange(86_400)
    hour, minute, second = clock // 3600, clock // 60 % 60, clock % 60
    parts = {
        "year": [d.year for d in calendar], "quarter": [(d.month + 2) // 3 for d in calendar],
        "month": [d.month for d in calendar], "week": [d.isocalendar()[1] for d in calendar],
        "day_of_week": [d.isoweekday() for d in calendar], "fiscal_year": [d.year + (d.month > 6) for d in calendar],
        "fiscal_quarter": [(d.month + 5) % 12 // 3 + 1 for d in calendar],
    }  # fmt: skip
    sectors = ("Energy", "Health", "Finance", "Technology", "Transport", "Utilities")
    rates = [(letter + str(n), f"tax {letter} {n}", n * 137 % 9973) for letter in "LN" for n in range(160)]
    kinds = list(_TYPES.values())
    return {
        "dates": pa.table({
            "sk_date": [d.year * 10_000 + d.month * 100 + d.day for d in calendar], "day": pa.array(calendar),
            "description": [d.isoformat() for d in calendar],
            **{name: pa.array(values, pa.int32()) for name, values in parts.items()},
            "is_holiday": [(d.month, d.day) in ((1, 1), (7, 4), (12, 25)) for d in calendar],
        }),
        "times": pa.table({
            "sk_time": numbers(hour * 10_000 + minute * 100 + second),
            "time_text": [f"{h:02}:{m:02}:{s:02}" for h, m, s in zip(hour, minute, second, strict=True)],
            "hour": numbers(hour, pa.int32()), "minute": numbers(minute, pa.int32()),
            "second": numbers(second, pa.int32()), "is_market_hours": pa.array((clock >= 34_200) & (clock < 57_600)),
            "is_office_hours": pa.array((hour >= 8) & (hour < 18)),
        }),
        "industry": pa.table({
            "id": texts("", np.arange(90), 2), "name": texts("industry ", np.arange(90)),
            "sector": named(sectors, np.arange(90) % len(sectors)),
        }),
        "status_type": pa.table({"id": list(_STATUSES), "name": list(_STATUSES.values())}),
        "tax_rate": pa.table({
            "id": [r[0] for r in rates], "name": [r[1] for r in rates],
            "rate": decimals([r[2] for r in rates], 6, scale=5),
        }),
        "trade_type": pa.table({
            "id": list(_TYPES), "name": [k[0] for k in kinds], "is_sell": [k[1] for k in kinds],
            "is_market": [k[2] for k in kinds],
        }),
    }  # fmt: skip


def in_order(rows: pa.Table, schema: Mapping[str, Any]) -> pa.Table:
    """Return a file's columns as its table has them, with NULL for those that it leaves out."""
    return pa.table({
        name: rows[name].cast(dtype) if name in rows.column_names else pa.nulls(rows.num_rows, dtype)
        for name, dtype in schema.items()
    })  # fmt: skip
