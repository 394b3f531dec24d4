"""What operators remember: spines of sorted batches, updates that are pending, rows of groups in order."""
