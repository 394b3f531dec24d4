"""Partitions kept in their order, however small; and what was worked out in order."""

from support.window_fixtures import at_once, few_are_many, in_order, looked_at, small_is_large

__all__ = ["at_once", "few_are_many", "in_order", "looked_at", "small_is_large"]
