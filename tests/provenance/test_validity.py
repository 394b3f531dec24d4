"""Reasons in dataflows with temporal filters: by the user's time and by a clock, in the words of who wrote them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reasons import PAIRS
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.testing import updates


def test_a_row_is_explained_while_it_is_valid():
    flow = new_flow()
    calls = flow.input("calls", {"who": "string", "since": "int64", "until": "int64"})
    on_line = calls.temporal_filter("since", "until").select("who")
    flow.output("pairs", on_line.cross_join(on_line.rename(who="other")).filter("who < other"))
    with flow.start(why=True, keep=9) as run:
        run.insert("calls", [("Ann", 1, 4), ("Ben", 3, None)])
        run.advance_to(6)
        both = {"calls": [("Ann", 1, 4), ("Ben", 3, None)]}
        assert run.why("pairs", ("Ann", "Ben"), at=3).rows == both
        early, late = (run.why("pairs", ("Ann", "Ben"), at=time) for time in (2, 5))
        assert "not valid then: ('Ben', 3, None)" in str(early)
        assert "not valid then: ('Ann', 1, 4)" in str(late)
        run.delete("calls", [("Ann", 1, 4)], time=6)
        run.close_inputs()
        assert "input 'calls' has no row with who = 'Ann'" in str(run.why("pairs", ("Ann", "Ben")))


@examples(20, least=5)
@given(data=st.data(), coordinates=st.integers(1, 2))
def test_with_temporal_filters_the_rows_named_are_enough_at_that_time(data, coordinates):
    """Run on the rows named alone, which are there from the least time on, the row is there at the time."""
    flow = new_flow(coordinates)
    a, b = (flow.input(of, KV) for of in "ab")
    begin, end = data.draw(st.sampled_from([("v", "v + 2"), (None, "v"), ("v", None), ("k", "k + v")]))
    valid = a.temporal_filter(begin, end, coordinate=flow.graph.coordinates[-1])
    flow.output("out", valid.join(b, on="k").select("k", v="v_right"))
    found = {of: data.draw(updates(KV, coordinates, values=PAIRS, non_negative=True, max_size=8)) for of in "ab"}
    time = 3 if coordinates == 1 else data.draw(st.sampled_from([(1, 2), (3, 3), (0, 3)]))
    with flow.start(why=True, keep=100) as run:
        for of, triples in found.items():
            run.update(of, triples)
        run.close_inputs()
        for row in sorted(run.snapshot("out", at=time).counts())[:3]:
            why = run.why("out", row, at=time)
            with flow.start(tm.Reference(), keep=100) as alone:
                for of, rows in why.rows.items():
                    alone.update(of, [(r, 0 if coordinates == 1 else (0, 0), 1) for r in rows])
                alone.close_inputs()
                assert alone.snapshot("out", at=time).counts()[row] > 0


def test_a_condition_is_called_a_temporal_filter_at_the_time_that_is_asked_about():
    flow = new_flow()
    calls = flow.input("calls", {"who": "string", "since": "int64", "until": "int64"})
    flow.output("on", calls.temporal_filter("since", "until").select("who"))
    with flow.start(why=True, keep=9) as run:
        run.insert("calls", [("Ann", 1, 4)])
        run.advance_to(6)
        refused = "none with who = 'Ann'; reads 1 row like that, not valid then: ('Ann', 1, 4)"
        lines = str(run.why("on", ("Ann",), at=5)).splitlines()
        assert lines[1].startswith("temporal_filter [from since to until, at 5] (")
        assert lines[1].endswith(refused)
        run.close_inputs()
        closed = str(run.why("on", ("Ann",)))
        assert "temporal_filter [from since to until, after all times]" in closed
        assert "4611686018427387903" not in closed


def by_clock(begin="since", end="hours * 2"):
    """The end has another type than the clock, and both may be unknown: many operators."""
    flow = new_flow()
    calls = flow.input("calls", {"who": "string", "since": "int64", "hours": "int32"})
    clock = flow.input("clock", {"now": "int64"})
    flow.output("on", calls.temporal_filter(begin, end, clock=clock).group_by("who").agg(n=tm.count()))
    return flow


CALLS = {"Ann": ("Ann", None, None), "Ben": ("Ben", 1, None), "Cem": ("Cem", None, 10), "Dora": ("Dora", 1, 10)}


@pytest.mark.parametrize("who", CALLS)
def test_a_row_that_is_valid_by_a_clock_follows_from_itself_and_the_clock(who):
    with by_clock().start(why=True) as run:
        run.insert("calls", list(CALLS.values()))
        run.insert("clock", [(2,)])
        run.advance()
        lines = [line.strip("│├└─ ") for line in str(run.why("on", (who, 1))).splitlines()]
    assert lines[2].startswith(f"('{who}',)  temporal_filter [from since to hours * 2, by a clock] (")
    assert lines[3:] == [f"{CALLS[who]}  input 'calls'", "(2,)  input 'clock'"]


@pytest.mark.parametrize(("begin", "end", "words"), [
    ("since", "hours * 2", "from since to hours * 2"), ("since", None, "from since"), (None, "since", "to since"),
    ("coalesce(since, 9)", None, "from COALESCE(since, 9)"),
])  # fmt: skip
def test_a_row_that_is_not_valid_by_a_clock_is_compared_with_it(begin, end, words):
    with by_clock(begin, end).start(why=True) as run:
        run.insert("calls", [("Ben", 3, None)])
        run.advance()
        nothing = str(run.why("on", ("Ben", 1)))
        run.insert("clock", [(2,) if begin else (5,)])
        run.advance()
        early = str(run.why("on", ("Ben", 1)))
        nobody = str(run.why("on", ("Eve", 1)))
    assert f"temporal_filter [{words}, by a clock] (" in nothing
    assert "and the clock shows nothing: ('Ben', 3, None)" in nothing
    assert "input 'clock' has no row" in nothing
    assert f"temporal_filter [{words}, by a clock] (" in early
    assert f"reads 1 row like that, not valid at ({2 if begin else 5},): ('Ben', 3, None)" in early
    assert "input 'calls' has no row with who = 'Eve'" in nobody
    for text in (nothing, early, nobody):
        assert not any(part in text for part in ("DynamicFilter", "Concat", "Join", "begin", "shown ="))


def test_rows_of_another_collection_beside_those_that_are_valid_are_not_taken_for_them():
    flow = new_flow()
    calls = flow.input("calls", {"who": "string", "since": "int64 not null"})
    clock, more = (
        flow.input("clock", {"now": "int64"}),
        flow.input("more", {"who": "string", "since": "int64 not null"}),
    )
    flow.output("on", calls.temporal_filter("since", None, clock=clock).concat(more))
    with flow.start(why=True) as run:
        run.insert("more", [("Ann", 9)])
        run.insert("calls", [("Ben", 3)])
        run.insert("clock", [(2,)])
        run.advance()
        assert run.why("on", ("Ann", 9)).rows == {"more": [("Ann", 9)]}
        missing = str(run.why("on", ("Ben", 3)))
    assert "input 'more' has no row with who = 'Ben'" in missing
    assert "temporal_filter [from since, by a clock]" in missing
