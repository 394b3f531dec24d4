"""Table functions in FROM, LATERAL VIEW and SELECT: lists unnested, series, and windows of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
from sqlglot import exp

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.aggregate_functions import max as greatest
from tidemill.expressions.expr import Call, Column, Expr, Literal, lit
from tidemill.expressions.functions import NULL, common_type
from tidemill.expressions.instants import units_of
from tidemill.expressions.intervals import DAYS, MICROSECONDS, Interval
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import DATE, INT32, INT64, TIMESTAMP, DType
from tidemill.expressions.windows.functions import lag
from tidemill.expressions.windows.specification import Window as WindowOf
from tidemill.sql.expressions import Expressions
from tidemill.sql.plan import Filter, Node, Project, Unnest, Window
from tidemill.sql.scopes import Names, Relation, Visible
from tidemill.sql.table_functions import Each, Elements, Numbered, Series

_OUTER: Final = "_outer"
_LISTS: Final = ("explode", "posexplode", "unnest")
_SERIES: Final = ("generate_series", "range", "sequence")
WINDOWS: Final = ("tumble", "hop", "session")
"""Table functions whose first argument is a table."""
SELECTED: Final = ("explode", "explode_outer", "unnest", "generate_series")
"""Those that may stand as a column of SELECT, too."""
KNOWN: Final = (*_LISTS, *(n + _OUTER for n in _LISTS[:2]), *_SERIES, *WINDOWS)


@attrs.frozen
class MadeTable:
    """What a call of a table function stands for."""

    function: Numbered
    arguments: tuple[Expr, ...]
    names: tuple[str, ...]
    """Those of its columns."""
    types: tuple[DType, ...]
    shown_as: Callable[[Expr], Expr] = lambda e: e
    """What becomes of the last column, which may be a number that stands for something else."""
    nothing: Expr | None = None
    """The condition under which there are no rows, but for arguments that are NULL."""


def is_call(node: Any) -> bool:
    """Return whether an item of FROM is a call of a table function."""
    inside = node.this if isinstance(node, (exp.Lateral, exp.Table)) else node
    return isinstance(inside, (exp.Anonymous, exp.Unnest, exp.Array))


def called(names: Names, parser: Expressions, node: Any) -> tuple[MadeTable, bool]:
    """Return what a call stands for, and whether a row for which it gives nothing is kept."""
    inside = node.this if isinstance(node, (exp.Lateral, exp.Table)) else node
    if isinstance(inside, exp.Unnest):
        names.source.only(inside, "expressions", "alias", "offset")
        offset = inside.args.get("offset")
        made = _unnested(names, parser, inside, inside.expressions, "unnest", 1 if offset else None)
        named = names.dialect.written(offset) if isinstance(offset, exp.Identifier) else made.names[-1]
        return attrs.evolve(made, names=(*made.names[:-1], named)) if offset else made, False
    name = inside.name.lower()
    outer = name.endswith(_OUTER) or bool(isinstance(node, exp.Lateral) and node.args.get("outer"))
    plain = name.removesuffix(_OUTER)
    if plain in _LISTS:
        first = 0 if plain.startswith("pos") else 1 if node.args.get("ordinality") else None
        return _unnested(names, parser, inside, inside.expressions, plain, first), outer
    if name in _SERIES:
        first = 1 if node.args.get("ordinality") else None
        return _series(names, parser, inside, name, first), outer
    near = did_you_mean(name, sorted(KNOWN))
    hint = near if near.startswith("did") else None
    raise names.error(inside, f"table function `{name}` in FROM is not supported", hint)


def _value_name(names: Names, plain: str) -> str:
    if names.dialect.name == "spark":
        return {"range": "id"}.get(plain, "col")
    return plain


def _unnested(  # noqa: PLR0917 - a call, and how it counts
    names: Names, parser: Expressions, node: Any, given: Sequence[Any], plain: str, first: int | None
) -> MadeTable:
    """Return the elements of a list; those of one that is written out are no list first."""
    if len(given) != 1:
        raise names.error(node, f"{plain.upper()} takes one list, not {len(given)}", "join several by their places")
    (one,) = given
    called = ("pos", _value_name(names, plain)) if plain == "posexplode" else (_value_name(names, plain), "ordinality")
    shown = called if first is not None else called[:1]
    if isinstance(one, exp.Anonymous) and one.name.lower() in ("sequence", "generate_series", "range"):
        return attrs.evolve(_series(names, parser, one, one.name.lower(), first), names=shown)
    is_written = isinstance(one, exp.Array) or (isinstance(one, exp.Anonymous) and one.name.lower() == "array")
    if is_written and one.expressions:
        return each(names, one, [parser.expression(e) for e in one.expressions], shown, first)
    value = parser.expression(one)
    dtype = names.type_of(value, one)
    if dtype.element is None:
        raise names.error(one, f"{plain.upper()} of {dtype}: expected a list")
    return attrs.evolve(_made(Elements, (value,), shown, dtype.element, first), nothing=Call("size", (value,)) == 0)


def each(names: Names, node: Any, values: Sequence[Expr], shown: Sequence[str], first: int | None) -> MadeTable:
    """Return what gives each of some values, which get one type, a row; with their places from a first number on."""
    types = [names.type_of(v, node) for v in values]
    dtype = common_type(types)
    if dtype is None or dtype == NULL or dtype.is_list:
        said = " and ".join(dict.fromkeys(map(str, types)))
        raise names.error(node, f"values of types {said} in one list", "cast one of them")
    cast = tuple(v if t == dtype else v.cast(dtype) for v, t in zip(values, types, strict=True))
    return _made(Each, cast, shown, dtype, first)


def _made(kind: Any, arguments: tuple[Expr, ...], shown: Sequence[str], dtype: DType, first: int | None) -> MadeTable:
    """Return a call's meaning; where SQL has the place behind the value, it is so in ``shown`` too."""
    types = (dtype,) if first is None else (INT64, dtype)
    return MadeTable(kind((), first), arguments, tuple(shown), types)


def _series(names: Names, parser: Expressions, node: exp.Anonymous, plain: str, first: int | None) -> MadeTable:
    given = [parser.expression(e) for e in node.expressions]
    if plain == "range" and len(given) == 1:
        given = [lit(0), *given]
    if len(given) not in (2, 3):
        raise names.error(node, f"{plain.upper()} takes a first value, a last one and a step, not {len(given)} values")
    types = [names.type_of(e, node) for e in given[:2]]
    dtype = common_type(types)
    if dtype is None or not (dtype.is_integer or dtype in (DATE, TIMESTAMP)):
        said = " and ".join(map(str, types))
        raise names.error(node, f"{plain.upper()} from {said}: expected whole numbers, dates or timestamps")
    spark = names.dialect.name == "spark"
    if not spark and dtype in (DATE, TIMESTAMP):  # whose series of dates are of timestamps
        dtype = TIMESTAMP
    start, stop = (_number(e.cast(dtype), dtype) for e in given[:2])
    if len(given) == 3:  # noqa: PLR2004 - a step
        step = _step(names, given[2], dtype, node)
    elif dtype == TIMESTAMP:
        raise names.error(node, f"{plain.upper()} of timestamps without a step", "as in INTERVAL 1 HOUR")
    else:
        step = Call("case", (start > stop, lit(-1), lit(1))).cast(INT64) if spark else lit(1).cast(INT64)
    function = Series((), first, closed=plain != "range")
    beyond = (start > stop) if plain != "range" else (start >= stop)
    below = (start < stop) if plain != "range" else (start <= stop)
    nothing = Call("case", (step > 0, beyond, below))
    shown = (_value_name(names, plain), "ordinality") if first is not None else (_value_name(names, plain),)
    out = dtype if not dtype.is_integer or spark else INT64
    kinds = (INT64,) if first is None else (INT64, INT64)
    return MadeTable(function, (start, stop, step), shown, kinds, lambda e: _instant(e, out), nothing)


def _step(names: Names, step: Expr, dtype: DType, node: Any) -> Expr:
    if dtype.is_integer:
        given = names.type_of(step, node)
        if not given.is_integer:
            raise names.error(node, f"a step of {given}: expected a whole number")
        return step.cast(INT64)
    return lit(_units(names, step, dtype, "a step", node)).cast(INT64)


def _units(names: Names, distance: Expr, dtype: DType, what: str, node: Any) -> int:
    """Return a distance that is written out, which may go back, as a number."""
    plain = resolve(distance)
    given = plain.value if isinstance(plain, Literal) else None
    try:
        if isinstance(given, Interval) and given.amount < 0:
            return -units_of(lit(-given), dtype, what)
        return units_of(plain, dtype, what)
    except SchemaError as error:
        raise names.error(node, str(error.args[0])) from None


def _number(value: Expr, dtype: DType) -> Expr:
    """Return the whole number that stands for a moment."""
    if dtype == TIMESTAMP:
        return Call("unix_micros", (value,))
    return Call("unix_date", (value,)).cast(INT64) if dtype == DATE else value.cast(INT64)


def _instant(number: Expr, dtype: DType) -> Expr:
    """Return the moment that a number stands for."""
    if dtype == TIMESTAMP:
        return Call("timestamp_micros", (number,))
    if dtype == DATE:
        return Call("date_from_unix_date", (number.cast(INT32),))
    return number if dtype == INT64 else number.cast(dtype)


def beside(names: Names, plan: Node, made: MadeTable, *, outer: bool) -> tuple[Node, tuple[Visible, ...]]:
    """Return the rows beside those that a table function makes of each, and the columns of these."""
    raw = tuple(
        names.field(n, t, nullable=outer or i == len(made.types) - 1)
        for i, (n, t) in enumerate(zip(_in_order(made), made.types, strict=True))
    )
    arguments = tuple(names.column(a, "argument", None)[1] for a in made.arguments)
    rows: Node = Unnest(
        input=plan, function=made.function, arguments=arguments, made=raw, outer=outer, nothing=made.nothing
    )
    value = made.shown_as(Column(raw[-1].name))
    field = raw[-1]
    if not isinstance(value, Column):
        field, value = names.column(value, field.name, None)
        passed = tuple((f, Column(f.name)) for f in (*plan.columns, *raw[:-1]))
        rows = Project(input=rows, named=(*passed, (field, value)))
    shown = {n: Column(f.name) for n, f in zip(_in_order(made), (*raw[:-1], field), strict=True)}
    return rows, tuple(Visible(n, names.dialect.key_of(n), shown[n]) for n in made.names)


def _in_order(made: MadeTable) -> tuple[str, ...]:
    """Return the columns' names as the function gives them, the place first."""
    return made.names if len(made.names) == 1 or made.names[0] == "pos" else made.names[::-1]


# -- windows of time --------------------------------------------------------------------------------------------------


def windows_of(
    names: Names, parser: Expressions, node: exp.Anonymous, given: Relation, keys: Sequence[Expr]
) -> Relation:
    """Return the rows of a table in windows of time, with where each window starts and ends.

    ``tumble(t, ts, size)``, ``hop(t, ts, slide, size)`` and ``session(t, ts, gap)``. Rows without a time are in none.
    """
    kind, rest = node.name.lower(), node.expressions[1:]
    lengths = rest[1:]
    if len(lengths) != (2 if kind == "hop" else 1):
        takes = {"tumble": "a size", "hop": "a distance of starts and a size", "session": "a gap"}[kind]
        raise names.error(node, f"{kind.upper()} takes a table, a column of its times, and {takes}")
    if keys and kind != "session":
        raise names.error(node, f"{kind.upper()} of a table with PARTITION BY", "it is for SESSION")
    at = rest[0]
    if isinstance(at, exp.Anonymous) and at.name.lower() == "descriptor" and len(at.expressions) == 1:
        (at,) = at.expressions
    time, value = names.column(parser.expression(at), "time", at)
    if not (time.dtype.is_integer or time.dtype in (DATE, TIMESTAMP)):
        raise names.error(at, f"{kind.upper()} by a column of {time.dtype}: expected times, or whole numbers")
    units = []
    for one in lengths:
        length = parser.expression(one)
        found = _units(names, length, time.dtype, kind.upper(), one)
        if found <= 0:
            raise names.error(one, f"{kind.upper()} takes lengths above 0")
        units.append(found)
    plan: Node = Filter(input=given.plan, conditions=(value.is_not_null(),))
    if kind == "session":
        return _sessions(names, plan, given, value, time.dtype, units[0], keys)
    number = _number(value, time.dtype)
    slide, size = (units[0], units[-1])
    last = number - Call("pmod", (number, lit(slide).cast(INT64)))
    if kind == "tumble":
        return _placed(names, plan, given, last, size, time.dtype)
    early = number - size
    first = early - Call("pmod", (early, lit(slide).cast(INT64))) + slide
    made = MadeTable(Series(()), (first, last, lit(slide).cast(INT64)), ("start",), (INT64,))
    plan, (start,) = beside(names, plan, made, outer=False)
    return _placed(names, plan, given, start.expr, size, time.dtype)


def _placed(names: Names, plan: Node, given: Relation, start: Expr, size: int, dtype: DType) -> Relation:  # noqa: PLR0917
    """Return the rows with the start and the end of windows."""
    ends = [
        names.column(_instant(e, dtype), n, None) for n, e in (("window_start", start), ("window_end", start + size))
    ]
    named = (*((f, Column(f.name)) for f in plan.columns), *ends)
    made = Project(input=plan, named=named)
    return _with_windows(names, made, given, [f.name for f, _ in ends])


def _with_windows(names: Names, plan: Node, given: Relation, ends: Sequence[str]) -> Relation:
    pairs = zip(("window_start", "window_end"), ends, strict=True)
    more = (Visible(n, names.dialect.key_of(n), Column(c)) for n, c in pairs)
    return Relation(plan, (*given.columns, *more))


def _sessions(  # noqa: PLR0917 - rows and what a session is
    names: Names, plan: Node, given: Relation, value: Expr, dtype: DType, gap: int, keys: Sequence[Expr]
) -> Relation:
    """Return the rows with their sessions: where one begins, the greatest beginning so far, the last row of each."""
    distance = lit(gap) if dtype.is_integer else Literal(Interval(DAYS if dtype == DATE else MICROSECONDS, gap))
    window = WindowOf.partition_by(*keys).order_by(value)

    def added(rows: Node, kind: Any, name: str, expression: Expr) -> tuple[Node, Column]:
        field = names.field(name, dtype)
        if kind is Window:
            return Window(input=rows, calls=((field, expression),)), Column(field.name)
        named = (*((f, Column(f.name)) for f in rows.columns), (field, expression))
        return Project(input=rows, named=named), Column(field.name)

    plan, before = added(plan, Window, "before", lag(value).over(window))
    apart = Call("or", (before.is_null(), value > before + distance))
    plan, begins = added(plan, Project, "begins", Call("case", (apart, value, lit(None))))
    plan, start = added(plan, Window, "window_start", greatest(begins).over(window))
    plan, last = added(plan, Window, "last", greatest(value).over(WindowOf.partition_by(*keys, start)))
    plan, end = added(plan, Project, "window_end", last + distance)
    return _with_windows(names, plan, given, [start.name, end.name])
