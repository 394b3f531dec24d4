"""Random actions on the engines together, see `agreement`."""

import pytest
from support.agreement import Agreement, Agreement2D, agree
from support.running import examples

from tidemill.dataflow.lattice import as_time, shown


@pytest.mark.slow
@pytest.mark.law("Engines agree after every action of a user, on everything that can be asked.")
@pytest.mark.parametrize("machine", [Agreement, Agreement2D])
def test_engines_agree_after_every_action(machine, engines):
    agree(machine, engines, parent=examples(40), stateful_step_count=25)


def test_times_are_read_as_users_write_them():
    assert shown(as_time(3, 1)) == 3
