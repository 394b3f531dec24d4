"""Stable matching: one side applies, the other chooses, until nobody is refused any more."""

from __future__ import annotations

from tidemill.algorithms.graphs.edges import whole_number
from tidemill.collections.collection import Collection
from tidemill.collections.recursion import letrec
from tidemill.errors import SchemaError
from tidemill.expressions.sort_keys import asc

_WHAT = "stable_matching"


def stable_matching(
    wishes: Collection,
    *,
    a: str = "a",
    b: str = "b",
    a_order: str = "a_order",
    b_order: str = "b_order",
    places: int = 1,
) -> Collection:
    """Return a matching of ``a`` and ``b``, as (a, b), that no pair would both rather leave for each other.

    A wish says that the two may be matched, at what place the one has the other (``a_order``), and the other the one
    (``b_order``); less is better, and of those at the same place the lesser one is preferred. Each of ``a`` is matched
    to at most one of ``b``, each of ``b`` to at most ``places``. Of all stable matchings it is the one that is best for
    everybody of ``a``. The two may be of different types. A wish with NULL at an end is none, one with NULL for an
    order comes last; of two wishes of the same pair the first counts, by ``a_order``, then ``b_order``.

    Cost: an iteration for each time that somebody is refused because somebody else was; a change costs the applications
    that come out differently. (Gale and Shapley, *College admissions and the stability of marriage*, 1962.)

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> wishes = flow.input("wishes", {"student": "string", "school": "string", "choice": "int64", "grade": "int64"})
    >>> by = {"a": "student", "b": "school", "a_order": "choice", "b_order": "grade"}
    >>> flow.output("matches", tm.graphs.stable_matching(wishes, **by))
    >>> run = flow.start()
    >>> run.insert("wishes", [("Ann", "Art", 1, 2), ("Ann", "Law", 2, 1), ("Ben", "Art", 1, 1), ("Ben", "Law", 2, 2)])
    >>> run.advance()
    >>> list(run.snapshot("matches"))
    [('Ann', 'Law'), ('Ben', 'Art')]
    >>> run.delete("wishes", [("Ben", "Art", 1, 1)])
    >>> run.advance()
    >>> list(run.snapshot("matches"))
    [('Ann', 'Art'), ('Ben', 'Law')]
    """
    whole_number(places, "places", _WHAT)
    names = (a, b, a_order, b_order)
    for name in names:
        wishes.schema.index(name)
    if len(set(names)) < len(names):
        msg = f"{_WHAT}: columns {', '.join(names)}: name four different ones, by a=, b=, a_order= and b_order="
        raise SchemaError(msg)
    chosen = wishes.select(a=a, b=b, x=a_order, y=b_order).filter("a is not null", "b is not null").distinct()
    chosen = chosen.group_by("a", "b").top_k(1, order_by=[asc("x", nulls="last"), asc("y", nulls="last")])

    def applied(refused: Collection) -> Collection:
        left = chosen.antijoin(refused, on=["a", "b"])
        return left.group_by("a").top_k(1, order_by=[asc("x", nulls="last"), "b"])

    def taken(applications: Collection) -> Collection:
        return applications.group_by("b").top_k(places, order_by=[asc("y", nulls="last"), "a"])

    with letrec(wishes.builder, _WHAT, error_at=None) as rec:
        refused = rec.declare("refused", chosen.select("a", "b").schema)
        applications = applied(refused)
        lost = applications.antijoin(taken(applications), on=["a", "b"]).select("a", "b")
        rec.define("refused", refused.concat(lost).distinct())
    return applied(rec["refused"]).select("a", "b")
