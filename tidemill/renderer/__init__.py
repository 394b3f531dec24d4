"""What turns a graph into something else: three engines with one meaning, and what their runs have in common.

`runs` is what users hold, whichever engine is behind it; `reference` the specification, run; `embedded` the engine on
NumPy; `durable` the step log, checkpoints and spilled state; `spark` DataFrames.
"""
