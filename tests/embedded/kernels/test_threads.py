"""Shares of large batches are worked through side by side, by any number of threads, with the same results."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.renderer.embedded.kernels import codec, gathers, sorting, threads
from tidemill.renderer.embedded.kernels.sorting import ascending, gather, sort_by
from tidemill.renderer.embedded.kernels.threads import SETTING, in_shares, shares, side_by_side
from tidemill.renderer.embedded.trace import spine
from tidemill.testing import check_equivalent

COUNTS = [1, 2, 3]
NUMBERS = st.integers(-3, 3) | st.sampled_from([-(2**63), -(2**63) + 1, 2**62, 2**63 - 1])


@pytest.fixture
def small_shares(monkeypatch):
    """A few numbers are many."""
    monkeypatch.setattr(threads, "SHARE", 2)
    monkeypatch.setattr(sorting, "FEW", 1)
    monkeypatch.setattr(sorting, "PART", 3)
    monkeypatch.setattr(codec, "_LONG", 2)
    monkeypatch.setattr(spine, "TAIL", 3)
    yield
    SETTING.threads = 1


def of_each_count(work):
    """Return what something gives with each number of threads."""
    found = []
    for SETTING.threads in COUNTS:
        found.append(work())
    SETTING.threads = 1
    return found


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 6, 7, 100])
@pytest.mark.parametrize("count", COUNTS)
def test_shares_make_up_the_whole_and_none_is_small(small_shares, n, count):
    SETTING.threads = count
    made = shares(n)
    assert [i for share in made for i in range(share.start, share.stop)] == list(range(n))
    assert len(made) == max(1, min(count, n // 2))
    assert len(made) == 1 or min(share.stop - share.start for share in made) >= 2


def test_orders_are_the_same(small_shares):
    @examples(200)
    @given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=24), st.sets(st.integers(0, 1)))
    def check(rows, falling):
        columns = list(np.array(rows, np.int64).T)
        signs = [-1 if i in falling else 1 for i in range(2)]
        expected = sorted(range(len(rows)), key=lambda i: [s * v for s, v in zip(signs, rows[i], strict=True)])
        for order, new, new_first in of_each_count(lambda: sort_by(columns, falling)):
            assert order.tolist() == expected
            ordered = [rows[i] for i in expected]
            assert new.tolist() == [i == 0 or r != ordered[i - 1] for i, r in enumerate(ordered)]
            assert new_first.tolist() == [i == 0 or r[0] != ordered[i - 1][0] for i, r in enumerate(ordered)]
        for order, found in of_each_count(lambda: ascending(columns[0])):
            assert order.tolist() == columns[0].argsort(kind="stable").tolist()
            assert found.tolist() == sorted(columns[0].tolist())

    check()


@given(st.lists(st.integers(0, 9), max_size=20))
@examples(50)
def test_what_is_looked_up_is_the_same(order):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "SHARE", 2)
        for count in COUNTS:
            SETTING.threads = count
            found = np.empty(len(order), np.int64)
            gather(np.arange(10) * 7, np.array(order, np.int64), found)
            assert found.tolist() == [7 * i for i in order]
    SETTING.threads = 1


ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.integers(-2, 2), st.sampled_from([0.5, -0.0, 1e300, None]), st.integers(0, 3)
)


def _flow():
    flow = tm.Dataflow()
    rows = flow.input("rows", {"name": "string", "x": "int64", "amount": "float64", "at": "int64"})
    by_name = rows.group_by("name").agg(n=tm.count(), total=tm.sum("amount"), least=tm.min("at"), last=tm.max("at"))
    flow.output("by_name", by_name)
    flow.output("first", rows.group_by("x").top_k(2, order_by=[tm.desc("amount"), "name"]))
    flow.output("pairs", rows.join(rows.rename(name="other", amount="b"), on=["x", "at"]))
    return flow


def test_runs_are_the_same(small_shares, monkeypatch):
    flow = _flow()

    @examples(40)
    @given(st.lists(ROWS, min_size=1, max_size=30), st.integers(1, 30))
    def check(rows, gone):
        outcomes = []
        for count in COUNTS:
            with flow.start(tm.Embedded(threads=count)) as run:
                run.insert("rows", pa.Table.from_pylist([
                    dict(zip(("name", "x", "amount", "at"), row, strict=True)) for row in rows
                ], run_schema))  # fmt: skip
                run.advance()
                run.delete("rows", rows[:gone])
                run.advance()
                outcomes.append([repr(list(run.changes(name))) for name in ("by_name", "first", "pairs")])
        assert outcomes[1:] == outcomes[:1] * 2

    run_schema = pa.schema([("name", pa.string()), ("x", pa.int64()), ("amount", pa.float64()), ("at", pa.int64())])
    check()


@pytest.mark.slow
def test_a_run_with_threads_gives_what_the_reference_gives(small_shares, monkeypatch):
    monkeypatch.setattr(threads._Setting, "threads", 3)

    @examples(40)
    @given(st.lists(st.tuples(ROWS, st.integers(0, 2), st.just(1)), max_size=20))
    def check(updates):
        check_equivalent(_flow(), {"rows": updates}, engines=["reference", "embedded"])

    check()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_a_share_comes_out_once_all_have_ended(failing):
    done = []

    def work(number):
        if number == failing:
            raise ZeroDivisionError
        done.append(number)

    SETTING.threads = 3
    with pytest.raises(ZeroDivisionError):
        side_by_side(work, [0, 1, 2])
    SETTING.threads = 1
    assert sorted(done) == [n for n in range(3) if n != failing]


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_comes_out_once_all_have_ended_and_the_threads_go_on():
    done = []

    def work(number):
        if number == 0:
            signal.raise_signal(signal.SIGINT)
        done.append(number)

    SETTING.threads = 3
    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, [0, 1, 2])
    assert sorted(done) == [1, 2]
    assert side_by_side(lambda number: number * number, [1, 2, 3]) == [1, 4, 9]
    SETTING.threads = 1


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_an_interrupted_step_leaves_the_run_as_it_was(small_shares):
    flow, rows = _flow(), [("a", i % 3, 0.5 * i, i) for i in range(20)]
    with flow.start(tm.Embedded(threads=2)) as run:
        run.insert("rows", rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gathers, "gather", _interrupted)
            patch.setattr(sorting, "gather", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.advance()
        assert list(run.changes("first")) == []
        run.advance()
        interrupted = repr(sorted(run.snapshot("first")))
    with flow.start(tm.Embedded(threads=1)) as run:
        run.insert("rows", rows)
        run.advance()
        assert repr(sorted(run.snapshot("first"))) == interrupted


def _interrupted(*_):
    in_shares(lambda _: signal.raise_signal(signal.SIGINT), 10)


def test_kernels_outside_of_a_run_have_one_thread():
    """As those in Spark's workers, and in other threads of this process."""
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: (SETTING.threads, shares(10**9))).result() == (1, [slice(0, 10**9)])


def test_threads_of_the_pool_do_not_wait_for_others():
    def work(_):
        return threading.current_thread().name, side_by_side(lambda _: threading.current_thread().name, [0, 1])

    SETTING.threads = 2
    for _ in range(3):
        (_, inside), (there, within) = side_by_side(work, [0, 1])
        assert inside[0] != there
        assert within == [there, there]
    SETTING.threads = 1


def test_as_many_threads_as_processors_unless_told_otherwise():
    flow = _flow()
    for engine, count in (
        (tm.Embedded(), threads.processors()),
        (tm.Embedded(threads=3), 3),
        (tm.Embedded(threads=1), 1),
    ):
        with flow.start(engine) as run:
            run.insert("rows", [("a", 1, 0.5, 0)])
            run.advance()
            assert SETTING.threads == count
    SETTING.threads = 1


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_threads_are_a_number(count):
    with pytest.raises(ValueError, match=r"^threads=.*: expected how many threads may work side by side, 1 or more$"):
        tm.Embedded(threads=count)


SCRIPT = """
import os, numpy as np, pyarrow as pa, tidemill as tm
from tidemill.renderer.embedded.kernels import threads
threads.SHARE = 1000
flow = tm.Dataflow()
flow.output("first", flow.input("x", {"k": "int64", "v": "int64"}).group_by("k").top_k(1, order_by=["v desc"]))
rng = np.random.default_rng(0)
table = pa.table({"k": rng.integers(0, 9, 20_000), "v": rng.permutation(20_000)})
def result():
    with flow.start(tm.Embedded(threads=2)) as run:
        run.insert("x", table)
        run.advance()
        return sorted(run.snapshot("first"))
here = result()
assert threads._pool._executor is not None
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_child_has_threads_of_its_own():
    more = """
child = os.fork()
if child == 0:
    assert threads._pool._executor is None
    os._exit(0 if result() == here else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT + more],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.slow
def test_idle_threads_do_not_keep_the_process():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
