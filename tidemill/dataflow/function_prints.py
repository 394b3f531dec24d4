"""Fingerprints of users' functions: digests of their code and of all that it uses, as far as that can be known.

That is its code, constants, defaults, the variables around it, the globals it refers to, and likewise the functions and
classes of the user's own modules that it uses. What comes from installed packages and from Python goes by its name: a
new release of these is no change of the function. Two processes give the same for the same program.
"""

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tidemill.dataflow.code_digests import CodeDigest, digest, with_inner

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_INSTALLED: Final = ("site-packages", "dist-packages")
_OF_RECORDS: Final = ("__dataclass_fields__", "__attrs_attrs__", "_fields")
"""Attributes of dataclasses, classes of attrs and named tuples."""
_GENERATED: Final = ("<string>", "<attrs generated")
"""Files of the methods that these have written for them: what is the user's is in the signatures."""
_SLOTS: Final = ("member_descriptor", "getset_descriptor", "_tuplegetter")


@attrs.frozen
class FunctionPrint:
    """The print of a function."""

    version: str | None
    """The user's name for this version of it; None where nothing was said."""
    codes: Mapping[str, CodeDigest]
    """The code of it and of the functions that it uses, by what they are called."""
    values: Mapping[str, str]
    """The digests of what these use beside code, by what that is called."""
    unknown: tuple[str, ...]
    """The parts that no digest can be made of."""

    @classmethod
    def of(cls, function: Callable[..., Any], version: str | None) -> FunctionPrint:
        """Return that of a function as it is now."""
        walk = _Walk(_package(_innermost(function)))
        walk.part("its state", function)
        return cls(version, walk.codes, walk.values, tuple(walk.unknown))

    @classmethod
    def listed(cls, listing: Mapping[str, Any]) -> FunctionPrint:
        """Return the print that was written down."""
        codes = {name: CodeDigest(*code) for name, code in listing["codes"].items()}
        return cls(listing["version"], codes, listing["values"], tuple(listing["unknown"]))

    def listing(self) -> dict[str, Any]:
        """Return the print as it is to be written down."""
        codes = {name: list(attrs.astuple(code)) for name, code in self.codes.items()}
        return {"version": self.version, "codes": codes, "values": self.values, "unknown": list(self.unknown)}

    def difference(self, now: FunctionPrint) -> str | None:
        """Return in what a function differs that was like this; None in nothing, as far as can be told."""
        if self.version is not None and now.version is not None:
            return None if self.version == now.version else f"it was version={self.version!r}, and is {now.version!r}"
        changed = (name for name, code in self.codes.items() if name in now.codes and code.differs(now.codes[name]))
        changed_values = (name for name, value in self.values.items() if now.values.get(name, value) != value)
        for name in (*changed, *changed_values):
            return f"{name} changed"
        there, then = {**now.codes, **now.values}, {**self.codes, **self.values}
        gone, new = then.keys() - there.keys(), there.keys() - then.keys()
        return f"{min(gone)} is gone" if gone else f"{min(new)} is new" if new else None

    def not_compared(self, now: FunctionPrint) -> list[str]:
        """Return what of a function may be other than when it was like this, which nobody can tell."""
        if now.version is not None:
            return []
        return [n for n, c in self.codes.items() if n in now.codes and c.differs(now.codes[n]) is None]


class _Walk:
    """A way through all that a function uses, which is the same in each process."""

    def __init__(self, home: str) -> None:
        self._home = home
        """The package of the function."""
        self.codes: dict[str, CodeDigest] = {}
        self.values: dict[str, str] = {}
        self.unknown: list[str] = []
        self._part = ""
        """The values that are being looked at."""
        self._done: dict[int, tuple[str, Any]] = {}
        """Digests by the ids of objects, which are held so that no other has the id."""
        self._open: dict[int, int] = {}
        """Objects that are being looked at, and how deep within each other."""
        self._looks: list[tuple[Any, Callable[[Any], str]]] = [
            (FunctionType, self._function),
            (type, self._class),
            (ModuleType, lambda m: f"module {_package(m)}"),
            ((set, frozenset), lambda s: digest(_name(type(s)), *sorted(map(self.value, s)))),
            (PurePath, lambda p: digest("path", str(p))),
            (np.ndarray, self._array),
            (MethodType, lambda m: digest("method", self.value(m.__func__), self.value(m.__self__))),
            (property, lambda p: digest("property", *map(self.value, (p.fget, p.fset, p.fdel)))),
            (functools.cached_property, lambda p: digest("property", self.value(p.func))),
        ]
        """How to look into objects of some types."""

    def part(self, name: str, value: Any) -> None:
        """Take down what a function uses, by its name."""
        before, self._part = self._part, name
        try:
            self.values[name] = self.value(value)
        except RecursionError:
            self.values[name] = self._unknown(value)
        self._part = before

    def value(self, value: Any) -> str:
        """Return the digest of a value."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._open:
            return f"{self._open[id(value)]} of those around it"
        if id(value) not in self._done:
            self._open[id(value)] = len(self._open)
            try:
                self._done[id(value)] = self._looked_into(value), value
            finally:
                del self._open[id(value)]
        return self._done[id(value)][0]

    def _looked_into(self, value: Any) -> str:
        kind = type(value)
        if kind in (list, tuple):
            return digest(kind.__name__, *map(self.value, value))
        if kind in (dict, MappingProxyType):
            return self._pairs(value.items())
        look: Callable[[Any], str] = next((look for of, look in self._looks if isinstance(value, of)), self._object)
        return look(value)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> str:
        return digest("dict", *sorted(digest(self.value(k), self.value(v)) for k, v in pairs))

    def _unknown(self, value: Any) -> str:
        self.unknown.append(self._part)
        return f"some {_name(type(value))}"

    # -- functions and classes ----------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> str:
        if not self._is_own(function.__globals__.get("__name__")):  # what wraps another says that it is of its module
            cells = [self.value(c.cell_contents) for c in function.__closure__ or () if not _is_empty(c)]
            return digest(str(function.__globals__.get("__name__")), function.__code__.co_qualname, *cells)
        its, of = "its", ""
        if self.codes:
            called = self._unused(function.__qualname__)
            its, of = "the", f" of {called!r}"
        self.codes[f"{its} code{of}"] = CodeDigest.of(function.__code__, function.__globals__)
        for kind, name, value in _used(function, self._is_own):
            self.part(f"{its} {kind} {name!r}{of}", value)
        return f"function{of}"

    def _unused(self, name: str) -> str:
        """Return a name for a function that no other has."""
        some, number = name, 1
        while f"the code of {some!r}" in self.codes:
            number += 1
            some = f"{name} ({number})"
        return some

    def _class(self, kind: type) -> str:
        if not self._is_own(kind.__module__):
            return _name(kind)
        members = dict(vars(kind))
        if issubclass(kind, enum.Enum):
            members = {n: m for n, m in members.items() if isinstance(m, FunctionType)}
            members |= {n: m.value for n, m in kind.__members__.items()}
        is_record = any(n in members for n in _OF_RECORDS)
        members = {n: getattr(m, "__func__", m) for n, m in members.items()}
        counting = [(n, m) for n, m in sorted(members.items()) if self._counts(n, m)]
        look = self._method_of_record if is_record else self.value
        return digest("class", *map(self.value, kind.__bases__), *(digest(n, look(m)) for n, m in counting))

    def _counts(self, name: str, member: Any) -> bool:
        """Return whether what a class has under a name says what it does."""
        if isinstance(member, FunctionType):
            return self._is_own(member.__globals__.get("__name__"))
        is_bookkeeping = name == "_abc_impl" or name.startswith("__") or type(member).__name__ in _SLOTS
        return isinstance(member, property) or not is_bookkeeping

    def _method_of_record(self, method: Any) -> str:
        code = method.__code__ if isinstance(method, FunctionType) else None
        if code is None or not code.co_filename.startswith(_GENERATED):
            return self.value(method)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return digest("generated", *names, self.value(method.__defaults__), self.value(method.__kwdefaults__))

    def _is_own(self, module: str | None) -> bool:
        """Return whether a module is the user's own, and not of Python, of tidemill or of another installed package."""
        top = (module or "").partition(".")[0]
        if top in sys.stdlib_module_names or top == "tidemill":
            return False
        return top == self._home or not _is_installed(top)

    # -- other objects ------------------------------------------------------------------------------------------------

    def _object(self, value: Any) -> str:
        kind = type(value)
        try:
            if hasattr(value, "__wrapped__"):  # by lru_cache, staticmethod and the like
                return digest(_name(kind), self.value(value.__wrapped__))
            if hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns"):
                return digest(_name(kind), _content(value))
            return self._reduced(value, kind)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - whatever those who wrote it raise
            return self._unknown(value)

    def _array(self, array: Any) -> str:
        if array.dtype.hasobject:
            return self._object(array)
        return digest("array", repr(array.dtype), repr(array.shape), array.tobytes())

    def _reduced(self, value: Any, kind: type) -> str:
        """Return a digest of what pickle would write, in an order that is always the same."""
        reduce = copyreg.dispatch_table.get(kind)
        made = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        if isinstance(made, str):
            return f"{_package(value)}.{made}"
        maker, given, state, items, pairs = (*made, None, None, None)[:5]
        if isinstance(state, dict):  # what was computed once and kept says nothing that the rest does not
            state = {name: kept for name, kept in state.items() if not _is_kept_result(kind, name)}
        within = [self.value(part) for part in (maker, given, state, items and list(items))]
        return digest("object", *within, self._pairs(pairs or ()))


# -- what a function uses ---------------------------------------------------------------------------------------------


def _used(function: FunctionType, is_own: Callable[[str | None], bool]) -> Iterator[tuple[str, str, Any]]:
    """Iterate over what a function uses beside its code: what kind of thing it is, its name, its value."""
    code, defaults = function.__code__, function.__defaults__ or ()
    with_defaults = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    found = [("default of", *pair) for pair in zip(with_defaults, defaults, strict=True)]
    found += [("default of", *pair) for pair in sorted((function.__kwdefaults__ or {}).items())]
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    found += [("variable", name, cell.cell_contents) for name, cell in cells if not _is_empty(cell)]
    of_module, names = function.__globals__, {name for c in with_inner(code) for name in c.co_names}
    found += [("global", name, of_module[name]) for name in sorted(_globals(code)) if name in of_module]
    imported = sorted(_imported(code, of_module.get("__package__") or ""))
    found += [("module", name, _module(name)) for name in imported if is_own(name)]
    for kind, name, value in found:
        if isinstance(value, ModuleType) and is_own(value.__name__):
            yield from _of_module(kind, name, value, names, is_own)
        else:
            yield kind, name, value


def _of_module(
    kind: str, path: str, module: ModuleType, names: Iterable[str], is_own: Callable[[str | None], bool]
) -> Iterator[tuple[str, str, Any]]:
    """Iterate over what of a module a function with these names in it may use."""
    for name in sorted(names):
        value = vars(module).get(name, module)
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
            yield from _of_module(kind, f"{path}.{name}", value, names, is_own)
        elif value is not module:
            yield kind, f"{path}.{name}", value


def _globals(code: CodeType) -> set[str]:
    loads = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
    found = {i.argval for c in with_inner(code) for i in dis.get_instructions(c) if i.opname in loads}
    return {name for name in found if not name.startswith("__")}


def _imported(code: CodeType, package: str) -> set[str]:
    """Return the modules that a function imports when it is called."""
    found = set()
    for inner in with_inner(code):
        instructions = [i for i in dis.get_instructions(inner) if i.opname != "EXTENDED_ARG"]
        for level, _, made in zip(instructions, instructions[1:], instructions[2:], strict=False):
            if made.opname == "IMPORT_NAME":
                name = "." * int(level.argval) + made.argval
                found.add(importlib.util.resolve_name(name, package) if package or not level.argval else name)
    return found


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - the function will say what is wrong with it, if it is called
        return None


def _is_kept_result(kind: type, name: str) -> bool:
    """Return whether an attribute holds what a cached property gave, or the hash that attrs keeps."""
    return name == "_attrs_cached_hash" or isinstance(getattr(kind, name, None), functools.cached_property)


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:  # it is not assigned yet
        return True


def _innermost(function: Any) -> Any:
    """Return the function that others were made of."""
    for name in ("__wrapped__", "__func__", "func"):
        inner = getattr(function, name, None)
        if callable(inner):
            return _innermost(inner)
    return function


def _package(value: Any) -> str:
    """Return the outermost package that a function, class, module or object is of."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(module or "").partition(".")[0]


def _name(value: Any) -> str:
    return f"{_package(value)}.{getattr(value, '__qualname__', type(value).__qualname__)}"


@functools.lru_cache(maxsize=1024)
def _is_installed(package: str) -> bool:
    """Return whether a package lies where packages are installed."""
    module = sys.modules.get(package)
    spec = None if module is not None or not package else importlib.util.find_spec(package)
    file = getattr(module, "__file__", None) or getattr(spec, "origin", None) or ""
    paths = [file, *map(str, getattr(module, "__path__", ()))]
    return any(part in _INSTALLED for path in paths for part in PurePath(path).parts)


def _content(frame: Any) -> bytes:
    """Return the content of a table, in the same bytes whatever library it is of."""
    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    table = table.replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
