"""The registry of scalar functions: what each takes, what it gives, its name in SQL, and its builder in Python.

How to add a function is said in ``registry``.

The meaning is Spark's with ``spark.sql.ansi.enabled``, but for this:

- -2**63 is no int64 (the engines keep it for NULL): what would give it, also by bits or a floor, is an overflow; the
  hash that would be it is -2**63 + 1.
- Years are 1 to 9999; a date or timestamp beyond is an error, where Spark goes on.
- A whole number in SQL text is an int64 where nothing beside it says otherwise; division of whole numbers is of floats.
- An operand that is an error is one even beside a NULL, or where AND and OR are decided; Spark may not look at it.
- ``-d`` is exact; Spark rounds a negated decimal to 34 digits. The remainder of ``pmod`` does not wrap round.
- A part of a pattern, position or unit that is not known is refused when the expression is built, as are ``now()`` and
  its like, ``LIKE`` and regular expressions from columns, intervals of months as columns (``timestampadd`` and
  ``timestampdiff`` take and give numbers), text that is not in ISO form for dates, and ``& | ^`` next to each other
  without parentheses.

Lists and structs compare as Spark's do: NULL equals NULL inside of them, and comes first. ``size`` of no list is NULL,
and ``get`` counts from 0.

DuckDB, where it differs from both: division by zero is NULL, ``/`` of decimals is of floats, the capital of a sharp s
is one letter, ``LIKE`` has no escape, and timestamps have infinities.
"""

from __future__ import annotations

from typing import Final

from tidemill.expressions.functions.casts import CASTS
from tidemill.expressions.functions.choice import CHOICE
from tidemill.expressions.functions.date_formats import DATE_FORMATS
from tidemill.expressions.functions.dates import DATES
from tidemill.expressions.functions.durations import DURATIONS
from tidemill.expressions.functions.from_json import FROM_JSON
from tidemill.expressions.functions.hashing import HASHING
from tidemill.expressions.functions.list_summaries import LIST_SUMMARIES
from tidemill.expressions.functions.lists import LISTS
from tidemill.expressions.functions.number_formats import NUMBER_FORMATS
from tidemill.expressions.functions.numbers import NUMBERS
from tidemill.expressions.functions.operators import OPERATORS
from tidemill.expressions.functions.registry import Function, Signature, can_cast, common_type, widens
from tidemill.expressions.functions.structs import STRUCTS
from tidemill.expressions.functions.templates import TEMPLATES
from tidemill.expressions.functions.text import TEXT
from tidemill.expressions.functions.text_forms import TEXT_FORMS
from tidemill.expressions.functions.tries import TRIES
from tidemill.expressions.functions.trigonometry import TRIGONOMETRY
from tidemill.expressions.types import NULL

__all__ = ["BY_NAME", "FUNCTIONS", "NULL", "Function", "Signature", "can_cast", "common_type", "widens"]

FUNCTIONS: Final[dict[str, Function]] = {
    f.name: f
    for family in (
        OPERATORS, CHOICE, NUMBERS, TRIGONOMETRY, TEXT, TEXT_FORMS, FROM_JSON, DATES, DATE_FORMATS, HASHING, LISTS,
        LIST_SUMMARIES, CASTS, DURATIONS, STRUCTS, TRIES, TEMPLATES, NUMBER_FORMATS,
    )
    for f in family
}  # fmt: skip

BY_NAME: Final[dict[str, Function]] = {
    name: f for f in FUNCTIONS.values() for name in (f.sql.lower(), *f.aliases) if name.isidentifier()
}
"""Functions by their names in SQL, in small letters."""
