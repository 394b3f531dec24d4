"""tidemill: differential dataflow for Python. `import tidemill as tm`."""

import logging as _logging
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from tidemill import errors
from tidemill.boundary.files import read_csv, read_json, read_parquet
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
from tidemill.expressions.composed_aggregates import (
    any_value,
    bit_and,
    bit_or,
    bit_xor,
    collect_list,
    collect_set,
    corr,
    count_if,
    covar_pop,
    covar_samp,
    max_by,
    median,
    min_by,
    mode,
    percentile,
    percentile_disc,
    regr_avgx,
    regr_avgy,
    regr_count,
    regr_intercept,
    regr_r2,
    regr_slope,
    regr_sxx,
    regr_sxy,
    regr_syy,
    stddev_pop,
    string_agg,
    var_pop,
)
from tidemill.expressions.expr import col, lit
from tidemill.expressions.functions.choice import coalesce, greatest, least, nullif, when
from tidemill.expressions.functions.date_formats import (
    date_format,
    dayname,
    monthname,
    next_day,
)
from tidemill.expressions.functions.dates import (
    add_months,
    age,
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
from tidemill.expressions.functions.from_json import from_json
from tidemill.expressions.functions.hashing import (
    base64,
    crc32,
    hash64,
    hex,
    md5,
    sha1,
    sha2,
    unbase64,
    unhex,
    xxhash64,
)
from tidemill.expressions.functions.lists import (
    array,
    array_contains,
    array_distinct,
    array_join,
    array_max,
    array_min,
    array_position,
    element_at,
    get,
    size,
    slice,
    sort_array,
    split,
)
from tidemill.expressions.functions.number_formats import to_number
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
from tidemill.expressions.functions.structs import struct
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
from tidemill.expressions.functions.text_forms import (
    format_string,
    get_json_object,
    overlay,
    substring_index,
)
from tidemill.expressions.functions.tries import (
    try_add,
    try_divide,
    try_element_at,
    try_mod,
    try_multiply,
    try_subtract,
    try_to_date,
    try_to_number,
    try_to_timestamp,
)
from tidemill.expressions.functions.trigonometry import (
    acos,
    asin,
    atan,
    atan2,
    cbrt,
    cos,
    cosh,
    cot,
    csc,
    degrees,
    expm1,
    hypot,
    log,
    log1p,
    pi,
    radians,
    sec,
    sin,
    sinh,
    tan,
    tanh,
)
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.sort_keys import asc, desc
from tidemill.expressions.sql_text import expr
from tidemill.expressions.types import DType
from tidemill.expressions.windows.calls import session
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
from tidemill.expressions.windows.specification import Window
from tidemill.flow import Dataflow, load, local_spark, render
from tidemill.renderer.engines import Embedded, read_changelog, read_state
from tidemill.renderer.runs.metrics import Metrics
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.step_events import StepInfo
from tidemill.renderer.runs.subscriptions import Subscription

__version__ = "0.1.0"

_logging.getLogger("tidemill").addHandler(_logging.NullHandler())  # nothing is said unless somebody listens

__all__ = [
    "UNBOUNDED", "Antichain", "Collection", "DType", "Dataflow", "Embedded", "Field", "Grouped", "LetRec", "Metrics",
    "Reference", "RefusedRow", "Rows", "Run", "Schema", "Spark", "StepInfo", "Subscription", "TidemillError", "Updates",
    "Views", "Why", "Window", "acos", "add_months", "age", "any_value", "array", "array_contains", "array_distinct",
    "array_join", "array_max", "array_min", "array_position", "asc", "asin", "atan", "atan2", "avg", "base64",
    "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "cbrt", "ceil", "coalesce", "col", "collect_list",
    "collect_set", "concat", "concat_ws", "corr", "cos", "cosh", "cot", "count", "count_distinct", "count_if",
    "covar_pop", "covar_samp", "crc32", "csc", "cume_dist", "date_add", "date_diff", "date_format",
    "date_from_unix_date", "date_sub", "date_trunc", "datediff", "day", "dayname", "dayofweek", "dayofyear", "degrees",
    "delta", "dense_rank", "desc", "div", "duckdb", "element_at", "errors", "exp", "expm1", "expr", "extract", "files",
    "first", "first_value", "floor", "format_string", "from_json", "get", "get_json_object", "graphs", "greatest",
    "hash64", "hour", "hypot", "iceberg", "ilike", "initcap", "instr", "interval", "isnan", "join_all", "kafka", "lag",
    "last", "last_day", "last_value", "lead", "least", "left", "length", "lit", "ln", "load", "local_spark", "locate",
    "log", "log1p", "log2", "log10", "lower", "lpad", "ltrim", "make_date", "max_by", "md5", "median", "min_by",
    "minute", "mode", "month", "monthname", "next_day", "nth_value", "ntile", "nullif", "overlay", "percent_rank",
    "percentile", "percentile_disc", "pi", "pmod", "postgres", "power", "quarter", "radians", "rank", "read_changelog",
    "read_csv", "read_json", "read_parquet", "read_state", "regexp_extract", "regexp_like", "regexp_replace",
    "register_changelog", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
    "regr_sxy", "regr_syy", "render", "repeat", "replace", "reverse", "right", "row_number", "rpad", "rtrim", "sec",
    "second", "session", "sha1", "sha2", "shiftleft", "shiftright", "shiftrightunsigned", "ship", "sign", "sin", "sinh",
    "size", "snapshot", "sort_array", "split", "split_part", "sqrt", "stddev", "stddev_pop", "string_agg", "struct",
    "substring", "substring_index", "tan", "tanh", "testing", "timestamp_micros", "timestamp_millis",
    "timestamp_seconds", "timestampadd", "timestampdiff", "to_date", "to_number", "to_timestamp", "translate", "trim",
    "trunc", "try_add", "try_divide", "try_element_at", "try_mod", "try_multiply", "try_subtract", "try_to_date",
    "try_to_number", "try_to_timestamp", "unbase64", "unhex", "unix_date", "unix_micros", "unix_millis", "unix_seconds",
    "upper", "var_pop", "variance", "weekday", "weekofyear", "when", "xxhash64", "year",
]  # fmt: skip

_NAMED_AS_BUILTINS = ("abs", "ascii", "chr", "hex", "list", "max", "min", "round", "slice", "sum")

if TYPE_CHECKING:
    from tidemill import testing
    from tidemill.algorithms import graphs
    from tidemill.renderer.diagram.why import Why
    from tidemill.renderer.reference import Reference
    from tidemill.renderer.spark.live import Spark
    from tidemill.renderer.spark.shipping import ship
    from tidemill.views.delta import delta
    from tidemill.views.duckdb_tables import duckdb
    from tidemill.views.files import files
    from tidemill.views.for_spark import register_changelog
    from tidemill.views.iceberg_tables import iceberg
    from tidemill.views.kafka_topics import kafka
    from tidemill.views.postgres_tables import postgres
    from tidemill.views.snapshots import snapshot
    from tidemill.views.views import Views

    # Public too, as type checkers have to know; but `from tidemill import *` must not shadow builtins.
    __all__ += ["abs", "ascii", "chr", "hex", "list", "max", "min", "round", "slice", "sum"]

_WHEN_ASKED_FOR = {  # not every program has a use for them, and a start is faster without
    "Reference": "renderer.reference",
    "Spark": "renderer.spark.live",
    "Views": "views.views",
    "Why": "renderer.diagram.why",
    "delta": "views.delta",
    "duckdb": "views.duckdb_tables",
    "files": "views.files",
    "graphs": "algorithms.graphs",
    "iceberg": "views.iceberg_tables",
    "kafka": "views.kafka_topics",
    "postgres": "views.postgres_tables",
    "register_changelog": "views.for_spark",
    "ship": "renderer.spark.shipping",
    "snapshot": "views.snapshots",
    "testing": "testing",
}
"""Modules, and what of theirs."""


if not TYPE_CHECKING:  # with it, type checkers would take every name for one of ours

    def __getattr__(name: str) -> _Any:
        if name not in _WHEN_ASKED_FOR:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = _import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}")
        return getattr(module, name, module)


def __dir__() -> tuple[str, ...]:  # what completion offers: none of the packages beneath
    return (*__all__, *_NAMED_AS_BUILTINS, "__version__")


def load_ipython_extension(ipython: object) -> None:
    """Make the magic ``%%tidemill`` known in a notebook: what ``%load_ext tidemill`` calls."""
    from tidemill.shell.magic import register  # noqa: PLC0415 - where it is asked for

    register(ipython)
