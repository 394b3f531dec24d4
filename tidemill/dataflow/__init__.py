"""What a dataflow is: times, frontiers, scopes, primitive operators and composites, the graph. No engine, no rows."""
