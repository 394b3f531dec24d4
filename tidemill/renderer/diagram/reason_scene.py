"""A tree of reasons as a picture's scene: input rows first, then what follows from them, the row asked for at the end.

What is a reason for several rows is drawn once. Rows of loops have the colour of what changes in these, and say in
which iteration they are there; edges along which nothing comes are dashed, as in the picture of a run.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Any, Final, TypeAlias

from tidemill.renderer.diagram.measures import KIND, NAME, SMALL
from tidemill.renderer.diagram.reason import Reason, Row
from tidemill.renderer.diagram.scene import DrawnOperator, Loop, Role, Scene, Writing
from tidemill.renderer.diagram.text_width import clipped, text_width, wrapped

Line: TypeAlias = tuple[str, float, str]
Box: TypeAlias = list[Reason]
"""One reason, or several input rows that are written in one box."""

_MOST_BOXES: Final = 60
"""Boxes that a picture has: of those nearest to what was asked."""
_WIDEST: Final = 250.0
_MOST_WRAPPED: Final = 5
"""Lines that one text takes."""
_APART: Final = 4
"""Rows of an input that are reasons for one row, up to which each has a box of its own."""
_MOST_TOGETHER: Final = 8
"""Rows that are written in one box."""
_MOST_IN_TOOLTIP: Final = 50


def scene_of_reasons(tree: Reason, output: str, row: Row, title: str, *, is_there: bool) -> Scene:
    """Return the scene of a tree, with the output that was asked for as its last box."""
    operators: list[DrawnOperator] = []
    for box, reads, left_out in _boxes(tree):
        lines = _lines(box)
        if left_out:
            lines.append((f"… and {left_out} more reason{'s' * (left_out > 1)}", SMALL, "quiet"))
        writing = Writing(tuple(lines), _tooltip(box), is_sent=is_there)
        operators.append(_operator(len(operators), writing, reads, _role(box[0], is_there=is_there)))
    asked: list[Line] = [(clipped(f"Output · {output}", KIND, _WIDEST), KIND, "kind"), _row(row)]
    if not is_there:
        asked.append(("is not there", SMALL, "quiet"))
    operators.append(_operator(len(operators), Writing(tuple(asked), title), (len(operators) - 1,), "end"))
    return Scene(output, (), tuple(operators), (Loop(0, "dataflow", output, None),), title)


def _boxes(tree: Reason) -> list[tuple[Box, tuple[int, ...], int]]:
    """Return boxes, each with the numbers of those it follows from, which come before, and how many more there are."""
    reasons, children = _numbered(tree)
    chains = _Chains(reasons, children)
    boxes: list[Box] = [[reason] for reason in reasons]
    for some in children:
        _put_together(some, chains, boxes)
    last = len(reasons) - 1
    near, waiting = {last}, deque([last])
    while waiting:
        for child in children[waiting.popleft()]:
            if child not in near and len(near) < _MOST_BOXES:
                near.add(child)
                waiting.append(child)
    place = {number: at for at, number in enumerate(sorted(near))}
    found = []
    for number in place:
        reads = tuple(place[child] for child in children[number] if child in place)
        found.append((boxes[number], reads, len(children[number]) - len(reads)))
    return found


def _numbered(tree: Reason) -> tuple[list[Reason], list[list[int]]]:
    """Return each reason once, after its own reasons, and the numbers of these; equal ones are one.

    Trees may be deeper than functions may call each other, so reasons are neither compared nor walked as a whole.
    """
    reasons: list[Reason] = []
    children: list[list[int]] = []
    numbers: dict[Any, int] = {}
    done: dict[int, int] = {}
    waiting = [(tree, False)]
    while waiting:
        reason, is_after = waiting.pop()
        if id(reason) in done:
            continue
        if not is_after:
            waiting.append((reason, True))
            waiting += [(child, False) for child in reversed(reason.children)]
            continue
        own = list(dict.fromkeys(done[id(child)] for child in reason.children))
        key = (reason.short_line, reason.operator, *own)
        if key not in numbers:
            numbers[key] = len(reasons)
            reasons.append(reason)
            children.append(own)
        done[id(reason)] = numbers[key]
    return reasons, children


def _put_together(some: list[int], chains: _Chains, boxes: list[Box]) -> None:
    """Put many reasons of a kind for one row, each following from an input row and nothing else, into one box."""
    alike: dict[Any, list[list[int]]] = defaultdict(list)
    for child in some:
        chain = chains.to_a_given_row(child)
        if chain and all(len(boxes[one]) == 1 for one in chain):
            alike[tuple((boxes[one][0].text, boxes[one][0].iteration) for one in chain)].append(chain)
    gone = set[int]()
    for first, *others in alike.values():
        if len(others) >= _APART:
            for chain in others:
                gone.add(chain[0])
                for into, one in zip(first, chain, strict=True):
                    boxes[into] += boxes[one]
    some[:] = [child for child in some if child not in gone]


class _Chains:
    """Reasons that are told only once, each with one reason of its own."""

    def __init__(self, reasons: list[Reason], children: list[list[int]]) -> None:
        self._reasons, self._children = reasons, children
        self._readers = Counter(child for some in children for child in some)

    def to_a_given_row(self, number: int) -> list[int]:
        """Return the reasons from one down to the input row that it follows from; none where there is no such one."""
        chain = [number]
        while self._readers[number] == 1 and len(self._children[number]) == 1:
            (number,) = self._children[number]
            chain.append(number)
        return chain if self._readers[number] == 1 and _is_given(self._reasons[number]) else []


def _is_given(reason: Reason) -> bool:
    """Return whether this is a row of an input or a constant."""
    return reason.row is not None and reason.operator < 0


def _role(reason: Reason, *, is_there: bool) -> Role:
    if _is_given(reason):
        return "end"
    if not is_there and not reason.children and not reason.is_repeated:
        return "missing"
    return "variable" if reason.iteration else "plain"


def _lines(box: Box) -> list[Line]:
    reason = box[0]
    if reason.row is None:
        head = [_head(reason)] if reason.finding else []
        texts = wrapped(reason.finding or reason.text, SMALL + 1.5, _WIDEST, _MOST_WRAPPED)
        return [*head, *((text, SMALL + 1.5, "finding") for text in texts)]
    lines = [_head(reason, f"{len(box)} rows of " if len(box) > 1 else "")]
    lines += [_row(one.row) for one in box[:_MOST_TOGETHER]]
    if len(box) > _MOST_TOGETHER:
        lines.append((f"… and {len(box) - _MOST_TOGETHER} more rows", SMALL, "quiet"))
    if reason.iteration:
        lines.append((f"iteration {'.'.join(map(str, reason.iteration))}", SMALL, "iteration"))
    return lines


def _head(reason: Reason, number: str = "") -> Line:
    place = "" if reason.site is None else f" · {reason.site}"
    return clipped(number + reason.text, KIND, _WIDEST - text_width(place, KIND)) + place, KIND, "kind"


def _row(row: Row | None) -> Line:
    return clipped(str(row), NAME, _WIDEST), NAME, "name"


def _tooltip(box: Box) -> str:
    lines = [reason.short_line for reason in box[:_MOST_IN_TOOLTIP]]
    return "\n".join(lines if len(box) <= _MOST_IN_TOOLTIP else [*lines, f"... and {len(box) - _MOST_IN_TOOLTIP} more"])


def _operator(number: int, writing: Writing, reads: tuple[int, ...], role: Role) -> DrawnOperator:
    return DrawnOperator(number, "", "", "", "", "", "", "", 0, reads, role, writing=writing)
