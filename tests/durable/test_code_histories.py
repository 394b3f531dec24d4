"""Random histories of code: after each change the run on the folder is what a fresh one is, fed all rows."""

import random
import tempfile

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.code_histories import History, versions
from support.running import examples

from tidemill.errors import StepError


def check(found, seed, coordinates, keep, in_memory):
    with tempfile.TemporaryDirectory() as folder:
        history, version = History(folder, random.Random(seed), coordinates, keep, in_memory), None
        try:
            for one in found:
                version = history.take(one, version)
        except StepError:  # an overflow, and the like: of the fresh run as well
            assume(False)


@pytest.mark.slow
@given(versions(), st.integers(0, 10**6), st.sampled_from([0, 2]), st.sampled_from([5, 10**9]))
@examples(100, least=30)
def test_histories_of_code(found, seed, keep, in_memory):
    check(found, seed, 1, keep, in_memory)


@pytest.mark.slow
@given(versions(coordinates=2), st.integers(0, 10**6), st.sampled_from([0, 1]))
@examples(60, least=15)
def test_histories_of_code_with_two_coordinates(found, seed, keep):
    check(found, seed, 2, keep, 10**9)
