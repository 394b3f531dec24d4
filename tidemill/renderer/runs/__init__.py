"""A dataflow at work, whichever engine renders it: what is put in, how times close, what is read."""
