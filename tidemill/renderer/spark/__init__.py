"""The Spark renderer: dataflows as DataFrames, for data beyond one machine.

Only the public DataFrame API is used, so it runs over Spark Connect as well. Native expressions, joins and aggregations
where Spark means the same; where it does not, or where the logic of times asks for it, the embedded engine's own
kernels run in the executors, on whole partitions at a time.
"""
