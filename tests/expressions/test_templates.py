"""to_char by PostgreSQL's templates: what its documentation says and, where a server can be started, what it gives."""

import datetime as dt
import random
from decimal import Decimal

import pytest
from support import postgres

from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import call, lit
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DATE, STRING, TIMESTAMP, decimal_type

MOMENT = dt.datetime(2001, 4, 10, 3, 4, 5, 678_901)
OF_MOMENTS = [
    ("YYYY-MM-DD HH24:MI:SS.US", "2001-04-10 03:04:05.678901"), ("Day, DD  HH12:MI:SS", "Tuesday  , 10  03:04:05"),
    ("FMDay, FMDD  FMHH12:MI:SS", "Tuesday, 10  3:04:05"), ("Y,YYY|YYY|YY|Y", None), ("MONTH|Month|month|MON|Mon|mon", "APRIL    |April    |april    |APR|Apr|apr"),
    ("FMMonth DDth", "April 10th"), ('YYYY"Q"Q', "2001Q2"), ("IYYY-IW-ID", "2001-15-2"), ("WW W DDD D J CC", "15 2 100 3 2452010 21"),
    ("hh:mi am P.M. AD", "03:04 am A.M. AD"), ("MS FF3 FF1 SSSS", "678 678 6 11045"), ('DY dy \\"x\\"', 'TUE tue "x"'),
    ("DDTHH24", "10THH24"), ("TZ", None), ("DayTH", None), ("SP", "SP"), ("RM", None), ("FMx", None),
]  # fmt: skip
OF_NUMBERS = [  # most are of the table in PostgreSQL's documentation
    (".1", "99.99", "   .10"), ("-.1", "99.99", "  -.10"), ("-.1", "FM9.99", "-.1"), ("-.1", "FM90.99", "-0.1"), (".1", "0.9", " 0.1"),
    ("12", "9990999.9", "    0012.0"), ("12", "FM9990999.9", "0012."), ("485", "999", " 485"), ("-485", "999", "-485"),
    ("485", "9 9 9", " 4 8 5"), ("1485", "9,999", " 1,485"), ("1485", "9G999", " 1,485"), ("148.5", "999.999", " 148.500"),
    ("148.5", "FM999.999", "148.5"), ("148.5", "FM999.990", "148.500"), ("148.5", "999D999", " 148.500"),
    ("3148.5", "9G999D999", " 3,148.500"), ("-485", "999S", "485-"), ("-485", "999MI", "485-"), ("485", "999MI", "485 "),
    ("485", "FM999MI", "485"), ("-485", "999PR", "<485>"), ("485", "999PR", " 485 "), ("485", '"Good number:"999', "Good number: 485"),
    ("485.8", '"Pre:"999" Post:" .999', "Pre: 485 Post: .800"), ("12345", "999", " ###"), ("-12345.6", "S9,999.9", "-#,###.#"),
    ("1", "FM9.99G", "1."), ("1.5", "FM9.90G9G", "1.50,"), ("1.5", "9.9G", " 1.5,"), ("485", "SG999", None), ("485", "999th", None), ("12", "99V999", None), ("1", "L9", None), ("1", "9.9.9", None), ("1", "9S9", None),
    ("1", ".9", None), ("1", "9.", None), ("1", "PR9", None), ("1", "9.99EEEE", None),
]  # fmt: skip


def written(value, dtype, template):
    bind(call("template_to_char", lit(None).cast(dtype), lit(template)), Schema(()))
    return FUNCTIONS["template_to_char"].value([value, template], (dtype, STRING), STRING)


@pytest.mark.parametrize(("template", "expected"), OF_MOMENTS)
def test_moments(template, expected):
    if expected is None:
        with pytest.raises(SchemaError, match=r"the template .* at \d+ is not supported"):
            written(MOMENT, TIMESTAMP, template)
    else:
        assert written(MOMENT, TIMESTAMP, template) == expected


@pytest.mark.parametrize(("value", "template", "expected"), OF_NUMBERS)
def test_numbers(value, template, expected):
    dtype = decimal_type(20, 3)
    if expected is None:
        with pytest.raises(SchemaError, match="the template"):
            written(Decimal(value), dtype, template)
    else:
        assert written(Decimal(value), dtype, template) == expected


def test_a_date_is_its_first_moment():
    assert written(dt.date(9, 1, 1), DATE, "YYYY FMYYYY DD HH24 HH12 AM") == "0009 9 01 00 12 AM"


KEYWORDS = [
    "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I", "Q", "MM", "IW", "WW", "W", "DDD", "DD", "D", "IDDD",
    "ID", "CC", "J", "HH24", "HH12", "HH", "MI", "SS", "SSSS", "MS", "US", "FF4", "MONTH", "Month", "mon",
    "DAY", "Dy", "AM", "p.m.", "BC", "yyyy", "hh24",
]  # fmt: skip


def random_moments(dice, count):
    for _ in range(count):
        pieces = [
            f"{dice.choice(['', 'FM'])}{dice.choice(KEYWORDS)}{dice.choice(['', 'th'])}{dice.choice(['-', ' ', ':', ''])}"
            for _ in range(dice.randint(1, 4))
        ]
        days = dt.timedelta(dice.randint(0, 3_652_058), dice.randint(0, 86_399), dice.choice([0, 1, 999_999, 123_456]))
        yield dt.datetime.min + days, dice.choice(["", '"T" ', "x"]) + "".join(pieces)


def random_numbers(dice, count):
    for _ in range(count):
        whole = "".join(dice.choice("9990,G") for _ in range(dice.randint(0, 5)))
        rest = dice.choice(["", "." + "".join(dice.choice("990") for _ in range(dice.randint(1, 4)))])
        sign = dice.choice(["", "S", "MI", "PR"])
        body = f"{whole}9{rest}"
        body = sign + body if sign in ("S", "MI") and dice.random() < 0.5 else body + sign
        scale = dice.randint(0, 4)
        value = Decimal(dice.choice([0, 5, 10, 95, 99, 123, 100_000, 1_234_567]) * dice.choice([1, -1])).scaleb(-scale)
        yield value, dice.choice(["", "FM", "$", "FM$ "]) + body + dice.choice(["", "%"])


@pytest.mark.slow
def test_what_postgresql_gives():
    dice = random.Random(4)
    with postgres.server() as conninfo:
        import psycopg  # noqa: PLC0415 - optional

        with psycopg.connect(conninfo) as connection:
            for cases, dtype, theirs in (
                (list(random_moments(dice, 3000)), TIMESTAMP, "timestamp"),
                (list(random_numbers(dice, 3000)), decimal_type(20, 6), "numeric"),
            ):
                text = f"SELECT to_char(v, f) FROM unnest(%s::{theirs}[], %s::text[]) WITH ORDINALITY u(v, f, i) ORDER BY i"
                expected = connection.execute(text, ([v for v, _ in cases], [f for _, f in cases])).fetchall()
                wrong, taken = [], 0
                for (value, template), (one,) in zip(cases, expected, strict=True):
                    try:
                        found = written(value, dtype, template)
                    except SchemaError:
                        continue
                    taken += 1
                    wrong += [(value, template, found, one)] if found != one else []
                assert wrong == []
                assert taken > 2000
