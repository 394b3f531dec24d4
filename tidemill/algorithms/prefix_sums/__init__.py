"""Sums over an order."""
