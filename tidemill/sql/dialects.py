"""What differs between dialects: case of names, division, functions. Types and errors are Spark's in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidemill.errors import SqlError, did_you_mean
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
    """The functions and aggregates of the library that mean the same in the dialect; None for all."""
    instead: Mapping[str, str] = attrs.field(factory=dict)
    """What else names mean, by the library's name of that."""

    def named(self, text: str) -> str:
        """Return a message with the dialect's names of functions that are others of the library's."""
        for name, meant in self.instead.items():
            for after in "( ":
                text = text.replace(meant.upper() + after, name.upper() + after)
        return text

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
        return self.functions is None or function in self.functions or function in WINDOW_FUNCTIONS


_AGGREGATES: Final = frozenset((
    "count", "sum", "avg", "mean", "min", "max", "bool_or", "some", "any", "bool_and", "every", "stddev", "stddev_samp",
    "std", "variance", "var_samp", "list", "first", "first_value", "last", "last_value", "stddev_pop", "var_pop",
    "string_agg", "array_agg",
))  # fmt: skip
_OF_BITS: Final = frozenset(("bit_and", "bit_or", "bit_xor"))
_IN_ORDER: Final = frozenset(("mode", "percentile_cont", "percentile_disc"))
_OF_PAIRS: Final = frozenset((
    "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
))  # fmt: skip
_COMMON: Final = _AGGREGATES | {
    "abs", "ceil", "ceiling", "floor", "sign", "mod", "coalesce", "nullif", "greatest", "least",
    "upper", "lower", "length", "char_length", "character_length", "replace", "reverse", "concat", "ascii", "chr",
    "translate", "year", "month", "day", "substring", "substr", "position", "round", "left", "right", "btrim",
    "md5", "sin", "cos", "tan", "cot", "atan", "atan2", "degrees", "radians", "pi", "cbrt", "split_part", "strpos",
}  # fmt: skip
"""Functions that mean the same in PostgreSQL and DuckDB as here, for the arguments that are let through."""
_LIKE_POSTGRES: Final = _COMMON - {"year", "month", "day"} | {"to_char", "date_part", "string_to_array"}
_RISINGWAVE: Final = _LIKE_POSTGRES | _OF_BITS | _IN_ORDER
_MATERIALIZE: Final = _LIKE_POSTGRES | {"age"}
_POSTGRES: Final = _RISINGWAVE | _OF_PAIRS | {"any_value", "age"}
_DUCKDB: Final = _COMMON | _OF_BITS | _IN_ORDER | _OF_PAIRS | {
    "list_extract", "hex", "contains", "quarter", "hour", "minute", "second", "dayofyear", "last_day", "ifnull",
    "string_split", "str_split", "split", "string_to_array",
    "age", "date_part", "any_value", "count_if", "listagg", "median", "min_by", "max_by", "arg_min", "arg_max",
}  # fmt: skip
_MEANT: Final = {"array_agg": "#list", "list": "#list", "strpos": "instr"}
"""Lists of all values are NULL where there are none; other names."""
_MEANT_IN_POSTGRES: Final = _MEANT | {"to_char": "template_to_char"}
_MEANT_IN_DUCKDB: Final = _MEANT | {
    "arg_min": "#min_by", "min_by": "#min_by", "arg_max": "#max_by", "max_by": "#max_by",
    "list_extract": "try_element_at",
}  # fmt: skip
"""What rows have where another value is least or greatest is of those that have it; NULL is where no element is."""

DIALECTS: Final = {
    "spark": Dialect("spark", folds=False),
    "duckdb": Dialect(
        "duckdb",
        folds=False,
        float_division=True,
        aliases_in_where=True,
        functions=_DUCKDB,
        instead=_MEANT_IN_DUCKDB,
        keys_in_place=True,
    ),
    **{
        name: Dialect(
            name,
            folds=True,
            whole_division=True,
            aliases_in_having=False,
            functions=functions,
            instead=_MEANT_IN_POSTGRES,
        )
        for name, functions in (("postgres", _POSTGRES), ("materialize", _MATERIALIZE), ("risingwave", _RISINGWAVE))
    },
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect; `SqlError` where there is none of that name."""
    if name not in DIALECTS:
        msg = f"dialect={name!r}: {did_you_mean(str(name), DIALECTS)}"
        raise SqlError(msg)
    return DIALECTS[name]
