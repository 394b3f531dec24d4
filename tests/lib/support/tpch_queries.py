"""The 22 queries of TPC-H, as the benchmarks have them."""

from benchmarks.workloads.tpch_queries import QUERIES

__all__ = ["QUERIES"]
