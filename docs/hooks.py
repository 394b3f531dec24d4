"""What `mkdocs build` adds to the pages in docs/: the reference, the notebooks, and the files that pages link to.

Nothing of it is kept: it is made of docstrings, of notebooks/*.ipynb and of the files as they are.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import reference  # noqa: E402 - beside this file

LINK: Final = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
OUTSIDE: Final = "repository/"
"""Where on the site files of the repository are, other than pages."""
PICTURES: Final = {"image/svg+xml": "svg", "image/png": "png"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List pages that the `nav` of mkdocs.yml does not have among the guides."""
    (guides,) = (section["Guides"] for section in config.nav or () if "Guides" in section)
    listed = str(config.nav)
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    guides += [page for page in pages if f"'{page}'" not in listed]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are generated, and then every file of the repository that one of the pages links to."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name, content in notebook(path):
            files.append(File.generated(config, name, content=content))
    overview = name_of("notebooks/README.md")
    files.append(File.generated(config, overview, content=(ROOT / source(overview)).read_text()))
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        name = waiting.pop()
        for _, there in links(name, files.src_uris[name].content_string):
            if there not in files.src_uris:
                files.append(File.generated(config, there, content=(ROOT / source(there)).read_bytes()))
                waiting += [there] if there.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Point links that leave docs/ to where on the site their files are, leave comments out, mark what code prints."""
    name, markdown = page.file.src_uri, COMMENT.sub("", markdown)
    for link, there in links(name, markdown):
        relative = posixpath.relpath(there, posixpath.dirname(name))
        markdown = markdown.replace(f"]({link}", f"]({relative}")
    return re.sub(r"^```text$", "```text {.output}", markdown, flags=re.MULTILINE)


def links(name: str, markdown: str) -> Iterator[tuple[str, str]]:
    """Return the links of a page that leave docs/, each with the name of the file on the site."""
    for link in sorted({found[1] for found in LINK.finditer(markdown)}):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(at(name)), link))
        if (ROOT / path).is_dir():
            path = posixpath.join(path, "README.md")
        on_site = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        if (ROOT / path).is_file() and name_of(path) != on_site:
            yield link, name_of(path)


def at(name: str) -> str:
    """Return where in the repository a page of the site is."""
    if name.startswith(OUTSIDE):
        return source(name)
    return name.removesuffix(".md") + ".ipynb" if name.startswith("notebooks/") else f"docs/{name}"


def name_of(path: str) -> str:
    """Return the name on the site of a file of the repository."""
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return path.removesuffix(".ipynb") + ".md"
    return OUTSIDE + path + ("" if path.endswith((".md", ".png", ".svg")) else ".txt")  # text is shown, not saved


def source(name: str) -> str:
    """Return the file of the repository that has this name on the site."""
    return name.removeprefix(OUTSIDE).removesuffix(".txt")


def notebook(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """Return a notebook as a page, and its pictures as files."""
    name, parts = f"notebooks/{path.stem}", []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for place, output in enumerate(cell["outputs"]):
            data = output.get("data", {"text/plain": output.get("text", "")})
            for kind in PICTURES:
                if kind in data:
                    picture = f"{name}-{number}-{place}.{PICTURES[kind]}"
                    content = "".join(data[kind])
                    yield picture, content if kind == "image/svg+xml" else base64.b64decode(content)
                    parts.append(f"![What the cell above draws]({posixpath.basename(picture)})")
                    break
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    yield f"{name}.md", "\n\n".join(parts) + f"\n\n---\nThe notebook itself: [{path.name}]({path.name}).\n"
    yield f"{name}.ipynb", path.read_text()
