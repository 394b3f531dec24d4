"""From text to sqlglot's trees: its parser, made strict, with WITH MUTUALLY RECURSIVE, and where each node stands."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import attrs
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect as Grammar
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from tidemill.errors import SqlError
from tidemill.expressions.sql_parser import whole_call, with_own_syntax

SPAN: Final = "span"
"""Where a node begins and ends, in its meta data."""
LIMITS: Final = "limits"
"""What a WITH MUTUALLY RECURSIVE says of its iterations, in its meta data."""
ON_CLOSE: Final = "on close"
"""Whether a SELECT gives rows once their windows are closed, in its meta data."""
COMMA: Final = "comma"
"""Whether a join is a comma in FROM, in its meta data."""
_MOST_LETTERS: Final = 5_000_000


@attrs.frozen
class Source:
    """The text that is being read, for errors."""

    text: str

    def error(self, node: Any, reason: str, hint: str | None = None) -> SqlError:
        """Return the error that points to where a node begins."""
        return SqlError(reason, self.text, start_of(node), hint=hint)

    def written(self, node: exp.Expression) -> str:
        """Return a node as the user wrote it, where that is known."""
        span = node.meta.get(SPAN)
        return self.text[span[0] : span[1]] if span else node.sql(normalize_functions=False)

    def span(self, node: Any) -> tuple[int, int] | None:
        """Return where a node begins and ends, where that is known."""
        if not isinstance(node, exp.Expression):
            return None
        if SPAN in node.meta:
            return node.meta[SPAN]  # type: ignore[no-any-return]
        metas = [n.meta for n in node.walk() if n.meta]
        spans = [m[SPAN] for m in metas if SPAN in m] + [(m["start"], m["end"] + 1) for m in metas if "start" in m]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def span_of(self, nodes: Iterable[Any]) -> tuple[int, int] | None:
        """Return where the first of some nodes begins and the last ends, of those for which that is known."""
        spans = [s for s in map(self.span, nodes) if s is not None]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def only(self, node: exp.Expression, *known: str) -> None:
        """Refuse a node that says more than what is known of."""
        for name, value in node.args.items():
            if value and name not in known:
                what = value[0] if isinstance(value, list) else value
                shown = what.sql(unsupported_level=ErrorLevel.IGNORE) if isinstance(what, exp.Expression) else ""
                shown = shown.strip() or name.strip("_").upper()
                of = type(node).__name__.upper()
                raise self.error(what if start_of(what) is not None else node, f"`{shown}` in {of} is not supported")


def start_of(node: Any) -> int | None:
    """Return where in the text a node begins: the least place of what it is made of."""
    if not isinstance(node, exp.Expression):
        return None
    if SPAN in node.meta:
        return int(node.meta[SPAN][0])
    places = (m[SPAN][0] if SPAN in (m := n.meta) else m.get("start") for n in node.walk())
    found = [p for p in places if p is not None]
    if not found and node.parent is not None:
        return start_of(node.parent)
    return min(found, default=None)


def parse(text: str, grammar: str) -> tuple[Source, list[exp.Expression]]:
    """Return the statements of a text, each a tree; `SqlError` says what is wrong and where."""
    if not isinstance(text, str):
        msg = f"SQL is text: expected a str, not {type(text).__name__}"
        raise SqlError(msg)
    if len(text) > _MOST_LETTERS:
        msg = f"a SQL text of {len(text):,} letters: expected no more than {_MOST_LETTERS:,}"
        raise SqlError(msg)
    source = Source(text)
    dialect = Grammar.get_or_raise(grammar)
    logger = logging.getLogger("sqlglot")
    level, logger.disabled = logger.disabled, True  # what it only warns of is an error here
    try:
        tokens = _tokenizer(grammar)(dialect=dialect).tokenize(text)
        trees = _grammar(grammar)(dialect=dialect).parse(tokens, text)
    except SqlglotError as error:
        if isinstance(error.__cause__, RecursionError):
            raise error.__cause__ from None
        raise _error(error, text) from None
    finally:
        logger.disabled = level
    found = [tree for tree in trees if tree is not None]
    if not found:
        msg = "there is no SQL in this text: expected a query, or statements"
        raise SqlError(msg, text, 0)
    return source, found


def _error(error: SqlglotError, text: str) -> SqlError:
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    line, column = first.get("line"), first.get("col")
    start = None
    if line is not None and column is not None:  # sqlglot counts to the end of the word
        lines = text.split("\n")
        start = sum(len(one) + 1 for one in lines[: line - 1]) + column - max(1, len(first.get("highlight") or " "))
    reason = first.get("description") or str(error.__cause__ or error).splitlines()[0]
    if start is None and (found := re.search(r" from \d+:(\d+)$", reason)):  # where a quote was opened
        reason, start = f"{reason[: found.start()]}, which ends what is opened here", int(found[1])
    if found := re.fullmatch(r"Required keyword: .* missing for <class '.*\.(\w+)'>", reason):
        reason = f"{found[1].upper()} lacks what belongs to it"
    elif isinstance(error.__cause__, IndexError):  # sqlglot's scanner, behind the last letter
        reason, start = "the text ends where what is open, as a comment, would be closed", len(text)
    return SqlError(f"not SQL as it is read here: {reason}", text, None if start is None else max(0, start))


def _typed_first(node: Any) -> Any:
    """Return ``DATE 'text'::type`` as a cast of the date: sqlglot casts the text, and makes a date of that."""
    casts: list[Any] = []
    value = node
    while isinstance(value, exp.Cast):
        casts.append(value)
        value = value.this
    spans = [one.to.meta.get(SPAN) for one in casts]
    if not all(spans) or spans[1:] == [] or spans[0] > spans[-1]:
        return node
    found = node.this
    node.set("this", value)
    casts[-1].set("this", node)
    return found


class _Strict:
    """What makes a grammar of sqlglot's strict, put before it."""

    _index: int
    _curr: Any
    _prev: Any
    _next: Any
    _parse_column: Callable[..., Any]
    _match: Callable[..., Any]
    _match_text_seq: Callable[..., Any]
    _match_set: Callable[..., Any]
    _parse_query_modifiers: Callable[..., Any]
    dialect: Any
    _retreat: Callable[[int], None]
    _parse_id_var: Callable[..., Any]
    _parse_number: Callable[[], Any]
    _parse_wrapped: Callable[..., Any]
    _parse_wrapped_csv: Callable[..., Any]
    raise_error: Callable[..., None]

    def _parse_csv(self, parse_method: Any, sep: Any = TokenType.COMMA) -> list[Any]:
        """Take a list in which something follows each comma."""
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            found = parse_method()
            if found is None or first is None:
                self.raise_error("nothing stands beside a comma", self._curr or self._prev)
            items.append(found)
        return items

    def _spanned(self, rule: Callable[[], Any]) -> Any:
        first = self._curr
        node = rule()
        if isinstance(node, exp.Expression) and first is not None and SPAN not in node.meta:
            node.meta[SPAN] = (first.start, self._prev.end + 1)
        return node

    def _parse_statement(self) -> Any:
        rule = self._declared if self._match_text_seq("DECLARE", "RECURSIVE", "VIEW") else super()._parse_statement  # type: ignore[misc]
        return self._spanned(rule)

    def _declared(self) -> Any:
        """Take what follows DECLARE RECURSIVE VIEW: a name, and columns with their types."""
        alias = self._named_columns()
        if alias is None:
            self.raise_error("expected a name, and columns with their types")
        return exp.Declare(expressions=[alias])

    def _parse_create(self) -> Any:
        if self._next is not None and self._next.text.upper() == "VIEW":
            self._match_text_seq("LOCAL")
        return super()._parse_create()  # type: ignore[misc]

    def _parse_types(self, *args: Any, **options: Any) -> Any:
        rule = super()._parse_types  # type: ignore[misc]
        return self._spanned(lambda: rule(*args, **options))

    def _parse_type(self, *args: Any, **options: Any) -> Any:
        return _typed_first(super()._parse_type(*args, **options))  # type: ignore[misc]

    def _parse_expression(self) -> Any:
        return self._spanned(super()._parse_expression)  # type: ignore[misc]

    def _parse_disjunction(self, *args: Any, **options: Any) -> Any:
        rule = super()._parse_disjunction  # type: ignore[misc]
        return self._spanned(lambda: rule(*args, **options))

    def _parse_field_def(self) -> Any:
        if not self._match_text_seq("WATERMARK", "FOR"):
            return super()._parse_field_def()  # type: ignore[misc]
        column = self._parse_column()
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS and the watermark")
        return exp.WatermarkColumnConstraint(this=column, expression=self._parse_disjunction())

    def _parse_bracket(self, this: Any = None) -> Any:
        return super()._parse_bracket(whole_call(this))  # type: ignore[misc]

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        rule = super()._parse_table  # type: ignore[misc]
        return self._spanned(lambda: rule(*args, **options))

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        is_comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        node = super()._parse_join(*args, **options)  # type: ignore[misc]
        if node is not None:
            node.meta[COMMA] = is_comma
        elif is_comma:
            self.raise_error("nothing stands beside a comma", self._curr or self._prev)
        return node

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> Any:
        """Take DuckDB's PIVOT or UNPIVOT as a query: SELECT * of a table with one of them behind it."""
        node = super()._parse_simplified_pivot(is_unpivot)  # type: ignore[misc]
        if not isinstance(self.dialect, DuckDB):
            self.raise_error("PIVOT and UNPIVOT as statements are DuckDB's: write SELECT * FROM t PIVOT (...)")
        on, fields = node.expressions or [], list(node.expressions or [])
        aggregates = node.args.get("using") or [exp.Anonymous(this="count", expressions=[exp.Star()])]
        if is_unpivot:
            into = node.args.get("into") or exp.UnpivotColumns()
            name = into.this or exp.Column(this=exp.to_identifier("name"))
            aggregates = into.expressions or [exp.Column(this=exp.to_identifier("value"))]
            fields = [exp.In(this=name, expressions=on)]
        made = exp.Pivot(expressions=aggregates, fields=fields, unpivot=is_unpivot, group=node.args.get("group"))
        node.this.append("pivots", made)
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.this))
        return self._parse_query_modifiers(select)

    def _parse_select(self, *args: Any, **options: Any) -> Any:
        rule = super()._parse_select  # type: ignore[misc]
        if isinstance(self.dialect, DuckDB) and self._match_set((TokenType.PIVOT, TokenType.UNPIVOT)):
            is_unpivot = self._prev.token_type == TokenType.UNPIVOT
            return self._spanned(lambda: self._parse_simplified_pivot(is_unpivot))
        node = self._spanned(lambda: rule(*args, **options))
        if isinstance(node, exp.Select) and self._match_text_seq("EMIT", "ON", "WINDOW", "CLOSE"):
            node.meta[ON_CLOSE] = True
        return node

    def _parse_table_alias(self, *args: Any, **options: Any) -> Any:
        index = self._index
        if self._match_text_seq("EMIT", "ON", "WINDOW", "CLOSE"):
            self._retreat(index)
            return None
        return super()._parse_table_alias(*args, **options)  # type: ignore[misc]

    def _parse_lambda(self, *args: Any, **options: Any) -> Any:
        """Take an argument of a call: also a table, as TABLE t PARTITION BY a, and a query in parentheses."""
        if not self._match(TokenType.TABLE):
            return super()._parse_lambda(*args, **options)  # type: ignore[misc]
        table = super()._parse_table_parts()  # type: ignore[misc]
        if self._match(TokenType.PARTITION_BY):
            several = self._curr is not None and self._curr.token_type == TokenType.L_PAREN
            names = self._parse_wrapped_csv(self._parse_id_var) if several else [self._parse_id_var()]
            table.set("keys", [exp.Column(this=n) for n in names if n is not None])
        return table

    def _parse_with(self, skip_with_token: bool = False) -> Any:
        index = self._index
        if (skip_with_token or self._match(TokenType.WITH)) and self._match_text_seq("MUTUALLY", "RECURSIVE"):
            return self._mutually()
        self._retreat(index)
        return super()._parse_with(skip_with_token)  # type: ignore[misc]

    def _mutually(self) -> exp.With:
        """Take what follows WITH MUTUALLY RECURSIVE."""
        limits: dict[str, int] = {}
        if self._match(TokenType.L_PAREN):
            while not self._match(TokenType.R_PAREN):
                returns = bool(self._match_text_seq("RETURN", "AT"))
                if not returns:
                    self._match_text_seq("ERROR", "AT")
                number = self._parse_number() if self._match_text_seq("RECURSION", "LIMIT") else None
                if number is None or not number.name.isdigit():
                    self.raise_error("expected RECURSION LIMIT and a number")
                    break
                limits["return_at" if returns else "error_at"] = int(number.name)
                self._match(TokenType.COMMA)
        bindings = self._parse_csv(self._binding)
        made = exp.With(expressions=bindings, recursive=True)
        made.meta[LIMITS] = limits
        return made

    def _binding(self) -> exp.CTE | None:
        alias = self._named_columns()
        if alias is None:
            return None
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS and the binding's query")
        return exp.CTE(this=self._parse_wrapped(self._parse_statement), alias=alias)

    def _named_columns(self) -> exp.TableAlias | None:
        """Take a name, and columns with their types in parentheses."""
        name = self._parse_id_var()
        columns = None if name is None else self._parse_wrapped_csv(self._binding_column)
        return None if name is None else exp.TableAlias(this=name, columns=columns)

    def _binding_column(self) -> exp.ColumnDef | None:
        name = self._parse_id_var()
        kind = self._parse_types() if name is not None else None
        if name is not None and kind is None:
            self.raise_error("expected the type of a binding's column")
        return None if name is None else exp.ColumnDef(this=name, kind=kind)


@functools.cache
def _tokenizer(name: str) -> Any:
    base = Grammar.get_or_raise(name).tokenizer_class

    class Tokenizer(base):  # type: ignore[misc, valid-type]
        """The dialect's words; what follows DECLARE are words too, which PostgreSQL's takes as one text."""

        KEYWORDS: ClassVar[dict[str, Any]] = {**base.KEYWORDS, "DECLARE": TokenType.DECLARE}

    return Tokenizer


@functools.cache
def _grammar(name: str) -> Any:
    base = Grammar.get_or_raise(name).parser_class

    class Strict(_Strict, base):  # type: ignore[misc, valid-type]
        """The dialect's grammar; calls stay calls by name, but for the few that have a syntax of their own."""

        FUNC_TOKENS: ClassVar[Any] = {*base.FUNC_TOKENS, TokenType.SESSION}
        SCHEMA_UNNAMED_CONSTRAINTS: ClassVar[Any] = base.SCHEMA_UNNAMED_CONSTRAINTS - {"WATERMARK"}  # which all have
        ADD_JOIN_ON_TRUE = False  # a condition that is missing is an error
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = with_own_syntax(base)

    return Strict
