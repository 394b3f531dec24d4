"""Why a row is in an output, or is not: the input rows from which it follows, and on what way.

Costs nothing to runs that are not asked: what an answer needs is what the inputs held, which runs started with
``why=True`` keep.
"""

from tidemill.boundary.reasons import Reason, Why
from tidemill.provenance.answer import answer
from tidemill.provenance.kept import kept_name, with_inputs_kept

__all__ = ["Reason", "Why", "answer", "kept_name", "with_inputs_kept"]
