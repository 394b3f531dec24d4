"""One operator for each kind of node but Reduce: each takes updates from its ports and emits updates.

`linear` has those without state (Map, Filter, Concat, Enter, ...; Feedback, the way from one round of a loop to the
next), `arrange` the shared index of a collection, `join` the bilinear one. `input_output` and `upsert_input` are where
a dataflow meets the outside. Operators whose output at a time depends on all earlier updates of a key share `keyed`: it
says which keys and times a round has to look at, by the theory in `interesting_times`. `threshold` is the smallest of
them, and the one to read first.
"""
