"""Merging into a Delta table by deletion vectors: rows that go are marked as gone, and no file is written anew.

``deltalake`` reads such vectors and does not write them. What is written here is one commit of the table's log as the
protocol has it (https://github.com/delta-io/delta/blob/master/PROTOCOL.md), on a file system of this machine.
"""

from __future__ import annotations

import json
import os
import struct
import time
import uuid
import zlib
from base64 import b85encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import ViewError
from tidemill.renderer.embedded.whole_file import sync_folder
from tidemill.views.stores import CHANGE

ENABLED: Final = "delta.enableDeletionVectors"
_KNOWN: Final = {"deletionVectors", "variantType", "timestampNtz", "appendOnly", "invariants"}
"""Features of tables that ask nothing more of a writer, where their settings do not."""
_CHECKPOINT_EACH: Final = 100
"""So many commits, as the library does."""
_PLACE: Final = "__place"
_MAGIC: Final = 1681511377
_NO_RUNS: Final = 12346
_LONGEST_LIST: Final = 4096
"""Of a bitmap's part of 65,536 places, those with more members are kept as bits."""
_TO_Z85: Final = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
"""From Python's digits of base 85 to the protocol's."""

Action: TypeAlias = dict[str, Any]


def can_mark(table: Any) -> bool:
    """Return whether rows of a table can be marked: it has vectors, and nothing that asks more of who writes to it."""
    metadata = table.metadata()
    settings = {name: value for name, value in metadata.configuration.items() if name.startswith("delta.")}
    known = settings == {ENABLED: "true"} and set(table.protocol().writer_features or ()) <= _KNOWN
    return known and not metadata.partition_columns and _folder(table).is_dir()


def merge_marked(table: Any, changes: pa.Table, key: Sequence[str], owner: str, number: int) -> None:
    """Take rows, one of a key, in one commit: see `Sink.merge`. Cost: reading the keys of all rows, and the changes."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    folder, now = _folder(table), int(time.time() * 1000)
    marks, marked = _Vectors(), _marked(table)
    actions: list[Action] = []
    keys = changes.select(key)
    for path, file in _files(folder, table).items():
        found = pq.read_table(folder / path, columns=list(key)).select(key).cast(keys.schema)
        rows, before = found.num_rows, marked.get(path, np.empty(0, np.int64))
        found = found.append_column(_PLACE, pa.array(np.arange(rows)))
        places = np.union1d(before, found.join(keys, list(key), join_type="left semi")[_PLACE].to_numpy())
        if len(places) == len(before):
            continue
        actions.append({"remove": _removed(file, now)})
        if len(places) < rows:
            stats = {**json.loads(file.get("stats") or "{}"), "numRecords": rows, "tightBounds": False}
            actions.append({"add": {**file, "stats": json.dumps(stats), "deletionVector": marks.add(places)}})
    came = changes.filter(pc.not_equal(changes[CHANGE], "delete"))
    if came.num_rows:
        schema = pa.schema(table.schema().to_arrow())
        path = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(came.select(schema.names).cast(schema), folder / path)
        _sync(folder / path)
        told = json.dumps({"numRecords": came.num_rows})
        whole = {"size": (folder / path).stat().st_size, "modificationTime": now, "stats": told, "dataChange": True}
        actions.append({"add": {"path": path, "partitionValues": {}, **whole}})
    marks.put(folder)
    done = {"appId": owner, "version": number, "lastUpdated": now}
    info = {"timestamp": now, "operation": "MERGE", "operationParameters": {}, "engineInfo": "tidemill"}
    info |= {"readVersion": table.version(), "isBlindAppend": False, "txnId": str(uuid.uuid4())}
    _commit(folder, table.version() + 1, [{"commitInfo": info}, {"txn": done}, *actions])
    if (table.version() + 1) % _CHECKPOINT_EACH == 0:
        table.update_incremental()
        table.create_checkpoint()


class _Vectors:
    """The file of a commit's deletion vectors."""

    def __init__(self) -> None:
        self._id = uuid.uuid4()
        self._data = bytearray(b"\x01")  # the version of what follows

    def add(self, places: Any) -> Action:
        """Return what names a vector of these places."""
        offset, data = len(self._data), struct.pack("<i", _MAGIC) + _bitmap(places)
        self._data += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        named = b85encode(self._id.bytes).translate(_TO_Z85).decode()
        size = {"sizeInBytes": len(data), "cardinality": len(places)}
        return {"storageType": "u", "pathOrInlineDv": named, "offset": offset, **size}

    def put(self, folder: Path) -> None:
        """Write them to a table's folder, if there are any."""
        if len(self._data) > 1:
            path = folder / f"deletion_vector_{self._id}.bin"
            path.write_bytes(self._data)
            _sync(path)


def _bitmap(places: Any) -> bytes:
    """Return sorted places below 2 ** 32 as a Roaring bitmap of 64 bits, in the portable format."""
    parts, begins = np.unique(places >> 16, return_index=True)
    members = np.split((places & 0xFFFF).astype("<u2"), begins[1:])
    heads = b"".join(struct.pack("<HH", part, len(m) - 1) for part, m in zip(parts, members, strict=True))
    bodies = [m.tobytes() if len(m) <= _LONGEST_LIST else _bits(m) for m in members]
    begin = 8 + 8 * len(parts)  # the two numbers, then of each part its head and where its body is
    offsets = np.cumsum([begin, *map(len, bodies)])[:-1].astype("<u4").tobytes()
    one = struct.pack("<II", _NO_RUNS, len(parts)) + heads + offsets + b"".join(bodies)
    return struct.pack("<QI", 1, 0) + one


def _bits(members: Any) -> bytes:
    bits = np.zeros(1 << 16, bool)
    bits[members] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _marked(table: Any) -> Mapping[str, Any]:
    """Return the places of rows that are marked, by file."""
    vectors = pa.table(table.deletion_vectors())
    pairs = zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True)
    return {
        unquote(path).rpartition("/")[2]: np.flatnonzero(~mask.values.to_numpy(zero_copy_only=False))
        for path, mask in pairs
    }


def _files(folder: Path, table: Any) -> Mapping[str, Action]:
    """Return the files of a table as its log has them, by path: the library does not tell their vectors' places."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    log, files = folder / "_delta_log", dict[str, Action]()
    last = log / "_last_checkpoint"
    begin = json.loads(last.read_text())["version"] if last.exists() else -1
    for path in sorted(log.glob(f"{begin:020}.checkpoint*.parquet")):
        adds = pq.read_table(path, columns=["add"])["add"]
        for file in adds.filter(pc.is_valid(adds)).to_pylist():
            files[unquote(file["path"])] = _plain(file)
    for version in range(begin + 1, table.version() + 1):
        actions = [json.loads(line) for line in (log / f"{version:020}.json").read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                files.pop(unquote(action["remove"]["path"]), None)
        for action in actions:
            if "add" in action:
                files[unquote(action["add"]["path"])] = _plain(action["add"])
    if files.keys() != {unquote(path) for path in pa.table(table.get_add_actions())["path"].to_pylist()}:
        msg = f"delta({str(folder)!r}): its log is not understood: write it anew with views.refresh(full=[...])"
        raise ViewError(msg)
    return files


def _plain(file: Action) -> Action:
    """Return a file's fields without those that say nothing."""
    told = {name: value for name, value in file.items() if value is not None and not name.endswith("_parsed")}
    return {**told, "partitionValues": {}, "dataChange": True}


def _removed(file: Action, now: int) -> Action:
    same = ("path", "partitionValues", "size", "deletionVector")
    told = {name: value for name, value in file.items() if name in same}
    return {**told, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}


def _commit(folder: Path, version: int, actions: Sequence[Action]) -> None:
    """Put a commit into the log, whole, where no other one is."""
    path = folder / "_delta_log" / f"{version:020}.json"
    beside = path.with_name(f"_commit_{uuid.uuid4()}.json.tmp")
    beside.write_text("".join(json.dumps(action) + "\n" for action in actions))
    _sync(beside)
    try:
        os.link(beside, path)
    except FileExistsError as error:
        msg = f"delta({str(folder)!r}): somebody else wrote version {version} meanwhile: refresh again"
        raise ViewError(msg) from error
    finally:
        beside.unlink()
    sync_folder(path.parent)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _folder(table: Any) -> Path:
    uri = table.table_uri
    return Path(unquote(uri.removeprefix("file://")))
