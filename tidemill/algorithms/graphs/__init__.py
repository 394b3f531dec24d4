"""Graph algorithms as dataflows: each takes a collection of edges and stays right as edges come and go.

Edges are rows with the columns ``a`` and ``b`` (others are named by ``a=`` and ``b=``), both of one type, which may be
any. What other columns they have, and how often an edge is there, makes no difference. An edge with NULL at an end is
none. Results have a column ``node`` and what was found of it.

All of them end by themselves, so none has a limit of iterations but where it is a parameter.
"""

from tidemill.algorithms.graphs.components import connected_components
from tidemill.algorithms.graphs.k_core import k_core
from tidemill.algorithms.graphs.label_propagation import label_propagation
from tidemill.algorithms.graphs.matching import stable_matching
from tidemill.algorithms.graphs.pagerank import pagerank
from tidemill.algorithms.graphs.scc import scc
from tidemill.algorithms.graphs.shortest_paths import bfs, shortest_paths
from tidemill.algorithms.graphs.triangles import triangle_count, triangles

__all__ = [
    "bfs",
    "connected_components",
    "k_core",
    "label_propagation",
    "pagerank",
    "scc",
    "shortest_paths",
    "stable_matching",
    "triangle_count",
    "triangles",
]
