"""Passes: functions from a graph to a graph that means the same, done before an engine runs it.

A pass may remove errors, never add one, and never changes the graph it is given. `pipeline` has the list of all, in the
order in which they are done, with `lowering` among them; `rebuild` is what they are made with.
"""
