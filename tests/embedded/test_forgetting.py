"""Forgetting behind watermarks: what comes out is what the reference engine gives, which keeps all."""

import pytest
from hypothesis import given
from support.forgetful_flows import KINDS, flow_of, updates
from support.running import examples

from tidemill.renderer.embedded.forgetting import Forgetting
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time

BATCHINGS = [all_at_once, time_by_time, shuffled(0), shuffled(1)]


@pytest.fixture
def at_once(monkeypatch):
    """All that may be forgotten is, at the end of each step."""
    ended = Forgetting.end_step

    def end_step(self):
        ended(self)
        for operator in self._operators.values():
            for spine in operator.spines().values():
                if spine.gone is not None:
                    spine.exert()

    monkeypatch.setattr(Forgetting, "end_step", end_step)
    monkeypatch.setattr(spine_module, "TAIL", 2)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_forgotten_is_not_missed(at_once, kind, passes):
    @examples(60, least=15)
    @given(a=updates(), b=updates())
    def check(a, b):
        check_equivalent(flow_of(kind), {"a": a, "b": b}, batchings=BATCHINGS, passes=passes)

    check()
