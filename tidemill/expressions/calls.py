"""Typed calls: a function of the registry, or a cast, over arguments that are bound already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.bound import Bound, BoundCall, BoundLiteral
from tidemill.expressions.conversions import INT32_MAX, Operand, adapt, coerce, fits, literal, reaches, typed
from tidemill.expressions.functions import FUNCTIONS, NULL, Function, Signature, can_cast, common_type
from tidemill.expressions.functions.operators import SIGNS, by_type
from tidemill.expressions.functions.registry import as_decimal
from tidemill.expressions.intervals import unit_of
from tidemill.expressions.types import BOOL, MAX_DECIMAL_PRECISION, STRING, TIMESTAMP, TIMESTAMPTZ, DType


class MisfitError(Exception):
    """Why arguments do not fit a call: text with bound trees in it, which are yet to be printed.

    Printing stands on the rules of this module: a tree's shortest text is the one that is bound to the tree again.
    """

    def __init__(self, parts: Sequence[str | Bound]) -> None:
        super().__init__(parts)
        self.parts = parts


def bind_call(function: str, operands: tuple[Operand, ...]) -> Bound:
    """Return the typed call: literals adapted to their neighbours, arguments widened, types checked."""
    types = [o.bound.dtype for o in operands]
    if function in SIGNS:
        function = by_type(function, types)
    if function not in _AS_THEY_ARE and TIMESTAMPTZ in types:
        return _in_utc(function, operands)
    if function in _COMPARISONS and (found := _of_decimals(function, operands, types)) is not None:
        return found
    spec = FUNCTIONS.get(function)
    if spec is None:
        msg = f"no function {function!r}: {did_you_mean(function, FUNCTIONS)}"
        raise SchemaError(msg)
    if function in ("and", "or"):
        operands = tuple(inner for o in operands for inner in _links(o, function))
    args = adapt(operands, range(len(operands)) if spec.apart else spec.literals)
    _check_literals(spec, args)
    args, signature = _signature(spec, args)
    if function == "in" and len(args) == 1:
        return BoundLiteral(value=False, dtype=BOOL)
    literals = [a.value if isinstance(a, BoundLiteral) else None for a in args]
    if any(literals[i] is None for i in spec.literals):
        return BoundLiteral(None, signature.result)
    if spec.check and (wrong := spec.check(literals)):
        raise MisfitError(["`", _untyped(function, args), f"`: {wrong}"])
    if spec.unit is not None:
        args[spec.unit] = BoundLiteral(unit_of(str(literals[spec.unit])), STRING)
    if spec.refine:
        signature = spec.refine(signature, literals)
    coerced = tuple([coerce(a, p) for a, p in zip(args, signature.params, strict=True)])
    if function == "negate" and (negative := _negative(coerced[0])) is not None:
        return negative
    return BoundCall(function, coerced, signature.result, spec.nullable([a.nullable for a in coerced]))


_COMPARISONS: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "in"))


_AS_THEY_ARE: Final = _COMPARISONS | {
    "case", "coalesce", "greatest", "least", "is_null", "array", "array_contains", "array_position", "named_struct",
    "interval_add", "interval_subtract", "xxhash64", "fit",
}  # fmt: skip
"""Functions that take values with a zone as such; to all others they are timestamps in UTC."""


def _in_utc(function: str, operands: Sequence[Operand]) -> Bound:
    """Return the call on timestamps in UTC; one that gives a timestamp gives one with a zone."""
    plain = (Operand(bind_cast(o, TIMESTAMP)) if o.bound.dtype == TIMESTAMPTZ else o for o in operands)
    found = bind_call(function, tuple(plain))
    return bind_cast(Operand(found), TIMESTAMPTZ) if found.dtype == TIMESTAMP else found


def _of_decimals(function: str, operands: tuple[Operand, ...], given: Sequence[DType]) -> Bound | None:
    """Return a comparison of decimals that no type holds both of, so that it is exact; None for any other.

    The one of fewer places is compared as the other where it fits that type, and else decides by its sign.
    """
    if not any(t.is_decimal for t in given):
        return None
    types = [as_decimal(t) for t in given]
    if not all(t.is_decimal for t in types) or len(types) < 2 or common_type(types) is not None:  # noqa: PLR2004
        return None
    if function == "in":
        each = [bind_call("eq", (operands[0], option)) for option in operands[1:]]
        return each[0] if len(each) == 1 else bind_call("or", tuple(map(Operand, each)))
    at = 0 if types[0].scale > types[1].scale else 1
    to = DType("decimal", MAX_DECIMAL_PRECISION, types[at].scale)
    exact, wide = operands[at], operands[1 - at]
    limit = 10 ** (MAX_DECIMAL_PRECISION - to.scale)
    fitted = Operand(bind_cast(wide, to))
    pair = (exact, fitted) if at == 0 else (fitted, exact)
    beyond = [bind_call(f, (wide, literal(n))) for f, n in (("ge", limit), ("le", -limit))]
    signs = [bind_call(function, tuple(map(literal, s if at else s[::-1]))) for s in ((1, 0), (0, 1))]
    case = [beyond[0], signs[0], beyond[1], signs[1], bind_call(function, pair)]
    is_null = [bind_call("is_null", (o,)) for o in (wide, exact)]
    case = [*is_null, *case] if function == "eq_null_safe" else [_either(is_null), typed(None, BOOL), *case]
    return bind_call("case", tuple(map(Operand, case)))


def _either(conditions: Sequence[Bound]) -> Bound:
    return bind_call("or", tuple(map(Operand, conditions)))


def _links(operand: Operand, function: str) -> tuple[Operand, ...]:
    """Return the operands of an operand that is a chain of the same function."""
    bound = operand.bound
    is_chain = isinstance(bound, BoundCall) and bound.function == function
    return tuple(map(Operand, bound.args)) if isinstance(bound, BoundCall) and is_chain else (operand,)


def _negative(literal: Bound) -> BoundLiteral | None:
    """Return a number with its sign changed, since that is how its text will be read."""
    if not isinstance(literal, BoundLiteral) or literal.value is None or literal.value == -INT32_MAX - 1:
        return None
    return typed(-literal.value, literal.dtype)


def _signature(spec: Function, args: list[Bound]) -> tuple[list[Bound], Signature]:
    """Return the arguments, with what was left out at the end, and the types they are brought to."""
    for given in (args, *([*args, *(literal(v).bound for v in spec.optional[i:])] for i in range(len(spec.optional)))):
        known = [a.dtype for a in given]
        signature = spec.rule(known)
        if signature is None or len(signature.params) != len(given):
            continue
        if signature.params == tuple(known) and NULL not in known:  # as they mostly are
            return given, signature
        if all(reaches(a, p, by_day=spec.by_day) for a, p in zip(given, signature.params, strict=True)):
            if any(p == NULL and isinstance(a, BoundLiteral) for a, p in zip(given, signature.params, strict=True)):
                give = "`: give it one, as in CAST(NULL AS BIGINT)"
                raise MisfitError(["NULL has no type in `", _untyped(spec.name, args), give])
            return given, signature
    types = " and ".join(str(a.dtype) for a in args) or "nothing"
    why = f"` gets {types}: {spec.sql} expects {spec.expects}{_hint(args)}"
    raise MisfitError(["`", _untyped(spec.name, args), why])


def _check_literals(spec: Function, args: Sequence[Bound]) -> None:
    for i in spec.literals:
        if i < len(args) and not isinstance(args[i], BoundLiteral):
            raise MisfitError(["`", args[i], "` in `", _untyped(spec.name, args), "` has to be a literal"])


def bind_cast(operand: Operand, to: DType) -> Bound:
    """Return a value as another type; literals that have one at once become literals of that type."""
    arg = operand.bound
    if arg.dtype == NULL or (isinstance(arg, BoundLiteral) and fits(arg, to)):
        return coerce(arg, to)
    if arg.dtype == to:
        return arg
    if not can_cast(arg.dtype, to):
        raise MisfitError(["`", arg, f"` is of type {arg.dtype}: there is no cast from {arg.dtype} to {to}"])
    return BoundCall("cast", (arg,), to, arg.nullable)


def _hint(args: Sequence[Bound]) -> str:
    known = {a.dtype for a in args} - {NULL}
    if any(t.is_nested for t in known):  # for which there are no casts
        return ""
    return "; cast one of them" if len(known) > 1 and common_type(list(known)) is None else "; cast the argument"


def _untyped(function: str, args: Sequence[Bound]) -> BoundCall:
    return BoundCall(function, tuple(args), NULL)
