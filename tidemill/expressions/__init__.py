"""What a value is and how one is computed: types, schemas, scalar expressions, aggregates, orders; SQL text in and out.

Below the graph: nothing here knows of operators, times or engines. `expr` has the untyped tree that users write,
`binding` makes of it, with a schema, the typed tree that engines evaluate, `functions` has an entry for each function.
"""
