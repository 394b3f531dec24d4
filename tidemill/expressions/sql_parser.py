"""SQL text to expressions, by sqlglot in Spark's dialect.

sqlglot reads the syntax. Functions are looked up by their names in our registry: what sqlglot takes a call for differs
from version to version. It is imported here and in the other modules named ``sql_`` alone, and these where SQL text is
met.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate, bool_or
from tidemill.expressions.composed_aggregates import Composition
from tidemill.expressions.expr import Alias, Call, Cast, Column, Expr, Literal
from tidemill.expressions.functions import BY_NAME, FUNCTIONS
from tidemill.expressions.functions.choice import nullif, when
from tidemill.expressions.functions.dates import WITH_UNIT, extract, to_date, to_timestamp
from tidemill.expressions.functions.text import ilike, instr, trim
from tidemill.expressions.functions.tries import try_to_date, try_to_timestamp
from tidemill.expressions.functions.trigonometry import pi
from tidemill.expressions.intervals import Interval, interval_of, sum_of, unit_of
from tidemill.expressions.recursion_guard import recursion_guard, too_deep
from tidemill.expressions.sql_aggregates import AGGREGATES, aggregate
from tidemill.expressions.sql_windows import WINDOW_FUNCTIONS, window_call
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DType,
    dtype,
    list_type,
)

_SPARK: Final = Dialect.get_or_raise("spark")
_GRAMMAR: Final[Any] = _SPARK.parser_class
_UNSIGNED: Final = "unsigned"
"""A mark on what stands on the right of >>>."""
_DIRECTION: Final = re.compile(r"\b(asc|desc|nulls\s+(first|last))\s*$", re.IGNORECASE)


def parse(text: str) -> Expr:
    """Return the expression that SQL text stands for; ``SchemaError`` names what is wrong or not supported.

    >>> parse("a <=> 1")
    a <=> 1
    >>> parse("uper(a)")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tidemill.errors.SchemaError: UPER(a) in `uper(a)` is not supported in a scalar expression: no function `uper`; ...
    """
    # Short texts come again and again; what is said of a window is said each time.
    parsed = _kept if len(text) <= _SHORT and "over" not in text.lower() else _parsed
    try:
        return parsed(text)
    except RecursionError:
        raise too_deep() from None


@recursion_guard
def _parsed(text: str) -> Expr:
    try:
        trees = _here.syntax.parse(_here.tokenizer.tokenize(text), text)
    except SqlglotError as error:
        if isinstance(error.__cause__, RecursionError):
            raise error.__cause__ from None
        reason = str(error).splitlines()[0]
        hint = f"A literal string is tm.lit({text!r})"
        if _DIRECTION.search(text):
            hint = "ASC, DESC, NULLS FIRST and NULLS LAST are for order_by= alone, and once: there or tm.asc, tm.desc"
        msg = f"`{text}` is not a SQL expression: {reason}. {hint}"
        raise SchemaError(msg) from None
    if len(trees) != 1 or trees[0] is None:
        msg = f"`{text}` is not a SQL expression: expected one. A literal string is tm.lit({text!r})"
        raise SchemaError(msg)
    return ExpressionParser(text).expression(trees[0])


_SHORT: Final = 200
_kept: Final = functools.lru_cache(1024)(_parsed)


def whole_call(this: Any) -> Any:
    """Return a call before a bracket so that the bracket is not taken for part of it."""
    return exp.Paren(this=this) if isinstance(this, exp.Anonymous) and this.expressions else this


def with_own_syntax(grammar: Any) -> dict[str, Any]:
    """Return the rules of the few calls that have a syntax of their own in a grammar."""
    own = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM")
    return {name: rule for name, rule in grammar.FUNCTION_PARSERS.items() if name in own}


class _Syntax(_GRAMMAR):  # type: ignore[misc]
    """Spark's grammar; calls stay calls by name, but for the few that have a syntax of their own."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = with_own_syntax(_GRAMMAR)

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:  # noqa: ARG002 - sqlglot's
        """Take a name after AS alone: of ``a > 1 b`` or ``v desc`` the last word is a mistake, and not a name."""
        return super()._parse_alias(this, explicit=True)

    def _parse_bracket(self, this: Any = None) -> Any:
        """Take an element of ``array(1, 2)[0]``, which to sqlglot is another way to write ``array(0)``."""
        return super()._parse_bracket(whole_call(this))

    def _parse_term(self) -> Any:
        """Take >>> for a shift of its own: to sqlglot it is >> and a comparison without a left side."""
        after_shift = self._prev is not None and self._prev.token_type == TokenType.GT
        if after_shift and self._match(TokenType.GT):
            return exp.Paren(this=super()._parse_term(), **{_UNSIGNED: True})
        return super()._parse_term()


class _Here(threading.local):
    """sqlglot's readers, one of each for each thread: to make them takes as long as to read a short text."""

    def __init__(self) -> None:
        self.tokenizer = _SPARK.tokenizer()
        self.syntax = _Syntax(dialect=_SPARK)


_here: Final = _Here()


class ExpressionParser:
    """Turns sqlglot's nodes into ours; keeps the text for errors. Those of whole queries say what else there is."""

    @property
    def special(self) -> Rules:
        """What is done with nodes of a class of sqlglot's, but for plain operators."""
        return SPECIAL

    def __init__(self, text: str) -> None:
        self.text = text

    def equal(self, left: Expr, right: Expr, node: Any) -> Expr:
        """Return whether two values are equal."""
        del node
        return left == right

    def sort_value(self, node: Any) -> Expr:
        """Return what an ORDER BY goes by."""
        return self.expression(node)

    def expression(self, node: Any) -> Expr:
        rule, found = self.special.get(type(node)), None
        if rule is not None:
            found = rule(self, node)
        elif type(node) in _BY_CLASS and not {k for k, v in node.args.items() if v} - _UNDERSTOOD:
            found = self.operator(node)
        if found is None:
            raise self.unsupported(node)
        return ~found if node.args.get("negate") else found

    def unsupported(self, node: Any, why: str = "") -> SchemaError:
        what = node.sql(dialect=_SPARK) if isinstance(node, exp.Expression) else str(node)
        return SchemaError(f"{what} in `{self.text}` is not supported in a scalar expression" + why)

    def operator(self, node: exp.Expression) -> Expr:
        operands = [v for k in ("this", "expression") if (v := node.args.get(k)) is not None]
        for operand in operands:
            # Spark binds & before ^ before |, sqlglot all alike.
            if type(node) in _BITS and type(operand) in _BITS and type(operand) is not type(node):
                raise self.unsupported(node, ": write parentheses where & | ^ << >> meet")
        return Call(_BY_CLASS[type(node)], tuple(self.expression(o) for o in operands))

    def sum(self, node: exp.Add) -> Expr:
        """Return an addition, or one literal for INTERVAL 1 DAY 2 HOURS, which for sqlglot is an addition too."""
        found = self.operator(node)
        assert isinstance(found, Call)
        parts = [a.value for a in found.args if isinstance(a, Literal) and isinstance(a.value, Interval)]
        return Literal(sum_of(parts)) if len(parts) == len(found.args) else found

    def right_shift(self, node: exp.BitwiseRightShift) -> Expr:
        by = node.expression
        if not by.args.get(_UNSIGNED) or by.this is None or by.this.args.get(_UNSIGNED):
            return self.operator(node)
        signed = self.operator(exp.BitwiseRightShift(this=node.this, expression=by.this))
        return Call("shift_right_unsigned", signed.parts)

    def hex(self, node: exp.HexString) -> Expr:
        """Return the bytes, with a zero before an odd number of digits, as Spark has it."""
        digits = node.name
        if not re.fullmatch(r"[0-9a-fA-F]*", digits):
            raise self.unsupported(node, ": its digits are 0 to 9 and A to F")
        return Literal(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)))

    def quoted(self, node: exp.Concat) -> Expr:
        """Refuse two literals side by side: 'it''s' to Spark is one with a quote in it, to sqlglot two."""
        raise self.unsupported(node, ": for a quote within a string write \\', and CONCAT to join strings")

    def function(self, node: exp.Anonymous, within: Sequence[exp.Expression] = (), name: str = "") -> Expr:
        """Return what a call stands for, or one that is written like it of another name."""
        name, given = name or node.name.lower(), node.expressions
        if name in _UNSTEADY:
            raise self.unsteady(node)
        if name in AGGREGATES:
            return aggregate(name, node, self, within)
        if within:
            raise self.unsupported(node, ": WITHIN GROUP is for aggregates in an order")
        if name in _WITH_UNIT and len(given) == _WITH_UNIT_ARGUMENTS:
            unit = unit_of(given[0].name)
            if unit is None:
                raise self.unsupported(node, f": {given[0].name!r} is no unit of time")
            return Call(_WITH_UNIT[name], (Literal(unit), *map(self.expression, given[1:])))
        if name in WINDOW_FUNCTIONS:
            raise self.unsupported(node, f": {name.upper()} is a window function: OVER (PARTITION BY ...) is missing")
        args = [self.expression(a) for a in given]
        if builder := _BUILDERS.get((name, len(args))):
            return builder(*args)
        if name == "struct" and args:
            return struct_of(args, given)
        if name in _CAST_NAMES and len(args) == 1:
            return Cast(args[0], _CAST_NAMES[name])
        found = BY_NAME.get(name)
        if found is None:
            others = {*BY_NAME, *(n for n, _ in _BUILDERS), *AGGREGATES}
            hint = "; " + did_you_mean(name, sorted(others - {name}))
            why = f": `{name}` does not take {len(args)} arguments" if name in others else f": no function `{name}`"
            raise self.unsupported(node, why + hint * hint.startswith("; did"))
        return Call(found.name, tuple(args))

    def unsteady(self, node: exp.Expression) -> SchemaError:
        return self.unsupported(
            node,
            ": it is no function of the row, and a result that changes while its input does not cannot be kept up to "
            "date; bring the value in as a column or an input",
        )

    def any(self, node: exp.Any) -> Expr:
        """Return the aggregate, which is a keyword too and so no call to sqlglot."""
        return bool_or(self.expression(node.this))

    def filter(self, node: exp.Filter) -> Expr | None:
        """Return an aggregate with FILTER (WHERE ...)."""
        filtered = self.expression(node.this)
        is_aggregate = isinstance(filtered, (Aggregate, Composition))
        return filtered.filter(self.expression(node.expression.this)) if is_aggregate else None  # type: ignore[attr-defined]

    def within_group(self, node: exp.WithinGroup) -> Expr | None:
        """Return an aggregate with WITHIN GROUP (ORDER BY ...)."""
        return self.function(node.this, node.expression.expressions) if isinstance(node.this, exp.Anonymous) else None

    def bracket(self, node: exp.Bracket) -> Expr | None:
        """Return an element of a list, which sqlglot counts from 0 whatever the dialect."""
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            return None
        return Call("item", (self.expression(node.this), self.expression(node.expressions[0])))

    def position(self, node: exp.StrPosition) -> Expr:
        start = node.args.get("position")
        args = (node.args["substr"], node.this, *([start] if start else []))
        return Call("locate", tuple(self.expression(a) for a in args))

    def interval(self, node: exp.Interval) -> Expr | None:
        unit, number = node.args.get("unit"), node.this
        text = self.expression(number.unnest() if isinstance(number, exp.Paren) else number) if number else None
        text = resolve(text) if text is not None else None
        if not isinstance(text, Literal) or isinstance(text.value, bool) or not isinstance(text.value, (str, int)):
            raise self.unsupported(
                node, ": an interval of so many units is a literal; TIMESTAMPADD(unit, number, t) takes any"
            )
        if unit is None:
            pieces = str(text.value).split()
            if not pieces or len(pieces) % 2:
                return None
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            return Literal(sum_of([interval_of(number, word) for number, word in pairs]))
        if isinstance(unit, exp.IntervalSpan):
            return Literal(interval_of(str(text.value), unit.this.name, unit.expression.name))
        return Literal(interval_of(str(text.value), unit.name))

    def column(self, node: exp.Column) -> Expr | None:
        """Return a column, or a field of one."""
        if not all(isinstance(part, exp.Identifier) for part in node.parts):
            return None
        first, *fields = (part.name for part in node.parts)
        found: Expr = Column(first)
        return functools.reduce(Expr.field, fields, found)

    def dot(self, node: exp.Dot) -> Expr | None:
        """Return a field of a struct."""
        plain = isinstance(node.expression, exp.Identifier)
        return self.expression(node.this).field(node.name) if plain else None

    def literal(self, node: exp.Literal) -> Expr:
        text = node.name
        if node.is_string:
            return Literal(text)
        if "e" in text.lower():
            value = float(text)
            if math.isinf(value):
                msg = f"`{text}` is beyond the range of float64: infinity is CAST('Infinity' AS DOUBLE)"
                raise SchemaError(msg)
            return Literal(value)
        is_short = len(text) <= MAX_DECIMAL_PRECISION
        return Literal(int(text) if is_short and "." not in text else decimal.Decimal(text))

    def negative(self, node: exp.Neg) -> Expr:
        return -self.expression(node.this)

    def cast(self, node: exp.Cast) -> Expr | None:
        if node.args.get("format"):
            return None
        to, value, safe = self.type(node.to), self.expression(node.this), bool(node.args.get("safe"))
        return narrowed(value.try_cast(to) if safe else Cast(value, to), node.to, safe=safe)

    def type(self, node: exp.DataType) -> DType:
        if isinstance(node.this, exp.Interval):
            return self.interval_type(node.this)
        known = _TYPES.get(node.this)
        if known is not None:
            return known
        if node.this == exp.DataType.Type.ARRAY and len(node.expressions) == 1:
            return list_type(self.type(node.expressions[0]))
        name = node.sql(dialect=_SPARK)
        if name == "STRING" and node.this not in _TEXTS:  # what Spark would keep as text
            raise self.unsupported(node)
        try:
            return dtype(name)
        except SchemaError:
            raise self.unsupported(node) from None

    def interval_type(self, node: exp.Interval) -> DType:
        """Return the type of intervals of parts from days to seconds; those of months are no columns."""
        names = {part.name.upper() for part in node.find_all(exp.Var)}
        if not names or names - {"DAY", "HOUR", "MINUTE", "SECOND"}:
            raise self.unsupported(node, ": intervals of months are literals alone; columns hold days to seconds")
        return INTERVAL

    def case(self, node: exp.Case) -> Expr:
        subject = self.expression(node.this) if node.this else None
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            test = self.expression(branch.this)
            args += [test if subject is None else self.equal(subject, test, node), self.expression(branch.args["true"])]
        default = node.args.get("default")
        return Call("case", (*args, self.expression(default) if default else Literal(None)))

    def if_(self, node: exp.If) -> Expr:
        false = node.args.get("false")
        args = (node.this, node.args["true"], false or exp.Null())
        return Call("case", tuple(self.expression(a) for a in args))

    def is_(self, node: exp.Is) -> Expr | None:
        value = self.expression(node.this)
        if isinstance(node.expression, exp.Null):
            return value.is_null()
        if isinstance(node.expression, exp.Boolean):
            return value.eq_null_safe(self.expression(node.expression))
        return None

    def in_(self, node: exp.In) -> Expr | None:
        if set(node.args) - {"this", "expressions"} and any(node.args.get(k) for k in ("query", "unnest", "field")):
            return None
        return self.expression(node.this).isin([self.expression(e) for e in node.expressions])

    def between(self, node: exp.Between) -> Expr | None:
        if node.args.get("symmetric"):
            return None
        return self.expression(node.this).between(self.expression(node.args["low"]), self.expression(node.args["high"]))

    def trim(self, node: exp.Trim) -> Expr | None:
        name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper())
        if name is None or node.args.get("collation"):
            return None
        if node.expression is None:
            return Call(name, (self.expression(node.this),))
        return Call(f"{name}_of", (self.expression(node.this), self.expression(node.expression)))

    def overlay(self, node: exp.Overlay) -> Expr:
        """Return a string with another one in it: OVERLAY(s PLACING t FROM n FOR m)."""
        given = [node.this, node.expression, node.args["from_"], *filter(None, [node.args.get("for_")])]
        return Call("overlay", tuple(map(self.expression, given)))

    def substring(self, node: exp.Substring) -> Expr:
        args = [v for k in ("this", "start", "length") if (v := node.args.get(k)) is not None]
        return Call("substring", tuple(self.expression(a) for a in args))

    def extract(self, node: exp.Extract) -> Expr:
        return extract(node.name, self.expression(node.expression))


_TYPES: Final = {
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,  # what sqlglot makes of Spark's TIMESTAMP; ours have no zone
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: TIMESTAMPTZ,
    exp.DataType.Type.TIME: TIME,
    exp.DataType.Type.INTERVAL: INTERVAL,
    exp.DataType.Type.UUID: UUID,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.INT: INT32,
    exp.DataType.Type.BIGINT: INT64,
    exp.DataType.Type.DOUBLE: FLOAT64,
}


_NARROW: Final = {
    exp.DataType.Type.SMALLINT: "smallint", exp.DataType.Type.TINYINT: "tinyint", exp.DataType.Type.FLOAT: "real",
    exp.DataType.Type.VARCHAR: "varchar", exp.DataType.Type.CHAR: "char",
}  # fmt: skip
"""Types that are kept as larger ones."""


def narrowed(value: Expr, to: exp.DataType, *, safe: bool = False) -> Expr:
    """Return a value of the type in which another one is kept, once it is known to be of that."""
    kind, given = _NARROW.get(to.this), to.expressions
    if kind is None or (kind in ("varchar", "char")) != (len(given) == 1):
        return value
    return Call("fit", (value, Literal(" ".join([kind, *(g.name for g in given)])), Literal(safe)))


def struct_of(values: Sequence[Expr], given: Sequence[exp.Expression]) -> Expr:
    """Return STRUCT(a, b + 1 AS c, ...); a value without a name is called by its place, as in Spark."""
    named = (exp.Column, exp.Dot, exp.Alias)
    names = [g.alias_or_name if isinstance(g, named) else f"col{i}" for i, g in enumerate(given, 1)]
    plain = [v.arg if isinstance(v, Alias) else v for v in values]
    return Call("named_struct", tuple(p for n, v in zip(names, plain, strict=True) for p in (Literal(n), v)))


_TEXTS: Final = {exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR}

Rules: TypeAlias = dict[type, Callable[[ExpressionParser, Any], Expr | None]]


def _refuse(parser: ExpressionParser, node: exp.Expression) -> None:
    raise parser.unsteady(node)


SPECIAL: Final[Rules] = {
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.SessionUser), _refuse),
    exp.Paren: lambda p, n: None if n.args.get(_UNSIGNED) else p.expression(n.this),
    exp.Alias: lambda p, n: Alias(p.expression(n.this), n.alias),
    exp.Column: ExpressionParser.column,
    exp.Dot: ExpressionParser.dot,
    exp.Literal: ExpressionParser.literal,
    exp.Null: lambda _p, _n: Literal(None),
    exp.Boolean: lambda _p, n: Literal(bool(n.this)),
    exp.HexString: ExpressionParser.hex,
    exp.BitwiseRightShift: ExpressionParser.right_shift,
    exp.Neg: ExpressionParser.negative,
    exp.Cast: ExpressionParser.cast,
    exp.TryCast: ExpressionParser.cast,
    exp.Case: ExpressionParser.case,
    exp.If: ExpressionParser.if_,
    exp.Is: ExpressionParser.is_,
    exp.In: ExpressionParser.in_,
    exp.Between: ExpressionParser.between,
    exp.Trim: ExpressionParser.trim,
    exp.Overlay: ExpressionParser.overlay,
    exp.Substring: ExpressionParser.substring,
    exp.Anonymous: ExpressionParser.function,
    exp.Any: ExpressionParser.any,
    exp.Window: lambda p, n: window_call(n, p),
    exp.Filter: ExpressionParser.filter,
    exp.WithinGroup: ExpressionParser.within_group,
    exp.Array: lambda p, n: Call("array", tuple(map(p.expression, n.expressions))),
    exp.Bracket: ExpressionParser.bracket,
    exp.Add: ExpressionParser.sum,
    exp.Concat: ExpressionParser.quoted,
    exp.StrPosition: ExpressionParser.position,
    exp.Interval: ExpressionParser.interval,
    exp.Extract: ExpressionParser.extract,
    exp.ILike: lambda p, n: ilike(p.expression(n.this), p.expression(n.expression)),
    exp.NullSafeNEQ: lambda p, n: ~p.expression(n.this).eq_null_safe(p.expression(n.expression)),
    exp.DPipe: lambda p, n: Call("concat", (p.expression(n.this), p.expression(n.expression))),
}

_BY_CLASS: Final = {getattr(exp, f.operator): f.name for f in FUNCTIONS.values() if f.operator}
_UNDERSTOOD: Final = {"this", "expression", "negate", "typed", "safe"}
_BITS: Final[set[type]] = {exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift}

_BUILDERS: Final[dict[tuple[str, int], Callable[..., Expr]]] = {
    ("nullif", 2): nullif,
    ("isnotnull", 1): Expr.is_not_null,
    ("nvl2", 3): lambda value, given, otherwise: when(value.is_not_null(), given).otherwise(otherwise),
    ("instr", 2): instr,
    ("charindex", 2): lambda part, value: instr(value, part),
    ("ilike", 2): ilike,
    ("log", 1): lambda value: Call("ln", (value,)),
    ("date_part", 2): lambda part, moment: extract(getattr(resolve(part), "value", ""), moment),
    **{("to_date", n): to_date for n in (1, 2)},
    **{(name, n): to_timestamp for name in ("to_timestamp", "to_timestamp_ntz") for n in (1, 2)},
    **{("try_to_date", n): try_to_date for n in (1, 2)},
    **{("try_to_timestamp", n): try_to_timestamp for n in (1, 2)},
    ("btrim", 2): trim,
    ("pi", 0): pi,
    ("nanvl", 2): lambda a, b: when(Call("isnan", (a,)), b).otherwise(a),
    ("date_diff", 2): lambda end, start: Call("datediff", (end, start)),
    ("dateadd", 2): lambda date, days: Call("date_add", (date, days)),
}
"""Calls that stand for other expressions, by name and number of arguments."""

_WITH_UNIT: Final = {
    **{name: name for name in WITH_UNIT}, "dateadd": "timestampadd", "date_add": "timestampadd",
    "datediff": "timestampdiff", "date_diff": "timestampdiff",
}  # fmt: skip
_WITH_UNIT_ARGUMENTS: Final = 3

_CAST_NAMES: Final = {
    "bigint": INT64, "int": INT32, "double": FLOAT64, "string": STRING, "boolean": BOOL, "binary": BINARY, "date": DATE,
    "timestamp": TIMESTAMP,
}  # fmt: skip

_UNSTEADY: Final = {
    "current_date", "curdate", "current_timestamp", "localtimestamp", "now", "current_time", "unix_timestamp", "rand",
    "random", "randn", "uuid", "monotonically_increasing_id", "spark_partition_id", "input_file_name", "current_user",
    "user", "session_user", "shuffle",
}  # fmt: skip
