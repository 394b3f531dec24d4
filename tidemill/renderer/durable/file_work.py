"""What is done with whole files of spilled state: sorting, merging, checking. Here, or by executors that see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import attrs

from tidemill.dataflow.lattice import Antichain
from tidemill.renderer.durable.spill_files import Layout, Pages, SpillFile, merged, sorted_file
from tidemill.renderer.embedded.trace.merging import Gone

TOGETHER: Final = 4_000_000
"""Updates in a file that was sorted, at most, where it can be cut: sorting holds all of them in memory."""


class FileWork(Protocol):
    """Who does it. What fails leaves the files that are given, and files of which nobody knows."""

    def sorted(self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain) -> list[SpillFile]:
        """Return sorted files of what is in some of a spine that are not."""

    def merged(
        self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain, gone: Gone | None
    ) -> list[SpillFile]:
        """Return files of the updates of sorted ones, consolidated at compacted times, no key in two of them."""

    def require_whole(self, files: Sequence[SpillFile]) -> None:
        """Raise `StateError` where a file is damaged."""


@attrs.frozen
class WorkHere:
    """Done by this process, in two threads. Of what is merged it holds a part at a time."""

    folder: Path
    new_path: Callable[[str], Path]

    def sorted(self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain) -> list[SpillFile]:
        """See `FileWork`."""
        del since  # it makes no more files than it is given

        def run(some: Sequence[SpillFile]) -> SpillFile:
            return sorted_file(self.new_path(name), layout, self.folder, some)

        with ThreadPoolExecutor(2, "tidemill-sort") as threads:
            return list(threads.map(run, together(files)))

    def merged(
        self, name: str, layout: Layout, files: Sequence[SpillFile], since: Antichain, gone: Gone | None
    ) -> list[SpillFile]:
        """See `FileWork`."""
        pages = [Pages(self.folder, f) for f in files]
        found = merged(self.new_path(name), layout, pages, sum(f.rows for f in files), since, gone)
        return [] if found is None else [found]

    def require_whole(self, files: Sequence[SpillFile]) -> None:
        """See `FileWork`."""
        with ThreadPoolExecutor(2, "tidemill-check") as threads:
            list(threads.map(lambda f: f.require_whole(self.folder), files))


def together(files: Sequence[SpillFile]) -> Iterator[list[SpillFile]]:
    """Iterate over files in groups, each to be sorted into one file."""
    some: list[SpillFile] = []
    for file in files:
        if some and sum(f.rows for f in some) + file.rows > TOGETHER:
            yield some
            some = []
        some.append(file)
    if some:
        yield some
