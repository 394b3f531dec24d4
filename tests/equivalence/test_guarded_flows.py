"""Conditions with operands that may be errors, wherever dataflows have them: each guards what comes after it.

Where no row that reaches a condition is an error by the definition, no engine may find one, with passes or without, in
any batching. Spark is in tests/spark.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, example, given
from support.guarded_places import OTHERS, PLACES, Rows, flow_of, has_errors, updates_of
from support.guards import ROWS, TREES, Tree, meaning
from support.running import at, examples, start

from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time

# Rows that reach every place, and others that are errors wherever they come, which some of the places keep away.
EVERYWHERE, GUARDED = (1, 0, 2, True, "1"), (1, 0, 0, True, "1")
NO_PARTNER, FAR, UNKNOWN = (None, 9, 0, False, "x"), (1, 9, 0, False, "x"), (1, 9, 0, None, "x")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_engine_finds_an_error_behind_what_decides(place: str) -> None:
    @examples(40, least=3)
    @given(tree=TREES, rows=ROWS)
    @example(tree=("and", "b <> 0", "a / b >= 0"), rows=[EVERYWHERE, GUARDED, NO_PARTNER, FAR])
    @example(tree="a / b >= 0", rows=[EVERYWHERE, NO_PARTNER])
    @example(tree="a / b >= 0", rows=[EVERYWHERE, FAR])
    @example(tree="a / b >= 0", rows=[EVERYWHERE, UNKNOWN])
    def check(tree: Tree, rows: Rows) -> None:
        assume(not has_errors(place, tree, rows))
        flow, updates = flow_of({place: tree}), updates_of(rows, OTHERS)
        with start(flow, "reference") as run:  # or engines might agree on an error
            for name, triples in updates.items():
                run.update(name, triples)
            run.close_inputs()
            found = at(run.changes(place), 2)
        if place == "filter":
            assert found == Counter(row for row in rows if meaning(tree, row) is True)
        check_equivalent(flow, updates, batchings=[time_by_time])
        check_equivalent(flow, updates, batchings=[all_at_once, shuffled(0)], passes=True)

    check()
