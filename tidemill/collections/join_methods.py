"""A collection's methods that put another one beside it: joins, comparisons, set operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from tidemill.collections import joins
from tidemill.collections import set_operations as relational
from tidemill.collections.base import CollectionBase
from tidemill.collections.dynamic_filters import Monotone, dynamic_filter

if TYPE_CHECKING:
    from tidemill.collections.collection import Collection

__all__ = ["JoinKind", "JoinMethods"]

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class JoinMethods(CollectionBase):
    """Methods of `Collection`."""

    def join(
        self,
        other: Collection,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: JoinKind = "inner",
        suffix: str = "_right",
        where: Any = None,
        nulls_equal: bool = False,
    ) -> Collection:
        """Return the pairs of rows with equal keys: the left columns, then the right ones without the right keys.

        ``on`` is a column, a list of them, or a mapping left -> right. Clashing names on the right get ``suffix``.
        ``where`` adds any further condition on the pair; with ``on=[]`` it is all there is. A NULL key matches nothing
        unless ``nulls_equal``. Counts multiply, and times are joined. ``how`` is

        - inner: the pairs alone;
        - left, right, full: also rows of that side, or of both, without a partner, NULL in the other's columns; the
          key columns hold the key of whichever row there is;
        - semi, anti: left rows with, or without, a partner of positive count; each with its own count.

        Cost: an arrangement of each side, shared; a change costs its matches.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), ("XX", "SFO")])
        >>> airlines = flow.constant({"code": "string", "name": "string"}, [("UA", "United"), ("AA", "American")])
        >>> flow.output("named", flights.join(airlines, on={"carrier": "code"}, how="full"))
        >>> flow.start().snapshot("named")
        carrier  dest  name
        -------  ----  --------
        AA       NULL  American
        UA       LAX   United
        XX       SFO   NULL
        """
        right = self.builder.own(other, "join")
        return joins.join(self._itself, right, on=on, how=how, suffix=suffix, where=where, nulls_equal=nulls_equal)

    def semijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows with a partner of positive count in ``other``, each with its own count.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), ("XX", "SFO")])
        >>> airlines = flow.constant({"carrier": "string"}, [("UA",), ("UA",)])
        >>> flow.output("known", flights.semijoin(airlines, on="carrier"))
        >>> list(flow.start().snapshot("known"))
        [('UA', 'LAX')]
        """
        return self.join(other, on=on, how="semi", nulls_equal=nulls_equal)

    def antijoin(self, other: Collection, *, on: Any, nulls_equal: bool = False) -> Collection:
        """Return the rows without a partner of positive count in ``other``, each with its own count.

        Unless ``nulls_equal``, a row with NULL in its key has no partner and so is among them (SQL's NOT EXISTS).

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> flights = flow.constant({"carrier": "string", "dest": "string"}, [("UA", "LAX"), (None, "SFO")])
        >>> airlines = flow.constant({"carrier": "string"}, [("UA",), (None,)])
        >>> flow.output("unknown", flights.antijoin(airlines, on="carrier"))
        >>> list(flow.start().snapshot("unknown"))
        [(None, 'SFO')]
        """
        return self.join(other, on=on, how="anti", nulls_equal=nulls_equal)

    def cross_join(self, other: Collection, *, suffix: str = "_right") -> Collection:
        """Return all pairs of rows, counts multiplied.

        Cost: every change meets the whole other side; a range of it where a filter like ``x < y`` of plain columns
        follows, on the embedded engine outside of loops.
        """
        return joins.cross_join(self._itself, self.builder.own(other, "cross_join"), suffix)

    @overload
    def dynamic_filter(
        self, column: str, comparison: str, right: Collection, /, *, monotone: Monotone | None = None
    ) -> Collection: ...

    @overload
    def dynamic_filter(
        self, conditions: Sequence[tuple[str, str, str]], right: Collection, /, *, monotone: Monotone | None = None
    ) -> Collection: ...

    def dynamic_filter(self, *condition: Any, monotone: Monotone | None = None) -> Collection:
        """Return the rows with ``column`` as it is to compare with the one value of ``right``: = <> < <= > or >=.

        ``right`` is a collection of at most one row, such as an aggregate without keys; two are an error when the time
        closes. Where it has one column, that is compared with. For several conditions at once, each a tuple of a column
        of these rows, a comparison and a column of ``right``, give a list of them. Nothing passes while there is no
        right row, and a NULL on either side compares with nothing.

        ``monotone`` declares that the right values only ever rise ("increasing") or fall ("decreasing"), as a max over
        what is only inserted does: rows that they have passed are not kept then, and values that go back are an error.
        That is where rows are kept in order, as said below; elsewhere it changes nothing, and goes unchecked.

        Cost: the rows between the old value and the new, where times are of one coordinate, outside of loops, on the
        embedded engine; the rows are kept in order of each column that is compared. Else every change of the right side
        meets all rows.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> bids = flow.input("bids", {"who": "string", "amount": "int64"})
        >>> flow.output("above", bids.dynamic_filter("amount", ">", bids.agg(mean=tm.avg("amount"))))
        >>> with flow.start() as run:
        ...     run.insert("bids", [("ann", 10), ("ben", 20), ("cem", 30)])
        ...     run.advance()
        ...     run.insert("bids", [("dot", 100)])
        ...     run.advance()
        ...     run.changes("above")
        who  amount  time  diff
        ---  ------  ----  ----
        cem  30      0     +1
        cem  30      1     -1
        dot  100     1     +1
        """
        return dynamic_filter(self._itself, condition, monotone)

    def arrange_by(self, *keys: str) -> Collection:
        """Return the same collection, indexed by key; all joins and reduces on that key share the one index."""
        positions = tuple(self.schema.index(k) for k in keys)
        return self.builder.collection(self.builder.arrange(self.node, positions))

    def except_all(self, other: Collection) -> Collection:
        """Return the rows with their counts in ``other`` subtracted, never below 0 (SQL's EXCEPT ALL)."""
        return relational.except_all(self._itself, self.builder.own(other, "except_all"))

    def except_distinct(self, other: Collection) -> Collection:
        """Return once each row that is here and not in ``other`` (SQL's EXCEPT). NULL equals NULL."""
        return relational.except_distinct(self._itself, self.builder.own(other, "except_distinct"))

    def intersect(self, other: Collection) -> Collection:
        """Return once each row that is both here and in ``other`` (SQL's INTERSECT). NULL equals NULL."""
        return relational.intersect(self._itself, self.builder.own(other, "intersect"))
