"""The Spark session: which of its settings the meaning of a dataflow depends on."""

from __future__ import annotations

from typing import Any, Final

from tidemill.errors import EngineError

__all__ = ["SETTINGS", "check_session"]

SETTINGS: Final = {
    "spark.sql.ansi.enabled": ("true", "overflow and division by zero are errors only then"),
    "spark.sql.parser.escapedStringLiterals": ("false", "backslashes in text would mean something else"),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", "decimals would get other types"),
}
"""Settings that have to have a value, and why. The session's time zone matters nowhere: timestamps have none."""


def check_session(spark: Any) -> None:
    """Refuse a session with settings under which Spark means something else; they are not changed here."""
    for name, (wanted, why) in SETTINGS.items():
        found = str(spark.conf.get(name, wanted)).lower()
        if found != wanted:
            msg = (
                f"the session has {name}={found}: expected {wanted}, since {why}; spark.conf.set({name!r}, {wanted!r})"
            )
            raise EngineError(msg)
