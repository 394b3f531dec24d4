"""Edits of chunks where they lie: the rows are those of a copy that was edited, and undone they are as before."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import Codes
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows.edits import ManyEdits, edited_pieces
from tidemill.renderer.embedded.windows.large_partitions import LargePartitions
from tidemill.renderer.embedded.windows.moves import SPARE, Move, edited_in_place, has_room, undo, with_room
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

ORDER = RowOrder([SortColumn(0, INT64)], Interner())


@st.composite
def edits_of(draw: st.DrawFn, size: int) -> tuple[list[int], list[int]]:
    """Draw places and copies: rows taken out do not overlap, and some are put in before them, or at the end."""
    places, copies, done = [], [], 0
    while done <= size and len(places) < 6 and draw(st.booleans()):
        place = draw(st.integers(done, size))
        count = draw(st.integers(1, 3))
        if draw(st.booleans()) and place + count <= size:
            places.append(place)
            copies.append(-count)
            done = place + count
        else:
            places.append(place)
            copies.append(count)
            done = place
    return places, copies


@given(st.data(), st.integers(0, 12), st.integers(1, 3))
def test_a_room_has_the_rows_of_an_edited_copy_and_goes_back(data: st.DataObject, size: int, steps: int) -> None:
    script = _script(data, size, steps)
    room = with_room([script[0].before])
    begin, end, moves = SPARE, SPARE + size, list[Move]()
    for places, copies, rows, before, after in script:
        assert room[:, begin:end].tolist() == before.tolist()
        begin, end = edited_in_place(room, begin, end, places, copies, rows, range(len(places)), moves)
        assert room[:, begin:end].tolist() == after.tolist()
    assert len(moves) == sum(len(step.places) for step in script)
    undo(moves)
    assert room[:, SPARE : SPARE + size].tolist() == script[0].before.tolist()


class _Step(NamedTuple):
    places: list[int]
    copies: list[int]
    rows: Codes
    before: Codes
    after: Codes


def _script(data: st.DataObject, size: int, steps: int) -> list[_Step]:
    """Return edits one after another, with what the rows are before and after each of them.

    Those that an edit takes out are equal, as in a partition: values are few.
    """
    made: list[_Step] = []
    now = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.int64)[None].repeat(2, 0)
    for number in range(steps):
        places, copies = data.draw(edits_of(now.shape[1]))
        rows = np.full((2, len(places)), 10 + number)
        rows[1] += np.arange(len(places))
        for i, (place, count) in enumerate(zip(places, copies, strict=True)):
            if count < 0:
                copies[i] = -int(
                    (now[:, place : place - count] == now[:, place : place + 1]).all(axis=0).cumprod().sum()
                )
                rows[:, i] = now[:, place]
        after = np.concatenate(edited_pieces(now, places, copies, rows, range(len(places))), axis=1)
        made.append(_Step(places, copies, rows, now, after))
        now = after
    return made


@pytest.mark.parametrize(
    ("begin", "end", "more", "has"),
    [(2, 6, 2, True), (1, 6, 2, False), (2, 7, 2, False), (2, 6, 0, True), (2, 5, 1, False)],
)
def test_room_is_at_both_ends_and_half_of_it_in_use(*, begin: int, end: int, more: int, has: bool) -> None:
    assert has_room(np.empty((1, 8), np.int64), begin, end, more) is has


@given(st.data())
def test_a_partition_goes_back_to_what_it_was_before_many_edits(data: st.DataObject) -> None:
    """Chunks are edited where they lie from their second edits on: those of steps that stay, and of one that fails."""
    keys = np.arange(400)
    pieces = [np.stack((keys[at : at + 100],) * 2) for at in range(0, 400, 100)]
    partition = OrderedPartition(pieces, ORDER, 1)
    expected = sorted(keys.tolist())
    for stays in data.draw(st.lists(st.booleans(), min_size=1, max_size=5)):
        state, before = partition.state(), expected
        for _ in range(data.draw(st.integers(1, 3))):
            gone = sorted(data.draw(st.sets(st.sampled_from(expected), max_size=6)))
            come = sorted(data.draw(st.sets(st.integers(-5, 409), max_size=6)) - set(expected))
            changes = sorted([(key, -1) for key in gone] + [(key, 1) for key in come])
            if not changes:
                continue
            codes = np.array([key for key, _ in changes], np.int64)
            places = partition.places_of_numbers(codes)
            partition.apply_many(ManyEdits(places, np.stack((codes, codes)), np.array([more for _, more in changes])))
            expected = sorted({*expected, *come} - {*gone})
            assert _keys(partition) == expected
            assert partition.groups == len(expected)
        if stays:
            state.moves.clear()
        else:
            partition.go_back(state)
            expected = before
        assert _keys(partition) == expected
        assert partition.groups == len(expected) == len(partition)
        assert partition.places_of_numbers(np.array(expected)).tolist() == list(range(len(expected)))


@pytest.mark.parametrize("place", [1, 99])
@pytest.mark.parametrize("edits", [1, 4])
def test_copies_for_which_there_is_no_room_are_put_in_all_the_same(place: int, edits: int) -> None:
    """Each edit has more copies than there are rows of room at an end, where the shorter side moves."""
    keys = np.arange(0, 1000, 10)
    partition = OrderedPartition([np.stack((keys, keys))], ORDER, 1)
    expected = keys.tolist()
    for first in (1, 5):
        codes = np.array([10 * (place - 1) + first + n for n in range(edits)])
        copies = np.full(edits, SPARE + 1)
        partition.apply_many(ManyEdits(partition.places_of_numbers(codes), np.stack((codes, codes)), copies))
        expected = sorted(expected + codes.repeat(SPARE + 1).tolist())
        assert _keys(partition) == expected


@pytest.mark.parametrize("end", [LargePartitions.commit, LargePartitions.rollback])
def test_what_moved_is_let_go_of_once_the_step_is_over(end: Callable[[LargePartitions], None]) -> None:
    keys, key = np.arange(0, 1000, 10), (7,)
    large = LargePartitions()
    large.put(key, OrderedPartition([np.stack((keys, keys))], ORDER, 1))
    large.commit()
    held = []
    for number in (5, 95):
        codes = np.array([[number], [number]])
        large.touch(key)
        large[key].apply_many(ManyEdits(large[key].places_of_numbers(codes[0]), codes, np.array([1])))
        held.append(weakref.ref(codes))
        del codes
    assert held[1]() is not None, "it could be undone"
    end(large)
    assert [what() for what in held] == [None, None]


def _keys(partition: OrderedPartition) -> list[int]:
    """Return the rows' first column, which is the second one, too."""
    first: list[int] = partition.column(0).tolist()
    second = partition.column(1).tolist()
    assert first == second == partition.leads.tolist()
    return first


def test_a_chunk_with_room_is_edited_where_it_lies() -> None:
    keys = np.arange(0, 1000, 10)
    partition = OrderedPartition([np.stack((keys, keys))], ORDER, 1)
    rooms = []
    for key in (5, 95, 55):
        codes = np.array([key])
        places = partition.places_of_numbers(codes)
        partition.apply_many(ManyEdits(places, np.stack((codes, codes)), np.array([1])))
        (chunk,) = partition.parts()
        rooms.append(chunk.base)
    assert rooms[0] is rooms[1] is rooms[2] is not None
    assert partition.bytes == rooms[0].nbytes, "the room that is left is memory, too"
    assert _keys(partition) == sorted([*keys.tolist(), 5, 95, 55])
