"""What a notebook is given to show: text, SVG, and the SVG as an image, which an untrusted notebook keeps."""

from __future__ import annotations

import base64
from html import escape


def bundle_of(text: str, svg: str, title: str) -> dict[str, str]:
    """Return the outline, the SVG, and HTML that holds the SVG as an image.

    Jupyter drops SVG of notebooks that are not trusted, and shows SVG inside HTML as text; an image stays.
    """
    data = base64.b64encode(svg.encode()).decode()
    image = f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}" style="max-width: 100%"/>'
    return {"text/plain": text, "image/svg+xml": svg, "text/html": image}
