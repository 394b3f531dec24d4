"""Schemas: the ordered, named and typed columns of a collection's rows."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import attrs
import pyarrow as pa

from tidemill.errors import SchemaError, UnknownColumnError, did_you_mean
from tidemill.expressions.types import DType, dtype, encodable

_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)


@attrs.frozen
class Field:
    """A column: its name, its type, and whether it may hold NULL."""

    name: str
    dtype: DType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}" + ("" if self.nullable else " not null")


@attrs.frozen(cache_hash=True, slots=False)  # with slots cached properties slow every attribute
class Schema:
    """The columns of a collection, in order; names are unique.

    >>> s = Schema.of({"origin": "string not null", "delay": "int64"})
    >>> print(s)
    (origin: string not null, delay: int64)
    >>> s.index("delay"), s.names
    (1, ('origin', 'delay'))
    """

    fields: tuple[Field, ...]

    def __attrs_post_init__(self) -> None:
        seen: set[str] = set()
        for name in self.names:
            if encodable(name) in seen:
                msg = f"column {name!r} is given twice in {self}: column names must differ; rename one"
                raise SchemaError(msg)
            seen.add(name)

    @classmethod
    def of(cls, spec: SchemaLike) -> Schema:
        """Return the schema that a mapping name -> type, pairs, a ``pyarrow.Schema`` or a ``Schema`` stands for."""
        if isinstance(spec, Schema):
            return spec.typed()
        if isinstance(spec, pa.Schema):
            return cls(tuple(Field(f.name, dtype(f.type), f.nullable) for f in spec))
        if isinstance(spec, Mapping):
            return cls(tuple(_field(name, t) for name, t in spec.items()))
        if isinstance(spec, Iterable) and not isinstance(spec, str):
            pairs = list(spec)
            if all(isinstance(p, Field) for p in pairs):
                return cls(tuple(pairs))
            if all(isinstance(p, tuple) and len(p) == 2 for p in pairs):  # noqa: PLR2004 - a pair
                return cls(tuple(_field(name, t) for name, t in pairs))
        msg = f"{spec!r} is not a schema: expected a mapping of column names to types or a pyarrow.Schema"
        raise SchemaError(msg)

    def typed(self) -> Schema:
        """Return the schema; an error where a column is NULL alone, and so of no type."""
        for field in self:
            if field.dtype.is_unknown:
                kind = "list" if field.dtype.is_list else "struct" if field.dtype.fields else ""
                of_type = f"{kind} of NULLs alone and" if kind else "column of NULL alone, which"
                msg = f"{field.name!r} is a {of_type} has no type: give it one, as in lit(None).cast('int64')"
                raise SchemaError(msg)
        return self

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.fields)) + ")"

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The columns' types, in order."""
        return tuple(f.dtype for f in self.fields)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places

    def index(self, name: str) -> int:
        """Return the position of a column; ``UnknownColumnError`` with the nearest names where there is none."""
        if name in self:
            return self._places[name]
        msg = f"no column {name!r} in {self}: {did_you_mean(name, self.names)}"
        raise UnknownColumnError(msg).about(column=name)

    def field(self, name: str) -> Field:
        """Return the column of this name; ``UnknownColumnError`` where there is none."""
        return self.fields[self.index(name)]

    def project(self, names: Sequence[str]) -> Schema:
        """Return the schema of these columns, in this order."""
        return Schema(tuple(self.field(n) for n in names))

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema in which rows go out."""
        return pa.schema([pa.field(f.name, f.dtype.arrow, f.nullable) for f in self.fields])


SchemaLike: TypeAlias = Schema | pa.Schema | Mapping[str, Any] | Iterable[tuple[str, Any]]


def unused_name(name: str, taken: Container[str], mark: str = "#") -> str:
    """Return a name for a column of ours beside those of users, who may call theirs as we do.

    >>> unused_name("key#", {"key#", "key##"})
    'key###'
    """
    while name in taken:
        name += mark
    return name


def _field(name: Any, spec: Any) -> Field:
    if not isinstance(name, str) or not name:
        msg = f"{name!r} is not a column name: expected a non-empty string"
        raise SchemaError(msg)
    if isinstance(spec, str) and _NOT_NULL.search(spec):
        return Field(name, dtype(_NOT_NULL.sub("", spec)), nullable=False)
    return Field(name, dtype(spec))
