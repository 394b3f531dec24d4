"""Dataflows of two inputs whose rows are asked about, and what a right answer is."""

import contextlib
from collections import Counter
from typing import Any

from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.errors import TidemillError

W = tm.Window.partition_by("k").order_by("v")
PAIRS = {"k": [0, 1, 2, 3], "v": [0, 1, 2, 3]}


def hop(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


BUILDS: dict[str, Any] = {
    "a join": lambda a, b: hop(a, b),
    "a sum": lambda a, b: a.concat(b).group_by("k").agg(v=tm.sum("v")),
    "a minimum": lambda a, b: a.concat(b).group_by("k").agg(v=tm.min("v")),
    "a sum of all": lambda a, b: a.concat(b).agg(k=tm.count(), v=tm.sum("v")),
    "a left join": lambda a, b: a.join(b, on="k", how="left").select("k", v="coalesce(v_right, -1)"),
    "an antijoin": lambda a, b: a.antijoin(b, on="k"),
    "a semijoin": lambda a, b: a.semijoin(b, on="k"),
    "except all": lambda a, b: a.except_all(b),
    "top k": lambda a, b: a.concat(b).group_by("k").top_k(2, order_by="v"),
    "a window": lambda a, b: a.concat(b).select("k", v=tm.sum("v").over(W.rows_between(-1, 0))),
    "a rank": lambda a, b: a.concat(b).select("k", v=tm.row_number().over(W)),
    "a user's functions": lambda a, b: a.flat_map(lambda r: [(r.k, i) for i in range(r.v)], KV).concat(b),
    "recursion": lambda a, b: a.distinct().iterate(lambda here: hop(here, b).concat(a).distinct()),
    "recursion that is not monotone": lambda a, b: a.distinct().iterate(
        lambda here: a.antijoin(hop(here, b), on="k").distinct(), return_at=4
    ),
    "least labels": lambda a, b: tm.graphs.connected_components(
        a.concat(b), a="k", b="v"
    ).select(k="node", v="component"),
    "components in a loop": lambda a, b: tm.graphs.scc(a.concat(b), a="k", b="v").select(k="node", v="component"),
}  # fmt: skip


def started(build, engine=None, coordinates=1, **options):
    flow = new_flow(coordinates)
    flow.output("out", build(flow.input("a", KV), flow.input("b", KV)))
    return flow, flow.start(engine, why=True, **options)


def follows(flow, output, row, rows):
    """Whether the reference engine gives the row of these input rows alone."""
    with start(flow, "reference") as run:
        for name, some in rows.items():
            run.insert(name, some)
        run.close_inputs()
        return run.snapshot(output).counts().get(row, 0) > 0


def assert_sound(flow, why, given_rows):
    """What is named was put in, suffices, and is minimal if it says so; the tree's leaves are the rows."""
    assert why.is_there
    for name, rows in why.rows.items():
        assert Counter(rows) <= Counter(given_rows[name])
    assert follows(flow, why.output, why.row, why.rows), why
    if why.is_minimal:
        for name, rows in why.rows.items():
            for row in set(rows):
                fewer = {**why.rows, name: [r for r in rows if r != row]}
                with contextlib.suppress(TidemillError):  # without it there is an error, so no row
                    assert not follows(flow, why.output, why.row, fewer), (why, row)
    walk(why.tree, ())


def walk(reason, above):
    """No row is a reason for itself: on the way down nothing comes twice."""
    if reason.children:
        here = (reason.line, reason.operator)
        assert here not in above
        for child in reason.children:
            walk(child, (*above, here))
