"""Why a row is in an output, or is not: the input rows from which it follows, and on what way.

Costs nothing to runs that are not asked: what an answer needs is what the inputs held, which runs started with
``why=True`` keep.
"""
