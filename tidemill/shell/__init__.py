"""SQL by hand: a session of tables and views that are kept up to date, its prompt, and the cell magic of notebooks.

``session`` is the whole of it without a screen: statements in, answers out. ``text`` takes statements apart by their
words, ``changes`` makes INSERT, UPDATE, DELETE and MERGE into rows that come and go, ``once`` computes a query for the
contents of this moment. ``prompt`` and ``magic`` show answers and read what is typed.
"""
