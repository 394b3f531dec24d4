"""Dataflow graphs written with the public Collection API."""

from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.order_sums import OrderSums, order_sums
from tidemill.algorithms.prefix_sums.prefix_sum import prefix_sum
from tidemill.algorithms.prefix_sums.routing import BlockShape

__all__ = ["BlockShape", "OrderSums", "combine", "order_sums", "prefix_sum"]
