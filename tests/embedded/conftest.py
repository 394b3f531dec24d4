"""Ctrl-C, for the tests that press it."""

import signal

import pytest


@pytest.fixture
def python_handles_ctrl_c():
    """Also where who started the tests had it ignored, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
