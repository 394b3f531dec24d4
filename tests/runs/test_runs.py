"""What a run promises beyond its results: frontiers, reading, keeping, discarding, and that nothing depends on when."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow, start

import tidemill as tm
from tidemill.testing import updates


def counting(**options):
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("n", a.group_by("k").agg(n=tm.count()), **options)
    flow.output("a", a)
    return flow


def test_nothing_is_shown_before_its_time_is_complete(engine):
    with start(counting(), engine) as run:
        run.insert("a", [(1, 1)])
        assert len(run.changes("n")) == 0
        assert list(run.snapshot("n")) == []
        run.advance()
        assert list(run.snapshot("n")) == [(1, 1)]


def test_updates_wait_for_their_time_in_any_order_of_arrival(engine):
    with start(counting(), engine) as run:
        run.update("a", [((1, 1), 5, 1), ((1, 1), 2, 1), ((1, 2), 0, 1)])
        run.advance_to(3)
        assert list(run.changes("n")) == [((1, 1), 0, 1), ((1, 1), 2, -1), ((1, 2), 2, 1)]
        run.advance_to(6)
        assert list(run.changes("n")) == [((1, 2), 5, -1), ((1, 3), 5, 1)]


def test_changes_come_once_and_say_for_which_interval(engine):
    with start(counting(), engine) as run:
        run.insert("a", [(1, 1)])
        run.advance_to(2)
        first, second = run.changes("n"), run.changes("n")
        assert (first.lower, first.upper) == (tm.Antichain([0]), tm.Antichain([2]))
        assert (len(first), len(second)) == (1, 0)
        assert (second.lower, second.upper) == (tm.Antichain([2]), tm.Antichain([2]))


def test_unread_changes_keep_exact_times(engine):
    with start(counting(), engine) as run:
        for _ in range(4):
            run.insert("a", [(1, 1)])
            run.advance()
        assert [t for _, t, _ in run.changes("n")] == [0, 1, 1, 2, 2, 3, 3]


def test_keep_says_how_far_back_times_can_be_told(engine):
    with start(counting(), engine, keep=2) as run:
        for _ in range(5):
            run.insert("a", [(1, 1)])
            run.advance()
        assert [run.snapshot("n", at=t).counts() for t in (2, 3, 4)] == [{(1, n): 1} for n in (3, 4, 5)]
        with pytest.raises(
            tm.errors.TimeError,
            match=r"told from later times: only 2 and later can; start the run with keep=3 or more \(it has keep=2\)",
        ):
            run.snapshot("n", at=1)
        with pytest.raises(tm.errors.TimeError, match="is not complete at 5: its frontier is"):
            run.snapshot("n", at=5)
        assert list(run.changes("n", since=3)) == [((1, 4), 4, -1), ((1, 5), 4, 1)]
        assert [t for _, t, _ in run.changes("n", since=2)] == [3, 3, 4, 4]
        with pytest.raises(
            tm.errors.TimeError,
            match=r"since 0 can no longer be told apart, only those since 2 and later: .* keep=4 or more",
        ):
            run.changes("n", since=0)


@pytest.mark.parametrize(
    ("frontier", "times"), [([6], [0, 1, 3]), ([(5, 1), (2, 4)], [(0, 0), (1, 0), (0, 1), (2, 1)])]
)
@pytest.mark.parametrize("ask", [lambda run, t: run.changes("a", since=t), lambda run, t: run.snapshot("a", at=t)])
def test_errors_of_times_too_far_back_say_which_keep_has_them(engine, frontier, times, ask):
    """What a message says to write is what helps, and in its words there is nothing of how times are held."""

    def moved(keep):
        flow = new_flow(1 if isinstance(frontier[0], int) else 2)
        flow.output("a", flow.input("a", KV))
        run = start(flow, engine, keep=keep)
        run.advance_to(tm.Antichain(frontier))
        return run

    for time in times:
        with moved(1) as run, pytest.raises(tm.errors.TimeError, match=r"keep=\d+ or more \(it has keep=1\)") as caught:
            ask(run, time)
        assert "Antichain" not in str(caught.value)
        with moved(int(re.findall(r"keep=(\d+) or more", str(caught.value))[0])) as run:
            ask(run, time)


def test_changes_since_do_not_depend_on_what_was_read(engine):
    with start(counting(), engine, keep=9) as run:
        run.insert("a", [(1, 1)])
        run.advance()
        run.insert("a", [(1, 2)])
        run.advance()
        before = list(run.changes("n", since=0))
        run.changes("n")
        assert list(run.changes("n", since=0)) == before == [((1, 1), 1, -1), ((1, 2), 1, 1)]


def test_an_output_may_keep_no_changes(engine):
    with start(counting(changes=False), engine) as run:
        run.insert("a", [(1, 1)])
        run.advance()
        with pytest.raises(tm.errors.TimeError, match="keeps no changes"):
            run.changes("n")
        assert list(run.snapshot("n")) == [(1, 1)]


def test_an_output_may_fold_what_was_not_read(engine):
    """The net effect is right, the number of updates about what was asked for."""
    with start(counting(changes=5), engine) as run:
        for i in range(50):
            run.insert("a", [(i % 3, 1)])
            run.advance()
        net = {}
        for row, _, diff in run.changes("n"):
            net[row] = net.get(row, 0) + diff
        assert (
            {row: n for row, n in net.items() if n}
            == run.snapshot("n").counts()
            == {(0, 17): 1, (1, 17): 1, (2, 16): 1}
        )


def test_inputs_may_move_alone(engine):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("joined", a.join(b, on="k"))
    flow.output("a", a)
    with start(flow, engine) as run:
        run.insert("a", [(1, 1)])
        run.insert("b", [(1, 2)])
        run.advance_to(3, input="a")
        assert (run.frontier("a"), run.frontier("joined")) == (tm.Antichain([3]), tm.Antichain([0]))
        assert len(run.changes("a")) == 1
        assert len(run.changes("joined")) == 0
        run.advance_to(2)
        assert run.frontier("b") == tm.Antichain([2])
        assert list(run.changes("joined")) == [((1, 1, 2), 0, 1)]
        run.insert("b", [(1, 3)])
        run.close_input("a")
        run.advance_to(5)
        assert list(run.changes("joined")) == [((1, 1, 3), 2, 1)]
        run.close_input("b")
        assert run.frontier("joined") == tm.Antichain()
        assert len(run.snapshot("joined")) == 2


@examples(20)
@given(found=updates(KV, 1), other=updates(KV, 1), order=st.permutations(["a", "b"]))
def test_each_input_alone_gives_what_both_together_give(engine, found, other, order):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("joined", a.join(b, on="k"))
    flow.output("left", a.distinct().join(b, on="k", how="left"))
    results = []
    for alone in (True, False):
        with start(flow, engine) as run:
            given_updates = {"a": found, "b": other}
            for name in order:
                run.update(name, given_updates[name])
                if alone:
                    run.close_input(name)
            if not alone:
                run.close_inputs()
            results.append([list(run.changes("joined")), list(run.changes("left"))])
    assert results[0] == results[1]


def test_a_delayed_record_belongs_to_a_later_step(engine):
    flow = new_flow()
    flow.output("late", flow.input("a", KV).delay(lambda t: t + 10))
    with start(flow, engine) as run:
        run.insert("a", [(1, 1)])
        run.advance_to(5)
        assert len(run.changes("late")) == 0
        run.advance_to(11)
        assert list(run.changes("late")) == [((1, 1), 10, 1)]


def test_delayed_records_arrive_when_the_inputs_are_closed(engine):
    flow = new_flow()
    flow.output("late", flow.input("a", KV).delay(lambda t: t + 10).distinct())
    with start(flow, engine) as run:
        run.insert("a", [(1, 1)])
        run.close_inputs()
        assert list(run.changes("late")) == [((1, 1), 10, 1)]


@pytest.mark.parametrize("by", [1, 3])
def test_what_inputs_reach_later_is_complete_from_the_start_up_to_there(engine, by):
    """The count of a delayed input is known at time 0; read before the first step, its row came behind what was read."""
    flow = new_flow()
    flow.output("n", flow.input("a", KV).delay(by).group_by().agg(n=tm.count()))
    with start(flow, engine) as run:
        assert run.frontier("n") == tm.Antichain([by])
        assert list(run.changes("n")) == [((0,), 0, 1)]
        assert run.snapshot("n", at=0).counts() == {(0,): 1}
        run.insert("a", [(1, 1)])
        run.advance()
        changes = run.changes("n")
        assert (list(changes), changes.lower) == ([((0,), by, -1), ((1,), by, 1)], tm.Antichain([by]))


def test_it_is_read_in_a_folder_too_once_a_step_was_taken_no_more(tmp_path):
    flow = new_flow()
    flow.output("n", flow.input("a", KV).delay(1).group_by().agg(n=tm.count()))
    for _ in range(2):
        with flow.start(tm.Embedded(tmp_path / "state")) as run:
            assert list(run.changes("n")) == [((0,), 0, 1)]
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        run.advance()
    with flow.start(tm.Embedded(tmp_path / "state")) as run:
        assert list(run.changes("n")) == []
        assert run.snapshot("n").counts() == {(0,): 1}


def test_a_run_saved_before_its_first_step_is_there_again(tmp_path):
    flow = new_flow()
    flow.output("n", flow.input("a", KV).delay(1).group_by().agg(n=tm.count()))
    with start(flow, "embedded") as run:
        run.save(tmp_path / "saved")
    with tm.load(tmp_path / "saved", flow) as run:
        assert run.snapshot("n").counts() == {(0,): 1}
        run.insert("a", [(1, 1)])
        run.advance()
        assert run.snapshot("n").counts() == {(1,): 1}


def test_two_coordinates_close_in_either_direction(engine):
    flow = new_flow(2)
    flow.output("a", flow.input("a", KV))
    with start(flow, engine) as run:
        run.update("a", [((1, 1), (0, 7), 1), ((2, 2), (3, 0), 1)])
        run.advance_to((0, 5))
        assert run.frontier("a") == tm.Antichain([(0, 5)])
        assert list(run.changes("a")) == [((2, 2), (3, 0), 1)]
        assert run.snapshot("a", at=(9, 4)).counts() == {(2, 2): 1}
        with pytest.raises(tm.errors.TimeError, match=r"time \(4, 4\) is not beyond its frontier"):
            run.update("a", [((1, 1), (4, 4), 1)])
        with pytest.raises(tm.errors.TimeError, match="say which one"):
            run.snapshot("a")
        run.close_inputs()
        assert run.snapshot("a").counts() == {(1, 1): 1, (2, 2): 1}


def test_discard_forgets_what_is_not_closed(engine):
    with start(counting(), engine) as run:
        run.insert("a", [(1, 1)])
        run.advance()
        run.insert("a", [(2, 2)])
        run.discard()
        run.insert("a", [(3, 3)])
        run.advance()
        assert sorted(run.snapshot("n")) == [(1, 1), (3, 1)]


def test_what_hangs_on_constants_alone_is_complete_from_the_start(engine):
    flow = new_flow()
    flow.output("c", flow.constant(KV, [(1, 2), (1, 2)]).count("n"))
    with start(flow, engine) as run:
        assert run.frontier("c") == tm.Antichain()
        assert list(run.snapshot("c")) == [(1, 2, 2)]
        assert list(run.changes("c")) == [((1, 2, 2), 0, 1)]


def test_a_flow_may_be_started_many_times(engine):
    flow = counting()
    with start(flow, engine) as one, start(flow, engine) as two:
        one.insert("a", [(1, 1)])
        one.advance()
        two.advance()
        assert (len(one.snapshot("n")), len(two.snapshot("n"))) == (1, 0)


def test_upserts_put_rows_in_the_place_of_others(engine):
    flow = new_flow()
    a = flow.input("a", KV, key="k")
    flow.output("a", a)
    with start(flow, engine) as run:
        run.upsert("a", [(1, 1), (2, 1)])
        run.upsert("a", [(1, 2)])
        run.advance()
        assert sorted(run.snapshot("a")) == [(1, 2), (2, 1)]
        run.upsert("a", [(1, 2)])
        run.delete("a", [(2,)])
        run.advance()
        assert list(run.changes("a")) == [((1, 2), 0, 1), ((2, 1), 0, 1), ((2, 1), 1, -1)]
        run.delete("a", [(1, 2)])
        run.upsert("a", [(1, 9)], time=3)
        run.advance_to(4)
        assert list(run.changes("a")) == [((1, 2), 2, -1), ((1, 9), 3, 1)]


def test_inspect_sees_updates(engine):
    seen = []
    flow = new_flow()
    flow.output("out", flow.input("a", KV).inspect(lambda *update: seen.append(update)))
    with start(flow, engine) as run:
        run.update("a", [((1, 1), 0, 1), ((2, 2), 1, -1)])
        run.close_inputs()
    assert sorted(seen) == [((1, 1), 0, 1), ((2, 2), 1, -1)]


def test_functions_get_named_tuples(engine):
    flow = new_flow()
    a = flow.input("a", {"k": "int64", "two words": "int64"})
    flow.output("out", a.map_rows(lambda row: (row.k + row[1],), {"s": "int64"}))
    with start(flow, engine) as run:
        run.insert("a", [(1, 2)])
        run.advance()
        assert list(run.snapshot("out")) == [(3,)]


def test_steps_that_were_not_taken_are_not_counted(engine):
    """Nor is what they did counted twice when they are taken at last."""

    def counts(run):
        return [(o.title, o.records_in, o.records_out) for o in run.metrics()]

    def played(*, refused):
        flow = new_flow()
        flow.output("out", flow.input("x", KV).select("k", v="10 DIV v").distinct())
        with start(flow, engine) as run:
            run.insert("x", [(1, 1), (2, 2)])
            run.advance()
            before = counts(run)
            if refused:
                run.insert("x", [(3, 5), (4, 0)])
                with pytest.raises(tm.errors.ExpressionError, match="division by zero"):
                    run.advance()
                assert counts(run) == before
                run.delete("x", [(4, 0)])
            else:
                run.insert("x", [(3, 5)])
            run.advance()
            return [c[2] for c in counts(run)]

    assert played(refused=True) == played(refused=False)


def test_metrics_tell_each_operator(engine):
    with start(counting(), engine) as run:
        run.insert("a", [(1, 1)])
        run.advance()
        metrics = run.metrics()
        assert [m.kind for m in metrics] == [n.kind for n in run.graph.nodes]
        assert all(m.seconds >= 0 for m in metrics)
        assert "Reduce" in repr(metrics)
