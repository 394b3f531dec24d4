"""State in a folder of each version of the format that there was: it is gone on from, or refused by its version.

Each folder in ``formats/`` was written by the tidemill of its version: two steps, a checkpoint, two steps more, with
next to nothing in memory; since 8 with a second checkpoint, of what has not changed, before these. A new version of the format adds its own, written by `write` below.
"""

import zipfile
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.errors import StateError
from tidemill.renderer.durable import frames

FOLDERS = Path(__file__).parent / "formats"


def build(*, more=False):
    flow = tm.Dataflow("formats")
    x = flow.input("x", {"k": "string", "v": "int64"})
    names = flow.input("names", {"k": "string", "name": "string"}, key="k")
    flow.output("n", x.group_by("k").agg(s=tm.sum("v"), n=tm.count()))
    flow.output("named", x.join(names, on="k"))
    if more:
        flow.output("most", x.group_by("k").agg(most=tm.max("v")))
    return flow


def write(folder):
    """Write what ``formats/`` has of this version."""
    for steps in (0, 1), (2, 3):
        with build().start(tm.Embedded(folder, in_memory=4)) as run:
            run.checkpoint()
            for i in steps:
                run.insert("x", [("a", i), ("b", -i)])
                run.upsert("names", [("a", f"name {i}")])
                run.advance()
            if steps == (0, 1):
                run.checkpoint()


def unpacked(version, tmp_path):
    folder = tmp_path / "state"
    with zipfile.ZipFile(FOLDERS / f"format-{version}.zip") as archive:
        archive.extractall(folder)
    return folder


def test_there_is_a_folder_of_each_version_that_is_read():
    assert {int(path.stem.removeprefix("format-")) for path in FOLDERS.iterdir()} == frames.READ


@pytest.mark.parametrize("version", sorted(frames.READ))
def test_it_is_gone_on_from(version, tmp_path):
    folder = unpacked(version, tmp_path)
    for _ in range(2):
        with build().start(tm.Embedded(folder, in_memory=4)) as run:
            assert list(run.snapshot("n")) == [("a", 6, 4), ("b", -6, 4)]
            assert list(run.snapshot("named")) == [("a", i, "name 3") for i in range(4)]
            run.checkpoint()  # and as it is written now
    with build().start(tm.Embedded(folder)) as run:
        run.insert("x", [("a", 10)])
        run.advance()
        assert ("a", 10, "name 3") in list(run.snapshot("named"))


def test_what_is_new_is_loaded_from_state_of_this_version(tmp_path):
    with build(more=True).start(tm.Embedded(unpacked(frames.VERSION, tmp_path))) as run:
        assert list(run.snapshot("most")) == [("a", 3), ("b", 0)]


def test_what_is_new_is_refused_on_state_that_does_not_say_what_it_is_of(tmp_path):
    """In version 5 inputs were not kept, and operators went by their places."""
    folder = unpacked(5, tmp_path)
    with pytest.raises(StateError, match="holds the state of another dataflow"):
        build(more=True).start(tm.Embedded(folder))
    with pytest.raises(StateError, match=r"state of an earlier version of tidemill: expected"):
        build(more=True).plan(folder)
    with build().start(tm.Embedded(folder)) as run:
        run.checkpoint()
    with pytest.raises(StateError, match=r"Input 'x' .*was not kept, as with keep_inputs=False or in the state of an"):
        build(more=True).start(tm.Embedded(folder))
    with build().start(tm.Embedded(folder)) as run:
        assert list(run.snapshot("n")) == [("a", 6, 4), ("b", -6, 4)]
