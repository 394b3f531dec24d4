"""Expressions of queries: read as the library reads SQL text, with names by scope, subqueries, rules of dialects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from tidemill.errors import SchemaError, SqlError, did_you_mean
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.aggregates import bind_aggregate
from tidemill.expressions.expr import Call, Cast, Expr, Literal, lit
from tidemill.expressions.functions import NULL
from tidemill.expressions.functions.dates import AGE
from tidemill.expressions.functions.operators import MIRRORED, OPPOSITE
from tidemill.expressions.intervals import Interval
from tidemill.expressions.recursion_guard import MAX_DEPTH, too_deep
from tidemill.expressions.sql_parser import SPECIAL, ExpressionParser, Rules, narrowed, struct_of
from tidemill.expressions.sql_windows import window_call
from tidemill.expressions.structure import resolve
from tidemill.expressions.types import BOOL, DATE, FLOAT64, INT64, STRING, TIMESTAMP, DType
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.bound import value_fields
from tidemill.expressions.windows.calls import WindowCall
from tidemill.sql import chars, dialect_calls, moments, patterns
from tidemill.sql.dialects import Dialect
from tidemill.sql.folding import folded
from tidemill.sql.scopes import Names, Relation, Scope
from tidemill.sql.trees import Sub, mapped
from tidemill.sql.types import TEXTS, type_of

QueryBinder = Callable[[exp.Expression, "Scope | None"], Relation]

COMPARISONS: Final[dict[type, str]] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip
GROUPING: Final = "grouping"
"""The function of the registry that `grouping` stands for until the grouping sets are known: there is none."""
_QUERIES: Final = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)


class Expressions(ExpressionParser):
    """Reads the expressions of one query."""

    def __init__(self, names: Names, scope: Scope | None, query: QueryBinder) -> None:
        super().__init__(names.source.text)
        self.names = names
        self.scope = scope
        self.query = query
        self.windows: dict[str, exp.Window] = {}
        """The windows that the query's WINDOW names."""
        self.depth = 0

    @property
    def special(self) -> Rules:
        """What is done with nodes of a class."""
        return _SPECIAL

    @property
    def dialect(self) -> Dialect:
        """The text's dialect."""
        return self.names.dialect

    def expression(self, node: Any) -> Expr:
        """Return the expression that a node stands for; `SqlError` points to it if it is wrong."""
        self.depth += not isinstance(node, exp.Paren)
        try:
            if self.depth > MAX_DEPTH:  # before anything is done that takes long for each level
                raise too_deep()
            chars.strip_literals(self, node)
            return folded(super().expression(node))
        except SqlError:
            raise
        except SchemaError as error:
            raise self.names.error(node, str(error.args[0])) from None
        finally:
            self.depth -= not isinstance(node, exp.Paren)

    def unsupported(self, node: Any, why: str = "") -> Any:
        """Return the error for what is not supported."""
        what = str(node)
        if isinstance(node, exp.Expression):  # written in the dialect as far as sqlglot can, which else warns
            what = node.sql(dialect=self.dialect.name, unsupported_level=ErrorLevel.IGNORE)
        what = what if len(what) <= 80 else what[:80] + "..."  # noqa: PLR2004 - letters
        return self.names.error(node, f"`{what}` is not supported", why.removeprefix(": ") or None)

    def find(self, node: exp.Column) -> Expr:
        """Return what a name means."""
        if isinstance(node.this, exp.Star):
            raise self.names.error(node, "* stands where an expression is expected")
        return chars.read(self, node, self.names.find(self.scope, node))

    def dot(self, node: exp.Dot) -> Expr | None:
        """Return a field of a struct."""
        if not isinstance(node.expression, exp.Identifier):
            return None
        of = self.expression(node.this)
        return self.names.field_of(of, self.type_of(of, node), node.expression, node)

    def sort_value(self, node: Any) -> Expr:
        """Return what an ORDER BY goes by: of ages, how long they are."""
        return self.ordering(self.expression(node), node)

    def ordering(self, value: Expr, node: Any) -> Expr:
        """Return what a value is ordered by."""
        if self.dialect.functions is None:
            return value
        by = moments.comparable(self, value, node)
        if self.type_of(by, node).is_nested:
            raise self.unsupported(node, dialect_calls.NULL_LAST)
        return by

    def row(self, node: exp.Expression) -> Expr:
        """Return a struct: DuckDB's ``{'a': 1}``, ROW(...) and (a, b), with fields f1, f2, ... but for Spark's."""
        if isinstance(node, exp.Tuple) and self.dialect.functions is None:
            return struct_of([self.expression(e) for e in node.expressions], node.expressions)
        if isinstance(node, (exp.Anonymous, exp.Tuple)):
            named = [(f"f{i}", value) for i, value in enumerate(node.expressions, 1)]
        elif self.dialect.name == "duckdb" and all(isinstance(e, exp.PropertyEQ) for e in node.expressions):
            named = [(e.name, e.expression) for e in node.expressions]
        else:
            raise self.unsupported(node)
        return Call("named_struct", tuple(p for name, value in named for p in (lit(name), self.expression(value))))

    def function(self, node: exp.Anonymous, within: Sequence[exp.Expression] = (), name: str = "") -> Expr:
        """Return what a call stands for, if the dialect has it with the library's meaning."""
        self.names.source.only(node, "this", "expressions")
        name = name or node.name.lower()
        if name == GROUPING or (name == "grouping_id" and not self.dialect.folds):
            if not node.expressions:
                raise self.unsupported(node, ": GROUPING takes expressions of GROUP BY")
            return Call(GROUPING, tuple(map(self.expression, node.expressions)))
        if name in ("try_sum", "try_avg") and self.dialect.functions is None:
            return dialect_calls.tried(self, node)
        if name == "row" and self.dialect.folds and node.expressions:
            return self.row(node)
        if not self.dialect.has(name):
            known = sorted(self.dialect.functions or ())
            near = did_you_mean(name, known)
            hint = near if near.startswith("did") else None
            raise self.names.error(node, f"function `{name}` is not supported in dialect {self.dialect.name}", hint)
        if self.dialect.functions is not None:
            if why := dialect_calls.differs(self, name, node.expressions, within):
                raise self.unsupported(node, why)
            if name in dialect_calls.OWN:
                return dialect_calls.OWN[name](self, node)
        if name == "concat" and self.dialect.functions is not None:  # which passes over NULL, as || does not
            given = [self.expression(a) for a in node.expressions]
            if not any(self.type_of(a, node).is_nested for a in given):
                return Call("concat", tuple(Call("coalesce", (a, lit(""))) for a in given))
        return super().function(node, within, self.dialect.instead.get(name, name))

    def substring(self, node: exp.Substring) -> Expr:
        """Return a part of a text; of places that count differently between dialects, only those that agree."""
        given = [v for k in ("start", "length") if (v := node.args.get(k)) is not None]
        if self.dialect.functions is not None and not all(map(dialect_calls.is_positive, given)):
            raise self.unsupported(node, ": SUBSTRING is for places that are numbers written out, from 1 on")
        return super().substring(node)

    def extract(self, node: exp.Extract) -> Expr:
        """Return a part of a date; those that dialects count differently are refused."""
        return super().extract(node) if self.dialect.functions is None else moments.extracted(self, node)

    def sum(self, node: exp.Add) -> Expr:
        """Return an addition."""
        return self.moved(super().sum(node), node)

    def moved(self, found: Expr, node: exp.Expression) -> Expr:
        """Return a date that an interval moves as a timestamp, but in Spark's, where it stays a date."""
        if self.dialect.functions is None or not isinstance(found, Call) or not any(map(_is_interval, found.args)):
            return found
        is_date = [not _is_interval(a) and self.type_of(a, node) == DATE for a in found.args]
        args = tuple(Cast(a, TIMESTAMP) if d else a for a, d in zip(found.args, is_date, strict=True))
        return attrs.evolve(found, args=args)

    def difference(self, node: exp.Sub) -> Expr:
        """Return a difference; where it is not Spark's, that of two dates is a number of days."""
        found = self.moved(self.operator(node), node)
        if self.dialect.functions is None or not isinstance(found, Call) or any(map(_is_interval, found.args)):
            return found
        if any(self.type_of(a, node) != DATE for a in found.args):
            return found
        days = Call("datediff", found.args)
        return Cast(days, INT64) if self.dialect.name == "duckdb" else days

    def bracket(self, node: exp.Bracket) -> Expr | None:
        """Return an element of a list; but in Spark's it is NULL where there is none."""
        found = super().bracket(node)
        if self.dialect.functions is None or not isinstance(found, Call):
            return found
        place = resolve(found.args[1])
        if not isinstance(place, Literal) and self.dialect.name == "duckdb":
            raise self.unsupported(node, ": places that are not written out count from the end in DuckDB if negative")
        if isinstance(place, Literal) and not (isinstance(place.value, int) and place.value >= 0):
            raise self.unsupported(node, ": places are counted from 1")
        return Call("get", found.args)

    def type(self, node: exp.DataType) -> DType:
        """Return the type that a name means."""
        return type_of(node, self.names.source, self.dialect)

    def cast(self, node: exp.Cast) -> Expr | None:
        """Return a cast; those that round or print differently between dialects are refused."""
        safe = bool(node.args.get("safe"))
        self.names.source.only(node, "this", "to", "safe")
        length = chars.length_of(node.to, self.dialect)
        to = STRING if length is not None else self.type(node.to)
        value = self.expression(node.this)
        plain = resolve(value)
        if isinstance(plain, Literal) and isinstance(plain.value, str) and to in (DATE, TIMESTAMP) and not safe:
            return folded(Cast(Literal(plain.value), to))
        if self.dialect.functions is not None:
            given = self.type_of(value, node)
            is_rounded = isinstance(plain, Call) and plain.function == "round_scaled" and len(plain.args) == 1
            rounds = to.is_integer and given.is_numeric and not given.is_integer and not is_rounded
            prints = to == STRING and not (given.is_integer or given in (STRING, DATE, NULL))
            if rounds or prints:
                why = f": {self.dialect.name} has another result for a cast from {given} to {to}"
                raise self.unsupported(node, f"{why}; FLOOR or ROUND first" if rounds else why)
        made = value.try_cast(to) if safe else Cast(value, to)
        if length is not None:
            return chars.read(self, node, chars.filled(made, length))
        if node.to.this in TEXTS:  # PostgreSQL cuts off, others take the whole text
            cut = node.to.expressions if self.dialect.folds else ()
            return Call("left", (made, lit(int(cut[0].name)))) if cut else made
        return narrowed(made, node.to, safe=safe)

    def divide(self, node: exp.Div) -> Expr:
        """Return a division, as the dialect has it."""
        args = self.expression(node.this), self.expression(node.expression)
        if self.dialect.float_division:
            return Call("divide", tuple(Cast(a, FLOAT64) for a in args))
        whole = self.dialect.whole_division and all(self.type_of(a, node).is_integer for a in args)
        return Call("int_divide" if whole else "divide", args)

    def type_of(self, expression: Expr, node: Any) -> DType:
        """Return the type of an expression that may have subqueries, aggregates and window calls in it."""
        names = self.names

        def typed(part: Expr) -> Expr | None:
            if isinstance(part, Sub):
                dtype = names.type_of(part.values[0], node) if part.kind == "scalar" else BOOL
                return lit(None) if dtype == NULL else lit(None).cast(dtype)
            if isinstance(part, Call) and part.function == GROUPING:
                return lit(0)
            if not isinstance(part, (Aggregate, WindowCall)):
                return None
            inner = mapped(part, lambda e: None if e is part else typed(e))
            schema = names.schema([inner])
            if isinstance(inner, Aggregate):
                return lit(None).cast(bind_aggregate(inner, inner.function, schema).output)
            assert isinstance(inner, WindowCall)
            (bound,) = bind_windows([("call", inner)], schema)
            return lit(None).cast(value_fields(bound.windows)[0].dtype)

        return names.type_of(mapped(expression, typed), node)

    def whole_division(self, node: exp.IntDiv) -> Expr:
        """Return a division without its rest."""
        return Call("int_divide", (self.expression(node.this), self.expression(node.expression)))

    def connected(self, node: exp.Expression) -> Expr:
        """Return a chain of AND or OR, however long, as one call."""
        parts = [self.expression(p) for p in chain(node, type(node))]
        return Call("and" if isinstance(node, exp.And) else "or", tuple(parts))

    def window(self, node: exp.Window) -> Expr:
        """Return a window call; a window that has a name is written out."""
        return window_call(self._written_out(node), self)

    def _written_out(self, node: exp.Window) -> exp.Window:
        alias = node.args.get("alias")
        if alias is None:
            return node
        known = self.windows.get(self.dialect.key(alias))
        if known is None:
            raise self.names.error(alias, f"no window `{alias.name}`", did_you_mean(alias.name, self.windows))
        known = self._written_out(known)
        made = node.copy()
        made.parent = node.parent
        made.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            if known.args.get(part):
                if made.args.get(part):
                    what = part.replace("_", " ").upper()
                    raise self.names.error(node, f"window `{alias.name}` has {what} already")
                made.set(part, copy.deepcopy(known.args[part]))
        return made

    # -- subqueries -------------------------------------------------------------------------------------------------

    def scalar(self, node: exp.Expression) -> Expr:
        """Return the one value of a subquery."""
        found = self.query(node, self.scope)
        if len(found.columns) != 1:
            hint = f"this one has {len(found.columns)}: select one"
            raise self.names.error(node, "a subquery in an expression has one column", hint)
        if self.names.char_length(found.columns[0].expr) is not None:
            raise self.names.error(node, "a subquery's value of CHAR(n) is not supported", "cast it to TEXT there")
        return Sub("scalar", found.plan, (found.columns[0].expr,), node=node)

    def exists(self, node: exp.Exists) -> Expr:
        """Return whether a subquery has rows."""
        return Sub("exists", self.query(node.this, self.scope).plan, node=node)

    def in_(self, node: exp.In) -> Expr | None:
        """Return whether a value, or a row of them, is one of several, or of a subquery's."""
        self.names.source.only(node, "this", "expressions", "query")
        query = node.args.get("query")
        if query is None and len(node.expressions) == 1 and isinstance(node.expressions[0], _QUERIES):
            query = node.expressions[0]
        if query is not None:
            return self.compared(node.this, query, "eq", node)
        if not node.expressions:
            raise self.names.error(node, "IN without values")
        if isinstance(_bare(node.this), exp.Tuple):
            each = [self.rows_compared("eq", node.this, e, node) for e in node.expressions]
            return each[0] if len(each) == 1 else Call("or", tuple(each))
        return super().in_(node)

    def compared(self, left: exp.Expression, query: exp.Expression, comparison: str, node: Any) -> Expr:
        """Return whether some row of a subquery compares."""
        bare = _bare(left)
        operands = [self.expression(e) for e in (bare.expressions if isinstance(bare, exp.Tuple) else [bare])]
        if len(operands) > 1 and comparison not in ("eq", "ne"):
            raise self.names.error(node, "rows are compared by = and <> only")
        found = self.query(query, self.scope)
        if len(found.columns) != len(operands):
            reason = f"{len(operands)} values are compared with {len(found.columns)} columns of a subquery"
            raise self.names.error(node, reason)
        values = tuple(chars.stripped(c.expr, self.names) for c in found.columns)
        given = bare.expressions if isinstance(bare, exp.Tuple) else [bare]
        for one, column in zip(given, found.columns, strict=True):
            if chars.is_char(self, one) != (self.names.char_length(column.expr) is not None):
                raise self.names.error(node, "CHAR(n) with another type in a subquery", "cast both sides to TEXT")
        return Sub("compare", found.plan, values, tuple(operands), comparison, node)

    def compared_with_list(self, left: exp.Expression, right: exp.Expression, comparison: str, node: Any) -> Expr:
        """Return whether some value of a list compares: unknown where none is known to and a NULL is in the way."""
        value, values = self.expression(left), self.expression(right)
        least, most = Call("array_min", (values,)), Call("array_max", (values,))
        if comparison == "eq":
            found: Expr = Call("array_contains", (values, value))
        elif comparison == "ne":
            found = Call("or", (Call("ne", (value, least)), Call("ne", (value, most))))
        else:
            found = self.values_compared(comparison, value, most if comparison in ("lt", "le") else least, node)
        is_none = not self.dialect.folds  # DuckDB takes no list for an empty one, PostgreSQL for one of unknown values
        is_empty = Call("coalesce", (Call("eq", (Call("size", (values,)), lit(0))), lit(is_none)))
        if comparison == "eq":
            return Call("case", (is_empty, lit(False), found))
        first = Call("get", (Call("sort_array", (values, lit(True))), lit(0)))  # where NULL would be
        unfound = Call("case", (Call("and", (value.is_not_null(), first.is_not_null())), lit(False), lit(None)))
        return Call("case", (is_empty, lit(False), found, lit(True), unfound))

    def comparison(self, node: exp.Expression) -> Expr:
        """Return a comparison, also with ANY and ALL, and of rows."""
        name, left, right = COMPARISONS[type(node)], node.this, node.expression
        left, right = _quantified(left), _quantified(right)
        if isinstance(left, (exp.Any, exp.All)):
            left, right, name = right, left, MIRRORED[name]
        if isinstance(right, (exp.Any, exp.All)):
            is_query = isinstance(_bare(right.this), _QUERIES)
            if not is_query and self.dialect.functions is None:
                raise self.unsupported(node, ": ANY and ALL are for subqueries: of a list, write ARRAY_CONTAINS")
            self.require_quantified(name, left, node)
            compared = self.compared if is_query else self.compared_with_list
            if isinstance(right, exp.Any):
                return compared(left, right.this, name, node)
            return Call("not", (compared(left, right.this, OPPOSITE[name], node),))
        if isinstance(_bare(left), exp.Tuple) or isinstance(_bare(right), exp.Tuple):
            return self.rows_compared(name, left, right, node)
        return self.values_compared(name, self.expression(left), self.expression(right), node)

    def values_compared(self, name: str, left: Expr, right: Expr, node: Any) -> Expr:
        """Return a comparison of two values."""
        args = left, right
        if self.dialect.functions is not None:
            types = [NULL if _is_interval(a) else self.type_of(a, node) for a in args]
            if AGE in types and {*types} <= {AGE, NULL}:
                args = moments.comparable(self, left, node), moments.comparable(self, right, node)
            elif name not in _EQUALITY and all(t.is_nested or t == NULL for t in types):
                raise self.unsupported(node, dialect_calls.NULL_LAST)
        return Call(name, args)

    def equal(self, left: Expr, right: Expr, node: Any) -> Expr:
        """Return whether two values are equal."""
        return self.values_compared("eq", left, right, node)

    def is_not_distinct(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expr:
        """Return whether two values are equal, or both NULL; or the opposite."""
        left, right = map(self.expression, (node.this, node.expression))
        same = self.values_compared("eq_null_safe", left, right, node)
        return same if isinstance(node, exp.NullSafeEQ) else Call("not", (same,))

    def require_quantified(self, name: str, left: exp.Expression, node: Any) -> None:
        """Refuse ANY and ALL of values that are compared in other ways there."""
        if self.dialect.functions is None or _is_interval(value := self.expression(left)):
            return
        if (dtype := self.type_of(value, left)) == AGE:
            raise self.unsupported(node, ": of ages write EXISTS, or one comparison beside the other")
        if name not in _EQUALITY and dtype.is_nested:
            raise self.unsupported(node, dialect_calls.NULL_LAST)

    def between(self, node: exp.Between) -> Expr | None:
        """Return two comparisons."""
        if node.args.get("symmetric"):
            return None
        value, low, high = map(self.expression, (node.this, node.args["low"], node.args["high"]))
        bounds = (("ge", low), ("le", high))
        return Call("and", tuple(self.values_compared(name, value, bound, node) for name, bound in bounds))

    def is_(self, node: exp.Is) -> Expr | None:
        """Return whether a value is NULL, or a truth value."""
        if self.dialect.folds and self.type_of(self.expression(node.this), node).fields:
            raise self.unsupported(node, ": a row is NULL where all of its fields are there: ask for these")
        return super().is_(node)

    def rows_compared(self, name: str, left: exp.Expression, right: exp.Expression, node: Any) -> Expr:
        """Return a comparison of rows that are written out, or of one with a subquery's only row."""
        a, b = _bare(left), _bare(right)
        if not isinstance(a, exp.Tuple) or not isinstance(b, exp.Tuple) or len(a.expressions) != len(b.expressions):
            raise self.names.error(node, "a row is compared with another of as many values, written out")
        if name not in ("eq", "ne"):
            raise self.names.error(node, "rows are compared by = and <> only")
        pairs = zip(map(self.expression, a.expressions), map(self.expression, b.expressions), strict=True)
        equal = [self.equal(*pair, node) for pair in pairs]
        both = equal[0] if len(equal) == 1 else Call("and", tuple(equal))
        return both if name == "eq" else Call("not", (both,))


_EQUALITY: Final = frozenset(("eq", "ne", "eq_null_safe"))


def _quantified(node: Any) -> Any:
    """Return ALL of what is no query, which to sqlglot is a call, as it has ANY."""
    is_call = isinstance(node, exp.Anonymous) and node.name.lower() == "all" and len(node.expressions) == 1
    return exp.All(this=node.expressions[0]) if is_call else node


def _bare(node: Any) -> Any:
    """Return a node without parentheses around it, ROW(a, b) as (a, b)."""
    while isinstance(node, exp.Paren):
        node = node.this
    is_row = isinstance(node, exp.Anonymous) and node.name.lower() == "row"
    return exp.Tuple(expressions=node.expressions) if is_row else node


def chain(node: exp.Expression, kind: type) -> Iterator[exp.Expression]:
    """Iterate over the operands of a chain of AND, or of OR, however long."""
    todo = [node]
    while todo:
        part = todo.pop()
        inside = part
        while isinstance(inside, exp.Paren):
            inside = inside.this
        if isinstance(inside, kind):
            todo += [inside.expression, inside.this]
        else:
            yield part


def _is_interval(part: Expr) -> bool:
    plain = resolve(part)
    return isinstance(plain, Literal) and isinstance(plain.value, Interval)


_SPECIAL: Final[dict[type, Callable[[Any, Any], Expr | None]]] = {
    **SPECIAL,
    **dict.fromkeys(COMPARISONS, Expressions.comparison),
    **dict.fromkeys((exp.And, exp.Or), Expressions.connected),
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Union, exp.Intersect, exp.Except), Expressions.scalar),
    exp.Column: Expressions.find,
    exp.Dot: Expressions.dot,
    exp.Struct: Expressions.row,
    exp.Is: Expressions.is_,
    exp.Between: Expressions.between,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), Expressions.is_not_distinct),
    exp.Exists: Expressions.exists,
    exp.Bracket: Expressions.bracket,
    exp.Div: Expressions.divide,
    exp.Add: Expressions.sum,
    exp.Sub: Expressions.difference,
    exp.IntDiv: Expressions.whole_division,
    exp.In: Expressions.in_,
    exp.Window: Expressions.window,
    exp.Cast: Expressions.cast,
    exp.TryCast: Expressions.cast,
    exp.Substring: Expressions.substring,
    exp.Extract: Expressions.extract,
    exp.Anonymous: Expressions.function,
    **dict.fromkeys((exp.Like, exp.ILike), patterns.like),
    exp.Tuple: Expressions.row,
}
