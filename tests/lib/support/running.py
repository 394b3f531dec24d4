"""Short ways to build, run and read a dataflow in a test."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import settings
from support import profiles  # noqa: F401 - also where pytest is not

import tidemill as tm
from tidemill.collections.recursion import letrec
from tidemill.testing.equivalence import engine_named

KV = {"k": "int64", "v": "int64"}
COORDINATES = {1: "epoch", 2: ("event", "correction"), 3: ("x", "y", "z")}


def scaled(count, least=4):
    """Return so many examples under the profile `ci`, and in proportion under others, but ``least`` at least."""
    in_proportion = round(count * settings().max_examples / settings.get_profile("ci").max_examples)
    return max(in_proportion, min(count, least))


def many_examples():
    """Return whether tests draw as many examples as in the profile `ci`, or more."""
    return settings().max_examples >= settings.get_profile("ci").max_examples


def examples(count, least=4):
    """Return settings for so many examples, `scaled`."""
    return settings(max_examples=scaled(count, least))


def new_flow(coordinates=1):
    return tm.Dataflow("test", time=COORDINATES[coordinates])


def start(flow, engine, **options):
    return flow.start(engine_named(engine), **options)


def embedded(run) -> Any:
    """Return the executor of a run on the embedded engine."""
    return run.executor


def traces(engine, build, updates, *, coordinates=1, schema=None):
    """Build with an input for each entry of ``updates``, feed all, close; return the updates of each collection."""
    flow = new_flow(coordinates)
    inputs = {name: flow.input(name, (schema or {}).get(name, KV)) for name in updates}
    built = build(**inputs)
    outputs = built if isinstance(built, (tuple, list)) else [built]
    for i, collection in enumerate(outputs):
        flow.output(f"out{i}", collection)
    with start(flow, engine) as run:
        for name, triples in updates.items():
            run.update(name, triples)
        run.close_inputs()
        return [list(run.changes(f"out{i}")) for i in range(len(outputs))]


def assert_same(engine, build, updates, **options):
    """All the collections that ``build`` returns have the same updates."""
    first, *others = traces(engine, build, updates, **options)
    for other in others:
        assert other == first
    return first


def at(triples, time):
    """The contents at a time of updates as users see them."""
    counts = defaultdict(int)
    for row, t, diff in triples:
        if (t <= time) if isinstance(t, int) else all(a <= b for a, b in zip(t, time, strict=True)):
            counts[row] += diff
    return {row: count for row, count in counts.items() if count}


def grid(*updates):
    """All times whose coordinates occur in the updates: a superset of the join-closure."""
    times = {t for triples in updates for _, t, _ in triples}
    if not times or isinstance(next(iter(times)), int):
        return sorted(times)
    found: list[tuple[int, ...]] = [()]
    for coordinate in map(sorted, map(set, zip(*times, strict=True))):
        found = [(*t, c) for t in found for c in coordinate]
    return found


def two_hops(a, b):
    """Pairs of the first, each followed by one of the second."""
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


def parity(a, b):
    """Mutual recursion: walks of odd length, less those of even length."""
    with letrec(a.builder, error_at=30) as block:  # edges of which there are fewer than none may never settle
        odd, even = block.declare("odd", KV), block.declare("even", KV)
        block.define("odd", a.concat(two_hops(even, b)).distinct())
        block.define("even", two_hops(odd, b).distinct())
    return block["odd"].concat(block["even"].negate())
