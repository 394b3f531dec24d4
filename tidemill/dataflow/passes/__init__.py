"""Passes that need to know of a graph only: each a function from a graph to a graph that means the same.

A pass may remove errors, never add one, and never changes the graph it is given. Those that look into expressions are
in ``tidemill.collections.passes``, and so is the list of all.
"""

from tidemill.dataflow.passes.arrangements import share_arrangements
from tidemill.dataflow.passes.consolidations import drop_consolidations
from tidemill.dataflow.passes.duplicates import remove_duplicates
from tidemill.dataflow.passes.rebuild import Copy, rebuild

__all__ = ["Copy", "drop_consolidations", "rebuild", "remove_duplicates", "share_arrangements"]
