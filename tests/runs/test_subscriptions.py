"""Readers of outputs: a snapshot and then every change, each once acknowledged, whatever fails in between."""

import asyncio
import threading
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tidemill as tm
from tidemill.errors import (
    ClosedRunError,
    MissedChangesError,
    RowError,
    StateError,
    TidemillError,
    TimeError,
    UnknownNameError,
)
from tidemill.renderer.runs import subscriptions


def build(**options):
    flow = tm.Dataflow("read")
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count(), s=tm.sum("v")), **options)
    flow.output("big", x.filter("v > 5"))
    return flow


def summed(batches):
    """What batches come to: rows and counts."""
    found = Counter()
    for batch in batches:
        for row, _, diff in batch:
            found[row] += diff
    return {row: count for row, count in found.items() if count}


def require_following(batches, lower):
    for batch in batches:
        assert batch.lower == lower
        assert batch.upper != lower
        lower = batch.upper
        for _, time, _ in batch:
            assert batch.lower.beyond(time if isinstance(time, tuple) else (time,))
            assert not batch.upper.beyond(time if isinstance(time, tuple) else (time,))


@pytest.fixture(params=["embedded", "reference", "durable"])
def start_on(request, tmp_path):
    engines = {
        "embedded": lambda: tm.Embedded(),
        "reference": lambda: tm.Reference(),
        "durable": lambda: tm.Embedded(tmp_path / "state", checkpoint_every=3),
    }
    return engines[request.param]()


def test_a_snapshot_and_then_every_change(start_on):
    with build(changes=False).start(start_on) as run:
        run.insert("x", [("a", 1), ("b", 9)])
        run.advance()
        first = run.subscribe("n")
        later = run.subscribe("n", snapshot=False)
        assert [list(b) for b in first] == [[(("a", 1, 1), 0, 1), (("b", 1, 9), 0, 1)]]
        assert list(later) == []
        run.delete("x", [("b", 9)])
        run.advance()
        run.update("x", [(("c", 1), 2, 1), (("c", 2), 4, 1)])
        run.advance_to(5)
        batches = list(later)
        assert [list(b) for b in batches] == [
            [(("b", 1, 9), 1, -1)],
            [(("c", 1, 1), 2, 1), (("c", 1, 1), 4, -1), (("c", 2, 3), 4, 1)],
        ]
        require_following(batches, tm.Antichain([1]))
        assert [list(b) for b in first] == [list(b) for b in batches]
        assert first.frontier == later.frontier == first.acknowledged == tm.Antichain([5])


def test_before_the_first_epoch_there_is_nothing(start_on):
    with build().start(start_on) as run:
        assert len(run.snapshot("n")) == 0
        reader = run.subscribe("n")
        assert list(reader) == []
        run.insert("x", [("a", 1)])
        run.advance()
        (batch,) = reader
        assert (batch.lower, batch.upper) == (tm.Antichain([0]), tm.Antichain([1]))


def test_what_is_known_before_the_first_step_is_given_once(start_on):
    flow = tm.Dataflow("late")
    x = flow.input("x", {"k": "string"})
    flow.output("n", x.delay(1).group_by().agg(n=tm.count()))
    flow.output("constant", flow.constant({"k": "string"}, [("a",), (None,)]))
    with flow.start(start_on) as run:
        readers = [run.subscribe(name, name=name) for name in ("n", "constant")]
        given = [[*reader] for reader in readers]
        run.insert("x", [("b",)])
        run.advance()
        for reader, before in zip(readers, given, strict=True):
            again = list(reader)
            assert [list(b) for b in again[: len(before)]] == [list(b) for b in before]
            assert summed(again) == run.snapshot(reader.output).counts()


def test_what_was_not_acknowledged_comes_again(start_on):
    with build().start(start_on) as run:
        reader = run.subscribe("big", name="sink", snapshot=False)
        for v in (6, 7, 8):
            run.insert("x", [("a", v)])
            run.advance()
        for batch in reader:
            if batch.upper == tm.Antichain([2]):
                break  # the sink failed
            reader.ack()
        assert reader.acknowledged == tm.Antichain([1])
        assert [list(b) for b in reader] == [[(("a", 7), 1, 1)], [(("a", 8), 2, 1)]]
        reader.ack(1)
        assert [list(b) for b in reader] == [[(("a", 8), 2, 1)]]
        reader.close()
        run.insert("x", [("a", 9)])
        run.advance()
        again = run.subscribe("big", name="sink")
        got = list(again)
        if isinstance(start_on, tm.Embedded) and start_on.state is not None:
            assert [list(b) for b in got] == [[(("a", 8), 2, 1)], [(("a", 9), 3, 1)]]
        else:  # what is kept in memory alone went with its only reader
            assert got[0].lower == tm.Antichain([0])
            assert summed(got) == {("a", v): 1 for v in (6, 7, 8, 9)}


def test_what_all_have_acknowledged_is_not_kept(start_on):
    with build().start(start_on) as run:
        quick, slow = run.subscribe("big"), run.subscribe("big", name="slow", snapshot=False)
        for v in (6, 7, 8):
            run.insert("x", [("a", v)])
            run.advance()
            list(quick)
        window = run._stepper.subscriptions.windows[run._output("big")]
        assert window.size == 3
        list(slow)
        slow.ack(1)
        run.advance()
        assert window.size == 1
        slow.ack()
        run.advance()
        assert window.size == 0


def test_without_a_name_a_batch_is_taken_when_the_next_one_is_asked_for(start_on):
    with build().start(start_on) as run:
        reader = run.subscribe("big")
        run.insert("x", [("a", 7)])
        run.advance()
        with pytest.raises(ZeroDivisionError):
            for _ in reader:
                1 / 0  # noqa: B018 - as a sink fails
        assert [list(b) for b in reader] == [[(("a", 7), 0, 1)]]
        assert list(reader) == []


def test_part_of_a_batch_is_acknowledged_by_time(start_on):
    with build().start(start_on) as run:
        reader = run.subscribe("big", name="sink", snapshot=False)
        run.update("x", [(("a", 10 + t), t, 1) for t in range(4)])
        run.advance_to(4)
        assert [len(b) for b in reader] == [4]
        reader.ack(2)
        (batch,) = reader
        assert (list(batch), batch.lower) == ([(("a", 13), 3, 1)], tm.Antichain([3]))
        with pytest.raises(TimeError, match=r"ack\(4\): given was what is not beyond Antichain\(4\)"):
            reader.ack(4)


def test_the_contents_are_acknowledged_whole_or_not(start_on):
    with build().start(start_on) as run:
        run.update("x", [(("a", 10), 0, 1), (("b", 10), 1, 1)])
        run.advance_to(3)
        reader = run.subscribe("big", name="sink")
        (batch,) = reader
        assert list(batch) == [(("a", 10), 2, 1), (("b", 10), 2, 1)]
        reader.ack(1)
        assert len(list(reader)) == 1
        assert run.subscriptions == {"sink": None}
        reader.ack(2)
        assert list(reader) == []
        assert run.subscriptions == {"sink": tm.Antichain([3])}


def test_since_a_time(start_on):
    with build().start(start_on, keep=3) as run:
        run.update("x", [(("a", 10 + t), t, 1) for t in range(4)])
        run.advance_to(4)
        reader = run.subscribe("big", since=1)
        run.insert("x", [("b", 9)])
        run.advance()
        assert [list(b) for b in reader] == [[(("a", 12), 2, 1), (("a", 13), 3, 1)], [(("b", 9), 4, 1)]]
        run.advance_to(20)
        with pytest.raises(TimeError, match="can no longer be told apart"):
            run.subscribe("big", since=1)


def test_progress_without_changes(start_on):
    with build().start(start_on) as run:
        reader = run.subscribe("big", name="sink")
        run.advance()
        run.advance()
        assert list(reader) == []
        assert reader.frontier == tm.Antichain([2])
        reader.ack()
        assert run.subscriptions == {"sink": tm.Antichain([2])}
        run.close_inputs()
        assert list(reader) == []
        assert reader.frontier == tm.Antichain()


def test_a_callback_that_fails_gets_the_batch_again(start_on):
    got, failing = [], [False]

    def sink(batch):
        if failing[0]:
            _fail("the sink is full")
        got.append(list(batch))

    with build().start(start_on) as run:
        run.insert("x", [("a", 7)])
        run.advance()
        run.subscribe("big", name="sink", callback=sink)
        failing[0] = True
        for v in (8, 9):
            run.insert("x", [("a", v)])
            with pytest.raises(OSError, match="the sink is full"):
                run.advance()
        failing[0] = False
        run.advance()
        assert got == [[(("a", 7), 0, 1)], [(("a", 8), 1, 1)], [(("a", 9), 2, 1)]]
        assert run.subscriptions == {"sink": tm.Antichain([3])}
        with pytest.raises(OSError, match="no sink"):
            run.subscribe("big", name="other", callback=lambda _: _fail("no sink"))
        run.subscribe("big", name="other", callback=lambda _: None).close()


def _fail(why):
    raise OSError(why)


def test_who_is_too_far_behind_is_told_and_begins_again(monkeypatch):
    monkeypatch.setattr(subscriptions, "MOST_KEPT", 10)
    with build().start() as run:
        slow, quick = run.subscribe("big", name="slow", snapshot=False), run.subscribe("big")
        for v in range(6, 26):
            run.insert("x", [("a", v)])
            run.advance()
            assert len(list(quick)) == 1
            held = run._stepper.subscriptions.windows[run._output("big")].size
            assert held <= 10
        with pytest.raises(MissedChangesError, match=r"'slow'.* too far behind.*resync\(\)"):
            list(slow)
        slow.resync()
        (batch,) = slow
        assert batch.lower == tm.Antichain([0])
        assert summed([batch]) == run.snapshot("big").counts()
        slow.ack()
        run.insert("x", [("a", 30)])
        run.advance()
        assert [list(b) for b in slow] == [[(("a", 30), 20, 1)]]


def test_on_the_disk_nobody_is_too_far_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(subscriptions, "MOST_IN_MEMORY", 5)
    with build().start(tm.Embedded(tmp_path, checkpoint_every=4)) as run:
        named, unnamed = run.subscribe("big", name="slow", snapshot=False), run.subscribe("big")
        for v in range(6, 36):
            run.insert("x", [("a", v)])
            run.advance()
            assert run._stepper.subscriptions.windows[run._output("big")].size <= 5
        expected = [[(("a", v), v - 6, 1)] for v in range(6, 36)]
        assert [list(b) for b in named] == expected
        assert [list(b) for b in unnamed] == expected
        require_following(list(named), tm.Antichain([0]))
        named.ack()
        run.checkpoint()
        assert not list(tmp_path.glob("changes-*"))


def test_acknowledgements_outlive_the_process(tmp_path):
    flow, start_on = build(), tm.Embedded(tmp_path, checkpoint_every=3)
    got = []
    for at in range(12):
        with flow.start(start_on) as run:
            reader = run.subscribe("n", name="sink", snapshot=at % 2 == 0)
            run.insert("x", [("ab"[at % 2], at)])
            run.advance()
            for number, batch in enumerate(reader):
                if number == at % 3:
                    break
                got.append(batch)
                reader.ack()
    with flow.start(start_on) as run:
        for batch in run.subscribe("n", name="sink"):
            got.append(batch)
        require_following(got, tm.Antichain([0]))
        assert summed(got) == run.snapshot("n").counts()
        assert len(list(tmp_path.glob("changes-*"))) <= 3


def test_what_several_were_given_is_acknowledged_in_one_commit(tmp_path):
    with build(changes=False).start(tm.Embedded(tmp_path)) as run:
        readers = [run.subscribe("n", name=name) for name in "abc"]
        run.insert("x", [("a", 1)])
        run.advance()
        given = [[list(batch) for batch in reader] for reader in readers[:2]]
        assert given == 2 * [[[(("a", 1, 1), 0, 1)]]]
        before = run._stepper.recorder_for("")._log.last.number
        for _ in range(2):  # there is nothing more the second time
            subscriptions.ack_together(readers)
            assert run._stepper.recorder_for("")._log.last.number == before + 1
    with build(changes=False).start(tm.Embedded(tmp_path)) as run:
        assert [len(list(run.subscribe("n", name=name))) for name in "abc"] == [0, 0, 1]


def test_a_name_has_one_reader_and_one_output(start_on):
    with build().start(start_on) as run:
        reader = run.subscribe("n", name="sink")
        with pytest.raises(StateError, match="there is a subscription of this name: close it first"):
            run.subscribe("n", name="sink")
        reader.close()
        with pytest.raises(StateError, match="the name is that of a reader of 'n'"):
            run.subscribe("big", name="sink")
        run.unsubscribe("sink")
        run.subscribe("big", name="sink")
        with pytest.raises(UnknownNameError, match="no subscription of this name"):
            run.unsubscribe("sunk")
        with pytest.raises(UnknownNameError, match="no output 'm'"):
            run.subscribe("m")
        with pytest.raises(TidemillError, match="expected a function"):
            run.subscribe("n", callback=7)
        with pytest.raises(TidemillError, match="expected a name for the reader"):
            run.subscribe("n", name="")


def test_after_the_end_what_is_in_memory_is_read_and_nothing_acknowledged(start_on):
    run = build().start(start_on)
    named, unnamed = run.subscribe("big", name="sink"), run.subscribe("big")
    run.insert("x", [("a", 7)])
    run.advance()
    run.close()
    assert [list(b) for b in unnamed.follow()] == [[(("a", 7), 0, 1)]]
    assert len(list(named)) == 1
    with pytest.raises(ClosedRunError):
        named.ack()


def test_what_came_before_the_end_is_given_to_who_was_waiting(start_on):
    """Woken by the last step, a thread may find the run closed already."""
    for _ in range(5):
        with build().start(start_on) as run:
            reader, seen = run.subscribe("n", snapshot=False), []
            thread = threading.Thread(target=lambda r=reader, s=seen: s.extend(r.follow()))
            thread.start()
            run.insert("x", [("a", 1)])
            run.advance()
        thread.join(10)
        assert len(seen) == 1
        if not isinstance(start_on, tm.Reference):
            start_on = tm.Embedded()


def test_threads_follow(start_on):
    with build().start(start_on) as run:
        reader, got = run.subscribe("n", name="sink"), []

        def work():
            for batch in reader.follow():
                got.append(batch)
                reader.ack()

        thread = threading.Thread(target=work)
        thread.start()
        for v in range(30):
            run.insert("x", [("ab"[v % 2], v)])
            run.advance()
        while run.subscriptions["sink"] != tm.Antichain([30]):
            pass
        contents = run.snapshot("n").counts()
        assert list(run.subscribe("n").follow(timeout=0.01))[0].upper == tm.Antichain([30])
    thread.join(10)
    assert not thread.is_alive()
    require_following(got, tm.Antichain([0]))
    assert summed(got) == contents


def test_tasks_follow_and_the_loop_goes_on(start_on):
    """While a step waits for somebody, the loop does other work: the step is in another thread."""
    waits = threading.Event()
    flow = tm.Dataflow("slow")
    schema = {"i": "int64"}
    slow = flow.input("x", schema).map_rows(lambda row: (waits.wait(10), row.i)[1:], schema, version="1")
    flow.output("x", slow)

    async def main():
        got = []
        with flow.start(start_on) as run:

            async def read():
                async for batch in run.subscribe("x"):
                    got.append(list(batch))
                    if len(got) == 2:
                        return

            reading = asyncio.create_task(read())
            await asyncio.sleep(0)
            run.insert("x", [(1,)])
            step = asyncio.create_task(run.aadvance())
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not step.done()
            waits.set()
            await step
            run.insert("x", [(2,)])
            await run.aadvance_to(7)
            await reading
            endless = asyncio.create_task(_all(run.subscribe("x", snapshot=False)))
            await asyncio.sleep(0.01)
        await endless
        return got

    assert asyncio.run(main()) == [[((1,), 0, 1)], [((2,), 1, 1)]]


async def _all(reader):
    async for _ in reader:
        pass


STEPS = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([1, -1])), max_size=4),
              st.integers(1, 3), st.sampled_from(["", "read", "ack", "again", "checkpoint", "compact"])),
    max_size=12,
)  # fmt: skip


@given(STEPS, st.integers(0, 3))
def test_random_readers_lose_nothing_and_read_nothing_twice(tmp_path_factory, steps, keep):
    """A reader that reads, acknowledges and begins anew in any order has in the end what the reference has."""
    folder = tmp_path_factory.mktemp("state")
    flow, start_on = build(), tm.Embedded(folder, checkpoint_every=2)
    taken, reference = [], build().start(tm.Reference(), keep=0)
    run = flow.start(start_on, keep=keep)
    reader = run.subscribe("big", name="sink", snapshot=False)
    for rows, by, action in steps:
        for each in (run, reference):
            at = next(iter(each.frontier("x")))
            each.update("x", [((k, v), at + i % by, d) for i, (k, v, d) in enumerate(rows)])
            each.advance_to(at + by)
        if action in {"read", "ack"}:
            for batch in reader:
                if action == "ack":
                    taken.append(batch)
                    reader.ack()
        elif action == "again":
            run.close()
            run = flow.start(start_on, keep=keep)
            reader = run.subscribe("big", name="sink")
        elif action:
            getattr(run, action)()
    taken += list(reader)
    run.close()
    require_following(taken, tm.Antichain([0]))
    assert sorted(u for batch in taken for u in batch) == sorted(reference.changes("big"))


def test_two_coordinates(start_on):
    flow = tm.Dataflow("two", time=("event", "correction"))
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("n", x.group_by("k").agg(n=tm.count()))
    with flow.start(start_on) as run:
        run.update("x", [(("a", 1), (0, 0), 1), (("a", 2), (1, 0), 1), (("a", 3), (0, 1), 1)])
        run.advance_to((0, 1))
        reader = run.subscribe("n", name="sink")
        run.advance_to((1, 1))
        first, *rest = reader
        assert first.lower == tm.Antichain([(0, 0)])
        total = summed([first, *rest])
        run.close_inputs()
        assert summed([first, *rest, *list(reader)[1 + len(rest) :]]) == run.snapshot("n").counts()
        assert total


def test_who_reads_while_the_last_subscription_is_closed_finds_its_end():
    """Found by review: the window was gone before it was said to be over, which was a KeyError in the reader's thread."""
    with build().start() as run:
        hub, node = run._stepper.subscriptions, run._output("big")
        subscription = run.subscribe("big")
        frontier = subscription.frontier
        subscription.close()
        assert hub.next(node, frontier) == (None, frontier, False)
        assert not hub.wait(subscription, 1)
        assert list(subscription.follow(1)) == []


def plain():
    flow = tm.Dataflow("rows")
    flow.output("x", flow.input("x", {"k": "string", "v": "int64"}))
    return flow


def test_feeds_of_batches_are_those_of_changes(start_on):
    """However the reader began, and wherever it is: what it has of each key is known."""
    with plain().start(start_on) as run:
        run.insert("x", [("a", 1)])
        run.advance()
        readers = [run.subscribe("x", name="named"), run.subscribe("x", snapshot=False)]
        late = run.subscribe("x", name="late")
        run.changes("x").to_feed("k")
        fed = []
        for n in range(2, 6):
            run.update("x", [(("a", n - 1), n, -1), (("a", n), n, 1), ((f"b{n}", n), n, 1)])
            run.advance_to(n + 1)
            fed.append(run.changes("x").to_feed("k").to_pylist())
            for reader in readers:
                assert [batch.to_feed("k").to_pylist() for batch in reader][-1] == fed[-1]
                reader.ack()
        late_ones = iter(late)
        assert next(late_ones).upper == tm.Antichain([1])
        late.ack()
        assert [batch.to_feed("k").to_pylist() for batch in late_ones] == fed  # the first is not of the contents


def test_a_feed_after_a_restart_knows_what_was_there(tmp_path):
    engine = tm.Embedded(tmp_path)
    with plain().start(engine) as run:
        reader = run.subscribe("x", name="sink")
        for n, row in enumerate([("a", 1), ("b", 2)]):
            run.insert("x", [row])
            run.advance_to(n + 1)
        for batch in reader:
            assert batch.to_feed("k", format="debezium")[0]["op"] == "c"
            reader.ack()
            break
    with plain().start(engine) as run:
        for n, update in enumerate([(("b", 3), 2, 1), (("b", 2), 3, -1)]):
            run.update("x", [update])
            run.advance_to(3 + n)
        reader = run.subscribe("x", name="sink")
        batches = iter(reader)
        assert next(batches).to_feed("k")["op"].to_pylist() == ["insert"]
        with pytest.raises(RowError, match=r"key \(k\) = \('b',\) has several rows"):
            next(batches).to_feed("k")


def test_a_feed_of_what_was_acknowledged_long_since(start_on):
    with plain().start(start_on) as run:
        reader, batches = run.subscribe("x", name="r", snapshot=False), []
        for n in range(3):
            run.insert("x", [("a", n)])
            run.advance()
            batches += reader
            reader.ack()
        assert batches[-3].to_feed("v").num_rows == 1  # from the least time on
        with pytest.raises(TimeError, match=r"has acknowledged these changes.*call to_feed before ack"):
            batches[1].to_feed("k")
