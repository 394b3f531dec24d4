"""The reference, made of docstrings: every public name and every public member of what users hold, by page.

`docs/hooks.py` puts the pages on the site. Which names are public is said by tests/lib/support/public_api.py.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
from support import public_api as public

import tidemill as tm
import tidemill.algorithms

PAGES: Final = {
    "dataflow": "Dataflows and engines",
    "collection": "Collections",
    "run": "Runs and results",
    "expressions": "Expressions and types",
    "functions": "Functions",
    "aggregates": "Aggregates",
    "windows": "Windows",
    "graphs": "Graph algorithms",
    "algorithms": "Sums over an order",
    "views": "Views over tables",
    "testing": "Testing",
    "errors": "Errors",
}
MODULES: Final = {"algorithms": tidemill.algorithms} | {
    name: getattr(tm, name) for name in tm.__all__ if inspect.ismodule(getattr(tm, name))
}
"""Whose names are on a page of their own."""
BY_MODULE: Final = {
    "tidemill.algorithms": "algorithms",
    "tidemill.boundary": "run",
    "tidemill.collections.recursion": "dataflow",
    "tidemill.collections": "collection",
    "tidemill.dataflow.lattice": "run",
    "tidemill.errors": "errors",
    "tidemill.expressions.aggregate_functions": "aggregates",
    "tidemill.expressions.composed_aggregates": "aggregates",
    "tidemill.expressions.functions": "functions",
    "tidemill.expressions.windows": "windows",
    "tidemill.expressions": "expressions",
    "tidemill.flow": "dataflow",
    "tidemill.renderer.diagram.why": "run",
    "tidemill.renderer.engines": "dataflow",
    "tidemill.renderer.reference": "dataflow",
    "tidemill.renderer.spark.live": "dataflow",
    "tidemill.renderer.spark.shipping": "dataflow",
    "tidemill.renderer.runs": "run",
    "tidemill.testing": "testing",
    "tidemill.views": "views",
}
"""On which page a name is, by the longest of these that its module's name begins with."""
BY_NAME: Final = {"interval": "expressions", "when": "expressions", "When": "expressions", "Aggregate": "aggregates"}
"""On which page those are whose module says otherwise."""
FIRST: Final = (
    "Dataflow", "LetRec", "Collection", "Run", "Rows", "Updates", "col", "lit", "expr", "Window", "TidemillError",
)  # fmt: skip
"""Names that their pages begin with."""
FAMILIES: Final = {
    "choice": "Choices", "numbers": "Numbers", "trigonometry": "Angles and logarithms", "text": "Text",
    "text_forms": "Forms of text", "number_formats": "Numbers as text", "dates": "Dates and times",
    "date_formats": "Dates and times as text",
    "lists": "Lists", "structs": "Structs", "from_json": "JSON", "hashing": "Hashes and digits",
    "tries": "NULL for errors",
}  # fmt: skip
CODE: Final = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")


class Entry(NamedTuple):
    """A name of the reference: what it is called there, what it is, and the entries of its members."""

    title: str
    value: Any
    members: tuple[Entry, ...] = ()
    of: Any = None
    """The class whose member it is."""

    @property
    def anchor(self) -> str:
        """Where on its page an entry is."""
        return self.title.lower().replace(".", "-")


def pages() -> dict[str, str]:
    """Return the pages of the reference as Markdown, by their names."""
    found = entries()
    where = {
        e.title: f"{page}.md#{(top if _plain(e) else e).anchor}"
        for page, es in found.items()
        for top in es
        for e in (top, *top.members)
    }
    made = {f"reference/{page}.md": "\n\n".join(_page(page, es, where)) + "\n" for page, es in found.items()}
    return {"reference/index.md": "\n".join(_index(found)) + "\n"} | made


@functools.cache
def entries() -> dict[str, list[Entry]]:
    """Return what is public, by page."""
    found: dict[str, list[Entry]] = {page: [] for page in PAGES}
    members: dict[str, list[str]] = {}
    for line in public.public_api():
        of, _, member = line.partition("(")[0].partition(".")
        if of != "tm":
            members.setdefault(of, []).append(member)
    held = public.held()
    for name in sorted({*tm.__all__, *public.NAMED_AS_BUILTINS, *members}, key=str.lower):
        value = type(held[name]) if name in held else getattr(tm, name)
        if not inspect.ismodule(value):
            found[page_of(name, value)].append(Entry(name, value, _members(name, value, members.get(name, ()))))
    for page, module in MODULES.items():
        named = {n: getattr(module, n) for n in module.__all__ if n not in tm.__all__}
        found[page] += [Entry(n, v, _members(n, v, getattr(v, "__all__", ()))) for n, v in named.items()]
    for of in found.values():
        of.sort(key=lambda e: FIRST.index(e.title) if e.title in FIRST else len(FIRST))
    return found


def _members(of: str, value: Any, names: Iterable[str]) -> tuple[Entry, ...]:
    cls = value if isinstance(value, type) else None
    return tuple(Entry(f"{of}.{name}", inspect.getattr_static(value, name, None), of=cls) for name in names)


def page_of(name: str, value: Any) -> str:
    """Return the page that a name is on."""
    if name in BY_NAME:
        return BY_NAME[name]
    module = getattr(value, "__module__", None) or type(value).__module__
    prefixes = [prefix for prefix in BY_MODULE if f"{module}.".startswith(f"{prefix}.")]
    assert prefixes, f"{name} of {module} has no page: name one in docs/reference.py"
    return BY_MODULE[max(prefixes, key=len)]


def _index(found: dict[str, list[Entry]]) -> Iterator[str]:
    """Return the lines of the page that lists all names."""
    yield "# Reference\n"
    yield "All that is public, from its docstrings. `import tidemill as tm`, and what is here is an attribute of `tm`,"
    yield "but for the names of its modules: [graph algorithms](graphs.md) are in `tm.graphs`, [testing](testing.md) in"
    yield "`tm.testing`, [errors](errors.md) in `tm.errors`, [sums over an order](algorithms.md) in"
    yield "`tidemill.algorithms`.\n"
    for page, title in PAGES.items():
        yield f"## {title}\n"
        yield "| | |"
        yield "|---|---|"
        for entry in found[page]:
            yield f"| [`{entry.title}`]({page}.md#{entry.anchor}) | {_first(entry.value)} |"
        yield ""


def _page(page: str, found: list[Entry], where: dict[str, str]) -> Iterator[str]:
    yield f"# {PAGES[page]}"
    if page in MODULES:
        yield markdown(inspect.getdoc(MODULES[page]) or "", page, where, "")
    family = None
    order = list(FAMILIES)
    if page == "functions":
        found = sorted(found, key=lambda e: (order.index(_family(e.value)), e.title))
    for entry in found:
        if page == "functions" and family != _family(entry.value):
            family = _family(entry.value)
            yield f"## {FAMILIES[family]}"
        yield from _entry(entry, 3 if page == "functions" else 2, page, where)
        if plain := [member for member in entry.members if _plain(member)]:
            yield f"Attributes: {', '.join(_attribute(member) for member in plain)}."
        for member in entry.members:
            if not _plain(member):
                yield from _entry(member, 3, page, where)


def _family(value: Any) -> str:
    return str(value.__module__.rpartition(".")[2])


def _entry(entry: Entry, level: int, page: str, where: dict[str, str]) -> Iterator[str]:
    """Return the parts of an entry: heading, signature, docstring."""
    yield f"{'#' * level} `{entry.title}` {{#{entry.anchor}}}"
    value = _function(entry.value)
    if isinstance(value, type) and issubclass(value, BaseException):
        above = [base.__name__ for base in value.__mro__[1:] if base is not object]
        yield f"Is also: {', '.join(f'`{name}`' for name in above)}."
    elif callable(value) and entry.title not in public.MADE_BY_METHODS:
        yield f"```python\n{signature(entry.title, value)}\n```"
    kind, text = "", _doc(value)
    if entry.of and not text:
        kind, text = attribute(entry.of, _name(entry))
    if kind:
        yield f"```python\n.{_name(entry)}: {kind}\n```"
    if text:
        yield markdown(text, page, where, entry.title)


def _plain(entry: Entry) -> bool:
    """Return whether an entry is an attribute that the class's docstring explains, if anything does."""
    return bool(entry.of) and not _doc(_function(entry.value)) and not attribute(entry.of, _name(entry))[1]


def _attribute(entry: Entry) -> str:
    kind, _ = attribute(entry.of, _name(entry))
    return f"`{_name(entry)}: {kind}`" if kind else f"`{_name(entry)}`"


def _name(entry: Entry) -> str:
    return entry.title.rpartition(".")[2]


def _function(value: Any) -> Any:
    """Return the function of a class method."""
    return getattr(value, "__func__", value)


def attribute(of: type, name: str) -> tuple[str, str]:
    """Return the type of an attribute, and what the string after it says, in the class's body or where it is made."""
    for cls in of.__mro__[:-1]:
        with contextlib.suppress(OSError, TypeError):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
            for body in (n.body for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, ast.FunctionDef))):
                for line, after in zip(body, [*body[1:], None], strict=True):
                    if isinstance(line, ast.FunctionDef) and line.name == name:  # a property that attrs has taken apart
                        return ast.unparse(line.returns) if line.returns else "", ast.get_docstring(line) or ""
                    if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) in {name, f"self.{name}"}:
                        said = after.value if isinstance(after, ast.Expr) else None
                        text = str(said.value) if isinstance(said, ast.Constant) else ""
                        return ast.unparse(line.annotation), inspect.cleandoc(text)
    return "", ""


def signature(title: str, value: Any) -> str:
    """Return how something is called, a parameter a line where it is long."""
    found = inspect.signature(value)
    parameters = [p for p in found.parameters.values() if p.name not in {"self", "cls"}]
    name = title if inspect.isfunction(value) or isinstance(value, type) else title.rpartition(".")[2]
    name = ("." + name.partition(".")[2]) if "." in name else name
    parts = [_parameter(p) for p in parameters]
    for kind, mark in ((inspect.Parameter.KEYWORD_ONLY, "*"), (inspect.Parameter.POSITIONAL_ONLY, "/")):
        places = [i for i, p in enumerate(parameters) if p.kind is kind]
        if mark == "*" and places and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            parts.insert(places[0], "*")
        if mark == "/" and places:
            parts.insert(places[-1] + 1, "/")
    gives = found.return_annotation
    end = "" if gives in (inspect.Signature.empty, None, "None") else f" -> {_type(gives)}"
    line = f"{name}({', '.join(parts)}){end}"
    return line if len(line) <= 92 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){end}"  # noqa: PLR2004 - a page's width


def _parameter(p: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = "" if p.annotation is inspect.Parameter.empty else f": {_type(p.annotation)}"
    if p.default is inspect.Parameter.empty:
        return f"{star}{p.name}{kind}"
    default = repr(p.default)
    default = "..." if p.default is ... or "function" in default else default
    return f"{star}{p.name}{kind} = {default}" if kind else f"{star}{p.name}={default}"


def _type(annotation: Any) -> str:
    return annotation.strip("'\"") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _doc(value: Any) -> str:
    """Return a docstring, not one that is a builtin type's."""
    text = inspect.getdoc(value) or ""
    if isinstance(value, (type, property, functools.cached_property)) or inspect.isfunction(value):
        return text
    return text if type(value).__module__ not in {builtins.__name__, "types"} else ""


def _first(value: Any) -> str:
    """Return the first sentence of a docstring, as a cell of a table."""
    paragraph = " ".join(_doc(value).split("\n\n", maxsplit=1)[0].split())
    return paragraph.split(". ")[0].removesuffix(".").replace("|", "\\|")


def markdown(text: str, page: str, where: dict[str, str], title: str) -> str:
    """Return a docstring as Markdown: examples fenced, and names that the reference has as links."""
    parts, lines, example = [], [], False
    for line in [*text.splitlines(), ""]:
        if line.startswith(">>> ") and not example:
            parts.append(_linked("\n".join(lines), page, where, title))
            lines, example = [], True
        lines.append(line.partition("  # doctest:")[0])
        if example and not line.strip():
            parts.append("```pycon\n" + "\n".join(lines).strip() + "\n```")
            lines, example = [], False
    parts.append(_linked("\n".join(lines), page, where, title))
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _linked(text: str, page: str, where: dict[str, str], title: str) -> str:
    def link(found: re.Match[str]) -> str:
        of = title.partition(".")[0]
        for name in (f"{of}.{found[1]}", found[1], found[1].removeprefix("tm.")):
            if name in where and name != title:
                return f"[`{found[1]}`]({where[name].removeprefix(f'{page}.md')})"
        return found[0]

    return CODE.sub(link, text)
