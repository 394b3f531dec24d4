"""Tables of orders as views read them, and refreshes that end in the middle."""

import pyarrow as pa

ORDERS = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}


def orders(*rows):
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS)


class Cut(BaseException):
    """What ends a refresh in the middle, as a kill would."""


def cut(monkeypatch, owner, name, *, after):
    """Have a method end the refresh, before or after it has done its work."""
    whole = getattr(owner, name)

    def ends(*given, **named):
        if after:
            whole(*given, **named)
        raise Cut

    monkeypatch.setattr(owner, name, ends)
