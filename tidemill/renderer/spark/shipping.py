"""tidemill sent to executors that do not have it: its code, and that of packages of pure Python, as one archive."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidemill.errors import EngineError
from tidemill.late import Late
from tidemill.renderer.spark.failures import missing_in_python

if TYPE_CHECKING:
    import pyspark.sql as ps
else:
    ps = Late("pyspark.sql")

__all__ = ["ship"]

_NEEDED: Final = ("tidemill", "attr", "attrs", "networkx")
"""What executors import of it and of what it needs; NumPy and Arrow are what PySpark itself needs there."""
_COMPILED: Final = (".so", ".pyd", ".dylib")
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""When all files in the archive were made: the same code is the same archive."""


def ship(spark: ps.SparkSession, *packages: str) -> None:
    """Send tidemill to the executors of a session, with what it needs of pure Python and ``packages``, by name.

    For clusters whose Python has PySpark with NumPy and PyArrow, and no tidemill: standalone ones, Spark Connect. They
    may have other versions of what is sent: for this session those that are sent count. ``packages`` are modules or
    packages that your functions import. What is compiled cannot be sent so: the guide says how a whole environment is.

    `EngineError` where executors cannot import tidemill afterwards, with what they lack. Sent again, nothing happens.

    >>> tm.ship(spark)  # doctest: +SKIP
    """
    folder = Path(tempfile.mkdtemp(prefix="tidemill-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later fetch it, too
    spark.addArtifacts(str(_archive(folder, (*_NEEDED, *packages))), pyfile=True)
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_looking(packages), "id bigint").collect()
    except Exception as error:
        if (lack := missing_in_python(error)) is None:
            raise
        msg = (
            f"{lack} in the Python of Spark's executors, to which tidemill was sent: install it there, have "
            "PYSPARK_PYTHON name a Python that has it, or send an environment that has "
            "it, as docs/guides/spark-operations.md says"
        )
        raise EngineError(msg) from error


def _looking(packages: tuple[str, ...]) -> Any:
    """Return a task that imports what was sent; of its own it needs nothing of tidemill."""

    def look(batches: Any) -> Any:
        import importlib  # noqa: PLC0415 - in an executor

        for name in ("tidemill.renderer.spark.live.file_tasks", "tidemill.renderer.spark.row_tasks", *packages):
            importlib.import_module(name)
        yield from batches

    return look


def _archive(folder: Path, names: tuple[str, ...]) -> Path:
    """Write an archive of packages, named by what is in it."""
    content, path = hashlib.sha256(), folder / "archive.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            for inside, file in _files(name):
                data = file.read_bytes() if file.is_file() else b""
                content.update(inside.encode() + data)
                archive.writestr(zipfile.ZipInfo(inside, _TIME), data, zipfile.ZIP_DEFLATED)
    return path.rename(folder / f"tidemill-{content.hexdigest()[:12]}.zip")


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Iterate over the files of a module or package, with their places in the archive; and its folders.

    Python looks for folders where packages have no ``__init__.py``.
    """
    spec = importlib.util.find_spec(name)
    if spec is None:
        msg = f"ship: there is no package {name!r} here to be sent to executors"
        raise EngineError(msg)
    roots = spec.submodule_search_locations
    pairs = [(Path(root), file) for root in roots or () for file in (Path(root), *sorted(Path(root).rglob("*")))]
    if not roots and spec.origin is not None:
        pairs = [(Path(spec.origin).parent, Path(spec.origin))]
    for root, file in pairs:
        if file.suffix in _COMPILED:
            raise _compiled(name, file)
        if "__pycache__" not in file.parts:
            inside = Path(name if roots else "", file.relative_to(root)).as_posix()
            yield inside + "/" * file.is_dir(), file


def _compiled(name: str, file: Path) -> EngineError:
    return EngineError(
        f"ship: {name!r} is compiled ({file}), and Python imports no such thing from an archive: install it on the "
        "executors, or send an environment that has it, as docs/guides/spark-operations.md says"
    )
