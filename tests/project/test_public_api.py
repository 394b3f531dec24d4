"""Nothing of the public API gets lost: tests/project/public_api.txt lists it, a line a name with its parameters."""

from pathlib import Path

from support.public_api import public_api

LISTED = Path(__file__).with_name("public_api.txt").read_text().splitlines()


def test_nothing_is_lost():
    assert sorted(set(LISTED) - set(public_api())) == []


def test_what_is_new_is_listed():
    new = sorted(set(public_api()) - set(LISTED))
    assert new == [], "list it: python tests/lib/support/public_api.py > tests/project/public_api.txt"
