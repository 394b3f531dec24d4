"""Lowerings: for each composite, a function from its input collections to its output collection.

A composite is an operator that can be written as others. To add one:

1. In `tidemill.dataflow.composites`, a frozen class: what it is, as data, with expressions bound to its inputs' rows; a
   docstring that defines it; and ``describe``, for `explain` and errors.
2. In `tidemill.collections`, the method by which users make it: it checks what it is given, binds expressions, and adds
   the node, with the schema of what it gives, in the scope in which its inputs meet.
3. Here, in a file by idea, its lowering::

       @lowering(SemiJoin)
       def semi_join(node: SemiJoin, left: Collection, right: Collection) -> Collection: ...

   written with what collections offer, other composites among it. It has to give the schema of the node. Inputs that
   enter a loop are given as they are outside of it, and what is made of them alone stays there. A file that is new is
   imported below.

That is all: passes that do not know it leave it alone, every engine runs what it is lowered to, and names and lines in
errors are the composite's. An engine that can do better, or that says what is right, registers a rule for the class
itself, and its ``takes`` has it then; a pass that can do better asks for the class. The tests of lowerings compare a
rule of the reference engine with what the embedded one makes of the lowered graph.
"""

from tidemill.algorithms.lowering import (
    aggregates,
    dynamic_filter,
    joins,
    top_k,
    windows,
)

__all__ = [
    "aggregates",
    "dynamic_filter",
    "joins",
    "top_k",
    "windows",
]
