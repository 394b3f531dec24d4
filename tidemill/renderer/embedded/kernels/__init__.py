"""Functions on arrays of integers, which know neither operators nor state.

`updates` has the array that everything is about, a matrix with a column for each update, and the kernels that sort,
group and consolidate such matrices: begin there. `sorting` finds the order of numbers, and `values` gives numbers that
sort as values are to. `times` compares the time rows of a matrix with a frontier and compacts them. `codec` is the only
file that knows what a code stands for: it turns values into int64 codes and back. `exact_sums` adds up floats without
rounding; `hashing` is Spark's hash of rows, which breaks ties in an order.
"""
