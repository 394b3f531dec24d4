"""Dataflow graphs written with the public Collection API."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
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

_ELSEWHERE = {
    "BlockShape": "prefix_sums.routing",
    "OrderSums": "prefix_sums.order_sums",
    "block_sums": "prefix_sums.order_sums",
    "combine": "combine",
    "unique_index": "prefix_sums.order_index",
}
"""Of other names, in ``prefix_sums`` a module of the same name."""


if not TYPE_CHECKING:  # see tidemill

    def __getattr__(name: str) -> _Any:  # most programs have no use for them, and a start is faster without
        if name not in __all__:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = _import_module(f"{__name__}.{_ELSEWHERE.get(name, f'prefix_sums.{name}')}")
        return getattr(module, name, module)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
