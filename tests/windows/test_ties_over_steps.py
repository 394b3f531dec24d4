"""Ties are broken by what the rows had before columns were added: so adding some, in any steps, changes no order.

The kind of fault: an order that leaves ties means something else behind a step that only adds columns. It is looked for in
all that orders rows (window calls, top-k, first, last and list), in all renderings and rewrites.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.dataflow.added_columns import columns_before_added
from tidemill.dataflow.fingerprint import describe, difference
from tidemill.expressions.functions.xxhash import xxhash64_of
from tidemill.expressions.types import INT64, STRING
from tidemill.testing import all_at_once, check_equivalent, time_by_time

SCHEMA = {"k": "int64", "v": "string", "t": "int64"}
OWN = tuple(SCHEMA)
BY_T = tm.Window.partition_by("k").order_by("t")
BY_V = tm.Window.partition_by("k").order_by(tm.desc("v"))
STEPS = {
    "an expression": lambda c, name: c.with_columns(**{name: "v || 'x'"}),
    "an expression in front": lambda c, name: c.select(tm.expr("t * 2").alias(name), *c.schema.names),
    "another order of columns": lambda c, _: c.select(*reversed(c.schema.names)),
    "another name": lambda c, name: c.with_columns(**{f"{name} once": "k"}).rename({f"{name} once": name}),
    "a filter": lambda c, _: c.filter("t >= 0"),
    "a sum": lambda c, name: c.with_columns(**{name: tm.sum("t").over(tm.Window.partition_by("k"))}),
    "a row before": lambda c, name: c.with_columns(**{name: tm.lag("v").over(BY_V)}),
    "an expression of a call": lambda c, name: c.with_columns(**{name: tm.rank().over(BY_V) + tm.col("t")}),
    "calls of two windows": lambda c, name: c.with_columns(
        **{name: tm.max("v").over(BY_V), f"{name} too": tm.row_number().over(BY_T)}
    ),
    "a column that comes and goes": lambda c, name: c.with_columns(**{name: "t % 2"}).drop(name),
    "distinct": lambda c, _: c.distinct(),
    "consolidate": lambda c, _: c.consolidate(),
    "a semijoin": lambda c, _: c.semijoin(c.select("k").distinct(), on="k"),
}
"""What adds columns to rows, or changes nothing of them, and leaves all rows in."""
ROWS = st.sets(st.tuples(st.integers(0, 1), st.sampled_from("abcdefgh"), st.integers(0, 1)), max_size=12)


def built(steps, strategy="auto"):
    """Return a flow whose outputs order rows as they were, and as the steps leave them."""
    flow = tm.Dataflow()
    rows = flow.input("x", SCHEMA)
    number = tm.row_number().over(BY_T, strategy=strategy)
    more = rows.with_columns(n0=number)
    for i, step in enumerate(steps):
        more = STEPS[step](more, f"s{i}")
    flow.output("numbers", more.with_columns(n1=number).select(*OWN, "n0", "n1"))
    flow.output("both", more.select(*OWN, "n0", n1=number, before=tm.lag("v").over(BY_T, strategy=strategy)))
    flow.output("first rows", more.with_columns(n1=number).filter("n1 <= 2").select(*OWN, "n0", "n1"))
    flow.output("numbers of the first", more.select(*OWN, "n0", n1=number).filter("n1 < 3"))
    for name, c in (("", rows), ("behind", more)):
        flow.output(f"top {name}", c.group_by("k").top_k(2, order_by="t").select(*OWN))
        of_group = {"first": tm.first("v", order_by="t"), "all": tm.list("v", order_by=tm.desc("t"))}
        flow.output(
            f"groups {name}", c.group_by("k").agg(**of_group, last=tm.last("v", order_by="t").filter("v > 'b'"))
        )
        whole = tm.first_value("v").over(BY_T.rows_between(tm.UNBOUNDED, tm.UNBOUNDED))
        flow.output(f"partitions {name}", c.select("k", "v", least=whole))
        running = tm.list("v").over(BY_T.rows_between(-1, 0), strategy=strategy)
        flow.output(f"running {name}", c.select("k", "v", some=running))
        own_order = tm.list("v", order_by="t").over(BY_V.rows_between(-2, 0), strategy=strategy)
        flow.output(f"own order {name}", c.select("k", "v", some=own_order))
    return flow


def compare(run):
    """Assert that ties are broken alike, as they are and behind the steps."""
    numbers = list(run.snapshot("numbers"))
    assert [row[-2] for row in numbers] == [row[-1] for row in numbers]
    first = [row for row in numbers if row[-1] <= 2]
    assert list(run.snapshot("first rows")) == list(run.snapshot("numbers of the first")) == first
    assert [row[:-1] for row in run.snapshot("both")] == numbers
    for what in ("top", "groups", "partitions", "running", "own order"):
        assert list(run.snapshot(f"{what} ")) == list(run.snapshot(f"{what} behind")), what


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", "recompute", "prefix_sum"])
def test_steps_that_add_columns_change_no_order(engine, strategy):
    @examples(2 if strategy == "prefix_sum" else 8)
    @given(steps=st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=3), rows=ROWS, gone=ROWS)
    def check(steps, rows, gone):
        with start(built(steps, strategy), engine) as run:
            run.insert("x", sorted(rows))
            run.advance()
            compare(run)
            run.delete("x", sorted(rows & gone))
            run.insert("x", sorted(gone - rows))
            run.advance()
            compare(run)

    check()


@pytest.mark.parametrize("step", STEPS)
def test_each_of_them(engine, step):
    rows = [(k, v, 0) for k in (1, 2) for v in "abcdef"]
    with start(built([step, step]), engine) as run:
        run.insert("x", rows)
        run.advance()
        compare(run)


@pytest.mark.slow
@pytest.mark.parametrize("passes", [True, False, ["limit_ranks"], ["group_whole_partitions"]], ids=str)
@pytest.mark.parametrize("strategy", ["auto", "recompute"])
def test_engines_agree_behind_steps_with_and_without_passes(strategy, passes):
    flow = built(["an expression", "a row before", "another order of columns", "an expression in front"], strategy)
    shuffled = random.Random(7)
    rows = [(k, v, t) for k in (1, 2, None) for v in ("a", "b", "c", None) for t in (0, 1)]
    updates = [(row, shuffled.randrange(2), 1) for row in rows] + [(row, 2, -1) for row in rows[::3]]
    check_equivalent(flow, {"x": updates}, batchings=[all_at_once, time_by_time], passes=passes)


def test_many_rows_of_one_hash_are_in_the_order_of_what_was_added(engine):
    """Copies of a row are told apart by an added column alone: as many as there may be, in each rendering."""
    flow = tm.Dataflow()
    numbered = flow.input("x", SCHEMA).with_columns(n=tm.row_number().over(BY_T))
    for strategy in ("auto", "recompute", "prefix_sum"):
        flow.output(strategy, numbered.with_columns(m=tm.row_number().over(BY_T, strategy=strategy)))
    copies = {"reference": 40, "embedded": 3000}[engine]
    with start(flow, engine) as run:
        run.insert("x", [(1, "a", 0)] * copies + [(1, "b", 0)] * 3)
        run.advance()
        run.delete("x", [(1, "a", 0)] * 2)
        run.advance()
        for strategy in ("auto", "recompute", "prefix_sum"):
            found = list(run.snapshot(strategy))
            assert len(found) == copies + 1
            assert all(row[-2] == row[-1] for row in found), strategy


BUILT = {
    "as they come": (lambda c: c, None),
    "an expression": (lambda c: c.with_columns(x="t + 1"), (0, 1, 2)),
    "one in front": (lambda c: c.select(tm.expr("t + 1").alias("x"), "v", "k", "t"), (2, 1, 3)),
    "a call": (lambda c: c.with_columns(x=tm.row_number().over(BY_T) + 1), (0, 1, 2)),
    "twice the same column": (lambda c: c.select("k", "v", "t", k2="k"), (0, 1, 2)),
    "other names": (lambda c: c.rename(k="a", v="b", t="c"), None),
    "rows left out in between": (lambda c: c.with_columns(x="t + 1").filter("x > 1").delay(1), (0, 1, 2)),
    "first rows in between": (lambda c: c.with_columns(x="t + 1").group_by("k").top_k(1, order_by="x"), (0, 1, 2)),
    "a column changed": (lambda c: c.with_columns(x="t + 1").with_columns(v="upper(v)"), None),
    "a column changed, then one added": (lambda c: c.with_columns(v="upper(v)").with_columns(x="t"), (0, 1, 2)),
    "a column dropped, then one added": (lambda c: c.drop("v").with_columns(x="t + 1"), (0, 1)),
    "an added column dropped": (lambda c: c.with_columns(x="t", y="t").drop("x"), (0, 1, 2)),
    "other rows": (lambda c: c.with_columns(x="t").concat(c.with_columns(x="k")), None),
    "rows of groups": (lambda c: c.with_columns(x="t").group_by("k", "x").agg(n=tm.count()), None),
    "rows of a function": (lambda c: c.with_columns(x="t").map_rows(lambda r: r[:2], {"k": "int64", "v": "string"}), None),
    "pairs": (lambda c: c.with_columns(x="t").join(c, on="k"), None),
    "in a loop": (lambda c: c.with_columns(x="t").iterate(lambda x: x.with_columns(x="x").distinct()), None),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_what_the_rows_had(name):
    """The definition: a row is the same as long as it has all of its columns; then what it has is another row."""
    build, expected = BUILT[name]
    made = build(tm.Dataflow().input("x", SCHEMA))
    assert columns_before_added(made.node) == expected


@pytest.mark.parametrize("name", ["an expression", "one in front", "a column changed", "an added column dropped"])
def test_the_numbers_are_in_the_order_of_that_hash(engine, name):
    flow = tm.Dataflow()
    build, hashed = BUILT[name]
    rows = build(flow.input("x", SCHEMA))
    names = rows.schema.names
    flow.output("y", rows.with_columns(n=tm.row_number().over(tm.Window.order_by("t"))))
    with start(flow, engine) as run:
        run.insert("x", [(i % 3, chr(97 + i), 0) for i in range(12)])
        run.advance()
        found = sorted(run.snapshot("y"), key=lambda row: row[-1])
    types = [STRING if rows.schema.field(n).dtype == STRING else INT64 for n in names]
    at = range(len(names)) if hashed is None else hashed
    hashes = [xxhash64_of([row[i] for i in at], [types[i] for i in at]) for row in found]
    assert hashes == sorted(hashes)
    assert len(set(hashes)) == 12


def test_on_close(engine):
    def build(flow):
        rows = flow.input("x", SCHEMA, watermark=("t", 0))
        return rows.with_columns(n0=tm.row_number().over(BY_T), emit="on_close")

    flow = tm.Dataflow()
    more = build(flow)
    assert columns_before_added(more.node) == (0, 1, 2)
    plain = flow.input("y", SCHEMA, watermark=("t", 0)).with_columns(x="v || 'x'")
    flow.output("closed", more)
    flow.output("added", plain.with_columns(n0=tm.row_number().over(BY_T), emit="on_close").drop("x"))
    with start(flow, engine) as run:
        for name in ("x", "y"):
            run.insert(name, [(k, v, t) for k in (1, 2) for v in "abcdef" for t in (0, 1)])
        run.advance()
        for name in ("x", "y"):
            run.insert(name, [(3, "z", 5)])
        run.advance()
        assert len(run.snapshot("closed")) == 24
        assert list(run.snapshot("closed")) == list(run.snapshot("added"))


def test_a_saved_state_in_another_order_is_another_dataflows():
    """The columns that a hash is over are said in what a state is known by."""
    flow = tm.Dataflow()
    c = flow.input("x", SCHEMA).with_columns(x="t")
    flow.output("n", c.select("k", "v", n=tm.row_number().over(BY_T)))
    flow.output("top", c.group_by("k").top_k(2, order_by="t"))
    flow.output("last", c.group_by("k").agg(v=tm.last("v", order_by="t")))
    before = describe(flow.graph)
    assert len([line for line in before if "hashed=(0, 1, 2)" in line]) == 2
    assert difference(before, describe(flow.graph)) is None
    for number, line in enumerate(before):
        if "hashed=(0, 1, 2)" in line:
            altered = [*before[:number], line.replace("hashed=(0, 1, 2)", "hashed=None"), *before[number + 1 :]]
            assert difference(altered, describe(flow.graph)) is not None


@pytest.mark.parametrize("beside", [{}, {"before": tm.lag("v").over(BY_T)}], ids=["a number alone", "another call"])
def test_first_rows_are_found_without_a_column_for_the_hash(beside):
    """The hash of what rows had is worked out of ties alone, behind steps as before them."""
    flow = tm.Dataflow()
    more = flow.input("x", SCHEMA).with_columns(e="t + 1")
    flow.output("y", more.with_columns(n=tm.row_number().over(BY_T), **beside).filter("n <= 2"))
    flow.output("z", more.with_columns(n=tm.row_number().over(BY_T), **beside))
    with flow.start() as run:
        assert [node for node in run.graph.nodes if node.kind == "Reduce"]
        assert not [name for node in run.graph.nodes for name in node.schema.names if "hash" in name]
