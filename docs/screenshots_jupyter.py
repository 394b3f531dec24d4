"""Take the picture of the explorer in JupyterLab, light and dark: ``python docs/screenshots_jupyter.py``.

Needs JupyterLab beside tidemill's notebook extra, and Chromium. A server of its own runs a notebook; in the picture is
what a user sees after a few clicks.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

DOCS: Final = Path(__file__).parent
CELLS: Final = (
    """import tidemill as tm

flow = tm.Dataflow("routes")
flights = flow.input("flights", {"origin": "string", "dest": "string"})
start = flow.input("start", {"airport": "string"})

def one_more_leg(here):
    legs = here.join(flights, on={"airport": "origin"}).select(airport="dest")
    return legs.concat(start).distinct()

flow.output("reachable", start.iterate(one_more_leg))
run = flow.start(keep=5)
run.log_events()
run.insert("flights", [("JFK", "LAX"), ("LAX", "SFO"), ("BOS", "JFK")])
run.insert("start", [("JFK",)])
run.advance()
run.delete("flights", [("LAX", "SFO")])
run.advance()""",
    "run.explore()",
)
WIDTH, HEIGHT = 980, 860


def notebook() -> dict[str, Any]:
    """Return the notebook, without outputs."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"cell-{i}", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
        for i, text in enumerate(CELLS)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def started(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Return a server on a free port, with nobody's settings, and where it is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(folder / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    quiet = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false, "doNotDisturbMode": true}', encoding="utf-8")
    server = subprocess.Popen(  # noqa: S603 - JupyterLab's own server
        [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
            "--IdentityProvider.token=", f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}",
        ],
        env=os.environ | own | {"PYTHONPATH": str(DOCS.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return server, f"http://127.0.0.1:{port}/lab/tree/routes.ipynb"


def opened(page: Any, url: str) -> None:
    """Open the notebook once the server is there, and run it."""
    for _ in range(60):
        try:
            page.goto(url)
            break
        except Exception:  # noqa: BLE001 - the server is not there yet
            page.wait_for_timeout(1000)
    page.locator(".jp-CodeCell").nth(1).wait_for(timeout=300_000)
    page.get_by_text("(ipykernel) | Idle").wait_for(timeout=300_000)
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".tidemill .operator").first.wait_for(timeout=300_000)


def seen(page: Any, theme: str) -> bytes:
    """Return a picture of the page in a theme."""
    page.evaluate("name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})", theme)
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str("Light" in theme).lower())
    page.mouse.move(2, HEIGHT - 2)
    page.wait_for_timeout(1500)
    return bytes(page.screenshot())


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "routes.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
        server, url = started(folder)
        try:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
            opened(page, url)
            shown = page.locator(".tidemill")
            shown.scroll_into_view_if_needed()
            shown.get_by_label("the time before").click(click_count=2, delay=50)
            shown.locator(".operator", has_text="reachable").first.click()
            shown.get_by_role("heading", name="Records").first.wait_for()
            pictures = [seen(page, f"JupyterLab {theme}") for theme in ("Light", "Dark")]
            images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(one).decode()}">' for one in pictures)
            both = browser.new_page(viewport={"width": 2 * WIDTH + 12, "height": HEIGHT})
            both.set_content(f'<body style="margin: 0; display: flex; gap: 12px; background: #fff">{images}')
            both.screenshot(path=DOCS / "pictures" / "explorer-jupyter.png")
            browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
