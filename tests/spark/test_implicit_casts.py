"""Casts that lose nothing, on Spark as in the reference engine."""

import pytest
from support.meeting_types import ROWS, VALUES, fed, flow_of_collections, flow_of_values

from tidemill.testing import check_equivalent
from tidemill.testing.equivalence import DEFAULT_BATCHINGS

pytestmark = pytest.mark.usefixtures("spark")


def test_collections_that_meet():
    flow, _ = flow_of_collections("concat")
    given = {f"{side} {t}": fed(t) for side in "ab" for t in VALUES}
    check_equivalent(flow, given, engines=["reference", "spark"], batchings=DEFAULT_BATCHINGS[:1])


def test_values_that_meet():
    for what in ("CASE", "LAG"):
        flow, _ = flow_of_values(what)
        check_equivalent(flow, {"rows": ROWS}, engines=["reference", "spark"], batchings=DEFAULT_BATCHINGS[:1])
