"""The commands people type: ``nox -s check``, ``test``, ``test-all``, ``bench``, ``docs``, ``demo``, ``release``.

They run in the environment that nox is installed in (``pip install -e '.[dev]'``), so there is one to make, not five.
"""

from __future__ import annotations

import sys

import nox

nox.options.sessions = ["check", "test"]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "2")


@nox.session(python=False)
def check(session: nox.Session) -> None:
    """Check lint, format and types, as pre-commit does."""
    session.run(sys.executable, "-m", "ruff", "check", ".")
    session.run(sys.executable, "-m", "ruff", "format", "--check", ".")
    session.run(sys.executable, "-m", "mypy")


@nox.session(python=False)
def test(session: nox.Session) -> None:
    """Run the inner loop: every test that needs no JVM. Arguments after ``--`` go to pytest."""
    session.run(*PYTEST, "-m", "not spark and not slow", *session.posargs)


@nox.session(python=False, name="test-all")
def test_all(session: nox.Session) -> None:
    """Run all tests, those that take long too. Arguments after ``--`` go to pytest."""
    session.run(*PYTEST, "-m", "", *session.posargs)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Run the embedded engine's benchmarks. Arguments after ``--`` go to them: ``nox -s bench -- --help``."""
    session.run(sys.executable, "-m", "benchmarks", *session.posargs)


@nox.session(python=False)
def release(session: nox.Session) -> None:
    """Build wheel and source archive, and try them with the oldest and newest versions. After ``--``: other Pythons."""
    session.run(sys.executable, "tests/release/check.py", *session.posargs)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site: then open site/index.html."""
    session.run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Play the demo: New York's flights, kept up to date. Arguments after ``--`` go to it."""
    session.run(sys.executable, "-m", "tidemill", "demo", *session.posargs)
