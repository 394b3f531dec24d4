"""tidemill: differential dataflow for Python. `import tidemill as tm`."""

import logging as _logging
from typing import TYPE_CHECKING

from tidemill import errors, testing
from tidemill.algorithms import graphs
from tidemill.boundary.files import read_csv, read_parquet
from tidemill.boundary.results import Rows, Updates
from tidemill.boundary.sorting_out import RefusedRow
from tidemill.collections.collection import Collection, Grouped
from tidemill.collections.delta_joins import join_all
from tidemill.collections.recursion import LetRec
from tidemill.dataflow.lattice import Antichain
from tidemill.errors import TidemillError
from tidemill.expressions.aggregate_functions import (
    avg,
    bool_and,
    bool_or,
    count,
    count_distinct,
    first,
    last,
    list,
    max,
    min,
    stddev,
    sum,
    variance,
)
from tidemill.expressions.expr import col, lit
from tidemill.expressions.functions.choice import coalesce, greatest, least, nullif, when
from tidemill.expressions.functions.dates import (
    add_months,
    date_add,
    date_diff,
    date_from_unix_date,
    date_sub,
    date_trunc,
    datediff,
    day,
    dayofweek,
    dayofyear,
    extract,
    hour,
    interval,
    last_day,
    make_date,
    minute,
    month,
    quarter,
    second,
    timestamp_micros,
    timestamp_millis,
    timestamp_seconds,
    timestampadd,
    timestampdiff,
    to_date,
    to_timestamp,
    trunc,
    unix_date,
    unix_micros,
    unix_millis,
    unix_seconds,
    weekday,
    weekofyear,
    year,
)
from tidemill.expressions.functions.hashing import hash64, xxhash64
from tidemill.expressions.functions.lists import get, size
from tidemill.expressions.functions.numbers import (
    abs,
    ceil,
    div,
    exp,
    floor,
    isnan,
    ln,
    log2,
    log10,
    pmod,
    power,
    round,
    shiftleft,
    shiftright,
    shiftrightunsigned,
    sign,
    sqrt,
)
from tidemill.expressions.functions.text import (
    ascii,
    chr,
    concat,
    concat_ws,
    ilike,
    initcap,
    instr,
    left,
    length,
    locate,
    lower,
    lpad,
    ltrim,
    regexp_extract,
    regexp_like,
    regexp_replace,
    repeat,
    replace,
    reverse,
    right,
    rpad,
    rtrim,
    split_part,
    substring,
    translate,
    trim,
    upper,
)
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sort_keys import asc, desc
from tidemill.expressions.sql_text import expr
from tidemill.expressions.types import DType
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import (
    cume_dist,
    dense_rank,
    first_value,
    lag,
    last_value,
    lead,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from tidemill.expressions.windows.sessions import session
from tidemill.expressions.windows.specification import Window
from tidemill.flow import Dataflow, load, local_spark, render
from tidemill.renderer.diagram.why import Why
from tidemill.renderer.engines import Embedded
from tidemill.renderer.reference import Reference
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.step_events import StepInfo
from tidemill.renderer.spark.live import Spark

__version__ = "0.1.0"

_logging.getLogger("tidemill").addHandler(_logging.NullHandler())  # nothing is said unless somebody listens

__all__ = [
    "UNBOUNDED",
    "Antichain",
    "Collection",
    "DType",
    "Dataflow",
    "Embedded",
    "Field",
    "Grouped",
    "LetRec",
    "Metrics",
    "Reference",
    "RefusedRow",
    "Rows",
    "Run",
    "Schema",
    "Spark",
    "StepInfo",
    "TidemillError",
    "Updates",
    "Why",
    "Window",
    "add_months",
    "asc",
    "avg",
    "bool_and",
    "bool_or",
    "ceil",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "count",
    "count_distinct",
    "cume_dist",
    "date_add",
    "date_diff",
    "date_from_unix_date",
    "date_sub",
    "date_trunc",
    "datediff",
    "day",
    "dayofweek",
    "dayofyear",
    "dense_rank",
    "desc",
    "div",
    "errors",
    "exp",
    "expr",
    "extract",
    "first",
    "first_value",
    "floor",
    "get",
    "graphs",
    "greatest",
    "hash64",
    "hour",
    "ilike",
    "initcap",
    "instr",
    "interval",
    "isnan",
    "join_all",
    "lag",
    "last",
    "last_day",
    "last_value",
    "lead",
    "least",
    "left",
    "length",
    "lit",
    "ln",
    "load",
    "local_spark",
    "locate",
    "log2",
    "log10",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "minute",
    "month",
    "nth_value",
    "ntile",
    "nullif",
    "percent_rank",
    "pmod",
    "power",
    "quarter",
    "rank",
    "read_csv",
    "read_parquet",
    "regexp_extract",
    "regexp_like",
    "regexp_replace",
    "render",
    "repeat",
    "replace",
    "reverse",
    "right",
    "row_number",
    "rpad",
    "rtrim",
    "second",
    "session",
    "shiftleft",
    "shiftright",
    "shiftrightunsigned",
    "sign",
    "size",
    "split_part",
    "sqrt",
    "stddev",
    "substring",
    "testing",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "timestampadd",
    "timestampdiff",
    "to_date",
    "to_timestamp",
    "translate",
    "trim",
    "trunc",
    "unix_date",
    "unix_micros",
    "unix_millis",
    "unix_seconds",
    "upper",
    "variance",
    "weekday",
    "weekofyear",
    "when",
    "xxhash64",
    "year",
]  # fmt: skip

_NAMED_AS_BUILTINS = ("abs", "ascii", "chr", "list", "max", "min", "round", "sum")

if TYPE_CHECKING:  # public too, as type checkers have to know; but `from tidemill import *` must not shadow builtins
    __all__ += ["abs", "ascii", "chr", "list", "max", "min", "round", "sum"]


def __dir__() -> tuple[str, ...]:  # what completion offers: none of the packages beneath
    return (*__all__, *_NAMED_AS_BUILTINS, "__version__")
