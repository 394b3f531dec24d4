"""What tidemill costs, next to recomputing with DuckDB and to Pathway. Run with ``python -m benchmarks``."""
