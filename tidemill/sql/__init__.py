"""SQL in: queries and scripts as dataflows over the public `Collection` API, which knows no engine.

Text goes through ``syntax`` (sqlglot's parser, made strict), the binder (``scopes``, ``expressions``, ``sources``,
``selects``, ``queries``, ``recursion``), which finds what names mean and checks types and gives the nodes of ``plan``;
subqueries become joins on the way (``decorrelate``). ``rewrite`` orders joins, ``lower`` makes collections of a plan,
and ``script`` is what users call.
"""
