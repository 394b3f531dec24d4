"""The reference engine: the specification, run."""

from tidemill.renderer.reference.executor import Reference

__all__ = ["Reference"]
