"""Dataflow graphs written with the public Collection API."""

from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.interval_sum import interval_sum
from tidemill.algorithms.prefix_sums.offset_search import offset_search
from tidemill.algorithms.prefix_sums.order_index import order_index, unique_index
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, block_sums, order_sums
from tidemill.algorithms.prefix_sums.prefix_sum import prefix_sum
from tidemill.algorithms.prefix_sums.routing import BlockShape

__all__ = [
    "BlockShape",
    "OrderSums",
    "block_sums",
    "combine",
    "interval_sum",
    "offset_search",
    "order_index",
    "order_sums",
    "prefix_sum",
    "unique_index",
]
