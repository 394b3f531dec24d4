"""Dataflow graphs written with the public Collection API and nothing else.

An algorithm here needs no engine: what it is made of runs on each of them, in any scope, over any lattice of times.
"""
