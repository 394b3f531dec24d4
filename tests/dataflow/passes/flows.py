"""Small dataflows, each with something for a pass to do: from two inputs of (k, v) to a collection."""

import tidemill as tm
from tidemill.collections.recursion import letrec


def hop(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


def triangles(a, b):
    """Return the triangles that an edge of one collection closes with two of another."""
    return a.join(b.select(v="k", w="v"), on="v").join(b.select(k="v", w="k"), on=["k", "w"])


def two_hops(a, b):
    return hop(hop(a, b), a)


def last(key, rows):
    return [((*key, rows[-1][0][0]), 1)]


def doubled(row):
    return [row, row]


def tripled(row):
    return [row, row, row]


def with_steady_binding(a, b):
    """A binding of a block that does not change in it, looked up by those that do."""
    with letrec(a.builder, error_at=9) as block:
        paths = block.declare("paths", a.schema)
        edges = block.declare("edges", b.schema)
        block.define("edges", b)
        kept = edges.filter("v > 0").select("k", x="v")
        block.define("paths", a.concat(paths.join(kept, on={"v": "k"}).select("k", v="x")).distinct())
    return block["paths"]


def less_and_joined(less, b):
    return hop(less, b).concat(less)


def near(rows, where):
    return rows.join(rows, on="k", where=where).group_by("k", "v")


K = tm.Window.partition_by("k")
BY_REST = tm.Window.partition_by("k", tm.expr("v % 2"))
W = K.order_by("v")


def wide(a, b):
    """Rows each there once, all of whose columns break ties."""
    return a.distinct().join(b.distinct().select(v="k", x="v", y="v % 3"), on="v")


def numbered(rows, ranking):
    return rows.distinct().with_columns(n=ranking.over(W))


def with_steady_joins(a, b):
    """Bindings of a block of which one is made of what enters it, by a join, a group and distinct."""
    with letrec(a.builder, error_at=99) as block:
        paths = block.declare("paths", a.schema)
        edges = block.declare("edges", b.schema)
        block.define("edges", b.concat(a.select(k="v", v="k")))
        wide = hop(edges, b).distinct().group_by("k").agg(v=tm.max("v")).concat(edges.select("k", v="v + 1"))
        block.define("paths", a.concat(paths.join(wide, on={"v": "k"}).select("k", v="v_right")).distinct())
    return block["paths"]


def doubled_again(rows, times):
    for _ in range(times):
        rows = rows.concat(rows.select("k", v="v"))
    return rows


FLOWS = {
    "remove_duplicates": {
        "semijoins with the same keys": lambda a, b: (
            a.semijoin(b, on="k").concat(b.semijoin(b, on="k"), a.antijoin(b, on="k"))
        ),
        "entered twice": lambda a, b: a.iterate(
            lambda here: here.concat(b.filter("v > 1"), b.filter("v > 1")).distinct(), error_at=9
        ),
        "composites": lambda a, b: (
            a.join(b, on="k", how="left").concat(a.join(b, on="k", how="left"), a.join(b, on="k", how="right"))
        ),
        "other functions stay apart": lambda a, b: (
            a.flat_map(doubled, a.schema).concat(
                a.flat_map(doubled, a.schema), a.flat_map(tripled, a.schema)
            )
        ),
    },
    "frame_self_joins": {
        "a band": lambda a, b: near(a.distinct(), "v_right between v - 2 and v").agg(n=tm.count(), s=tm.sum("v_right")),
        "a band without the row": lambda a, b: near(a.distinct(), "v_right < v").agg(m=tm.max("v_right")),
        "groups of several rows": lambda a, b: (
            near(a.cross_join(b).distinct().select("k", v="v_right"), "v_right >= v")
            .agg(n=tm.count(), m=tm.avg("v_right"))
        ),
        "not of rows with copies": lambda a, b: near(a, "v_right < v").agg(n=tm.count()),
        "not of two collections": lambda a, b: (
            a.distinct().join(b.distinct(), on="k", where="v_right < v").group_by("k", "v").agg(n=tm.count())
        ),
    },
    "push_filters": {
        "below a map": lambda a, b: a.select(x="k", y="v + 1").filter("x > 1"),
        "not what the map works out": lambda a, b: a.select(x="k", y="v + 1").filter("y > 1"),
        "below a join": lambda a, b: a.join(b, on="k").filter("v > 1 AND v_right < 2 AND (v = 2 OR v_right = 0)"),
        "below a join, by keys on both sides": lambda a, b: (
            b.join(numbered(a, tm.row_number()), on={"v": "n"}).filter("v <= 2 AND k > 0").select("k", "v", n="v_right")
        ),
        "not where others look up": lambda a, b: a.join(b, on="k").filter("v > 1").concat(hop(a, b.rename(k="v", v="k"))
                                                  .join(a, on="k").select("k", "v", v_right="v")),
        "not what can fail": lambda a, b: a.join(b, on="k").filter("2 / (v - 9) < 1"),
        "below all that is linear": lambda a, b: (
            a.concat(b.negate()).consolidate().delay(1).distinct().filter("k IS NOT NULL")
        ),
        "below a left join, for the left": lambda a, b: (
            a.join(b, on="k", how="left").filter("v > 1 AND v_right < 2 AND k <> 3 AND (v = 2 OR v_right = 0)")
        ),
        "below a right join, for the right": lambda a, b: (
            a.join(b, on="k", how="right").filter("v > 1 AND v_right < 2 AND k <> 3")
        ),
        "not below a full join": lambda a, b: a.join(b, on="k", how="full").filter("v > 1 AND v_right < 2 AND k <> 3"),
        "below semijoins and antijoins": lambda a, b: (
            a.semijoin(b, on="k").antijoin(b.select("v"), on="v").filter("k < v")
        ),
        "not below joins of what others look up in": lambda a, b: (
            a.semijoin(b, on="k").filter("v > 1").concat(a.join(b, on="k", how="left").filter("v > 1").select("k", "v"))
        ),
        "not below a join if it can fail": lambda a, b: a.semijoin(b, on="k").filter("2 / (v - 9) < 1"),
        "below set operations": lambda a, b: a.except_all(b).intersect(b).except_distinct(a).filter("v > 1"),
        "below groups, for their keys": lambda a, b: (
            a.distinct().group_by("k").top_k(2, order_by="v").filter("k > 1 AND v > 1")
            .concat(b.group_by("k", x="v + 1").agg(v=tm.sum("v")).filter("k > 1 AND x > 1 AND v > 1").select("k", "v"))
        ),
        "not below all rows": lambda a, b: (
            a.agg(k=tm.count(), v=tm.sum("k")).filter("k > 1").filter("1 > 2")
            .concat(a.distinct().group_by().top_k(1, order_by="v").filter("v > 1"))
        ),
        "not below groups that others read": lambda a, b: (
            (sums := a.group_by("k").agg(v=tm.sum("v"))).filter("k > 1").concat(sums)
        ),
        "out of a loop": lambda a, b: a.iterate(
            lambda here: hop(here, b).concat(b).filter("k <> v").concat(a).distinct(), error_at=9
        ),
    },
    "limit_ranks": {
        "row numbers": lambda a, b: (
            numbered(a, tm.row_number()).filter("n <= 2").concat(numbered(b, tm.row_number()).filter("3 > n + 1 AND v > 0"))
        ),
        "ranks": lambda a, b: numbered(a, tm.rank()).filter("n = 1").concat(numbered(b, tm.dense_rank()).filter("-n > -3")),
        "with others that look back": lambda a, b: (
            a.distinct().with_columns(
                n=tm.row_number().over(W), p=tm.lag("v").over(W), s=tm.sum("v").over(W.rows_between(-1, 0))
            ).filter("n < 3").select("k", v="p + s")
        ),
        "not with others that look ahead": lambda a, b: (
            a.distinct().with_columns(n=tm.rank().over(W), p=tm.lead("v").over(W)).filter("n < 3").select("k", v="p")
        ),
        "bounds however they are written": lambda a, b: (
            numbered(a, tm.row_number()).filter("n IN (1, 2)").concat(
                numbered(a, tm.rank()).filter("NOT n > 2"), numbered(b, tm.row_number()).filter("n = 1 OR v < 1 AND n < 2.5"),
                numbered(b, tm.rank()).filter("n * 2 <= 4"), numbered(a, tm.dense_rank()).filter("n BETWEEN 2 AND 3"),
            )
        ),
        "in a later select": lambda a, b: (
            numbered(a, tm.row_number()).select("k", "v", first="n <= 2 AND v > 0", m="5 - 2 * n").filter("first")
            .filter("m >= 1").select("k", "v")
        ),
        "not where one way has no bound": lambda a, b: numbered(a, tm.row_number()).filter("n = 1 OR v = 1"),
        "not from below": lambda a, b: numbered(a, tm.row_number()).filter("n > 1"),
        "not what others read": lambda a, b: (n := numbered(a, tm.row_number())).filter("n = 1").concat(n.filter("n > 2")),
    },
    "group_whole_partitions": {
        "aggregates": lambda a, b: a.distinct().with_columns(
            s=tm.sum("v").over(K), n=tm.count().filter("v > 1").over(K), m=tm.count("v").over(K, distinct=True),
            l=tm.list("v").over(K),
        ),
        "of distinct values": lambda a, b: a.distinct().with_columns(
            n=tm.count("v").over(K), s=tm.sum("v").over(K, distinct=True), m=tm.avg("v").over(K, distinct=True),
            d=tm.sum("k").over(K, distinct=True),
        ),
        "the first and the last": lambda a, b: a.distinct().with_columns(
            f=tm.first_value("v").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
            l=tm.last_value("v").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
        ),
        "beside others": lambda a, b: a.distinct().with_columns(
            p=tm.lag("v").over(W), m=tm.max("v").over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)), r=tm.rank().over(W)
        ),
        "not where a strategy was asked for": lambda a, b: a.distinct().with_columns(
            s=tm.sum("v").over(K, strategy="recompute")
        ),
        "of one partition": lambda a, b: a.distinct().with_columns(
            s=tm.sum("v").over(tm.Window()), n=tm.count().over(tm.Window()), m=tm.sum("k").over(tm.Window(), distinct=True)
        ),
        "of partitions by expressions, beside others": lambda a, b: a.distinct().with_columns(
            p=tm.lag("v").over(BY_REST.order_by("v")), m=tm.max("v").over(BY_REST), d=tm.avg("k").over(BY_REST, distinct=True),
        ),
        "the first and the last that are not NULL": lambda a, b: a.distinct().with_columns(
            f=tm.first_value("v", ignore_nulls=True).over(W.rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
            l=tm.last_value("v", ignore_nulls=True).over(tm.Window.order_by("k").rows_between(tm.UNBOUNDED, tm.UNBOUNDED)),
        ),
    },
    "prune_columns": {
        "of a dynamic filter": lambda a, b: (
            a.join(b, on="k").dynamic_filter([("v", ">", "m"), ("v", "<>", "n")], b.agg(n=tm.min("v"), m=tm.max("k")))
            .select("k", v="k")
        ),
        "before arrangements": lambda a, b: (
            a.with_columns(x="k", y="v").join(b.with_columns(z="v"), on="k").select("k", w="z")
        ),
        "of all who look up": lambda a, b: (
            (wide := a.with_columns(x="k", y="v", z="v")).join(b, on="k").select("x", "v_right")
            .concat(wide.join(b.rename(k="y"), on="y").select(x="z", v_right="v"))
        ),
        "through what is linear": lambda a, b: (
            a.with_columns(x="v").concat(b.with_columns(x="k")).negate().filter("x > 0").select("k")
        ),
        "calls that nobody reads": lambda a, b: (
            wide(a, b).with_columns(n=tm.row_number().over(W), s=tm.sum("v").over(K), m=tm.max("x").over(K.order_by("x")))
            .select("k", v="m").concat(numbered(a, tm.rank()).select("k", "v"))
        ),
        "of windows over orders without ties": lambda a, b: (
            wide(a, b).with_columns(s=tm.sum("v").over(K.order_by("x", "v").rows_between(-1, 0))).select("k", v="s")
        ),
        "of windows, the hash in their place": lambda a, b: (
            wide(a, b).with_columns(s=tm.lag("k").over(tm.Window.partition_by("v").order_by("k"))).select("k", v="s")
            .concat(wide(a, b).with_columns(p=tm.lag("v").over(tm.Window.order_by("k"))).select("k", v="p"))
        ),
        "of windows, ties alike": lambda a, b: (
            wide(a, b).with_columns(n=tm.row_number().over(W), p=tm.lag("v").over(W)).select("k", v="n + p")
        ),
        "not of windows, the last to tell rows apart": lambda a, b: (
            wide(a, b).with_columns(p=tm.lag("y").over(tm.Window.order_by("k"))).select("k", v="p")
        ),
        "of first rows": lambda a, b: (
            wide(a, b).group_by("k").top_k(2, order_by=["x", "v"]).select("k", "v")
            .concat(wide(a, b).group_by("k").top_k(2, order_by="v").select("k", "v"))
            .concat(wide(a, b).group_by("k").top_k(2, order_by="y").select("k", v="x"))
        ),
        "aggregates": lambda a, b: (
            wide(a, b).group_by("k", "v").agg(s=tm.sum("x"), m=tm.max("y"), l=tm.first("x", order_by="y")).select("k", v="s")
            .concat(a.group_by("k", "v").agg(s=tm.sum("k"), n=tm.count()).select("k", v="k"))
        ),
        "through joins with partners": lambda a, b: (
            numbered(a, tm.row_number()).join(b.with_columns(w="v"), on="k", how="left").select("k", v="w")
            .concat(numbered(a, tm.row_number()).with_columns(v_right="n").antijoin(numbered(b, tm.rank()), on="k")
                    .select("k", v="v_right"))
        ),
        "what a loop works out for itself": lambda a, b: (
            a.with_columns(x="v", y="k").iterate(
                lambda here: here.group_by("k").agg(v=tm.max("v"), x=tm.min("x"), y=tm.min("y"))
                .join(b, on={"v": "k"}).select("k", v="v_right", x="x + y", y="y").concat(a.with_columns(x="v", y="k")),
                return_at=4,
            ).select("k", "v")
        ),
        "not before distinct or a function": lambda a, b: (
            a.distinct().select("k").concat(b.flat_map(lambda r: [(r.v,)], {"k": "int64"}))
        ),
    },
    "fuse_linear": {
        "maps": lambda a, b: a.select(x="v", y="k").select(p="x * 2", q="y").select(r="q", s="p"),
        "not if worked out twice": lambda a, b: a.select(x="k * v").select(y="x + 1", z="x"),
        "not if both can fail": lambda a, b: a.select(x="10 DIV v").select(y="10 DIV x"),
        "filters": lambda a, b: a.filter("k > 0", "v > 0", "2 DIV v = 1", "k < 9"),
        "into a join": lambda a, b: a.join(b, on="k").select("v_right", "k").select(x="k", y="v_right"),
        "what changes nothing": lambda a, b: a.select("k", "v").concat(b.negate().negate()).concat(a.concat(b)),
    },
    "drop_consolidations": {
        "after": lambda a, b: a.distinct().filter("k > 0").consolidate().select(x="k + v"),
        "before": lambda a, b: a.select("k").consolidate().concat(b.select("k")).distinct(),
        "not before a map": lambda a, b: a.concat(b.negate()).consolidate().select(x="k + v"),
    },
    "filter_by_one_row": {
        "above the mean": lambda a, b: a.cross_join(b.agg(m=tm.avg("v"))).filter("v > m").select("k", v="v + 1"),
        "between two values, and of the rows": lambda a, b: (
            a.cross_join(b.agg(low=tm.min("v"), high=tm.max("v")).select(l="low", h="high"))
            .filter("v >= l AND h > v AND k <> v").select("k", "v")
        ),
        "the one row on the left": lambda a, b: (
            b.group_by().top_k(1, order_by="v").rename(k="x", v="y").cross_join(a).filter("y <= v").select("k", "v")
        ),
        "not where the one row is shown": lambda a, b: (
            a.cross_join(b.agg(m=tm.max("v"))).filter("v > m").select("k", v="m")
        ),
        "not of many rows": lambda a, b: a.cross_join(b.rename(k="x", v="y")).filter("v > y").select("k", "v"),
        "not what may fail": lambda a, b: a.cross_join(b.agg(m=tm.max("v"))).filter("v > m + 1").select("k", "v"),
    },
    "join_by_range": {
        "less than": lambda a, b: a.cross_join(b).filter("v < v_right").select("k", v="k_right"),
        "from the right, and further": lambda a, b: (
            a.join(b, on=[], where="v_right <= v AND k <> k_right AND v < 9").select("k", v="v_right")
        ),
        "not what is worked out": lambda a, b: a.cross_join(b).filter("v + 1 < v_right").select("k", "v"),
        "by key": lambda a, b: a.join(b, on="k", where="v < v_right").select("k", "v").agg(k=tm.min("k"), v=tm.count()),
        "by keys, NULLs equal, and further": lambda a, b: (
            a.with_columns(w="v").join(
                b.with_columns(w="k"), on={"k": "k", "v": "w"}, where="w >= v_right AND v <> v_right", nulls_equal=True
            ).select("k", v="w")
        ),
        "of a collection with itself": lambda a, b: a.join(a, on="k", where="v < v_right").select("v", k="v_right"),
        "pairs of a left join": lambda a, b: (
            a.join(b, on="k", how="left", where="v < v_right").select("k", v="v_right")
        ),
        "not where others have an arrangement": lambda a, b: (
            a.join(b, on="k", where="v < v_right").select("k", "v").concat(a.join(b, on="k").select("k", v="v_right"))
        ),
        "not where one arrangement would become two indexes": lambda a, b: (
            (wide := a.with_columns(w="k + v")).join(wide, on="k", where="v < w_right").select("k", "v")
        ),
        "not where no key is there twice": lambda a, b: (
            a.group_by("k").agg(v=tm.min("v")).join(b.group_by("k").agg(v=tm.max("v")), on="k", where="v < v_right")
            .select("k", "v")
        ),
    },
    "join_by_deltas": {
        "three by the same column": lambda a, b: (
            a.join(b, on="k").join(a.filter("v > 0"), on="k", suffix="_too").select("k", v="v + v_right * v_too")
        ),
        "by an arrangement that another join has": lambda a, b: two_hops(a, b).concat(b.join(a, on="v").select("k", "v")),
        "from both sides, and columns between": lambda a, b: (
            hop(a, b).join(b.join(a, on="k").select("k", v="v_right"), on="k").select("k", v="v_right - v")
        ),
        "a part, where the whole has not all": lambda a, b: (
            a.join(b, on="k").join(b, on="k", suffix="_too").join(a, on={"v_too": "v"}).select("k", "v")
        ),
        "a circle, though arrangements are to be made": lambda a, b: triangles(a, a).select("k", "v"),
        "not a circle of different collections": lambda a, b: triangles(a, b).select("k", "v"),
        "not a circle whose keys are there once": lambda a, b: (
            triangles(*[a.distinct().group_by("v").agg(k=tm.max("k"))] * 2).select("k", "v")
        ),
        "not two keys of which one side has both": lambda a, b: (
            a.join(b, on={"v": "k"}, suffix="_b").join(b, on={"v_b": "v", "v": "k"}, suffix="_c").select("k", "v")
        ),
        "NULLs equal": lambda a, b: (
            a.join(b, on="k", nulls_equal=True).join(a, on="k", suffix="_too", nulls_equal=True).select("k", "v")
        ),
        "not where an arrangement would have to be made": two_hops,
        "not what others read": lambda a, b: less_and_joined(a.join(b, on="k").select("k", "v"), b),
        "not NULLs equal for one of them": lambda a, b: (
            a.join(b, on="k").join(a, on="k", suffix="_too", nulls_equal=True).select("k", "v")
        ),
        "not with a condition between": lambda a, b: (
            a.join(b, on="k").filter("v < v_right").join(a, on="k", suffix="_too").select("k", "v").concat(two_hops(a, b))
        ),
        "not two columns of one that are to be equal": lambda a, b: (
            a.join(b, on="k").join(b, on={"k": "k", "v": "k"}, suffix="_too").select("k", "v")
        ),
        "not in a loop": lambda a, b: (
            two_hops(a, b).iterate(
                lambda here: here.join(b, on="k").join(b, on="k", suffix="_too").select("k", "v").concat(a).distinct(),
                error_at=9,
            )
        ),
    },
    "group_each_side": {
        "aggregates of both sides": lambda a, b: (
            a.join(b, on="k").group_by("k").agg(n=tm.count(), s=tm.sum("v_right"), m=tm.max("v")).select("k", v="m + s + n")
        ),
        "of no keys": lambda a, b: a.join(b, on="k").agg(k=tm.min("v"), v=tm.count_distinct("v_right")),
        "a count, where others read the arrangements": lambda a, b: (
            a.join(b, on="k").group_by("k").agg(v=tm.count()).concat(
                a.join(b.filter("v > 1"), on="k").select("k", v="v_right + v"),
                b.join(a.filter("v > 1"), on="k").select("k", v="v_right - v"),
            )
        ),
        "by columns of one side": lambda a, b: (
            a.join(b, on="k").group_by("v").agg(k=tm.count()).concat(
                b.join(a.filter("v > 1"), on="k").select("k", v="v_right - v")
            )
        ),
        "not where keys are there once": lambda a, b: (
            a.join(b.distinct().group_by("k").agg(w=tm.max("v")), on="k").group_by("k").agg(v=tm.sum("v"), w=tm.max("w"))
            .select("k", v="v + w")
        ),
        "not one of both sides": lambda a, b: a.join(b, on="k").group_by("k").agg(v=tm.sum("v * v_right")),
        "not by columns of a side beside the other's": lambda a, b: (
            a.join(b, on="k").group_by("v").agg(k=tm.sum("v_right"))
        ),
        "not in an order": lambda a, b: (
            a.join(b, on="k").group_by("k").agg(v=tm.first("v", order_by="v_right"), w=tm.max("v_right")).select("k", "v")
        ),
        "not where nobody else reads the arrangements": lambda a, b: a.join(b, on="k").group_by("k").agg(v=tm.sum("v")),
    },
    "join_once": {
        "left, the right a group": lambda a, b: (
            a.join(b.group_by("k").agg(s=tm.sum("v")).filter("s > 1").select("s", k="k"), on="k", how="left")
            .select("k", v="s")
        ),
        "semi and anti, the right distinct": lambda a, b: (
            a.semijoin(b.distinct(), on=["k", "v"]).concat(a.antijoin(b.group_by("k").top_k(1, order_by="v"), on="k"))
        ),
        "right and full, both told apart": lambda a, b: (
            a.group_by("k").agg(x=tm.min("v")).join(b.group_by("k").agg(v=tm.max("v")), on="k", how="full")
            .concat(a.group_by("k").agg(x=tm.min("v")).join(b, on="k", how="right")).select("k", v="x + v")
        ),
        "the first of each": lambda a, b: (
            a.join(b.with_columns(n=tm.row_number().over(W)).filter("n = 1"), on="k", how="left").select("k", v="n")
        ),
        "with a condition": lambda a, b: (
            a.distinct().join(b.group_by("k").agg(s=tm.sum("v")), on="k", how="left", where="v < s").select("k", v="s")
        ),
        "not with a condition where rows may have copies": lambda a, b: (
            a.join(b.group_by("k").agg(s=tm.sum("v")), on="k", how="left", where="v < s").select("k", v="s")
        ),
        "not by less than what tells rows apart": lambda a, b: (
            a.antijoin(b.distinct(), on="k")
        ),
    },
    "consolidate_unions": {
        "left joins": lambda a, b: (
            a.join(b.rename(v="x"), on="k", how="left").join(b.rename(v="y"), on="k", how="left")
            .select("k", v="x + y")
        ),
        "the last of antijoins is left to the output": lambda a, b: a.antijoin(b, on="k").antijoin(b, on=["k", "v"]),
        "several readers have an arrangement": lambda a, b: (
            less_and_joined(a.concat(b.negate()), b)
        ),
        "in a loop": lambda a, b: a.iterate(
            lambda here: hop(here.concat(b.negate()).filter("v > 0"), b).concat(a).distinct(), error_at=9
        ),
        "a collection with itself, again and again": lambda a, b: doubled_again(a, 6),
        "not a few times, nor parts of one": lambda a, b: (
            doubled_again(a, 3).concat(c := b.concat(*(b.filter(f"v = {i}") for i in range(12))), c.filter("k > 0"))
        ),
        "not what one reader consolidates": lambda a, b: a.concat(b.select("k", "v").negate()).negate().distinct(),
    },
    "drop_null_keys": {
        "of joins": lambda a, b: hop(a, b).antijoin(b, on="v"),
        "rows without a partner go round": lambda a, b: (
            a.join(b.group_by("k").agg(s=tm.sum("v")), on="k", how="full").select("k", v="s")
        ),
        "in a loop": lambda a, b: a.iterate(lambda here: hop(here, b).concat(a).distinct(), error_at=9),
        "not where others look up": lambda a, b: (
            hop(a, b).concat(b.arrange_by("k").group_by("k").reduce(last, b.schema))
        ),
        "not where NULL equals NULL": lambda a, b: a.join(b, on="k", nulls_equal=True).select("k", v="v_right"),
        "not keys that are never NULL": lambda a, b: (
            a.group_by("v").agg(k=tm.count()).join(b.group_by("v").agg(k=tm.count()), on="k").select("k", "v")
        ),
    },
    "lower": {
        "joins": lambda a, b: (
            a.join(b, on="k", how="full", where="v < v_right").select("k", "v")
            .concat(a.join(b.rename(v="x"), on="k", how="left").select("k", v="x"))
        ),
        "set operations": lambda a, b: a.except_all(b).concat(a.intersect(b), b.except_distinct(a)),
        "groups": lambda a, b: (
            a.distinct().group_by("k").top_k(2, order_by=tm.desc("v"))
            .concat(b.group_by("k").agg(v=tm.count_distinct("v"), s=tm.sum("v"), n=tm.count()).select("k", "v"))
        ),
        "in a loop": lambda a, b: a.iterate(
            lambda here: hop(here, b).concat(a).antijoin(b.filter("v > 3"), on="k").distinct(), error_at=9
        ),
    },
    "share_arrangements": {
        "out of a loop": with_steady_binding,
        "joins and groups out of a loop": with_steady_joins,
        "nobody looks up": lambda a, b: a.arrange_by("k").filter("k > 0").concat(b.arrange_by("v").negate()),
        "of a group": lambda a, b: a.arrange_by("v").group_by("k").reduce(last, a.schema),
    },
}  # fmt: skip
