"""tidemill: differential dataflow for Python. `import tidemill as tm`."""

from typing import TYPE_CHECKING

from tidemill import errors, testing
from tidemill.collections.aggregates import (
    avg,
    bool_and,
    bool_or,
    count,
    count_distinct,
    max,  # noqa: A004 - SQL's name, as are the next ones; see below
    min,  # noqa: A004 - as above
    stddev,
    sum,  # noqa: A004 - as above
    variance,
)
from tidemill.collections.collection import Collection
from tidemill.collections.expressions import coalesce, col, expr, greatest, least, lit, nullif, when
from tidemill.collections.ordering import asc, desc
from tidemill.collections.results import Rows, Updates
from tidemill.collections.schema import Field, Schema
from tidemill.collections.types import DType
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import TidemillError
from tidemill.flow import Dataflow, load
from tidemill.renderer.embedded import Embedded
from tidemill.renderer.reference import Reference

__version__ = "0.1.0"

__all__ = [
    "Antichain", "Collection", "DType", "Dataflow", "Embedded", "Field", "Reference", "Rows", "Schema", "TidemillError",
    "Updates", "asc", "avg", "bool_and", "bool_or", "coalesce", "col", "count", "count_distinct", "desc", "errors", "expr", "greatest",
    "least", "lit", "load", "nullif", "stddev", "testing", "variance", "when",
]  # fmt: skip

if TYPE_CHECKING:  # public too, as type checkers have to know; but `from tidemill import *` must not shadow builtins
    __all__ += ["max", "min", "sum"]
