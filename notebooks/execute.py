"""Run the notebooks and keep what they show: ``python notebooks/execute.py``, or with the names of some.

Running them again makes no difference: cells have fixed ids, and nothing of a machine, a path or a moment is kept. Only
what is measured or found by chance, in cells with the tag `varies`, is another each time; it is kept as it was unless the
code of the notebook has changed, or with ``--anew``. The picture of the cell with the tag `main` goes to docs/pictures, too.
"""

from __future__ import annotations

import argparse
import base64
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

HERE: Final = Path(__file__).parent
PICTURES: Final = HERE.parent / "docs" / "pictures"
METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
    },
}
SECONDS: Final = 600
"""What a cell may take."""


def executed(path: Path) -> Any:
    """Return a notebook with the outputs of running it now, in a folder of its own."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}},
            store_widget_state=False, record_timing=False, coalesce_streams=True,
        )  # fmt: skip
        here = os.pathsep.join(
            [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        client.execute(
            env=os.environ
            | {
                "PYTHONPATH": here,
                "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            }
        )
    return tidied(notebook)


def tidied(notebook: Any) -> Any:
    """Return a notebook without what would be another the next time."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k == "tags"}
        )
        if cell.cell_type == "code":
            cell.outputs = [
                joined(o)
                for o in cell.outputs
                if o.get("name") != "stderr" and not emptied(o)
            ]
    return notebook


def emptied(output: Any) -> bool:
    """Return whether an output is what is left of a display of progress, which slow machines show."""
    return output.get("data", {}).get("text/html") == ""


def joined(output: Any) -> Any:
    """Return an output without metadata, and of a widget, which nothing answers for any more, what stands for it."""
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    return output


def varies(cell: Any) -> bool:
    """Return whether what a cell shows is another each time."""
    return "varies" in cell.metadata.get("tags", ())


def kept(old: Any, new: Any) -> Any:
    """Return the new notebook, with what varies as it was before, where all code is the same."""
    if [c.source for c in old.cells] == [c.source for c in new.cells]:
        for before, after in zip(old.cells, new.cells, strict=True):
            if varies(after) and before.outputs:
                after.outputs = before.outputs
    return new


def shown(cell: Any) -> list[str]:
    """Return what a cell shows, as text; of a picture that there is one."""
    found = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {"text/plain": output.get("text", "")})
        found += [kind for kind in sorted(data) if kind.startswith("image/")]
        found.append(data["text/plain"])
    return found


def main_picture(notebook: Any) -> bytes:
    """Return the picture that stands for a notebook: what its cell with the tag `main` draws."""
    (cell,) = (c for c in notebook.cells if "main" in c.metadata.get("tags", ()))
    return base64.b64decode(cell.outputs[0].data["image/png"])


def main() -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="such as 1-first-steps; all, if none is given"
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="keep what varies as it is now, not as it was before",
    )
    given = parser.parse_args()
    for path in sorted(HERE.glob("*.ipynb")):
        if not given.names or path.stem in given.names:
            before = nbformat.read(path, as_version=4)
            notebook = executed(path)
            notebook = notebook if given.anew else kept(before, notebook)
            path.write_text(nbformat.writes(notebook, indent=1) + "\n")
            (PICTURES / f"notebook-{path.stem}.png").write_bytes(main_picture(notebook))


if __name__ == "__main__":
    main()
