"""The reference engine: the specification, run."""

from tidemill.renderer.reference.engine import Reference

__all__ = ["Reference"]
