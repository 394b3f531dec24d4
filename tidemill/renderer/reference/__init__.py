"""The reference engine: the specification, run."""
