"""Functions of structs: their entries in the registry, and their builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import Function, Signature, always, as_columns, never
from tidemill.expressions.types import NULL, STRING, DType, struct_type


def _struct_types(types: Sequence[DType]) -> Signature | None:
    held = as_columns(types)
    fits = held and not len(held) % 2 and set(held[::2]) == {STRING}
    return Signature(tuple(held), NULL) if held and fits else None


def _named(signature: Signature, literals: Sequence[Any]) -> Signature:
    return Signature(signature.params, struct_type(zip(literals[::2], signature.params[1::2], strict=True)))


def _names_complaint(literals: Sequence[Any]) -> str | None:
    names = literals[::2]
    if all(isinstance(name, str) for name in names):
        return None
    return "the names of fields have to be literals"


def _of_struct(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 2 and types[0].fields and types[1] == STRING  # noqa: PLR2004 - a struct and a name
    return Signature(tuple(types), NULL) if fits else None


def _field(signature: Signature, literals: Sequence[Any]) -> Signature:
    of, name = signature.params[0], literals[1]
    return Signature(signature.params, of.fields[field_place(of, name)][1])


def field_place(of: DType, name: str) -> int:
    """Return the place of a struct's field; an error where it has none of that name."""
    names = [known for known, _ in of.fields]
    if name not in names:
        msg = f"no field `{name}` in {of}: {did_you_mean(name, names)}"
        raise SchemaError(msg)
    return names.index(name)


STRUCTS: Final = (
    Function("named_struct", _struct_types, "names of fields, each with a value", nullable=never, sees_null=True,
             apart=True, check=_names_complaint, refine=_named, python=lambda *given: given[1::2]),
    Function("field", _of_struct, "a struct and the name of a field", nullable=always, literals=(1,), refine=_field,
             by_types=True, python=lambda types, value, name: value[field_place(types[0], name)]),
)  # fmt: skip


def struct(**fields: Any) -> Expr:
    """Return the struct of some values by names; ``expr.field("a")``, or ``s.a`` in SQL text, gives one of them.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"id": "int64", "name": "string"}, [(1, "x"), (2, None)])
    >>> made = c.select(s=tm.struct(key="id", of="name"))
    >>> flow.output("out", made.with_columns(key="s.key", of=tm.col("s").field("of")))
    >>> list(flow.start().snapshot("out"))
    [((1, 'x'), 1, 'x'), ((2, None), 2, None)]
    """
    return call("named_struct", *(part for name, value in fields.items() for part in (name, operand(value))))
