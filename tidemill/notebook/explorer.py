"""The explorer as a widget: the page's code, and a kernel that answers for records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tidemill.renderer.diagram.explorer_page import page_file, page_script

Explorer: TypeAlias = Any
"""An ``anywidget.AnyWidget``, whose class there is where that is installed."""
Ask: TypeAlias = Callable[[int, Sequence[int | str] | None], Mapping[str, Any]]
"""What answers for records: of an operator, by its id, at a time or now."""


def explorer(data: str, height: int, still: Mapping[str, str], ask: Ask | None = None) -> Explorer:
    """Return the widget that shows this; ``still`` is what a notebook shows where there is no kernel for it."""
    try:
        import anywidget  # noqa: PLC0415 - only for those who have it
        import traitlets  # noqa: PLC0415
    except ImportError:
        msg = "explore() is a widget of anywidget, which is not installed: pip install 'tidemill[notebook]'"
        raise ModuleNotFoundError(msg, name="anywidget") from None

    class Widget(anywidget.AnyWidget):
        _esm = page_script() + page_file("widget.js")
        _css = page_file("explorer.css")
        data = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)

        def _repr_mimebundle_(self, **given: Any) -> Any:
            shown = super()._repr_mimebundle_(**given)
            return shown and ({**shown[0], **still}, shown[1])

    widget = Widget(data=data, height=height)
    if ask is not None:
        widget.on_msg(lambda _, message, __: widget.send(answer(message, ask)))
    return widget


def answer(message: Mapping[str, Any], ask: Ask) -> dict[str, Any]:
    """Return what is sent back to the page that asked."""
    return {"number": message["number"], "answer": dict(ask(message["id"], message["time"]))}
