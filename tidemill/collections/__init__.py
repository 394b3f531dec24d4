"""What users write: the fluent `Collection`, grouped views of it, joins, set operations, loops and `letrec`.

Each method checks what it is given, binds expressions and adds nodes to the graph; `builder` enters scopes and shares
arrangements on the way.
"""
