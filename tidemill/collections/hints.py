"""What those who know other libraries look for on a collection, and what there is for it here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidemill.errors import did_you_mean
from tidemill.expressions.expr import Expr
from tidemill.expressions.structure import output_name

_NO_ORDER: Final = (
    "a collection has no order: group_by(...).top_k(k, order_by=...) gives the first rows of groups, "
    "tm.row_number().over(tm.Window.order_by(...)) numbers them; sort what run.snapshot(...) gives"
)
_NO_ROWS: Final = (
    "a collection holds no rows itself: flow.output('name', it), then run.snapshot('name') of a run has them"
)
_HINTS: Final = {
    "select(...) or map_rows(function, schema)": ("map", "apply", "transform", "mapInPandas"),
    "flat_map(function, schema)": ("flatMap", "explode", "flatmap"),
    "with_columns(name=expression)": ("withColumn", "withColumns", "with_column", "assign", "mutate"),
    "rename(old='new')": ("withColumnRenamed", "withColumnsRenamed"),
    "filter(condition)": ("where", "query"),
    "filter('x IS NOT NULL')": ("dropna", "drop_nulls"),
    "fill_null(value)": ("fillna", "fillNull", "fill_nan"),
    "group_by(...)": ("groupby", "groupBy", "group"),
    "agg(total=tm.sum('x')), of all rows or of group_by(...)": ("aggregate", "sum", "min", "max", "avg", "mean"),
    "concat(other), and concat(other).distinct() for SQL's UNION": (
        "union", "unionAll", "union_all", "unionByName", "append", "vstack",
    ),
    "except_all(other), except_distinct(other)": ("subtract", "minus", "difference", "exceptAll"),
    "intersect(other)": ("intersection", "intersectAll"),
    "distinct()": ("dropDuplicates", "drop_duplicates", "unique", "deduplicate"),
    "join(other, on=...)": ("merge", "join_where", "left_join", "inner_join", "outer_join"),
    "semijoin(other, on=...)": ("semi_join", "leftsemi"),
    "antijoin(other, on=...)": ("anti_join", "leftanti"),
    "cross_join(other)": ("crossJoin", "product"),
    "select(s=tm.sum('x').over(tm.Window.partition_by('k').order_by('t')))": (
        "window", "over", "rolling", "expanding", "shift", "lag", "lead", "cumsum", "rank", "row_number",
    ),
    "arrange_by(key), an index that joins share; nothing is computed twice": ("cache", "persist", "checkpoint"),
    _NO_ORDER: (
        "sort", "sort_values", "orderBy", "order_by", "arrange", "limit", "head", "tail", "take", "first", "last",
        "top", "top_k", "nlargest", "nsmallest",
    ),
    _NO_ROWS: (
        "collect", "show", "to_pandas", "toPandas", "to_arrow", "toArrow", "to_polars", "to_list", "toLocalIterator",
        "execute", "fetch", "to_dict",
    ),
    "schema, and schema.names": ("columns", "dtypes", "printSchema", "names", "shape"),
}  # fmt: skip
_BY_NAME: Final = {name: hint for hint, names in _HINTS.items() for name in names}


def missing_attribute(of: object, name: str, columns: Iterable[str] = ()) -> AttributeError:
    """Return the error of an attribute that is not there, with what to use; ``columns`` are those of its rows.

    >>> import tidemill as tm
    >>> print(missing_attribute(tm.Dataflow().input("x", {"i": "int64"}), "groupby"))
    Collection has no 'groupby': here it is group_by(...)
    """
    hint: str
    if name in columns:
        hint = f"a column is written tm.col({name!r}), or {name!r} where an expression is expected"
    elif (found := _BY_NAME.get(name)) is not None:
        hint = found if found in {_NO_ORDER, _NO_ROWS} else f"here it is {found}"
    else:
        hint = did_you_mean(name, [n for n in dir(of) if not n.startswith("_")])
    return AttributeError(f"{type(of).__name__} has no {name!r}: {hint}")


def unnamed_aggregates(given: tuple[Any, ...]) -> str:
    """Return what is said of aggregates given without a name."""
    shown = ", ".join(map(repr, given))
    name = output_name(given[0]) if isinstance(given[0], Expr) else None
    hint = "agg(n=tm.count())" if name is None else f"agg({name}=...)"
    return f"agg({shown}): each aggregate needs a name, which is its column's: say it as in {hint}"
