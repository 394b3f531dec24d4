"""The site is built without warnings, its links lead somewhere, and nothing on it comes from the network."""

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="needs tidemill[docs]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


@pytest.mark.slow
def test_every_link_and_picture_of_the_site_is_there(site):
    gone = set()
    for page in site.rglob("*.html"):
        text = page.read_text()
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            target, _, anchor = html.unescape(link).partition("#")
            if re.match(r"\w+:", target) or page.name == "404.html":
                continue
            there = (page.parent / unquote(target)) if target else page
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (anchor and anchor != "__" and f'id="{unquote(anchor)}"' not in there.read_text()):
                gone.add((page.relative_to(site).as_posix(), link))
    assert gone == set()


@pytest.mark.slow
def test_nothing_comes_from_the_network(site):
    fetched = r'<(?:script|img|iframe|source)[^>]*src="https?:[^"]*|<link[^>]*href="https?:[^"]*'
    assert {page.name: found for page in site.rglob("*.html") if (found := re.findall(fetched, page.read_text()))} == {}
    assert re.findall(r"url\(['\"]?https?:", (site / "site" / "site.css").read_text()) == []


@pytest.mark.slow
def test_the_search_knows_pages_reference_and_notebooks(site):
    index = (site / "search" / "search_index.js").read_text()
    for location in ("model.html", "reference/run.html#run-advance_to", "notebooks/3-windows.html"):
        assert f'"location":"{location}"' in index


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="needs Chromium")
def test_the_search_finds_from_the_file_system(site):
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    url = f"{(site / 'index.html').as_uri()}?q=antichain"
    shown = subprocess.run([BROWSER, *options, url], capture_output=True, text=True, check=True, timeout=600).stdout
    assert re.search(r"\d+ matching documents", shown)
    assert "reference/run.html" in shown
