"""Window calls by sums over an order: their rendering as dataflows in which a change costs what it changes.

`orders` cuts the rows of partitions into blocks, in the order of their peer groups and in one that tells all rows
apart; `bounds` and `ranges` say between which places the frames lie; `summaries` which sums calls are; `places` has the
calls that ask where a row is, or for the row some way off; `rendering` puts all together. Calls whose sums would hold
all that their frames do are computed whole: see `holds_its_frame`.
"""
