"""Window calls: what SQL has as ``function OVER (PARTITION BY ... ORDER BY ... frame)``.

`specification` has the window that users build, `functions` the functions, `calls` calls over a window, `frames` the
rows around a row that a call looks at, `bound` what engines are given, and `binding` leads from the one to the other.
"""
