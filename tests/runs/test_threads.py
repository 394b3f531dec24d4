"""Runs that several threads share: nothing that was accepted gets lost, and what is read is of whole steps."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import ReentrantUseError

ROWS = 1500
KEY = {"k": "int64"}


def _counting():
    flow = tm.Dataflow("shared")
    x = flow.input("x", KEY)
    flow.output("rows", x)
    flow.output("count", x.count("n"))
    return flow


def test_rows_inserted_by_two_threads_while_a_third_advances_are_all_there():
    done = threading.Event()
    with _counting().start() as run, ThreadPoolExecutor(3) as pool:

        def insert(first):
            for i in range(first, first + ROWS):
                run.insert("x", [(i,)])

        def advance():
            while not done.is_set():
                run.advance()

        steps = pool.submit(advance)
        try:
            for inserting in [pool.submit(insert, first) for first in (0, ROWS)]:
                inserting.result()
        finally:
            done.set()
        steps.result()
        run.advance()
        assert sorted(run.snapshot("rows")) == [(i,) for i in range(2 * ROWS)]


def test_what_is_read_while_another_thread_advances_is_of_whole_steps():
    """A batch of ten rows is there whole or not at all, and changes are read once each."""
    with _counting().start() as run, ThreadPoolExecutor(1) as pool:

        def advance():
            for i in range(150):
                run.insert("x", [(10 * i + j,) for j in range(10)])
                run.advance()

        steps = pool.submit(advance)
        read = []
        while not steps.done():
            assert len(run.snapshot("rows")) % 10 == 0
            read += [row for row, _, _ in run.changes("rows")]
        steps.result()
        read += [row for row, _, _ in run.changes("rows")]
        assert sorted(read) == [(i,) for i in range(1500)]


def test_a_thread_waits_for_the_step_of_another(engine):
    begun, go_on = threading.Event(), threading.Event()

    def slow(row):
        begun.set()
        assert go_on.wait(600)
        return row

    flow = tm.Dataflow("slow")
    flow.output("out", flow.input("x", KEY).map_rows(slow, KEY))
    with start(flow, engine) as run, ThreadPoolExecutor(2) as pool:
        run.insert("x", [(1,)])
        step = pool.submit(run.advance)
        assert begun.wait(600)
        reading = pool.submit(run.snapshot, "out")
        assert not reading.done()
        go_on.set()
        step.result()
        assert list(reading.result()) == [(1,)]


def test_a_function_in_the_dataflow_that_uses_its_own_run_is_told_so(engine):
    refused = []

    def use(row):
        for method, *args in (("snapshot", "out"), ("insert", "x", [(2,)]), ("advance",), ("close",), ("metrics",)):
            with pytest.raises(ReentrantUseError, match="a function in the dataflow, may not use it"):
                getattr(run, method)(*args)
            refused.append(method)
        return row

    flow = tm.Dataflow("own")
    flow.output("out", flow.input("x", KEY).map_rows(use, KEY))
    with start(flow, engine) as run:
        run.insert("x", [(1,)])
        run.advance()
        assert refused[:5] == ["snapshot", "insert", "advance", "close", "metrics"]
        assert list(run.snapshot("out")) == [(1,)]
