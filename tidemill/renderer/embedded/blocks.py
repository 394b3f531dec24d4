"""Blocks of updates, and the kernels that sort, group and consolidate them.

A block is a matrix of int64, a column for each update: first the codes of the row's values, then the coordinates of its
time, then its weights (one diff, unless an operator keeps several sums). Equal values have equal codes, so kernels
never ask what a code stands for. One matrix rather than an array a column makes an operator a handful of NumPy calls,
which is what a step of one row costs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["NULL", "Block", "Bools", "Ints", "consolidated", "expand", "grouped", "hashed", "same", "stacked"]

Block: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

NULL: Final = -(2**63)
"""The code of NULL, in every column. No int64 value may be it."""

_MOST_COLUMNS: Final = 4096
_MULTIPLIERS: Final[Ints] = np.random.default_rng(0x7F4A7C15).integers(-(2**63), 2**63, _MOST_COLUMNS, np.int64) | 1


def hashed(codes: Block) -> Ints:
    """Return a hash of each column of codes, to sort and look up by. A single code is its own hash.

    Hashes decide where to look; whoever looks compares the codes themselves.
    """
    hashes: Ints = codes[0] if len(codes) == 1 else np.matmul(_MULTIPLIERS[: len(codes)], codes)
    return hashes


def grouped(codes: Block) -> tuple[Ints, Ints]:
    """Return an order in which equal columns are adjacent, and where in it each group of equal ones starts."""
    n = codes.shape[1]
    if n < 2:  # noqa: PLR2004 - nothing to order
        return np.arange(n), np.zeros(n, np.int64)
    keys = hashed(codes)
    order = keys.argsort()
    keys = keys.take(order)
    new = np.empty(n, np.bool_)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    if len(codes) > 1:
        inside = codes.take(order, axis=1)
        differs = (inside[:, 1:] != inside[:, :-1]).any(axis=0)
        if (differs & ~new[1:]).any():  # two different rows with one hash may lie interleaved: sort by the codes
            order = np.lexsort(codes[::-1])
            inside = codes.take(order, axis=1)
            new[1:] = (inside[:, 1:] != inside[:, :-1]).any(axis=0)
    return order, new.nonzero()[0]


def consolidated(block: Block, weights: int = 1) -> Block:
    """Return the block with the weights of equal rows at equal times added up, less those that come to nothing."""
    n = block.shape[1]
    if n == 0:
        return block
    top = len(block) - weights
    if n > 1:
        order, starts = grouped(block[:top])
        if len(starts) < n:
            sums = np.add.reduceat(block[top:].take(order, axis=1), starts, axis=1)
            block = np.concatenate((block[:top].take(order.take(starts), axis=1), sums))
    kept = block[top].astype(np.bool_) if weights == 1 else block[top:].any(axis=0)
    return block if kept.all() else block.compress(kept, axis=1)


def stacked(blocks: list[Block]) -> Block:
    """Return the blocks side by side."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)


def same(codes: Block, others: Block) -> Bools:
    """Return which columns of two equally shaped matrices are equal."""
    equal: Bools = (codes == others).all(axis=0)
    return equal


def expand(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges of these starts and lengths laid end to end, each element's range and its position.

    >>> expand(np.array([5, 9]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 9]))
    """
    owner = np.arange(len(counts)).repeat(counts)
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return owner, np.arange(total) + (starts - ends + counts).take(owner)
