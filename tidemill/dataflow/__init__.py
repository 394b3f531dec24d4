"""What a dataflow is: times, frontiers, scopes, primitive operators and composites, the graph. No engine, no rows."""

from tidemill.dataflow.graph import Graph
from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.progress import Progress
from tidemill.dataflow.scopes import Scope
from tidemill.dataflow.summaries import PathSummary
from tidemill.site import Site

__all__ = ["Antichain", "Graph", "PathSummary", "Progress", "Scope", "Site", "Time"]
