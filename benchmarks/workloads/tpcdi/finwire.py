"""FINWIRE: lines of fixed widths about companies, securities and financial statements, each with a time."""

from __future__ import annotations

import datetime as dt
from typing import Any

_QUARTERS = 202
"""From 1967 on, up to the middle of 2017."""
_RATINGS = ("AAA", "AA", "A+", "A-", "BBB", "BB+", "B", "CCC", "C", "D", "ZZ")


def finwire(random: Any, companies: int, securities: int, day: int) -> tuple[list[str], list[str]]:
    """Return lines up to a day, quarter by quarter, and the symbols of the securities.

    Half of the records name their company by its CIK, the others by its name; a tenth of companies and of securities
    is described anew in a later quarter.
    """
    founded = random.integers(0, _QUARTERS - 8, companies)
    founded[:1] = 0
    by_quarter: list[list[str]] = [[] for _ in range(_QUARTERS)]
    for company in range(companies):
        first = int(founded[company])
        renewed = int(random.integers(first + 1, _QUARTERS)) if random.random() < 0.1 else -1
        for quarter in (q for q in (first, renewed) if q >= 0):
            by_quarter[quarter].append(_company(random, company, quarter, "ACTV" if quarter == first else "INAC"))
        for quarter in range(first + 1, _QUARTERS):
            by_quarter[quarter].append(_financial(random, company, quarter))
    symbols = []
    for security in range(securities):
        company = int(random.integers(0, companies))
        symbols.append(_symbol(security))
        first = int(founded[company]) if security % 2 else int(random.integers(founded[company], _QUARTERS - 7))
        renewed = int(random.integers(first + 1, _QUARTERS)) if random.random() < 0.1 else -1
        for quarter in (q for q in (first, renewed) if q >= 0):
            by_quarter[quarter].append(_security(random, symbols[-1], company, quarter))
    last = dt.date(1970, 1, 1) + dt.timedelta(day)
    return [line for lines in by_quarter for line in sorted(lines) if line[:8] < f"{last:%Y%m%d}"], symbols


def _symbol(number: int) -> str:
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters = chr(65 + letter) + letters
    return letters


def _posted(random: Any, quarter: int, *, early: bool) -> str:
    """Return a moment of a quarter, in its first month or after it."""
    start = _start(quarter)
    day = start + dt.timedelta(days=int(random.integers(0, 25) if early else random.integers(26, 85)))
    return (
        f"{day:%Y%m%d}-{int(random.integers(8, 18)):02}{int(random.integers(0, 60)):02}{int(random.integers(0, 60)):02}"
    )


def _start(quarter: int) -> dt.date:
    return dt.date(1967 + quarter // 4, quarter % 4 * 3 + 1, 1)


def _of(random: Any, company: int) -> str:
    return f"{company + 1:010d}".ljust(60) if random.random() < 0.5 else f"Company {company}".ljust(60)


def _company(random: Any, company: int, quarter: int, status: str) -> str:
    start = _start(quarter)
    when = f"{start:%Y%m%d}" if random.random() < 0.9 else " " * 8
    return (
        f"{_posted(random, quarter, early=True)}CMP{f'Company {company}':60}{company + 1:010d}{status}"
        f"{int(random.integers(0, 90)):02}{_RATINGS[int(random.integers(0, len(_RATINGS)))]:4}{when}"
        f"{f'{company} Main Street':80}{'Floor 3' if company % 3 else '':80}{company % 99_999:<12}{'Springfield':25}"
        f"{'Oregon':20}{'Canada' if company % 5 == 0 else '':24}{f'Chief {company}':46}{f'makes {company}':150}"
    )


def _security(random: Any, symbol: str, company: int, quarter: int) -> str:
    start = _start(quarter)
    return (
        f"{_posted(random, quarter, early=False)}SEC{symbol:15}{'COMMON':6}ACTV{f'Security {symbol}':70}{'NASDAQ':6}"
        f"{int(random.integers(10**5, 10**9)):013}{start:%Y%m%d}{start:%Y%m%d}"
        f"{int(random.integers(0, 500)) / 100:12.2f}{_of(random, company)}"
    )


def _financial(random: Any, company: int, quarter: int) -> str:
    start, amounts = _start(quarter), random.integers(-(10**6), 10**8, 8)
    eps, diluted, margin = (f"{int(a) % 4000 / 100 - 5:12.2f}" for a in amounts[:3])
    revenue, earnings, inventory, assets, liabilities = (f"{int(a) / 100:17.2f}" for a in amounts[3:])
    shares = f"{int(amounts[0]) % 10**8:013}"
    return (
        f"{_posted(random, quarter, early=False)}FIN{start.year}{quarter % 4 + 1}{start:%Y%m%d}{start:%Y%m%d}{revenue}"
        f"{earnings}{eps}{diluted}{margin}{inventory}{assets}{liabilities}{shares}{shares}{_of(random, company)}"
    )
