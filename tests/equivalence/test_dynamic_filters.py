"""Dynamic filters: the embedded engine's index and the lowering against the definition, and what is refused."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.running import KV, examples, new_flow, scaled, start, traces
from support.values_that_move import COMPARISONS, TYPES, right_side

import tidemill as tm
from tidemill.renderer.embedded.operator_registry import FACTORIES
from tidemill.renderer.runs.registry import Registry
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates


def batchings(seed):
    return [all_at_once, time_by_time, shuffled(seed)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@examples(30)
@given(data=st.data(), comparison=st.sampled_from(COMPARISONS))
def test_the_index_and_the_lowering_give_what_is_defined(dtype, coordinates, data, comparison):
    of_type: list[Any] = TYPES[dtype]
    schema = {"v": dtype, "k": "int64"}
    flow = new_flow(coordinates)
    left, right = flow.input("left", schema), flow.input("right", {"v": dtype})
    flow.output("out", left.dynamic_filter("v", comparison, right))
    some = data.draw(updates(schema, coordinates, values={"v": [*of_type, None]}))
    value = data.draw(right_side(of_type, coordinates))
    check_equivalent(flow, {"left": some, "right": value}, batchings=batchings(data.draw(st.integers(0, 99))))


@pytest.mark.slow
@pytest.mark.parametrize("conditions", [
    [("k", ">", "low"), ("k", "<=", "high")], [("k", ">=", "low"), ("v", "<", "high")], [("k", "<>", "low"), ("v", "=", "high")],
])  # fmt: skip
@examples(60)
@given(data=st.data(), coordinates=st.sampled_from([1, 1, 2]))
def test_several_conditions_at_once(conditions, data, coordinates):
    flow = new_flow(coordinates)
    left, right = flow.input("left", KV), flow.input("right", {"low": "int64", "high": "int64"})
    flow.output("out", left.dynamic_filter(conditions, right))
    some = data.draw(updates(KV, coordinates))
    values = data.draw(right_side([0, 1, 2, 3], coordinates))
    both = [((row[0], None if row[0] is None else (row[0] + 2) % 4), t, d) for row, t, d in values]
    check_equivalent(flow, {"left": some, "right": both}, batchings=batchings(data.draw(st.integers(0, 99))))


@pytest.mark.slow
@examples(60)
@given(data=st.data(), coordinates=st.sampled_from([1, 2, 3]))
def test_what_passes_and_what_does_not_are_all_without_null(data, coordinates):
    """A comparison and its contrary share the rows out between them, where there is a value to compare with."""
    flow = new_flow(coordinates)
    rows = flow.input("left", KV)
    total = rows.agg(n=tm.count_distinct("v"))
    flow.output("all", rows.filter("v is not null"))
    flow.output("both", rows.dynamic_filter("v", "<", total).concat(rows.dynamic_filter("v", ">=", total)))
    flow.output("rest", rows.dynamic_filter("v", "=", total).concat(rows.dynamic_filter("v", "<>", total)))
    some = data.draw(updates(KV, coordinates, non_negative=True))
    check_equivalent(flow, {"left": some}, batchings=batchings(1))
    with flow.start() as run:
        run.update("left", some)
        run.close_inputs()
        found = [sorted(map(repr, run.changes(name))) for name in ("all", "both", "rest")]
        assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("monotone", ["increasing", "decreasing"])
@examples(30)
@given(data=st.data())
def test_a_side_that_moves_in_one_way_gives_the_same(comparison, monotone, data):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", KV)
    best = right.agg(v=tm.max("v") if monotone == "increasing" else tm.min("v"))
    flow.output("out", left.dynamic_filter("v", comparison, best, monotone=monotone))
    some = data.draw(updates(KV))
    inserted = [(row, t, 1) for row, t, _ in data.draw(updates(KV))]
    check_equivalent(flow, {"left": some, "right": inserted}, batchings=batchings(1))


@pytest.fixture
def _lowered(monkeypatch):
    """The embedded engine takes no composite itself."""
    every: Any = Registry.__dict__["composites"]
    none = property(lambda self: frozenset() if self is FACTORIES else every.fget(self))
    monkeypatch.setattr(Registry, "composites", none)


@pytest.mark.slow
@pytest.mark.usefixtures("_lowered")
@pytest.mark.parametrize("comparison", COMPARISONS)
@settings(max_examples=scaled(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_lowering_where_times_are_in_order(comparison, data):
    """Of dynamic filters, and of those that a pass finds: what other engines run."""
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", comparison, right))
    flow.output("both", left.dynamic_filter([("v", comparison, "x"), ("k", "<>", "x")], right))
    mean = left.agg(m=tm.avg("v"), k_right=tm.max("k"))
    flow.output("mean", left.cross_join(mean).filter(f"v {comparison} m AND k_right >= k").select("k", "v"))
    some, value = data.draw(updates(KV, non_negative=True)), data.draw(right_side([0, 1, 2], 1))
    check_equivalent(flow, {"left": some, "right": value}, batchings=batchings(1), passes=True)
    with flow.start() as run:
        assert not [o for o in run.metrics() if "Filter" in o.kind and o.kind != "Filter"]


@examples(30)
@given(data=st.data())
def test_in_a_loop(data):
    flow = new_flow()
    a, least = flow.input("a", KV), flow.input("least", {"k": "int64"})
    flow.output("out", a.iterate(
        lambda here: here.select("k", v="v + 1").dynamic_filter("v", "<", least).concat(a).distinct(), error_at=50
    ))  # fmt: skip
    some, value = data.draw(updates(KV)), data.draw(right_side([0, 1, 4, 7], 1))
    check_equivalent(flow, {"a": some, "least": value}, batchings=batchings(1))


# -- cases known beforehand -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ["max", "first"])
def test_a_column_greater_than_the_greatest_of_another_table(engine, one):
    """An empty right side, values that rise, fall and go."""
    flow = new_flow()
    t1, t2 = flow.input("t1", {"v1": "int64"}), flow.input("t2", {"v2": "int64"})
    best = t2.agg(v2=tm.max("v2")) if one == "max" else t2.group_by().top_k(1, order_by="v2 desc")
    flow.output("out", t1.dynamic_filter("v1", ">", best))
    with start(flow, engine) as run:
        run.insert("t1", [(1,), (2,), (3,)])

        def after(**changes):
            for name, rows in changes.items():
                getattr(run, name)("t2", rows)
            run.advance()
            return sorted(row for (row,) in run.snapshot("out"))

        assert after() == []
        assert after(insert=[(0,)]) == [1, 2, 3]
        assert after(insert=[(2,)]) == [3]
        assert after(delete=[(2,)], insert=[(1,)]) == [2, 3]
        assert after(delete=[(0,), (1,)]) == []
        assert after(insert=[(1,)]) == [2, 3]


def test_columns_of_different_types_compare_as_in_an_expression(engine):
    schema = {"left": {"v": "int64"}, "right": {"x": "float64"}}
    given = {"left": [((1,), 0, 1), ((2,), 0, 1)], "right": [((1.5,), 0, 1)]}
    (found,) = traces(engine, lambda left, right: left.dynamic_filter("v", ">", right), given, schema=schema)
    assert found == [((2,), 0, 1)]


@pytest.mark.parametrize("coordinates", [1, 2])
def test_two_right_rows_are_an_error_that_names_both(engine, coordinates):
    """When the time closes at which both are there, and the step is not taken."""
    first, later = (0, 1) if coordinates == 1 else ((0, 0), (1, 1))
    flow = new_flow(coordinates)
    left, right = flow.input("left", KV), flow.input("right", {"v": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    with start(flow, engine) as run:
        run.update("right", [((1,), first, 1)])
        run.advance_to(later)
        run.update("right", [((2,), later, 1)])
        with pytest.raises(tm.errors.StepError, match=r"more than one row, \(1,\) and \(2,\), and a dynamic filter"):
            run.close_inputs()
        run.update("right", [((1,), later, -1)])  # what was refused is queued still
        run.update("left", [((0, 2), later, 1), ((0, 3), later, 1)])
        run.close_inputs()
        assert list(run.changes("out")) == [((0, 3), later, 1)]


def test_its_errors_name_it_as_the_user_wrote_it():
    """Not as what passes make of it where times are in order."""
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"v": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    with flow.start() as run:
        run.insert("right", [(1,), (2,)])
        with pytest.raises(tm.errors.StepError, match=r"^dynamic_filter \(.*test_dynamic_filters\.py:\d+\): the right"):
            run.advance()


def test_the_same_row_twice_is_two_rows(engine):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"v": "int64"})
    flow.output("out", left.dynamic_filter("v", ">", right))
    with start(flow, engine) as run:
        run.insert("right", [(1,), (1,)])
        with pytest.raises(tm.errors.StepError, match=r"more than one row, \(1,\) and \(1,\)"):
            run.advance()


@pytest.mark.parametrize("passes", [False, True])
def test_changes_that_cancel_out_are_none(engine, passes):
    """A row whose other columns change is, of what is read, the same; so is a right row that is put in again."""
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", KV)
    flow.output("out", left.select("v").dynamic_filter("v", ">", right.select("v")))
    with start(flow, engine, passes=passes) as run:
        run.insert("left", [(0, 2), (0, 1)])
        run.insert("right", [(0, 1)])
        run.advance()
        for name, old, new in [("left", (0, 2), (1, 2)), ("right", (0, 1), (1, 1))]:
            run.delete(name, [old])
            run.insert(name, [new])
            run.advance()
        assert list(run.changes("out")) == [((2,), 0, 1)]


# -- what the embedded engine does with its index ---------------------------------------------------------------------


def kept(run):
    """How many left rows are held, the right side's row aside."""
    (operator,) = (o for o in run.metrics() if o.kind == "OrderedDynamicFilter")
    return operator.state_rows - 1


def out_of(run):
    return {o.kind: o.records_out for o in run.metrics()}["OrderedDynamicFilter"]


def steps(flow, n=10_000):
    run = flow.start()
    run.insert("left", [(i, i) for i in range(n)])
    return run


def test_only_rows_between_the_old_value_and_the_new_are_touched(monkeypatch):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"v": "int64"}, key=["v"])
    flow.output("out", left.dynamic_filter("v", ">", right))
    with steps(flow) as run:
        run.insert("right", [(5000,)])
        run.advance()
        before = out_of(run)
        for old, new in [(5000, 5010), (5010, 4000), (4000, 4001)]:
            run.delete("right", [(old,)])
            run.insert("right", [(new,)])
            run.advance()
            assert out_of(run) - before == abs(new - old)
            before = out_of(run)
        assert len(run.snapshot("out")) == 5998


@pytest.mark.parametrize("comparison", ["<", ">="])
def test_state_behind_a_side_that_only_rises_is_dropped(comparison):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", comparison, right.agg(x=tm.max("x")), monotone="increasing"))
    with steps(flow) as run:
        run.insert("right", [(1000,)])
        run.advance()
        assert kept(run) == 9000
        run.insert("right", [(4000,)])
        run.insert("left", [(0, 3000), (0, 8000)])
        run.advance()
        run.compact()
        assert kept(run) == 6001
        run.delete("left", [(3000, 3000), (8000, 8000)])
        run.advance()
        run.compact()
        assert kept(run) == 6000
        assert len(run.snapshot("out")) == (4000 if comparison == "<" else 6000)


@examples(40)
@given(data=st.data(), how=st.tuples(st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["<", "<=", ">", ">="])))
def test_several_conditions_of_a_side_that_only_rises(data, how):
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", KV)
    best = right.agg(x=tm.max("k"), y=tm.max("v"))
    flow.output("out", left.dynamic_filter([("k", how[0], "x"), ("v", how[1], "y")], best, monotone="increasing"))
    inserted = [(row, t, 1) for row, t, _ in data.draw(updates(KV))]
    check_equivalent(flow, {"left": data.draw(updates(KV)), "right": inserted}, batchings=batchings(1))


def test_a_side_that_goes_back_is_refused_where_it_was_declared_not_to():
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"x": "int64"})
    flow.output("out", left.dynamic_filter("v", "<", right.agg(x=tm.max("x")), monotone="increasing"))
    with steps(flow, 10) as run:
        run.insert("right", [(1,), (3,)])
        run.advance()
        run.delete("right", [(3,)])
        with pytest.raises(tm.errors.StepError, match=r"monotone='increasing', and its row \(3,\) became \(1,\): rows"):
            run.advance()
        run.insert("right", [(7,)])
        run.advance()
        assert len(run.snapshot("out")) == 7


def test_a_step_that_is_refused_leaves_the_value_as_it_was():
    flow = new_flow()
    left, right = flow.input("left", KV), flow.input("right", {"v": "int64"})
    filtered = left.dynamic_filter("v", "<", right)
    flow.output("out", filtered.select("v", x="10 DIV (v - 7)"))
    with steps(flow, 10) as run:
        run.insert("right", [(3,)])
        run.advance()
        run.delete("right", [(3,)])
        run.insert("right", [(9,)])
        with pytest.raises(tm.errors.ExpressionError, match="division by zero"):
            run.advance()
        run.discard()
        run.delete("right", [(3,)])
        run.insert("right", [(5,)])
        run.advance()
        assert sorted(v for v, _ in run.snapshot("out")) == [0, 1, 2, 3, 4]


def test_it_goes_on_from_saved_state(tmp_path):
    flow = new_flow()
    left, right = flow.input("left", {"name": "string"}), flow.input("right", {"name": "string"})
    flow.output("out", left.dynamic_filter("name", ">=", right))
    names = [f"name number {i:04}" for i in range(2000)]
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.insert("left", [(name,) for name in names])
        run.insert("right", [(names[1990],)])
        run.advance()
    with flow.start(tm.Embedded(state=tmp_path)) as run:
        run.delete("right", [(names[1990],)])
        run.insert("right", [(names[1000],)])
        run.advance()
        assert sorted(run.changes("out")) == [((name,), 1, 1) for name in names[1000:1990]]


def test_lists_and_text_alike_in_their_beginnings_compare_as_in_an_expression():
    flow = new_flow()
    schema = {"v": "string"}
    left, right = flow.input("left", schema), flow.input("right", schema)
    for i, comparison in enumerate(COMPARISONS):
        flow.output(f"out{i}", left.dynamic_filter("v", comparison, right))
    text = [f"alike in the beginning {i % 7}" for i in range(3000)]
    values = [[((text[0],), 0, 1)], [((text[0],), 1, -1), ((text[3],), 1, 1)], [((text[3],), 2, -1)]]
    some = [((t,), i % 3, 1) for i, t in enumerate(text)]
    check_equivalent(flow, {"left": some, "right": sum(values, [])}, batchings=batchings(1))


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "options", "message"), [
    (("k", "like", "one"), {}, "dynamic_filter: 'like' is no comparison: expected one of = <> < <= > >="),
    (("k", ">", "two"), {}, r"right side has the columns \['x', 'y'\], and one is compared with: select it, or name it, as"),
    (("k", ">", "text"), {}, "dynamic_filter: k: int64 > s: string: these types do not compare; cast one of them"),
    (("nope", ">", "one"), {}, "nope"),
    (([], "one"), {}, r"dynamic_filter: \[\] has no conditions \(column, comparison, column of the right side\): expected dyn"),
    (([("k", ">")], "one"), {}, r"\[\('k', '>'\)\] has no conditions"),
    (("one",), {}, "dynamic_filter was given 1 arguments: expected dynamic_filter"),
    (("k", "=", "one"), {"monotone": "increasing"}, "monotone='increasing' with =: it is for <, <=, > and >= only"),
    (("k", "<", "one"), {"monotone": "up"}, "monotone='up': expected 'increasing' or 'decreasing'"),
])  # fmt: skip
def test_what_is_wrong_is_said(said, options, message):
    flow = new_flow()
    a = flow.input("a", KV)
    sides = {
        "one": flow.input("one", {"x": "int64"}), "two": flow.input("two", {"x": "int64", "y": "int64"}),
        "text": flow.input("text", {"s": "string"}),
    }  # fmt: skip
    with pytest.raises(tm.errors.GraphError, match=message):
        a.dynamic_filter(*(sides.get(s, s) if isinstance(s, str) else s for s in said), **options)
