"""Scalar expressions over Arrow columns: a bound tree becomes closures over ``pyarrow.compute`` kernels."""
