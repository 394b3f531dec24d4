"""Names of folders for names that may be anything: each within its folder, on any file system, and no two alike."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

_LONGEST: Final = 150
_TAGGED: Final = re.compile(r".*-[0-9a-f]{16}")


def folder_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return a folder's name for each: itself, with what is not plain in percent codes.

    Behind it is a digest where it would be hidden, is long, differs from another in nothing but case, or has one.

    >>> list(folder_names(["by origin", "a/b", "..", "N", "n"]).values())
    ['by origin', 'a%2Fb', '%2E.-5ec1f7e700f37c3d', 'N-8ce86a6ae65d3692', 'n-1b16b1df538ba12d']
    """
    quoted = {name: quote(name, safe=" ", errors="surrogatepass") for name in names}
    alike = Counter(text.lower() for text in quoted.values())
    return {name: _tagged(name, q) if alike[q.lower()] > 1 or _is_odd(q) else q for name, q in quoted.items()}


def _is_odd(quoted: str) -> bool:
    return not quoted.strip(" ") or quoted[0] in "._ " or len(quoted) > _LONGEST or bool(_TAGGED.fullmatch(quoted))


def _tagged(name: str, quoted: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    visible = f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in {".", "_"} else quoted
    return f"{visible[:_LONGEST]}-{digest}"
