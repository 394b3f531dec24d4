"""Why a row is in an output, or is not: the input rows from which it follows, and on what way.

Costs nothing to runs that are not asked: what an answer needs is what the inputs held, which runs started with
``why=True`` keep.
"""

from tidemill.provenance.answer import answer
from tidemill.provenance.kept import kept_name, with_inputs_kept
from tidemill.renderer.diagram.reason import Reason
from tidemill.renderer.diagram.why import Why

__all__ = ["Reason", "Why", "answer", "kept_name", "with_inputs_kept"]
