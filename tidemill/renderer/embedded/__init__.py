"""The embedded engine: columns in NumPy, arrangements as spines, in the user's own process.

`compile` makes an operator of each node of a graph; `schedule` says which operator runs when, and where updates wait
for it; `executor` takes steps with them and reads outputs; `state` and `array_file` save a run to a file; `interned`
lets go of values that nothing refers to. The operators are in ``operators/`` and ``reduce/``, what they remember in
``trace/``, the array functions they are made of in ``kernels/``, and scalar expressions in ``expressions/``. An
operator handles many updates by a few dozen NumPy calls, never by a loop over rows: that is what makes one engine serve
both a change of one row and a load of a million.
"""
