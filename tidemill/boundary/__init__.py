"""Where rows come in and go out: checked batches, tables, files and change feeds in; results and their HTML out.

All that comes in is checked against a schema and refused whole where a row does not fit; all that goes out speaks
Arrow. Nothing here knows of graphs or engines.
"""
