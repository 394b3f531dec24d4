"""The recompute kernel says what the reference says, for all that can be drawn: functions, frames, orders, rows."""

from collections import Counter

from hypothesis import given, settings
from random_windows import cases
from windowing import by_kernel, by_reference, outcome, wide_rows


@given(cases())
@settings(max_examples=settings().max_examples * 20)
def test_the_kernel_agrees_with_the_reference(case):
    schema, rows, calls = case
    wide, bound = wide_rows(schema, rows, calls)
    found, expected = outcome(by_kernel, wide, bound), outcome(by_reference, wide, bound)
    assert (Counter(found) if isinstance(found, list) else found) == expected
