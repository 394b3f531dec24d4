"""Dataflow graphs: times, frontiers, scopes, primitive operators and composites. No engine, no rows."""
