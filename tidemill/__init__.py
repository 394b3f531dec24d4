"""tidemill: differential dataflow for Python. `import tidemill as tm`."""

from tidemill import errors, testing
from tidemill.collections.aggregates import avg, count, max, min, sum  # noqa: A004 - SQL's names; kept out of __all__
from tidemill.collections.collection import Collection
from tidemill.collections.expressions import coalesce, col, expr, greatest, least, lit, nullif, when
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
    "Updates", "avg", "coalesce", "col", "count", "errors", "expr", "greatest", "least", "lit", "load", "nullif", "testing", "when",
]  # fmt: skip
