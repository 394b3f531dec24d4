"""A changed dataflow on a folder of state: what is equal is kept, what is gone dropped, only what is new is loaded."""

import threading
from collections import Counter

import pyarrow.parquet as pq
import pytest
from support.user_modules import user_modules  # noqa: F401 - a fixture

import tidemill as tm
from tidemill.cli import main
from tidemill.errors import EngineError, StateError

ORDERS = {"id": "int64", "region": "string", "amount": "int64"}
ROWS = [(1, "north", 3), (2, "north", 4), (3, "south", 5)]


def shop(orders=None, people=None, **views):
    """A dataflow with a view for each function of the two inputs."""
    flow = tm.Dataflow("shop")
    given = flow.input("orders", ORDERS if orders is None else orders)
    others = flow.input("people", people or {"region": "string", "name": "string"}, key="region")
    for name, view in views.items():
        flow.output(name, view(given, others))
    return flow


def total(orders, _):
    return orders.group_by("region").agg(total=tm.sum("amount"))


def most(orders, _):
    return orders.group_by("region").agg(total=tm.max("amount"))


def named(orders, people):
    return orders.join(people, on="region").select("id", "name")


@pytest.fixture
def state(tmp_path):
    """A folder whose last step is in the checkpoint, of a view of sums."""
    folder = tmp_path / "state"
    fill(shop(total=total), folder)
    return folder


def fill(flow, folder, **options):
    with flow.start(tm.Embedded(folder, **options)) as run:
        run.insert("orders", ROWS)
        run.upsert("people", [("north", "Ada"), ("south", "Bo")])
        run.advance()
        run.delete("orders", ROWS[:1])
        run.advance()
        run.checkpoint()


def contents(flow, folder, **options):
    with flow.start(tm.Embedded(folder), **options) as run:
        return {name: list(run.snapshot(name)) for name in flow.graph.outputs}


TOTAL = [("north", 4), ("south", 5)]


def test_a_new_view_is_loaded_and_appears_in_changes(state):
    flow = shop(total=total, named=named)
    plan = flow.plan(state)
    assert (len(plan.new), len(plan.dropped)) == (
        3,
        0,
    )  # the arrangement of orders by region, that of people, the output
    assert plan.rows == 4
    assert "rows to load: 4 " in str(plan)
    with flow.start(tm.Embedded(state), migrate="auto") as run:
        assert list(run.snapshot("named")) == [(2, "Ada"), (3, "Bo")]
        assert Counter(row for row, _, diff in run.changes("named") if diff > 0) == Counter([(2, "Ada"), (3, "Bo")])
        assert not list(run.changes("total"))
        run.upsert("people", [("north", "Cy")])
        run.advance()
        assert list(run.changes("named")) == [((2, "Ada"), 2, -1), ((2, "Cy"), 2, 1)]
    with flow.start(tm.Embedded(state), migrate="refuse") as run:
        assert not list(run.changes("named"))


def test_kept_operators_do_no_work(tmp_path):
    calls = []

    def doubled(row):
        calls.append(row)
        return (row.region, 2 * row.amount)

    def view(orders, _):
        return (
            orders.map_rows(doubled, {"region": "string", "n": "int64"}, version="1")
            .group_by("region")
            .agg(n=tm.sum("n"))
        )

    fill(shop(view=view), tmp_path)
    calls.clear()
    assert contents(shop(total=total, view=view, named=named), tmp_path)["view"] == [("north", 8), ("south", 10)]
    assert not calls


def test_what_reads_a_kept_operator_is_loaded_from_that(state):
    """Not from the orders: what the output shows is what the new view reads."""

    def over(orders, people):
        return total(orders, people).filter("total > 4")

    flow = shop(total=total, over=over)
    assert flow.plan(state).rows == 2
    assert contents(flow, state)["over"] == [("south", 5)]


def test_renamed_and_reordered_outputs_cost_nothing(tmp_path):
    fill(shop(a=total, b=most, c=named), tmp_path)
    flow = shop(z=named, b=most, y=total)
    plan = flow.plan(tmp_path)
    assert not plan.changes
    assert plan.rows == 0
    with flow.start(tm.Embedded(tmp_path), migrate="ask") as run:
        assert list(run.snapshot("y")) == TOTAL
        assert [list(run.changes(name)) for name in "zby"] == [[], [], []]


def test_a_column_that_nothing_reads_costs_nothing(state):
    flow = shop(orders={"note": "string", **ORDERS}, total=total)
    assert flow.plan(state).dropped == flow.plan(state).new == ("contents of Input 'orders'",)
    with flow.start(tm.Embedded(state)) as run:
        run.insert("orders", [("gift", 4, "north", 1)])
        run.advance()
        assert list(run.snapshot("total")) == [("north", 5), ("south", 5)]
    notes = shop(orders={"note": "string", **ORDERS}, notes=lambda orders, _: orders.select("id", "note"))
    assert contents(notes, state) == {"notes": [(2, None), (3, None), (4, "gift")]}
    assert contents(shop(total=total), state) == {"total": [("north", 5), ("south", 5)]}  # and it may go again


def test_a_column_that_came_between_a_checkpoint_and_the_end(state):
    """What the log holds has the columns of before."""
    with shop(total=total).start(tm.Embedded(state)) as run:
        run.insert("orders", [(7, "west", 7)])
        run.upsert("people", [("west", "Di")])
        run.advance()
    people = {"region": "string", "age": "int64", "name": "string"}
    flow = shop(orders={"note": "string", **ORDERS}, people=people, total=total, people_=lambda _, people: people)
    assert contents(flow, state) == {
        "total": [*TOTAL, ("west", 7)],
        "people_": [("north", None, "Ada"), ("south", None, "Bo"), ("west", None, "Di")],
    }


def test_a_column_that_came_to_an_input_that_was_empty(tmp_path):
    people = {"region": "string", "name": "string"}
    with shop(people=people, all=lambda _, people: people).start(tm.Embedded(tmp_path)) as run:
        run.upsert("people", [("north", "Ada")])
        run.advance()
        run.apply("people", [{"op": "truncate"}])
        run.advance()
        run.checkpoint()
    with shop(people={**people, "age": "int64"}, all=lambda _, people: people).start(tm.Embedded(tmp_path)) as run:
        rows = [(f"region {i}", "Bo", 40) for i in range(20)]
        run.upsert("people", rows)
        run.advance()
        assert list(run.snapshot("all")) == sorted(rows)


def test_a_changed_view_gives_the_difference(state):
    with shop(total=most).start(tm.Embedded(state)) as run:
        assert list(run.snapshot("total")) == TOTAL
        assert not list(run.changes("total"))  # the sum was of one order each
    with shop(total=lambda orders, _: orders.group_by("region").agg(total=tm.count())).start(tm.Embedded(state)) as run:
        found = Counter()
        for row, _, diff in run.changes("total"):
            found[row] += diff
        assert found == {("north", 4): -1, ("south", 5): -1, ("north", 1): 1, ("south", 1): 1}


@pytest.mark.parametrize("checkpoints", [(), (0,), (1,), (0, 2)])
@pytest.mark.parametrize("time", ["epoch", ("event", "correction")])
def test_a_changed_view_gives_the_difference_with_steps_since_the_checkpoint(tmp_path, checkpoints, time):
    """What was read before and what is read then add up to what there is."""

    def flow(aggregate):
        flow = tm.Dataflow("shop", time=time)
        orders = flow.input("orders", ORDERS).concat(flow.constant(ORDERS, [(0, "east", 7)]))
        flow.output("total", orders.group_by("region").agg(total=aggregate("amount")))
        return flow

    def epoch(run, n):
        run.advance_to(n if time == "epoch" else (n, n))

    with flow(tm.sum).start(tm.Embedded(tmp_path)) as run:
        for n, row in enumerate([*ROWS, (4, "east", 1)]):
            run.insert("orders", [row], time=n if time == "epoch" else (n, n))
            epoch(run, n + 1)
            if n in checkpoints:
                run.checkpoint()
    with flow(tm.sum).start(tm.Embedded(tmp_path)) as run:
        at = 3 if time == "epoch" else (3, 3)
        before = Counter(run.snapshot("total", at=at).counts())
    with flow(tm.max).start(tm.Embedded(tmp_path)) as run:
        for row, _, diff in run.changes("total"):
            before[row] += diff
        assert {row: n for row, n in before.items() if n} == run.snapshot("total", at=at).counts()
        assert before["north", 7] == 0 < before["north", 4]


def test_what_a_view_held_is_not_taken_away_where_its_columns_are_others(state, caplog):
    with shop(total=lambda orders, _: orders.select("id")).start(tm.Embedded(state)) as run:
        assert list(run.changes("total")) == [((2,), 1, 1), ((3,), 1, 1)]
    assert "changes of 'total' begin with all that it holds" in caplog.text


def test_functions(user_modules, tmp_path):  # noqa: F811
    """A changed one is a changed operator, one that only has another name is the same, and a version overrides both."""

    def flow(function, version=None):
        return shop(v=lambda orders, _: orders.map_rows(function, {"n": "int64"}, version=version).distinct())

    one, other = (user_modules.write(f"def f(row):\n    return (row.amount + {n},)\n", "").f for n in (1, 2))
    renamed = user_modules.write("def g(row):\n    return (row.amount + 1,)\n", "").g
    fill(flow(one), tmp_path)
    assert not flow(renamed).plan(tmp_path).changes
    assert contents(flow(renamed), tmp_path, migrate="ask") == {"v": [(5,), (6,)]}
    assert flow(other).plan(tmp_path).changes
    assert flow(other).plan(tmp_path).seconds > 5 * shop(v=most).plan(tmp_path).seconds  # calls take longer
    assert contents(flow(other), tmp_path) == {"v": [(6,), (7,)]}
    assert contents(flow(other, "1"), tmp_path) == {"v": [(6,), (7,)]}
    assert contents(
        flow(user_modules.write("def f(row):\n    return (0 + row.amount + 2,)\n", "").f, "1"), tmp_path, migrate="ask"
    )
    assert contents(flow(one, "2"), tmp_path) == {"v": [(5,), (6,)]}


def test_ask_and_refuse(state):
    with pytest.raises(StateError, match=r"(?s)migrate='ask' was said.*1 operators kept|new: Reduce .*max") as caught:
        shop(total=most).start(tm.Embedded(state), migrate="ask")
    assert "rows to load: 2" in str(caught.value)
    with pytest.raises(StateError, match="holds the state of another dataflow"):
        shop(total=most).start(tm.Embedded(state), migrate="refuse")
    with pytest.raises(EngineError, match="migrate='always': expected one of 'auto', 'ask', 'refuse'"):
        shop(total=total).start(tm.Embedded(state), migrate="always")
    assert contents(shop(total=total), state, migrate="refuse") == {"total": TOTAL}


def test_without_kept_inputs_what_is_new_is_refused(tmp_path):
    fill(shop(total=total, most=most), tmp_path, keep_inputs=False)
    with pytest.raises(StateError, match=r"Input '(people|orders)' .*was not kept, as with keep_inputs=False"):
        shop(total=total, named=named).start(tm.Embedded(tmp_path))
    assert contents(shop(total=total), tmp_path) == {"total": TOTAL}  # what is gone is no matter


def test_inputs_are_not_kept_any_more(state):
    with shop(total=total).start(tm.Embedded(state, keep_inputs=False)) as run:
        run.insert("orders", ROWS[:1])
        run.advance()
        run.checkpoint()
    assert contents(shop(total=total), state) == {"total": [("north", 7), ("south", 5)]}
    with pytest.raises(StateError, match=r"Input '(people|orders)' .*was not kept"):
        shop(named=named).start(tm.Embedded(state))


def test_what_depends_on_when_rows_came_is_not_loaded(state):
    flow = shop(total=total, later=lambda orders, _: orders.delay(1))
    with pytest.raises(StateError, match=r"delay \(.*\) is new, or something new reads it"):
        flow.plan(state)
    with pytest.raises(StateError, match=r"gives rows by when others came"):
        flow.start(tm.Embedded(state))
    assert contents(shop(total=total), state, migrate="refuse") == {"total": TOTAL}


def test_inputs_that_come_and_go(state):
    def flow(*inputs):
        made = tm.Dataflow("shop")
        for name in inputs:
            made.output(f"all {name}", made.input(name, ORDERS))
        return made

    with flow("orders", "more").start(tm.Embedded(state)) as run:
        assert run.frontier("more") == run.frontier("orders")
        run.insert("more", ROWS[:1])
        run.advance()
        assert run.frontier("more") == run.frontier("orders") == run.frontier("all more")
        assert list(run.snapshot("all more")) == ROWS[:1]
    assert contents(flow("orders"), state) == {"all orders": ROWS[1:]}
    assert contents(flow("orders", "more"), state) == {"all orders": ROWS[1:], "all more": []}


@pytest.mark.parametrize(
    ("orders", "people", "said"),
    [
        ({**ORDERS, "amount": "float64"}, None, r"Input 'orders' .*: the column 'amount' was int64 when"),
        ({**ORDERS, "amount": "int64 not null"}, None, r"the column 'amount' was int64 when"),
        ({**ORDERS, "at": "date not null"}, None, r"the column 'at' is new and may not be NULL"),
    ],
)
def test_inputs_that_do_not_fit(state, orders, people, said):
    with pytest.raises(StateError, match=said):
        shop(orders, people, rows=lambda orders, _: orders).start(tm.Embedded(state))
    assert contents(shop(total=total), state, migrate="refuse") == {"total": TOTAL}


def test_another_key(state):
    flow = tm.Dataflow("shop")
    flow.output("orders", flow.input("orders", ORDERS, key="id"))
    with pytest.raises(StateError, match=r"its key was none when the state was made, and is \['id'\]"):
        flow.start(tm.Embedded(state))


def test_rows_there_are_checked_where_an_input_becomes_unique(state):
    def flow(rows):
        made = tm.Dataflow("shop")
        made.output("orders", made.input("orders", ORDERS, unique=True))
        return made

    assert contents(flow(0), state) == {"orders": ROWS[1:]}
    with shop(total=total).start(tm.Embedded(state)) as run:
        run.insert("orders", ROWS[1:2])
        run.advance()
        run.checkpoint()
    with pytest.raises(StateError, match=r"(?s)what is new cannot be loaded .*the state is as it was"):
        flow(0).start(tm.Embedded(state))
    assert contents(shop(total=total), state, migrate="refuse") == {"total": [("north", 8), ("south", 5)]}


def test_rows_that_are_not_there_cannot_be_checked(tmp_path):
    fill(shop(total=total), tmp_path, keep_inputs=False)
    flow = tm.Dataflow("shop")
    flow.input("orders", ORDERS, unique=True)
    with pytest.raises(StateError, match=r"Input 'orders' .*was not kept"):
        flow.start(tm.Embedded(tmp_path))


def test_the_command_line(state, capsys):
    assert main(["state", str(state)]) == 0
    said = capsys.readouterr().out
    assert "2 steps, 0 of them since the last checkpoint" in said
    assert "2 rows: contents of Input 'orders'" in said
    assert main(["state", str(state), "--flow", "tidemill:Dataflow"]) == 0  # which returns an empty one
    assert "0 operators kept, 0 new, 4 dropped" in capsys.readouterr().out
    for flow, error in (("tidemill:nothing", "has no attribute 'nothing'"), ("tidemill:count", "returns one")):
        assert main(["state", str(state), "--flow", flow]) == 1
        assert error in capsys.readouterr().err


def test_an_expression_that_fails_on_rows_there_are(state):
    flow = shop(total=total, share=lambda orders, _: orders.select("id", x="1 / (amount - 5)"))
    with pytest.raises(StateError, match=r"(?s)what is new cannot be loaded .*the state is as it was"):
        flow.start(tm.Embedded(state))
    assert contents(shop(total=total), state, migrate="refuse") == {"total": TOTAL}


def test_an_expression_that_fails_on_rows_of_steps_since_the_checkpoint(tmp_path):
    with shop(total=total).start(tm.Embedded(tmp_path)) as run:
        run.insert("orders", ROWS)
        run.advance()
    failing = shop(total=total, bad=lambda orders, _: orders.select(x="1 / (amount - 4)"))
    with pytest.raises(StateError, match=r"(?s)what is new cannot take step 1 .*by zero.*: the state is as it was"):
        failing.start(tm.Embedded(tmp_path))
    assert contents(shop(total=total), tmp_path) == {"total": [("north", 7), ("south", 5)]}


def test_changelogs_go_on(tmp_path):
    """Their files add up to what there is, before and after."""
    folder, log = tmp_path / "state", tmp_path / "log"

    def accumulated(name):
        found = Counter()
        for path in sorted((log / name).glob("*.parquet")):
            for row in pq.read_table(path).to_pylist():
                found[row["region"], row["total"]] += row["diff"]
        return {row: count for row, count in found.items() if count}

    with shop(total=total, other=most).start(tm.Embedded(folder)) as run:
        run.to_changelog(log)
        run.insert("orders", ROWS)
        run.advance()
        run.checkpoint()
    with shop(total=most).start(tm.Embedded(folder)) as run:
        assert accumulated("total") == {("north", 4): 1, ("south", 5): 1}
        run.insert("orders", [(4, "north", 9)])
        run.advance()
        assert accumulated("total") == {("north", 9): 1, ("south", 5): 1}
    with shop(total=total).start(tm.Embedded(folder)):  # with a step since the last checkpoint
        assert accumulated("total") == {("north", 16): 1, ("south", 5): 1}
    with pytest.raises(StateError, match=r"'total' .*is written to a changelog and has other columns now"):
        shop(total=lambda orders, _: orders.select("id")).start(tm.Embedded(folder))
    assert contents(shop(total=total), folder, migrate="refuse") == {"total": [("north", 16), ("south", 5)]}


def test_a_plan_of_what_is_not_there(tmp_path):
    with pytest.raises(StateError, match="expected a folder of state"):
        shop(total=total).plan(tmp_path / "none")


def test_a_plan_beside_the_run(tmp_path, capsys):
    """A folder that a run is on is looked at without waiting for it, also while it makes checkpoints."""
    flow, seen = shop(total=total, most=most), []
    with shop(total=total).start(tm.Embedded(tmp_path, checkpoint_every=3)) as run:
        run.insert("orders", ROWS)
        run.advance()
        plan = flow.plan(tmp_path)
        assert (plan.rows, plan.repeated, len(plan.new)) == (0, 3, 2)
        assert "and 3 that came since the last checkpoint are taken again, as by every start" in str(plan)
        assert main(["state", str(tmp_path)]) == 0
        assert "0 rows at the checkpoint: Output 'total'" in capsys.readouterr().out
        done = threading.Event()

        def look():
            while not done.is_set():
                seen.append(flow.plan(tmp_path))

        thread = threading.Thread(target=look)
        thread.start()
        for n in range(60):
            run.insert("orders", [(n + 4, "west", n)])
            run.advance()
        done.set()
        thread.join()
        assert all(len(plan.new) == 2 for plan in seen)
        run.checkpoint()
        assert (flow.plan(tmp_path).rows, flow.plan(tmp_path).repeated) == (63, 0)
    assert contents(flow, tmp_path)["most"] == [("north", 4), ("south", 5), ("west", 59)]


def test_what_a_loop_repeats_is_part_of_each_of_its_operators(tmp_path):
    """Operators before the change go through it in the next round: none of them is what it was."""

    def flow(last):
        made = tm.Dataflow("reach")
        edges = made.input("edges", {"a": "int64", "b": "int64"})

        def body(here):
            found = here.join(edges, on={"b": "a"}).select("a", b="b_right").concat(edges).distinct()
            return found if last is None else found.filter(f"b < {last}")

        made.output("reach", edges.iterate(body))
        return made

    with flow(3).start(tm.Embedded(tmp_path), passes=False) as run:  # else filters go below what comes before
        run.insert("edges", [(i, i + 1) for i in range(5)])
        run.advance()
        run.checkpoint()
    with flow(None).start(tm.Embedded(tmp_path), passes=False) as run, flow(None).start() as fresh:
        fresh.insert("edges", [(i, i + 1) for i in range(5)])
        fresh.advance()
        assert run.snapshot("reach").counts() == fresh.snapshot("reach").counts()
        for one in (run, fresh):
            one.delete("edges", [(2, 3)])
            one.insert("edges", [(5, 0)])
            one.advance()
        assert run.snapshot("reach").counts() == fresh.snapshot("reach").counts()


@pytest.mark.parametrize("changed", ["abs(us - ts) <= 3", "us >= ts"])
def test_nothing_is_loaded_from_what_forgets(tmp_path, changed):
    """What an arrangement behind `on_time` holds may be a part of what came: it is refused, not taken for all of it."""

    def flow_of(where):
        flow = tm.Dataflow("f")
        a = flow.input("a", {"k": "string", "ts": "int64"}, watermark=("ts", 1000)).on_time("ts")
        b = flow.input("b", {"k": "string", "us": "int64"}, watermark=("us", 1000)).on_time("us")
        flow.output("o", a.join(b, on="k", where=where))
        return flow

    with flow_of("abs(us - ts) <= 2").start(tm.Embedded(tmp_path)) as run:
        run.insert("a", [("x", 1)])
        run.insert("b", [("x", 2), ("x", 4)])
        run.advance()
        run.checkpoint()
    with pytest.raises(StateError, match="gives rows by when others came"):
        flow_of(changed).start(tm.Embedded(tmp_path))
    with flow_of("abs(us - ts) <= 2").start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("o")) == [("x", 1, 2)]


def test_a_new_view_is_not_loaded_from_an_arrangement_that_has_forgotten(tmp_path):
    """That it is kept, since the views of before are as they were, does not make it whole."""

    def flow_of(*, more):
        flow = tm.Dataflow("f")
        a = flow.input("a", {"ts": "int64", "v": "int64"}, watermark=("ts", 1)).on_time("ts")
        b = flow.input("b", {"us": "int64", "w": "int64"}, watermark=("us", 1)).on_time("us")
        both = a.join(b.select("w", ts="us"), on="ts")
        flow.output("o", both.group_by("ts").agg(n=tm.max("v + w")))
        if more:
            flow.output("p", both.select("ts", s="v + w"))
        return flow

    with flow_of(more=False).start(tm.Embedded(tmp_path)) as run:
        for time in range(8):
            run.insert("a", [(time, 1)])
            run.insert("b", [(time, 2)])
            run.advance()
        run.compact()
        run.checkpoint()
    with pytest.raises(StateError, match="gives rows by when others came"):
        flow_of(more=True).start(tm.Embedded(tmp_path))


def test_a_renamed_column_is_a_changed_output_and_another_of_the_same_is_none(tmp_path):
    def flow_of(names, outputs):
        flow = tm.Dataflow("f")
        rows = flow.input("x", {"a": "int64", "b": "int64"}).select(**names)
        for name in outputs:
            flow.output(name, rows)
        return flow

    with flow_of({"p": "a", "q": "b"}, "mn").start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(1, 2)])
        run.advance()
        for name in "mn":
            reader = run.subscribe(name, name=name)
            assert len(list(reader)) == 1
            reader.ack()
        run.checkpoint()
    with flow_of({"p": "a", "q": "b"}, "n").start(tm.Embedded(tmp_path)) as run:
        assert list(run.subscribe("n", name="n")) == []  # nothing is another for it
        run.checkpoint()
    with flow_of({"q": "a", "p": "b"}, "n").start(tm.Embedded(tmp_path)) as run:
        (batch,) = run.subscribe("n", name="n")
        assert batch.to_arrow().to_pylist() == [{"q": 1, "p": 2, "time": 0, "diff": 1}]


def test_a_reader_of_what_holds_nothing_any_more_is_told(tmp_path):
    def flow_of(least):
        flow = tm.Dataflow("f")
        flow.output("o", flow.input("x", {"a": "int64"}).filter(f"a > {least}"))
        return flow

    with flow_of(0).start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(1,)])
        run.advance()
        reader = run.subscribe("o", name="r")
        assert [len(batch) for batch in reader] == [1]
        reader.ack()
        run.checkpoint()
    with flow_of(5).start(tm.Embedded(tmp_path)) as run:
        (batch,) = run.subscribe("o", name="r")
        assert len(batch) == 0
        assert batch.lower == tm.Antichain.minimum(1)


def test_something_new_behind_what_is_looked_at_is_loaded(state):
    """An inspect holds nothing, whatever is before it: where that was new too, what it holds was taken for its own."""
    seen = []

    def looked_at(orders, _):
        regions = orders.select("region", "amount").distinct().inspect(lambda *update: seen.append(update))
        return regions.group_by("region").agg(n=tm.count())

    flow = shop(total=total, looked_at=looked_at)
    assert contents(flow, state)["looked_at"] == [("north", 1), ("south", 1)]
    assert not seen  # nothing came to it: it is loaded, and was not worked in
    with flow.start(tm.Embedded(state)) as run:
        run.insert("orders", [(4, "south", 6)])
        run.advance()
        assert list(run.snapshot("looked_at")) == [("north", 1), ("south", 2)]
    assert seen == [(("south", 6), 2, 1)]
