"""The operators of the embedded engine, but for Reduce: each takes updates at its ports and gives updates on."""
