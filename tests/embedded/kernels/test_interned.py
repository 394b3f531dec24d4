"""Interned values that nothing refers to are let go of by themselves, and their numbers are used again."""

import sys
import uuid
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import embedded, examples

import tidemill as tm
from tidemill.renderer.embedded import interned, state
from tidemill.renderer.embedded.interned import InternedSweeper
from tidemill.renderer.embedded.kernels import interner
from tidemill.renderer.embedded.operators import input_output


def sweep_unmerged(sweeper):
    """What is done where merging is not worth it."""
    sweeper._release(sweeper._unused())


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [InternedSweeper.sweep, sweep_unmerged])
@pytest.mark.parametrize("coordinates", [1, 2])
def test_letting_go_after_every_step_changes_nothing(monkeypatch, sweep, coordinates):
    monkeypatch.setattr(InternedSweeper, "sweep_if_due", sweep)

    @examples(25)
    @given(tm.testing.dataflows(coordinates=coordinates), st.booleans())
    def check(case, passes):
        tm.testing.check_equivalent(case.flow, case.updates, engines=["reference", "embedded"], passes=passes)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [InternedSweeper.sweep, sweep_unmerged])
def test_letting_go_after_every_step_changes_nothing_of_what_is_spilled(monkeypatch, tmp_path_factory, sweep):
    monkeypatch.setattr(InternedSweeper, "sweep_if_due", sweep)

    class Spilling:
        count = 0

        def start(self, plan, keep):
            self.count += 1
            return tm.Embedded(folder / str(self.count), in_memory=3, checkpoint_every=3).start(plan, keep)

    folder, spilling = tmp_path_factory.mktemp("state"), Spilling()

    @examples(10)
    @given(tm.testing.dataflows(coordinates=1), st.booleans())
    def check(case, passes):
        tm.testing.check_equivalent(case.flow, case.updates, engines=["reference", spilling], passes=passes)

    check()


def churning():
    flow = tm.Dataflow()
    x = flow.input("x", {"id": "string", "k": "int64"})
    flow.output("latest", x.group_by("k").agg(least=tm.min("id"), all=tm.list("id")), changes=False)
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("state", [False, True])
def test_memory_does_not_grow_with_values_that_are_gone(monkeypatch, tmp_path, state):
    """Found by a reviewer: half a million identifiers that were deleted held 87 MB until somebody compacted."""
    monkeypatch.setattr(interned, "_FEW", 1000)
    with churning().start(tm.Embedded(tmp_path if state else None)) as run:
        before = []
        most = 0
        for step in range(60):
            rows = [(str(uuid.UUID(int=step * 1000 + i)), i % 10) for i in range(500)]
            run.delete("x", before)
            run.insert("x", rows)
            run.advance()
            before = rows
            memory = run.metrics().memory
            most = max(most, memory.interned)
            assert memory.interned_bytes < 3_000_000
        assert most < 6000  # of 30,600 that there were, 510 at a time
        assert len(embedded(run).compiled.interner) < 6000
        assert [len(row[2]) for row in run.snapshot("latest")] == [50] * 10
        expected = list(run.snapshot("latest"))
    if state:
        with churning().start(tm.Embedded(tmp_path)) as run:
            assert list(run.snapshot("latest")) == expected


def test_what_only_grows_is_looked_at_now_and_then_and_not_merged(monkeypatch):
    monkeypatch.setattr(interned, "_FEW", 10)
    calls = []
    monkeypatch.setattr(InternedSweeper, "merge", lambda _: calls.append("merged"))
    unused = InternedSweeper._unused
    monkeypatch.setattr(InternedSweeper, "_unused", lambda self: calls.append("looked") or unused(self))
    with churning().start() as run:
        for i in range(1000):
            run.insert("x", [(str(i), i)])
            run.advance()
    assert calls == ["looked"] * len(calls)
    assert 3 < len(calls) < 12


def test_what_waits_and_what_is_unread_is_referred_to(monkeypatch):
    monkeypatch.setattr(interned, "_FEW", 0)
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"s": "string", "l": "list<string>"}))
    with flow.start() as run:
        run.insert("x", [("later", ("in", "lists"))], time=5)
        run.insert("x", [("unread", ("a", "b"))])
        run.advance()
        run.delete("x", [("unread", ("a", "b"))])
        run.advance()
        run.compact()
        run.insert("x", [(f"new {i}", (f"{i}",)) for i in range(50)])
        run.advance_to(6)
        assert list(run.changes("o"))[:2] == [(("unread", ("a", "b")), 0, 1), (("unread", ("a", "b")), 1, -1)]
        assert ("later", ("in", "lists")) in list(run.snapshot("o"))
        run.compact()
        assert len(run.snapshot("o")) == 51


def test_numbers_are_used_again():
    interner = embedded(churning().start()).compiled.interner
    numbers = [interner.number(text) for text in "abcd"]
    interner.objects(np.array(numbers))
    interner.release(interner.unused(marked(interner, 1, 3)))
    assert interner.live == 2
    assert sorted([interner.number("e"), interner.number("f")]) == [numbers[0], numbers[2]]
    assert sorted(interner.objects(interner.unused(marked(interner))).tolist()) == ["b", "d", "e", "f"]


def marked(interner, *used):
    marks = np.zeros(len(interner), np.bool_)
    marks[list(used)] = True
    return marks


def test_changes_that_nobody_reads_are_told_of_once(monkeypatch):
    """They are kept as was promised, at their exact times: so it is said what they cost, and how to do without."""
    monkeypatch.setattr(input_output, "_UNREAD", 200)
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64"})
    flow.output("o", x)
    flow.output("read", x)
    flow.output("folded", x, changes=10)
    with flow.start() as run, warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(99):
            run.insert("x", [(i,), (-i,), (2 * i,)])
            run.advance()
            run.snapshot("o")
            run.changes("read")
        run.insert("x", [(1,)])
        with pytest.raises(
            RuntimeWarning, match=r"Output 'o' .*: 296 updates of 100 steps were not read yet.*changes=False"
        ):
            run.advance()
        for _ in range(99):
            run.insert("x", [(1,)])
            run.advance()
            run.changes("read")
        assert len(run.changes("o")) == 296 + 99


def test_a_number_that_another_value_had_says_nothing_of_what_was_read(tmp_path):
    """The key of the first value was looked for in all files; that of the second, which is there, has to be, too."""
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", {"s": "string"}).count("n"), changes=False)
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(f"s{i}",) for i in range(50)])
        run.advance()
        run.spill()
        run.compact()
        run.insert("x", [("fresh",)])
        run.advance()
        run.delete("x", [("fresh",)])
        run.advance()
        run.compact()
        run.insert("x", [("s7",)])
        run.advance()
        assert ("s7", 2) in list(run.snapshot("n"))
        assert len(run.snapshot("n")) == 50


def test_a_number_that_another_value_had_says_nothing_of_what_is_indexed(tmp_path):
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("o", x.group_by("k").agg(least=tm.first("v", order_by="v")), changes=False)
    many = [("gone", v) for v in range(500)]
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [("kept", v) for v in range(3, 500)])
        run.advance()
        run.spill()
        run.compact()
        for rows in (many, [("gone", 500)]):
            run.insert("x", rows)
            run.advance()
        run.delete("x", [*many, ("gone", 500)])
        run.advance()
        run.compact()
        run.insert("x", [("kept", 1000)])
        run.advance()
        assert list(run.snapshot("o")) == [("kept", 3)]


class Interrupted(BaseException):
    pass


def interrupted_at(line, work):
    """Do something that is interrupted before some line of the interner's; return whether there were so many."""
    left = line

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != interner.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("released", [[], [1, 2]], ids=["all are kept", "some were released"])
@pytest.mark.parametrize("several", [False, True])
def test_an_interrupt_leaves_no_number_without_its_object(several, released):
    """Ctrl-C between the number of a value and the value: the next checkpoint raised IndexError, or a value was NULL."""
    line, goes_on = 0, True
    while goes_on:
        values = interner.Interner()
        values.numbers(["a", "b", "c", "d"])
        values.objects(np.arange(4))
        values.release(np.array(released, np.int64))
        goes_on = interrupted_at(line, lambda v=values: v.numbers(["a", "x", "y"]) if several else v.number("x"))
        numbers = values.numbers(["a", "d", "x", "y", "z"])
        assert values.objects(numbers).tolist() == ["a", "d", "x", "y", "z"]
        used = np.zeros(len(values), bool)
        used[numbers] = True
        values.release(values.unused(used))
        assert values.objects(numbers).tolist() == ["a", "d", "x", "y", "z"]
        line += 1
    assert line > 2


VALUES = st.text(max_size=10) | st.binary(max_size=10) | st.integers(2**62, 2**80) | st.tuples(st.integers(0, 3))


@given(st.lists(st.none() | st.text(max_size=10)) | st.lists(st.none() | VALUES))
def test_leading_numbers_are_those_of_each(values):
    assert interner.leading_numbers(values).tolist() == [interner.leading_number(v) for v in values]


@given(st.lists(VALUES, unique=True), st.sets(st.integers(0, 9)))
def test_what_was_saved_is_loaded_with_the_same_numbers(values, released):
    """Of texts among others, and of numbers that are free."""
    before, after = interner.Interner(), interner.Interner()
    before.numbers(values)
    before.release(np.array(sorted(n for n in released if n < len(values)), np.int64))
    after.load_later(lambda new: state._load_interned(new, state.dump_interned(before.values())))
    assert after.values() == before.values()
    assert [after.number(v) for v in before.values() if v is not None] == list(before._numbers.values())
    assert [after.number("new 1"), after.number("new 2")] == [before.number("new 1"), before.number("new 2")]


@pytest.mark.parametrize("count", [10, 20_000])
def test_many_values_lead_as_each_does(count):
    some = [b"\x02\x80\x00\x00\x00\x00\x00D", b"ab", "text", "é", 2**70, (1, 2)]
    for values in (some[:2], some[2:4], some):
        many = (values * count)[:count]
        assert interner.leading_numbers(many).tolist() == list(map(interner.leading_number, many))


def test_of_a_value_that_was_stored_again_the_number_before_stands_for_nothing():
    """The kind: released, and given another number, it was there twice after each opening, and for good."""
    stored = interner.Interner()
    stored.add_all(["a", "b"])
    stored.add_all(["c", "a"])
    assert stored.values() == [None, "b", "c", "a"]
    assert stored.number("a") == 3
