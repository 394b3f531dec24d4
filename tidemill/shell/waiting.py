"""Recursive views as they are typed: declared, and waiting until the last of them is made."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidemill.shell.text import Words


@attrs.frozen
class Waiting:
    """What was typed since a DECLARE RECURSIVE VIEW, while views that are declared are still to be made."""

    declared: dict[str, str] = attrs.field(factory=dict)
    """Their names, by what they are found by."""
    created: dict[str, str] = attrs.field(factory=dict)
    """Names of views whose CREATE was typed, declared or not: all are made with the last one."""
    statements: tuple[Words, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """All names that it is about."""
        return self.declared | self.created

    @property
    def missing(self) -> str:
        """What is still to be typed; nothing where nothing is."""
        names = [f"CREATE VIEW {name}" for key, name in self.declared.items() if key not in self.created]
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

    def with_declared(self, key: str, name: str, statement: Words) -> Waiting:
        """Return what there is after a declaration."""
        return Waiting(self.declared | {key: name}, self.created, (*self.statements, statement))

    def with_created(self, key: str, name: str, statement: Words) -> Waiting:
        """Return what there is after a CREATE."""
        return Waiting(self.declared, self.created | {key: name}, (*self.statements, statement))

    def listed(self) -> list[tuple[str, str, None]]:
        """Return the names with what they are, as lists of tables show them."""
        kinds = dict.fromkeys(self.declared, "declared view") | dict.fromkeys(self.created, "waiting view")
        return [(name, kinds[key], None) for key, name in self.names.items()]

    @property
    def text(self) -> str:
        """The statements in one text."""
        return together(self.statements)


def together(statements: Sequence[Words]) -> str:
    """Return statements in one text, each where it is written if that is behind those before."""
    text = ""
    for one in statements:
        text += ";" * bool(text)
        before = one.text[: one.start or 0]
        lines, column = before.count("\n") - text.count("\n"), len(before) - before.rfind("\n") - 1
        here = len(text) - text.rfind("\n") - 1
        is_behind = lines == 0 and column >= here
        text += " " * (column - here) if is_behind else "\n" * max(lines, 1) + " " * column
        text += one.written()
    return text
