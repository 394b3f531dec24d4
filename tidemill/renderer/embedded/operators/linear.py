"""Operators that work row by row and keep no state."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import truths_of
from tidemill.dataflow.lattice import shown
from tidemill.dataflow.nodes import (
    Concat,
    Consolidate,
    Enter,
    Feedback,
    Filter,
    FlatMap,
    Inspect,
    Leave,
    Map,
    Negate,
    Node,
    Retime,
    Variable,
)
from tidemill.errors import ExpressionError, UserFunctionError
from tidemill.expressions.bound import BoundColumn
from tidemill.expressions.rewriting import column_uses
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.compile_context import CompileContext
from tidemill.renderer.embedded.expressions.comparisons_on_codes import compile_comparisons
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.expressions.few_rows import FEW_ROWS, FewRows
from tidemill.renderer.embedded.kernels.codec import (
    Interner,
    decode_column,
    decode_rows,
    encode,
    encode_column,
    encoder,
)
from tidemill.renderer.embedded.kernels.memory import empty, stack
from tidemill.renderer.embedded.kernels.sorting import parts
from tidemill.renderer.embedded.kernels.updates import NULL, Bools, Codes, Ints, Rows, UpdateArray, consolidated, marked
from tidemill.renderer.embedded.operator_registry import FACTORIES, operator_of
from tidemill.renderer.embedded.operators.arrange import LARGE
from tidemill.renderer.embedded.schedule import Operator, Region, Round
from tidemill.renderer.runs import failures
from tidemill.renderer.runs import user_functions as functions
from tidemill.renderer.runs.determinism import warn_of_two_results

# -- wires: operators without a turn of their own, applied as updates pass --------------------------------------------


class Wire(Operator):
    """An operator that passes updates on at once. It can fail for none of them, so it need not hold any back."""

    def __init__(self, node: Node, region: Region) -> None:
        super().__init__(node, region, ())


@operator_of(Concat, Variable)
class ConcatWire(Wire):
    """Concat, Variable: passes updates on as they are."""

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        del port
        self.records_in += updates.shape[1]
        self.emit(updates, at)


@operator_of(Negate)
class NegateWire(Wire):
    """Negate."""

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        del port
        self.records_in += updates.shape[1]
        negated = updates.copy()
        np.negative(updates[-1], out=negated[-1])
        self.emit(negated, at)


class ProjectWire(Wire):
    """A Map of nothing but columns."""

    def __init__(self, node: Map, region: Region) -> None:
        super().__init__(node, region)
        codes = len(node.inputs[0].schema)
        self._rows = np.array([*(node.picked or ()), *range(codes, codes + node.scope.coordinates + 1)])
        self._is_identity = node.picked == tuple(range(codes))

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        del port
        self.records_in += updates.shape[1]
        if updates.shape[1] > LARGE and not self._is_identity and self.readers_take_rows:
            self.emit_rows([updates[row] for row in self._rows.tolist()], at)
        else:
            self.emit(updates if self._is_identity else updates.take(self._rows, axis=0), at)

    @property
    def takes_rows(self) -> bool:  # type: ignore[override]
        return self.readers_take_rows

    def accept_rows(self, port: int, rows: list[Ints], at: Round | None) -> None:
        del port
        self.records_in += len(rows[0])
        self.emit_rows([rows[row] for row in self._rows.tolist()], at)


@operator_of(Enter)
class EnterWire(Wire):
    """Enter: a coordinate more, at 0."""

    def __init__(self, node: Enter, region: Region) -> None:
        super().__init__(node, region)
        self._row = len(node.schema) + node.scope.coordinates - 1

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        del port
        n = updates.shape[1]
        self.records_in += n
        entered = empty((len(updates) + 1, n))
        entered[: self._row] = updates[: self._row]
        entered[self._row] = 0
        entered[self._row + 1 :] = updates[self._row :]
        self.emit(entered, None if at is None else (*at, 0))


@operator_of(Leave)
class LeaveWire(Wire):
    """Leave: a coordinate less, and with ``return_at`` nothing from that iteration on."""

    def __init__(self, node: Leave, region: Region) -> None:
        super().__init__(node, region)
        self._row = len(node.schema) + node.scope.coordinates
        self._rows = np.array([i for i in range(self._row + 2) if i != self._row])
        self._return_at = node.limits.return_at

    def accept(self, port: int, updates: UpdateArray, at: Round | None) -> None:
        del port
        self.records_in += updates.shape[1]
        if self._return_at is not None:
            updates = updates.compress(updates[self._row] < self._return_at, axis=1)
        self.emit(updates.take(self._rows, axis=0), None if at is None else at[:-1])


# -- expressions ----------------------------------------------------------------------------------------------------


class _Columns:
    """The Arrow columns of updates, decoded when an expression asks for them."""

    def __init__(self, schema: Schema, updates: Rows, part: slice, interner: Interner) -> None:
        self._schema = schema
        self._updates = updates
        self._part = part
        self._interner = interner
        self._decoded: dict[int, pa.Array] = {}

    def __call__(self, index: int) -> pa.Array:
        if index not in self._decoded:
            dtype = self._schema.fields[index].dtype
            self._decoded[index] = decode_column(self._updates[index][self._part], dtype, self._interner)
        return self._decoded[index]


class _ExpressionOperator(Operator):
    """The base of operators that evaluate expressions: an error counts only if its update survives consolidation."""

    calls_functions = False
    """Whether it calls a user's function, which then gets consolidated updates at once, so that it is called once."""

    def __init__(self, node: Node, region: Region, interner: Interner) -> None:
        self.schema = node.inputs[0].schema
        super().__init__(node, region, (len(self.schema),))
        self.interner = interner

    def run(self) -> None:
        if self.ports[0].has_only_rows:
            rows = self.ports[0].take_rows()
            assert isinstance(rows, list)
            made = self._evaluated_rows(rows)
            if made is not None and self.readers_take_rows and len(made[-1]):
                self.emit_rows(made, self.region.now)
            elif made is not None:
                self.emit(stack(made), self.region.now)
            if made is not None:
                return
            self.ports[0].put(stack(rows), self.region.now)
        # One that keeps different rows different is told so: its output of consolidated input is consolidated, too.
        updates = self.ports[0].take_consolidated() if self.consolidated else self.ports[0].take()
        if updates is None:
            return
        result = None if self.calls_functions else self._evaluated(updates)
        if result is None:  # what cancels out may not fail, and a user's function is called but once
            updates = consolidated(updates)
            if not updates.shape[1]:
                return
            result = self.evaluate(updates)
        self.emit(result, self.region.now)

    def _evaluated(self, updates: UpdateArray) -> UpdateArray | None:
        """Return the output for updates as they came; None where an expression fails."""
        try:
            return self.evaluate(updates)
        except (ExpressionError, UserFunctionError):
            return None

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        raise NotImplementedError

    def _evaluated_rows(self, rows: list[Ints]) -> list[Ints] | None:
        """Return the output for updates given as rows; None where it is to be computed from a matrix."""
        raise NotImplementedError

    def failed(self, error: ExpressionError, updates: UpdateArray, column: str | None = None) -> ExpressionError:
        """Return the error with the node and the row in it."""
        at = error.row_index or 0
        (row,) = decode_rows(self.schema, updates[: len(self.schema), [at]], self.interner)
        return failures.expression_failed(self.node, row, error, column=column, time=self.user_time(updates, at))

    def user_time(self, updates: UpdateArray, at: int) -> Any:
        """Return the user time of an update, as users write it."""
        k = len(self.schema)
        return shown(tuple(updates[k : k + self.schedule.users, at].tolist()))


class MapOperator(_ExpressionOperator):
    """Map: columns are taken as they are, expressions evaluated on the Arrow columns they use."""

    def __init__(self, node: Map, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._columns = [
            (c.index, None, c.dtype) if isinstance(c, BoundColumn) else (-1, compile_scalar(c), c.dtype)
            for c in node.columns
        ]
        computed = [(i, c) for i, c in enumerate(node.columns) if not isinstance(c, BoundColumn)]
        self._few = FewRows(self.schema, [c for _, c in computed], interner)
        self._encoders = [(i, encoder(c.dtype, interner)) for i, c in computed]

    takes_rows = True

    def _evaluated_rows(self, rows: list[Ints]) -> list[Ints] | None:
        made = [rows[i] if i >= 0 else empty(len(rows[-1])) for i, _, _ in self._columns]
        try:
            self._compute(rows, made)
        except ExpressionError:
            return None
        return made + rows[len(self.schema) :]

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        n, rest = updates.shape[1], len(self.schema)
        if n <= FEW_ROWS and self._few.is_quick:
            lists = updates.tolist()
            computed = self._few.of_lists(lists, n)
            if computed is not None:
                return self._of_few(lists, computed)
        result: UpdateArray = empty((len(self._columns) + len(updates) - rest, n))
        for i, (index, _, _) in enumerate(self._columns):
            if index >= 0:
                result[i] = updates[index]
        self._compute(updates, result)
        result[len(self._columns) :] = updates[rest:]
        return result

    def _of_few(self, updates: list[list[int]], computed: list[list[Any]]) -> UpdateArray:
        """Return the output for a few updates, from the values of the expressions: in Python, but for one call."""
        result = [updates[index] for index, _, _ in self._columns]  # what is computed takes another's place at first
        for (i, code_of), values in zip(self._encoders, computed, strict=True):
            result[i] = [NULL if v is None else code_of(v) for v in values]
        return np.array(result + updates[len(self.schema) :], np.int64)

    def _compute(self, updates: Rows, result: Rows) -> None:
        """Write the values of the expressions: by parts, so that what is computed from one stays in the caches."""
        for part in parts(len(updates[-1])):
            columns = _Columns(self.schema, updates, part, self.interner)
            for i, (_, scalar, dtype) in enumerate(self._columns):
                if scalar is not None:
                    codes = result[i][part]
                    try:
                        codes[:] = encode_column(scalar(columns, len(codes)), dtype, self.interner)
                    except ExpressionError as error:
                        of_part = stack([row[part] for row in updates])
                        raise self.failed(error, of_part, self.node.schema.names[i]) from None


@FACTORIES(Map)
def _map(node: Map, region: Region, made: CompileContext) -> Operator:
    return ProjectWire(node, region) if node.picked is not None else MapOperator(node, region, made.interner)


@operator_of(Filter, interner=True)
class FilterOperator(_ExpressionOperator):
    """Filter."""

    def __init__(self, node: Filter, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._on_codes = compile_comparisons(node.predicate, interner)
        self._predicate = compile_scalar(node.predicate)
        self._few = FewRows(self.schema, [node.predicate], interner)
        self._read = sorted(set(column_uses(node.predicate)))

    @property
    def takes_rows(self) -> bool:  # type: ignore[override]
        return self.readers_take_rows

    def _evaluated_rows(self, rows: list[Ints]) -> list[Ints] | None:
        if self._read and not any(rows[i].strides[0] for i in self._read) and len(rows[0]):
            one = self._evaluated(np.stack([row[:1] for row in rows]))  # what is looked at is the same of all
            return None if one is None else rows if one.shape[1] else [row[:0] for row in rows]
        if self._on_codes is None:
            return None
        mask = self._on_codes(rows)
        count = int(np.count_nonzero(mask))
        if count == len(mask):
            return rows
        return [row.compress(mask) if row.strides[0] else row[:count] for row in rows]

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        if self._on_codes is not None:
            return marked(updates, self._on_codes(updates))
        few = self._few.values(updates)
        if few is not None:
            return updates.compress([passed is True for passed in few[0]], axis=1)
        mask = np.empty(updates.shape[1], np.bool_)
        for part in parts(len(mask)):
            mask[part] = self._passing(updates, part)
        return marked(updates, mask)

    def _passing(self, updates: UpdateArray, part: slice) -> Bools:
        """Return the rows of a part that pass: by parts, so that what is computed from one stays in the caches."""
        columns = _Columns(self.schema, updates, part, self.interner)
        try:
            passed = self._predicate(columns, part.stop - part.start)
        except ExpressionError as error:
            raise self.failed(error, updates[:, part]) from None
        return truths_of(passed)


_CHECKS: Final = 64
"""How often a function is called once more to see whether it gives the same: it may be expensive."""


# -- a user's Python functions --------------------------------------------------------------------------------------


class FlatMapOperator(_ExpressionOperator):
    """FlatMap: a user's function, called once for each distinct row."""

    calls_functions = True

    def __init__(self, node: FlatMap, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._flat_map = node
        self._checks_left = _CHECKS

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        k = len(self.schema)
        made: list[tuple[Any, ...]] = []
        counts = np.empty(updates.shape[1], np.int64)
        first_deleted = int((updates[-1] < 0).argmax()) if self._checks_left else 0
        for i, row in enumerate(decode_rows(self.schema, updates[:k], self.interner)):
            try:
                rows = functions.mapped_rows(self._flat_map, row)
            except UserFunctionError as error:
                error.about(time=self.user_time(updates, i))
                raise
            if i == first_deleted and self._checks_left and updates[-1, i] < 0:
                self._check(row, rows)
            counts[i] = len(rows)
            made += rows
        codes = encode(self.node.schema, made, self.interner)
        owner = np.arange(updates.shape[1]).repeat(counts)
        return np.concatenate((codes, updates[k:].take(owner, axis=1)))

    def _check(self, row: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> None:
        """Call the function once more for a row that is retracted, to check that it returns the same."""
        self._checks_left -= 1
        schema = self.node.schema
        once, again = (encode(schema, r, self.interner) for r in (rows, functions.mapped_rows(self._flat_map, row)))
        if consolidated(np.concatenate((_counted(once, +1), _counted(again, -1)), axis=1)).shape[1]:
            self._checks_left = 0
            warn_of_two_results(self._flat_map, row)


def _counted(codes: Codes, count: int) -> UpdateArray:
    return np.concatenate((codes, np.full((1, codes.shape[1]), count)))


@operator_of(Inspect, interner=True)
class InspectOperator(_ExpressionOperator):
    """Inspect: shows each update to a user's function and passes it on."""

    calls_functions = True

    def __init__(self, node: Inspect, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._inspect = node

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        k = len(self.schema)
        rows = decode_rows(self.schema, updates[:k], self.interner)
        times = map(tuple, updates[k:-1].T.tolist())
        for row, t, diff in zip(rows, times, updates[-1].tolist(), strict=True):
            functions.inspect(self._inspect, row, t, diff)
        return updates


@operator_of(Retime, interner=True)
class RetimeOperator(_ExpressionOperator):
    """Retime: by fixed steps, as a user's function of the time says, or to the time in a column."""

    def __init__(self, node: Retime, region: Region, interner: Interner) -> None:
        super().__init__(node, region, interner)
        self._retime = node
        self.calls_functions = node.function is not None

    def evaluate(self, updates: UpdateArray) -> UpdateArray:
        users, k = self.schedule.users, len(self.schema)
        moved = updates.copy()
        if self._retime.steps is not None:
            moved[k : k + users] += np.array(self._retime.steps)[:, None]
            return moved
        if self._retime.column is not None:
            self._check_ends(updates, self._retime.column)
            at = k + self._retime.coordinate
            np.maximum(updates[at], updates[self._retime.column], out=moved[at])  # NULL's code is less than any time
            return moved
        times, inverse = np.unique(updates[k : k + users], axis=1, return_inverse=True)
        new = [functions.moved_time(self._retime, tuple(t)) for t in times.T.tolist()]
        moved[k : k + users] = np.array(new, np.int64).T.take(inverse, axis=1)
        return moved

    def _check_ends(self, updates: UpdateArray, column: int) -> None:
        """Refuse rows that end before they begin."""
        if self._retime.since is None:
            return
        begin, end = updates[self._retime.since], updates[column]
        wrong = (end < begin) & (end != NULL)
        if wrong.any():
            at = int(wrong.argmax())
            (row,) = decode_rows(self.schema, updates[: len(self.schema), [at]], self.interner)
            time = self.user_time(updates, at)
            raise failures.ends_before_it_begins(self.node, row, int(begin[at]), int(end[at]), time)


@operator_of(Consolidate)
class ConsolidateOperator(Operator):
    """Consolidate."""

    consolidated = True

    def __init__(self, node: Node, region: Region) -> None:
        super().__init__(node, region, (len(node.schema),))

    def run(self) -> None:
        updates = self.ports[0].take_consolidated()
        if updates is not None:
            self.emit(updates, self.region.now)


@operator_of(Feedback, interner=True)
class FeedbackOperator(Operator):
    """Feedback. Consolidates a round's changes and sends what is left to its Variable, one iteration later."""

    consolidated = True

    def __init__(self, node: Feedback, region: Region, interner: Interner) -> None:
        super().__init__(node, region, (len(node.schema),))
        self._feedback = node
        self._limits = node.limits
        self._interner = interner

    def run(self) -> None:
        updates = self.ports[0].take_consolidated()
        if updates is None:
            return
        now = self.region.now
        assert now
        iteration = now[-1] + 1
        if self._limits.return_at is not None and iteration >= self._limits.return_at:
            return
        if self._limits.error_at is not None and iteration >= self._limits.error_at:
            (row,) = decode_rows(self.node.schema, updates[: len(self.node.schema), :1], self._interner)
            raise failures.iteration_limit(self._feedback, row)
        moved = updates.copy()
        moved[-2] += 1
        self.emit(moved, (*now[:-1], iteration))
