"""Why a row is not there: what its operators would have needed, back to the inputs that lack a row."""

from typing import Any

import pytest
from support.reasons import BUILDS, hop, started
from support.running import KV

import tidemill as tm

MISSING: dict[str, Any] = {
    "an edge": (
        BUILDS["recursion"], {"a": [(0, 1)], "b": [(1, 2), (3, 4)]}, (0, 4),
        ["(3, 4) is there, and would need a partner", "input 'a' has no row with k = 0, v = 3"],
    ),
    "one side of a join": (BUILDS["a join"], {"a": [(0, 1)], "b": []}, (0, 2), ["input 'b' has no row with v = 2"]),
    "both sides of a join": (
        BUILDS["a join"], {"a": [], "b": []}, (0, 2),
        ["input 'a' has no row with k = 0", "input 'b' has no row with v = 2"],
    ),
    "another sum": (
        BUILDS["a sum"], {"a": [(1, 2)], "b": [(1, 3)]}, (1, 7), ["the group has (1, 5)"],
    ),
    "a group": (BUILDS["a sum"], {"a": [(1, 2)], "b": []}, (2, 7), ["input 'a' has no row with k = 2"]),
    "what a filter refuses": (
        lambda a, b: a.filter("v > 3").concat(b), {"a": [(1, 2)], "b": []}, (1, 2),
        ["which the condition refuses: (1, 2)", "input 'b' has no row with k = 1, v = 2"],
    ),
    "what is not among the first": (
        BUILDS["top k"], {"a": [(1, 1), (1, 2), (1, 3)], "b": []}, (1, 3), ["which others come before: (1, 3)"],
    ),
    "what has a partner": (
        BUILDS["an antijoin"], {"a": [(1, 2)], "b": [(1, 9)]}, (1, 2), ["(1, 2) has 1 row against it: (1, 9)"],
    ),
    "what has none": (
        BUILDS["a semijoin"], {"a": [(1, 2)], "b": [(2, 9)]}, (1, 2),
        ["(1, 2) is there, and would need a partner", "input 'b' has no row with k = 1"],
    ),
    "a part of three": (
        lambda a, b: tm.join_all([a.rename(v="w"), b.rename(v="x"), a.rename(v="y")], on="k").select("k", v="x"),
        {"a": [(1, 2)], "b": [(2, 9)]}, (1, 9), ["input 'b' has no row with k = 1, v = 9"],
    ),
    "three that do not fit": (
        lambda a, b: tm.join_all([a.rename(v="w"), b.rename(v="x"), a.rename(v="y")], on="k").select("k", v="x"),
        {"a": [(1, 2)], "b": [(2, 9)]}, (2, 9), ["input 'a' has no row with k = 2"],
    ),
    "what a comparison refuses": (
        lambda a, b: a.dynamic_filter("v", ">", b.select(limit="v")), {"a": [(1, 2)], "b": [(0, 5)]}, (1, 2),
        ["which the condition refuses: (1, 2), compared with (5,)"],
    ),
    "a row to compare with": (
        lambda a, b: a.dynamic_filter("v", ">", b.select(limit="v")), {"a": [(1, 2)], "b": []}, (1, 2),
        ["no row to compare with: (1, 2)", "input 'b' has no row with any values"],
    ),
    "the right side of a right join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="right").select("k", v="v"),
        {"a": [(7, 1)], "b": []}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "a right row that has a partner": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="right").select("k", v="w"),
        {"a": [(7, 1)], "b": [(7, 2)]}, (7, None), ["(7, 2) has 1 row against it: (7, 1)"],
    ),
    "the right side of a full join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="full").select("k", v="v"),
        {"a": [], "b": []}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "the partner in a left join": (
        lambda a, b: a.rename(v="w").join(b, on="k", how="left").select("k", v="v"),
        {"a": [(7, 1)], "b": [(7, 3)]}, (7, 2), ["input 'b' has no row with k = 7, v = 2"],
    ),
    "a partner by NULL": (
        lambda a, b: a.join(b.rename(v="w"), on="k").select("k", v="w"),
        {"a": [(None, 1)], "b": [(None, 2)]}, (None, 2), ["NULL in a key matches nothing, unless nulls_equal=True"],
    ),
    "a partner by NULL in a left join": (
        lambda a, b: a.join(b.rename(v="w"), on="k", how="left").select("k", v="w"),
        {"a": [(None, 1)], "b": [(None, 2)]}, (None, 2), ["NULL in a key matches nothing, unless nulls_equal=True"],
    ),
    "what NULL has no partner for": (
        BUILDS["a semijoin"], {"a": [(None, 2)], "b": [(None, 9)]}, (None, 2),
        ["(None, 2) is there, and NULL in a key matches nothing"],
    ),
    "a constant": (
        lambda a, b: a.select("k", v="5"), {"a": [(1, 2)], "b": []}, (1, 4), ["column 'v' is always 5"],
    ),
    "what a function makes": (  # of which row it would make this, nobody knows: not of (1, 9), which has equal names
        lambda a, b: a.flat_map(lambda r: [(r.k, i) for i in range(r.v)], KV), {"a": [(1, 2)], "b": []}, (1, 9),
        ["none with k = 1, v = 9; makes others of 1 row: (1, 2)"],
    ),
    "what a function is called with": (
        lambda a, b: a.filter("v > 3").flat_map(lambda r: [(r.k, r.v)], KV), {"a": [(1, 2)], "b": []}, (1, 2),
        ["none with any values; reads 1 row like that, which the condition refuses: (1, 2)"],
    ),
    "what is taken away": (
        lambda a, b: a.concat(b.negate()), {"a": [(1, 2)], "b": [(1, 2)]}, (1, 2),
        ["1 row with k = 1, v = 2: (1, 2)", "reads 1 row like that, which it takes away: (1, 2)"],
    ),
    "a user's group": (
        lambda a, b: a.group_by("k").reduce(lambda key, rows: [], {"v": "int64"}), {"a": [(1, 2)], "b": []}, (2,),
        ["no such group or value comes of 1 row: (1, 2)"],
    ),
    "a group by what is computed": (
        lambda a, b: a.group_by(k="k + 1").agg(v=tm.max("v")), {"a": [(1, 2)], "b": []}, (9, 2),
        ["no such group or value comes of 1 row: (1, 2)"],
    ),
    "a value of any group": (
        lambda a, b: a.group_by("k").agg(v=tm.max("v")).select(k="v", v="v"), {"a": [(1, 2), (2, 3)], "b": []}, (9, 9),
        ["none with v = 9; the groups have (1, 2), (2, 3)"],
    ),
    "a row of a window": (
        BUILDS["a window"], {"a": [(1, 2)], "b": []}, (1, 9),
        ["none with k = 1, v = 9; reads 1 row like that, with other values added: (1, 2)"],
    ),
    "a partition of a window": (BUILDS["a rank"], {"a": [(1, 2)], "b": []}, (2, 1), ["input 'a' has no row with k = 2"]),
    "a group of a top k": (
        BUILDS["top k"], {"a": [(1, 2)], "b": []}, (2, 1),
        ["input 'a' has no row with k = 2, v = 1", "input 'b' has no row with k = 2, v = 1"],
    ),
    "what both have": (
        lambda a, b: a.intersect(b), {"a": [(1, 2)], "b": [(1, 3)]}, (1, 2),
        ["(1, 2) is there, and would need a partner", "input 'b' has no row with k = 1, v = 2"],
    ),
    "what the other has as often": (
        lambda a, b: a.except_all(b), {"a": [(1, 2), (1, 2)], "b": [(1, 2), (1, 2)]}, (1, 2),
        ["(1, 2) has 1 row against it: (1, 2)"],
    ),
    "what the other has": (
        lambda a, b: a.except_distinct(b), {"a": [(1, 2), (1, 2)], "b": [(1, 2)]}, (1, 2),
        ["(1, 2) has 1 row against it: (1, 2)"],
    ),
    "a comparison with what is computed": (
        lambda a, b: a.dynamic_filter("v", ">", b.agg(most=tm.max("v"))), {"a": [(1, 2)], "b": [(1, 7)]}, (1, 2),
        ["which the condition refuses: (1, 2), compared with (7,)"],
    ),
    "a pair that does not compare": (
        lambda a, b: a.join(b.rename(v="w"), on="k", where="v < w").select("k", v="w"),
        {"a": [(1, 5)], "b": [(1, 2)]}, (1, 2), ["which the condition refuses: (1, 5, 2)"],
    ),
    "a pair of a left join that does not compare": (
        lambda a, b: a.join(b.rename(v="w"), on="k", where="v < w", how="left").select("k", v="w"),
        {"a": [(1, 5)], "b": [(1, 2)]}, (1, 2), ["rows of both are there, and do not fit"],
    ),
    "a partner by a key that is not asked for": (
        lambda a, b: a.semijoin(b, on="k").select(k="v", v="v"), {"a": [(1, 5)], "b": [(3, 2)]}, (5, 5),
        ["(1, 5) is there, and would need a partner", "input 'b' has no row with k = 1"],
    ),
    "a partner by NULL that is not asked for": (
        lambda a, b: hop(a, b), {"a": [(1, None)], "b": [(None, 2)]}, (1, 2),
        ["(None, 2) is there, and NULL in a key matches nothing"],
    ),
    "what has a partner by a key that is not asked for": (
        lambda a, b: a.antijoin(b, on="k").select(k="v", v="v"), {"a": [(1, 5)], "b": [(3, 2), (1, 4)]}, (5, 5),
        ["(1, 5) has 1 row against it: (1, 4)"],
    ),
    "NULL for a partner that is there": (
        lambda a, b: a.join(b.rename(v="w"), on="k", how="left").select(k="v", v="w"),
        {"a": [(1, 5)], "b": [(3, 2), (1, 4)]}, (5, None), ["(1, 5) has 1 row against it: (1, 4)"],
    ),
    "a node that nothing reaches": (
        lambda a, b: tm.graphs.bfs(a, b.select(node="k"), a="k", b="v"), {"a": [(1, 2), (7, 8)], "b": [(1, 0)]}, (8, 1),
        ["(7, 8) is there, and would need a partner", "input 'b' has no row with k = 7", "input 'a' has no row with v = 7"],
    ),
    "a node that is nearer": (
        lambda a, b: tm.graphs.bfs(a, b.select(node="k"), a="k", b="v"), {"a": [(1, 2)], "b": [(1, 0)]}, (2, 3),
        ["the group has (2, 1)"],
    ),
    "a node of another component": (
        lambda a, b: tm.graphs.connected_components(a, a="k", b="v"), {"a": [(1, 2), (2, 3)], "b": []}, (3, 3),
        ["have (3, 1)"],
    ),
    "what a loop loses": (
        lambda a, b: tm.graphs.k_core(a, 2, a="k", b="v"), {"a": [(1, 2), (2, 3), (3, 1), (3, 4)], "b": []}, (4, 1),
        ["in the first iteration there is (4, 3)"],
    ),
    "a value that is computed": (
        lambda a, b: a.select("k", v="v + 1"), {"a": [(1, 2)], "b": []}, (1, 2), ["1 row that give other values: (1, 2)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing(case):
    build, rows, row, texts = MISSING[case]
    _, run = started(build)
    with run:
        for name, some in rows.items():
            run.insert(name, some)
        run.advance()
        why = run.why("out", row)
    assert not why.is_there
    for text in texts:
        assert text in str(why), str(why)


def test_what_only_refuses_bad_input_is_no_reason_for_a_missing_row():
    _, run = started(lambda a, b: tm.graphs.shortest_paths(a.with_columns(weight="1"), b.select("k"), a="k", b="v"))
    with run:
        run.insert("a", [(1, 2)])
        run.insert("b", [(1, 0)])
        run.advance()
        text = str(run.why("out", (9, 1)))
    assert "input 'a' has no row with v = 9" in text
    assert "FlatMap" not in text


def test_an_error_in_what_the_output_does_not_depend_on_is_not_met():
    """The run leaves out what nobody reads; so does who is asked why, and so do the rows that suffice."""

    def build(a, b):
        a.negate().agg(top="max(v)")
        return a.concat(b)

    _, run = started(build)
    with run:
        run.insert("a", [(0, 1)])
        run.advance()
        assert run.why("out", (0, 1)).rows == {"a": [(0, 1)]}
        assert "input 'a' has no row with k = 0, v = 7" in str(run.why("out", (0, 7)))
