"""A headless Chromium for tests of pages: the machine's own, since none is fetched."""

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def browser():
    """A browser; a test without one is skipped, but where TIDEMILL_BROWSER=required, as in CI."""
    try:
        yield from _browsers()
    except LookupError as error:
        if os.environ.get("TIDEMILL_BROWSER") == "required":
            pytest.fail(f"{error}, and TIDEMILL_BROWSER=required says that there must be")
        pytest.skip(str(error))


def _browsers():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        msg = f"there is no browser: none of {', '.join(NAMES)} is on the path"
        raise LookupError(msg)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        msg = "playwright is not installed"
        raise LookupError(msg) from None
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


class Opened:
    """A page with the explorer, in which nothing moves by itself, and all that the browser complained of."""

    def __init__(self, browser, html, tmp_path, size=(1400, 860), **options):
        view = {"width": size[0], "height": size[1]}
        self.page = browser.new_page(viewport=view, reduced_motion="reduce", **options)
        self.page.set_default_timeout(60_000)
        self.complaints = []
        self.asked_for = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in {"error", "warning"} else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: self.asked_for.append(r.url))
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        self.page.goto(path.as_uri())
        self.page.wait_for_function("typeof explorer === 'undefined' || explorer !== null")

    def keys(self, *names):
        for name in names:
            self.page.keyboard.press(name)

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def ids(self, selector):
        """The operators that a selector finds."""
        return sorted(int(e.get_attribute("data-id")) for e in self.page.locator(selector).all())

    def click(self, selector):
        """Click something of the picture, wherever it is."""
        self.page.locator(selector).first.evaluate(
            "e => { const of = {bubbles: true}; e.dispatchEvent(new PointerEvent('pointerdown', of));"
            " e.dispatchEvent(new PointerEvent('pointerup', of)); }"
        )

    def rectangles(self, selector):
        """What a selector finds, as it lies in the window."""
        script = "es => es.map(e => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })"
        return [tuple(r) for r in self.page.locator(selector).evaluate_all(script)]
