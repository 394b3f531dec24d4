"""Build the wheel and the source archive, and try both in clean environments: ``python tests/release/check.py``.

For each Python that is given (the one that runs this, if none is): the wheel with the oldest versions that pyproject.toml
allows and with the newest, alone and with Spark; the source archive with the newest. Needs ``tidemill[release]``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SMOKE: Final = ROOT / "tests" / "release" / "smoke.py"
UV: Final = (sys.executable, "-m", "uv", "--quiet")
BUILT: Final = ("--only-binary", ":all:", "--no-binary", "pyspark")
"""Versions that this Python has no wheel of are not for it; PySpark is an archive alone, of Python."""


def built(folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the source archive, made anew: the wheel from what the archive holds."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def tried(python: str, versions: str, package: Path, extras: Sequence[str], folder: Path) -> None:
    """Install a package into an environment of its own and run what tries it, for each extra anew."""
    environment = Path(tempfile.mkdtemp(prefix=f"{versions}-", dir=folder)) / "environment"
    run(*UV, "venv", "--python", python, environment)
    its_python = environment / "bin" / "python"
    for extra in extras:
        only = environment / f"{extra}-versions.txt"  # a new file: what one lists already is kept
        lowest = "lowest-direct" if versions == "oldest" else "highest"
        of_extra = ["--extra", extra] if extra else []
        run(*UV, "pip", "compile", ROOT / "pyproject.toml", *of_extra, *BUILT, "--python", its_python, "--resolution", lowest,
            "-o", only)  # fmt: skip
        named = f"tidemill[{extra}]" if extra else "tidemill"
        run(*UV, "pip", "install", "--python", its_python, "-c", only, f"{named} @ {package.as_uri()}")
        said = run(its_python, "-I", SMOKE, *(["--spark"] if extra else []), cwd=folder)
        print(f"{versions}, {package.suffix[1:]}: {said.strip().splitlines()[-1]}", flush=True)


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command; return what it prints, and raise with it where it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build, and try all that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters, by their paths")
    parser.add_argument("--without-spark", action="store_true", help="leave out what needs a Java")
    given = parser.parse_args()
    extras = [""] if given.without_spark else ["", "spark"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, archive = built(folder / "dist")
        for python in given.pythons:
            tried(python, "oldest", wheel, extras, folder)
            tried(python, "newest", wheel, extras, folder)
            tried(python, "newest", archive, [""], folder)


if __name__ == "__main__":
    main()
