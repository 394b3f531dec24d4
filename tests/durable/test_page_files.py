"""Files of pages: what is found of keys, whatever pages they are on, and what is read for it."""

import numpy as np
import pyarrow as pa
import pytest

from tidemill.boundary.arrow_arrays import numbers_of
from tidemill.errors import StateError
from tidemill.expressions.types import INT64, STRING
from tidemill.renderer.durable import spill_files
from tidemill.renderer.durable.page_files import HASH, PageFile
from tidemill.renderer.durable.spill_files import Layout, Pages, write_block
from tidemill.renderer.embedded.kernels.codec import Interner

LAYOUT = Layout((0,), (INT64, STRING), 1, 1, 1)


def written(folder, keys):
    interner = Interner()
    rows = pa.table({"v0": keys, "v1": [f"{k}" for k in keys], "t0": keys * 0, "w0": keys * 0 + 1})
    return write_block(folder / "some.pages", LAYOUT, LAYOUT.encoded(rows, interner), interner)


def hashes_of(keys):
    return np.unique(LAYOUT.key_hashes([pa.array(keys)], len(keys)))


@pytest.mark.parametrize("size", [1, 2, 7, 128])
def test_all_rows_of_keys_are_found_and_no_others(tmp_path, monkeypatch, size):
    """Of keys with a row, or with more than a page has, and of some that are not there."""
    monkeypatch.setattr(spill_files, "PAGE", size)
    rng = np.random.default_rng(size)
    keys = rng.zipf(1.3, 600).clip(max=10**6)
    pages = Pages(tmp_path, written(tmp_path, keys))
    assert len(pages.all()) == -(-len(keys) // size)
    for _ in range(20):
        wanted = np.append(rng.choice(keys, 5), rng.integers(10**7, 10**8, 5))
        found = pages.rows_of(hashes_of(wanted))
        assert sorted(found.column("v0").to_pylist()) == sorted(keys[np.isin(keys, wanted)].tolist())
        assert found.column("v1").to_pylist() == [str(k) for k in found.column("v0").to_pylist()]
    assert pages.rows_of(hashes_of(keys)).num_rows == len(keys)
    everything = numbers_of(pages.read(pages.all()).column(HASH))
    assert (np.diff(everything) >= 0).sum() == len(keys) - 1


def test_keys_that_are_not_there_cost_no_page(tmp_path):
    """All but one in some five hundred, whose last two bytes are those of another."""
    pages = Pages(tmp_path, written(tmp_path, np.arange(20_000)))
    absent = hashes_of(np.arange(10**6, 10**6 + 2000))
    assert len(pages.of(absent)) < 20
    assert len(pages.of(hashes_of(np.arange(50)))) in range(40, 52)


def test_a_file_of_nothing(tmp_path):
    pages = Pages(tmp_path, written(tmp_path, np.arange(0)))
    assert pages.all() == pages.of(np.array([1, 2])) == pages.within(None, None) == []
    assert pages.rows_of(np.array([1, 2])).num_rows == 0


def test_whatever_byte_is_wrong_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(spill_files, "PAGE", 4)
    file = written(tmp_path, np.arange(9))
    path = tmp_path / file.name
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 4
        path.write_bytes(changed)
        with pytest.raises(StateError, match=r"some.pages is not a whole file of state \(the checksum"):
            file.require_whole(tmp_path)
    path.write_bytes(whole)
    file.require_whole(tmp_path)
    assert PageFile(path, file.checksums).bounds.tolist() == sorted(PageFile(path, file.checksums).bounds.tolist())
