"""Ways in which the same updates can reach a run: what is fed together, in which order, and when times close.

A batching is a script that any engine can follow. None of them may make a difference to what a dataflow gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tidemill.dataflow.lattice import Antichain, Time

Update: TypeAlias = tuple[Any, Time, int]


@attrs.frozen
class FeedAction:
    """Give updates to an input, in one call."""

    input: str
    updates: tuple[Update, ...]


@attrs.frozen
class MoveAction:
    """Advance all inputs, or one; an empty frontier closes them."""

    input: str | None
    to: Antichain


@attrs.frozen
class ReadAction:
    """Ask every output for its changes."""


@attrs.frozen
class Batching:
    """A script of feeds, moves and reads, and how many complete times the run keeps."""

    name: str
    actions: tuple[FeedAction | MoveAction | ReadAction, ...]
    keep: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it feeds everything, closes the inputs, and only then reads: a whole history in one step."""
        closing = (MoveAction(None, Antichain()), ReadAction())
        return self.actions[-2:] == closing and all(isinstance(a, FeedAction) for a in self.actions[:-2])


@attrs.frozen
class GivenUpdates:
    """The updates to be fed: by input; which inputs have a key, so that order matters there; how many coordinates."""

    updates: Mapping[str, Sequence[Update]]
    keyed: frozenset[str]
    coordinates: int


Action: TypeAlias = FeedAction | MoveAction | ReadAction
Plan: TypeAlias = Callable[[GivenUpdates], Batching]


def all_at_once(given: GivenUpdates) -> Batching:
    """Feed everything, close the inputs: a whole history in one step."""
    feeds = [FeedAction(name, tuple(updates)) for name, updates in given.updates.items()]
    return Batching("all at once", (*feeds, MoveAction(None, Antichain()), ReadAction()))


def time_by_time(given: GivenUpdates) -> Batching:
    """Feed each time's updates and close just that time (and those before it), in tuple order."""
    actions: list[Action] = []
    frontier = Antichain.minimum(given.coordinates)
    for time in sorted({t for updates in given.updates.values() for _, t, _ in updates}):
        for name, updates in given.updates.items():
            now = tuple(u for u in updates if u[1] == time)
            if now:
                actions.append(FeedAction(name, now))
        if frontier != frontier.join(Antichain.after(time)):
            frontier = frontier.join(Antichain.after(time))
            actions += [MoveAction(None, Antichain.after(time)), ReadAction()]
    return Batching("time by time", (*actions, MoveAction(None, Antichain()), ReadAction()))


def shuffled(seed: int) -> Plan:
    """Return a random batching: any order of arrival, random steps of all inputs or one, some without updates.

    Also feeds rows that are taken back before their time closes, and lets the run keep more or fewer times.
    """

    def plan(given: GivenUpdates) -> Batching:
        dice = random.Random(seed)  # noqa: S311 - not a secret
        actions = tuple(_Shuffle(given, dice).actions())
        return Batching(f"shuffled({seed})", actions, keep=dice.choice([0, 0, 1, 3]))

    return plan


class _Shuffle:
    """The making of one random batching."""

    def __init__(self, given: GivenUpdates, dice: random.Random) -> None:
        self._given = given
        self._dice = dice
        self._frontiers = dict.fromkeys(given.updates, Antichain.minimum(given.coordinates))
        self._waiting = self._arrivals()

    def actions(self) -> Iterator[Action]:
        for _ in range(self._dice.randint(1, 5)):
            yield from self._step(self._dice.choice([None, None, *self._given.updates]), self._some_frontier())
        names: list[str | None] = list(self._given.updates) if self._dice.random() < 0.3 else [None]  # noqa: PLR2004
        self._dice.shuffle(names)
        for name in names:
            yield from self._step(name, Antichain())
        yield ReadAction()

    def _step(self, name: str | None, to: Antichain) -> Iterator[Action]:
        targets = self._frontiers if name is None else [name]
        after = {n: self._frontiers[n].join(to) if n in targets else f for n, f in self._frontiers.items()}
        if after == self._frontiers and self._frontiers:
            return  # closes nothing, which is an error
        due = [not after[n].beyond(u[1]) or self._early(n) for n, u in self._waiting]
        yield from self._feeds([w for w, now in zip(self._waiting, due, strict=True) if now])
        self._waiting = [w for w, now in zip(self._waiting, due, strict=True) if not now]
        self._frontiers = after
        yield MoveAction(name, to)
        if self._dice.random() < 0.5:  # noqa: PLR2004
            yield ReadAction()

    def _early(self, name: str) -> bool:
        """Return whether to feed an update though its time does not close yet; writes by key keep their order."""
        return name not in self._given.keyed and self._dice.random() < 0.4  # noqa: PLR2004

    def _feeds(self, updates: list[tuple[str, Update]]) -> Iterator[FeedAction]:
        """Feed updates in the order of their arrival, in batches of random sizes."""
        while updates:
            size = self._dice.randint(1, len(updates))
            batch, updates = updates[:size], updates[size:]
            for name in dict.fromkeys(n for n, _ in batch):
                yield FeedAction(name, tuple(u for n, u in batch if n == name))

    def _arrivals(self) -> list[tuple[str, Update]]:
        arrivals = [(name, u) for name, updates in self._given.updates.items() for u in updates]
        plain = [(name, u) for name, u in arrivals if name not in self._given.keyed]
        for name, (row, time, _) in self._dice.sample(plain, min(len(plain), self._dice.randint(0, 3))):
            arrivals += [(name, (row, time, 1)), (name, (row, time, -1))]
        self._dice.shuffle(arrivals)
        in_order = {name: iter(self._given.updates[name]) for name in self._given.keyed}
        return [(name, next(in_order[name]) if name in in_order else u) for name, u in arrivals]

    def _some_frontier(self) -> Antichain:
        times = [t for updates in self._given.updates.values() for _, t, _ in updates]
        tops = [max(c) + 2 for c in zip(*times, strict=True)] or [2] * self._given.coordinates
        count = self._dice.randint(1, self._given.coordinates)
        return Antichain(tuple(self._dice.randint(0, top) for top in tops) for _ in range(count))
