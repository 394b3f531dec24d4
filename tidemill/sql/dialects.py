"""What differs between dialects: case of names, division, functions. Types and errors are Spark's in all of them."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidemill.errors import SqlError, did_you_mean
from tidemill.expressions.sql_aggregates import AGGREGATES
from tidemill.expressions.sql_windows import WINDOW_FUNCTIONS


@attrs.frozen
class Dialect:
    """A dialect of SQL."""

    name: str
    folds: bool
    """Whether names without quotes are in small letters; else names match without regard to case."""
    whole_division: bool = False
    """Whether ``/`` of whole numbers gives a whole number."""
    float_division: bool = False
    """Whether ``/`` of decimals gives a float64."""
    aliases_in_where: bool = False
    """Whether WHERE sees what SELECT names."""
    aliases_in_having: bool = True
    """Whether HAVING and SELECT see what SELECT names."""
    keys_in_place: bool = False
    """Whether the columns of USING stay where the left side has them; else they come first."""
    functions: frozenset[str] | None = None
    """The scalar functions, of those of the library, that mean the same in the dialect; None for all."""

    def key(self, name: Any) -> str:
        """Return what an identifier of sqlglot's is found by."""
        return self.written(name) if self.folds else str(name.name).lower()

    def written(self, name: Any) -> str:
        """Return a name as it is shown."""
        text: str = name.name
        return text.lower() if self.folds and not name.args.get("quoted") else text

    def key_of(self, name: str) -> str:
        """Return what a name from outside of the text is found by."""
        return name if self.folds else name.lower()

    def has(self, function: str) -> bool:
        """Return whether a function is in the dialect, with the library's meaning."""
        return self.functions is None or function in self.functions or function in AGGREGATES | WINDOW_FUNCTIONS


_COMMON: Final = frozenset((
    "abs", "ceil", "ceiling", "floor", "sign", "mod", "coalesce", "nullif", "greatest", "least",
    "upper", "lower", "length", "char_length", "character_length", "replace", "reverse", "concat", "ascii", "chr",
    "translate", "year", "month", "day", "substring", "substr", "position", "round", "left", "right", "btrim",
))  # fmt: skip
"""Scalar functions that mean the same in PostgreSQL and DuckDB as here, for the arguments that are let through."""
_POSTGRES: Final = _COMMON - {"year", "month", "day"}
_DUCKDB: Final = _COMMON | {"contains", "quarter", "hour", "minute", "dayofyear", "last_day", "ifnull"}

DIALECTS: Final = {
    "spark": Dialect("spark", folds=False),
    "duckdb": Dialect(
        "duckdb", folds=False, float_division=True, aliases_in_where=True, keys_in_place=True, functions=_DUCKDB
    ),
    **{
        name: Dialect(name, folds=True, whole_division=True, aliases_in_having=False, functions=_POSTGRES)
        for name in ("postgres", "materialize", "risingwave")
    },
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect; `SqlError` where there is none of that name."""
    if name not in DIALECTS:
        msg = f"dialect={name!r}: {did_you_mean(str(name), DIALECTS)}"
        raise SqlError(msg)
    return DIALECTS[name]
