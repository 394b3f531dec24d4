"""Prefix sums, interval sums, searches and block sums: at every time what they are naively, and their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import at, examples, grid, new_flow, start
from support.windows import PLACED, VALUES, combinations, counted, ordered, parts_of, placed_updates, searched, sums

import tidemill as tm
from tidemill.algorithms import (
    BlockShape,
    block_sums,
    combine,
    interval_sum,
    offset_search,
    order_sums,
    prefix_sum,
    unique_index,
)
from tidemill.testing import check_equivalent

SHAPES = [BlockShape(1, 1), BlockShape(1, 3), BlockShape(2, 2), BlockShape(1, 2, loop=True)]
COORDINATES = pytest.mark.parametrize("coordinates", [1, 2, 3])
shapes = st.sampled_from(SHAPES)


def contents(engine, build, updates, coordinates, schemas):
    """For each output of ``build`` what it holds at every time."""
    flow = new_flow(coordinates)
    inputs = [flow.input(name, schemas[name]) for name in updates]
    built = build(*inputs)
    for name, collection in built.items():
        flow.output(name, collection)
    with start(flow, engine) as run:
        for name, triples in updates.items():
            run.update(name, triples)
        run.close_inputs()
        found = {name: list(run.changes(name)) for name in built}
    for t in grid(*updates.values()):
        yield t, {n: at(u, t) for n, u in updates.items()}, {n: at(u, t) for n, u in found.items()}


def placed(rows, shape, **options):
    return order_sums(rows, index="i", partition_by="p", shape=shape, **combinations(), **options)


@pytest.mark.slow
@COORDINATES
@examples(12)
@given(data=st.data(), shape=shapes)
def test_a_prefix_sum_is_a_fold_over_all_before_the_place(engine, coordinates, data, shape):
    updates = {
        "rows": data.draw(placed_updates(coordinates)),
        "places": data.draw(placed_updates(coordinates, {"p": VALUES["p"], "i": range(-1, 11)}, size=5)),
    }

    def build(rows, places):
        order = placed(rows, shape)
        return {"of rows": prefix_sum(order), "at places": prefix_sum(order, places)}

    for t, given_rows, found in contents(
        engine, build, updates, coordinates, {"rows": PLACED, "places": {"p": "int64", "i": "int64"}}
    ):
        rows = given_rows["rows"]
        asked = {(p, row[1]) for p in parts_of(rows) for row in ordered(rows, p)}
        for name, places in (("of rows", asked), ("at places", given_rows["places"])):
            naive = {(p, i, *sums([r for r in ordered(rows, p) if r[1] < i]).values()): 1 for p, i in places}
            assert found[name] == naive, (name, t)


@pytest.mark.slow
@COORDINATES
@examples(12)
@given(data=st.data(), shape=shapes)
def test_an_interval_sum_is_a_fold_over_the_interval(engine, coordinates, data, shape):
    updates = {
        "rows": data.draw(placed_updates(coordinates)),
        "queries": data.draw(
            placed_updates(
                coordinates, {"p": VALUES["p"], "low": [None, *range(-1, 11)], "high": [None, *range(-1, 11)]}, size=6
            )
        ),
    }
    schemas = {"rows": PLACED, "queries": {"p": "int64", "low": "int64", "high": "int64"}}
    for t, given_rows, found in contents(
        engine, lambda rows, q: {"sums": interval_sum(placed(rows, shape), q)}, updates, coordinates, schemas
    ):
        naive = {}
        for p, low, high in given_rows["queries"]:
            rows = [
                r for r in ordered(given_rows["rows"], p)
                if (low is None or r[1] >= low) and (high is None or r[1] < high)
            ]  # fmt: skip
            naive[p, low, high, *sums(rows).values()] = 1
        assert found["sums"] == naive, t


@pytest.mark.slow
@COORDINATES
@examples(12)
@given(data=st.data(), shape=shapes, offset=st.integers(-4, 4))
def test_a_search_counts_rows_or_groups(engine, coordinates, data, shape, offset):
    offsets = {"p": VALUES["p"], "i": range(-1, 10), "k": [None, *range(-4, 5)]}
    updates = {
        "rows": data.draw(placed_updates(coordinates)),
        "queries": data.draw(placed_updates(coordinates, offsets, size=5)),
    }

    def build(rows, queries):
        order = placed(rows, shape)
        return {
            "rows": offset_search(order, offset=offset),
            "groups": offset_search(order, offset=offset, count="groups"),
            "by rows": offset_search(order, queries, offset="k"),
            "by groups": offset_search(order, queries, offset="k", count="groups"),
        }

    for t, given_rows, found in contents(
        engine, build, updates, coordinates, {"rows": PLACED, "queries": {"p": "int64", "i": "int64", "k": "int64"}}
    ):
        rows, queries = given_rows["rows"], given_rows["queries"]
        places = {(p, row[1]) for p in parts_of(rows) for row in ordered(rows, p)}
        for groups in (False, True):

            def place(p, i, k, groups=groups, rows=rows):
                return (searched(ordered(rows, p), i, 0, k, groups=groups) or (None,))[0]

            naive = {(p, i, place(p, i, offset)): 1 for p, i in places}
            assert found["groups" if groups else "rows"] == naive, t
            naive_of_queries = {(p, i, k, place(p, i, k)): 1 for p, i, k in queries}
            assert found["by groups" if groups else "by rows"] == naive_of_queries, t


@pytest.mark.slow
@COORDINATES
@examples(10)
@given(data=st.data(), shape=shapes, back=st.integers(0, 3), on=st.integers(0, 2))
def test_rows_that_share_a_place_with_copies_are_rows_of_their_own(  # noqa: PLR0917 - what is drawn
    engine, coordinates, data, shape, back, on
):
    """ROWS BETWEEN back PRECEDING AND on FOLLOWING, and LAG, over an order that ties of rows do not leave open."""

    def build(rows):
        unique = unique_index(rows, order_by="i", partition_by="p")
        kw = {"index": "index", "partition_by": "p", "unique": True, "shape": shape}
        order = order_sums(unique, **kw, n=combine.rows(), x=combine.list("x"))
        lag = prefix_sum(unique, copies="copy", **kw, x=combine.last("x"))
        low = offset_search(order, offset=-back, count="n", copies="copy", found="low")
        high = offset_search(order, offset=on + 1, count="n", copies="copy", found="high")
        frames = low.join(high, on=["p", "index", "copy"], nulls_equal=True)
        frames = interval_sum(order, frames, low_copy="low_copy", high_copy="high_copy")
        values = unique.distinct().rename(x="own")
        return {
            "lag": values.join(lag, on=["p", "index"], nulls_equal=True).select("p", "i", "own", "x"),
            "frames": values.join(frames, on=["p", "index"], nulls_equal=True).select("p", "i", "own", "x"),
        }

    values = {**VALUES, "i": [None, 0, 1, 2]}
    updates = {"rows": data.draw(placed_updates(coordinates, values))}
    for t, given_rows, found in contents(engine, build, updates, coordinates, {"rows": PLACED}):
        lags, frames = [], []
        for p in parts_of(given_rows["rows"]):
            rows = by_hash([r for r, n in given_rows["rows"].items() if r[0] == p for _ in range(n)])
            lags += [(*row, rows[i - 1][2] if i else None) for i, row in enumerate(rows)]
            frames += [
                (*row, tuple(x for _, _, x in rows[max(i - back, 0) : i + on + 1])) for i, row in enumerate(rows)
            ]
        assert found["lag"] == counted(lags), t
        assert found["frames"] == counted(frames), t


def by_hash(rows):
    """Rows in the order that windows have: by the column, then by their hashes, then whole."""
    from tidemill.expressions.functions.xxhash import xxhash64_of
    from tidemill.expressions.types import INT64

    return sorted(rows, key=lambda r: ((r[1] is not None, r[1]), xxhash64_of(r, [INT64] * 3)))


# Laws.


def same_contents(engine, updates, build, schemas=None):
    """All collections that ``build`` returns hold the same at every time."""
    schemas = schemas or {"rows": PLACED}
    for t, _, found in contents(engine, lambda *c: dict(zip("abcdef", build(*c))), updates, 1, schemas):
        first, *others = found.values()
        assert all(other == first for other in others), t


@pytest.mark.slow
@examples(10)
@given(rows=placed_updates())
def test_results_do_not_depend_on_the_shape_of_blocks(engine, rows):
    """Radix 2**w equals radix 2, and the loop equals the operators in a row."""
    same_contents(engine, {"rows": rows}, lambda c: [prefix_sum(placed(c, shape)) for shape in SHAPES])
    searches = [lambda c, s=shape: offset_search(placed(c, s), offset=-2) for shape in SHAPES]
    same_contents(engine, {"rows": rows}, lambda c: [search(c) for search in searches])


@examples(10)
@given(rows=placed_updates(), shape=shapes, cuts=st.lists(st.integers(-1, 10), min_size=3, max_size=3).map(sorted))
def test_intervals_add_up(engine, rows, shape, cuts):
    a, b, c = cuts

    def build(rows):
        order = order_sums(
            rows, index="i", partition_by="p", shape=shape, total=combine.count("x"), x=combine.list("x")
        )

        def between(low, high):
            q = rows.select("p").distinct().with_columns(low=tm.lit(low), high=tm.lit(high))
            return interval_sum(order, q).drop("low", "high")

        both = between(a, b).join(between(b, c), on="p", nulls_equal=True)
        join = both.map_rows(
            lambda r: (r.p, r.total + r.total_right, r.x + r.x_right), both.schema.project(["p", "total", "x"])
        )
        return [between(a, c), join]

    same_contents(engine, {"rows": rows}, build)


@pytest.mark.slow
@examples(10)
@given(rows=placed_updates(), shape=shapes, k=st.integers(0, 3), m=st.integers(0, 3), sign=st.sampled_from([1, -1]))
def test_a_search_by_k_then_by_m_is_one_by_both(engine, rows, shape, k, m, sign):  # noqa: PLR0917 - what is drawn
    def build(rows):
        unique = unique_index(rows, order_by="i", partition_by="p")
        order = order_sums(unique, index="index", partition_by="p", unique=True, shape=shape, n=combine.rows())

        def away(offset, at=None):
            return offset_search(order, *([at] if at else []), offset=sign * offset, count="n", copies="copy")

        first = away(k).rename(index="from_index", copy="from_copy", found="index", found_copy="copy")
        then = away(m, first.filter("index is not null")).select(
            "p", index="from_index", copy="from_copy", found="found", found_copy="found_copy"
        )
        return [away(k + m).filter("found is not null"), then.filter("found is not null")]

    same_contents(engine, {"rows": rows}, build)


@examples(10)
@given(rows=placed_updates(), shape=shapes)
def test_the_whole_is_what_grouping_gives(engine, rows, shape):
    def build(rows):
        some = rows.filter("i is not null")
        grouped = some.group_by("p").agg(rows=tm.count(), groups=tm.count_distinct("i"), total=tm.sum("x"))
        sums = block_sums(rows, index="i", partition_by="p", shape=shape, total=combine.sum("x"))
        levels = [sums.filter(tm.col("level") == n) for n in range(shape.levels + 2)]
        whole = levels[-1].select("p", "rows", "groups", "total")
        added = [
            s.group_by("p").agg(rows=tm.sum("rows"), groups=tm.sum("groups"), total=tm.sum("total"))
            for s in levels[:-1]
        ]
        return [grouped, whole, *added]

    same_contents(engine, {"rows": rows}, build)


@pytest.mark.slow
@examples(8)
@given(rows=placed_updates(2), more=placed_updates(2, {"p": [0, 1], "d": [1, 2, 5]}, size=4))
def test_inside_a_loop(engines, rows, more):
    """Running totals over rows that a loop makes: each place moves on by what is given, as long as it is small."""
    flow = new_flow(2)
    values, steps = flow.input("rows", PLACED), flow.input("steps", {"p": "int64", "d": "int64"})

    def body(here):
        further = here.join(steps.distinct(), on="p").filter("i + d < 8").select("p", i="i + d", x="x")
        return further.concat(values.filter("i is not null")).distinct()

    def with_totals(here):
        before = prefix_sum(
            body(here), index="i", partition_by="p", shape=BlockShape(1, 2), s=combine.sum("x"), l=combine.max("x")
        )
        return before.select("p", "i", x="coalesce(l, s, 0)").distinct()

    flow.output("moved", values.filter("i is not null").distinct().iterate(with_totals, return_at=4))
    check_equivalent(flow, {"rows": rows, "steps": more}, engines=engines)
