"""The explorer where it is shown: in the themes of browsers, JupyterLab and VS Code, on paper, and saved as a picture."""

import xml.etree.ElementTree as ET

import pytest
from support.browser import Opened, browser
from support.pictures import FLOWS, joins

import tidemill as tm

pytestmark = pytest.mark.slow

NAMELESS = """() => [...document.querySelectorAll('button, input, [role=button]')].filter(e =>
    !(e.getAttribute('aria-label') || e.textContent.trim() || e.title)).map(e => e.outerHTML)"""
CONTRAST = """([ink, ground]) => {
    const made = document.createElement('i');
    document.querySelector('.tidemill').appendChild(made);
    const light = (name) => {
        made.style.color = `var(${name})`;
        const [r, g, b] = getComputedStyle(made).color.match(/[\\d.]+/g).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
}"""


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


JUPYTER = ("data-jp-theme-light", "--jp-layout-color0", "--jp-layout-color1", "--jp-ui-font-color0")
CODE = (
    "data-vscode-theme-kind",
    "--vscode-editor-background",
    "--vscode-sideBar-background",
    "--vscode-editor-foreground",
)
HOSTS = [
    (JUPYTER, "true", ("white", "white", "rgba(0, 0, 0, 1)"), False),
    (JUPYTER, "false", ("#111111", "#212121", "rgba(255, 255, 255, 1)"), True),
    (CODE, "vscode-light", ("#ffffff", "#f8f8f8", "#3b3b3b"), False),
    (CODE, "vscode-dark", ("#1f1f1f", "#181818", "#cccccc"), True),
    (CODE, "vscode-high-contrast", ("#000000", "#000000", "#ffffff"), True),
    (CODE, "vscode-high-contrast-light", ("#ffffff", "#ffffff", "#292929"), False),
]
"""How hosts say which theme they have, its name, the colours that it gives, and whether it is a dark one."""


def texts_stand_out(opened):
    boxes = ("--plain", "--end", "--state", "--variable", "--feedback", "--border", "--group")
    pairs = [(ink, ground) for ink in ("--box", "--boxsoft") for ground in boxes]
    inks = ("--ink", "--soft", "--active", "--passed", "--waits", "--holds")
    pairs += [(ink, ground) for ink in inks for ground in ("--ground", "--panel")]
    for pair in pairs:
        assert opened.page.evaluate(CONTRAST, pair) >= 4.5, pair


@pytest.mark.parametrize("host", HOSTS)
def test_the_theme_of_what_it_is_in_is_taken_whatever_the_system_says(chromium, tmp_path, host):
    (says, *names), theme, colours, is_dark = host
    style = "; ".join(f"{name}: {colour}" for name, colour in zip(names, colours, strict=True))
    html = joins(1).to_html().replace("<body>", f'<body {says}="{theme}" style="{style}">')
    opened = Opened(chromium, html, tmp_path, color_scheme="light" if is_dark else "dark")
    assert ("dark" in opened.page.locator("#explorer").get_attribute("class").split()) is is_dark
    texts_stand_out(opened)
    assert not opened.page.locator("[data-do=dark]").is_visible(), "the other theme's colours would be on this one's"


def test_a_theme_that_changes_is_followed(chromium, tmp_path):
    html = joins(1).to_html().replace("<body>", '<body data-jp-theme-light="true">')
    opened = Opened(chromium, html, tmp_path)
    opened.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    opened.page.locator("#explorer.dark").wait_for()
    opened = Opened(chromium, joins(1).to_html(), tmp_path, color_scheme="light")
    opened.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    opened.page.locator("#explorer.dark").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 860), (600, 500)])
def test_on_paper_there_is_the_whole_picture_in_dark_on_light_above_what_is_known_and_no_button(
    chromium, tmp_path, size, scheme
):
    opened = Opened(chromium, joins(3).to_html(), tmp_path, size, color_scheme=scheme)
    seen = opened.page.locator(".canvas > g").get_attribute("transform")
    boxes, (left, top, *_) = opened.rectangles(".canvas .body"), opened.rectangles(".canvas")[0]
    opened.page.evaluate("explorer.choose([...explorer.tree.groups.keys()][1])")
    opened.page.evaluate(
        "addEventListener('beforeprint', () => (window.paper = document.querySelector('.canvas').outerHTML))"
    )
    opened.page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert opened.page.locator(".canvas > g").get_attribute("transform") == seen
    assert opened.page.locator(".canvas").get_attribute("viewBox") is None
    paper = ET.fromstring(opened.page.evaluate("window.paper"))
    at_x, at_y, wide, high = map(float, paper.get("viewBox").split())
    assert paper[0].get("transform") == seen
    for x, y, width, height in boxes:
        assert at_x <= x - left < x - left + width <= at_x + wide
        assert at_y <= y - top < y - top + height <= at_y + high
    opened.page.emulate_media(media="print", reduced_motion="reduce", color_scheme=scheme)
    picture, known = (opened.page.locator(part).bounding_box() for part in (".canvas", "aside"))
    assert known["y"] >= picture["y"] + picture["height"]
    assert not [b for b in opened.page.locator("button, input").all() if b.is_visible()]
    assert "left join dim0" in opened.text("aside h2")
    for ink in ("--ink", "--soft", "--active", "--box"):
        assert opened.page.evaluate(CONTRAST, (ink, "--ground")) >= 4.5, ink


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_and_everything_that_is_pressed_has_a_name(chromium, tmp_path, scheme):
    opened = Opened(chromium, joins(2).to_html(), tmp_path, color_scheme=scheme)
    texts_stand_out(opened)
    opened.keys("t")
    assert opened.page.evaluate(NAMELESS) == []


def test_what_is_seen_is_saved_as_svg_that_stands_alone(chromium, tmp_path):
    opened = Opened(chromium, joins(2).to_html(), tmp_path)
    with opened.page.expect_download() as found:
        opened.page.locator("[data-do=svg]").click()
    found.value.save_as(tmp_path / "saved.svg")
    root = ET.fromstring((tmp_path / "saved.svg").read_text(encoding="utf-8"))
    assert found.value.suggested_filename == "joins.svg"
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text") if e.text]
    assert "facts" in texts
    assert all(e.get("fill") for e in root.iter("{http://www.w3.org/2000/svg}text"))
    assert not [e for e in root.iter() if e.get("class")]
    with opened.page.expect_download() as found:
        opened.page.locator("[data-do=png]").click()
    found.value.save_as(tmp_path / "saved.png")
    assert (tmp_path / "saved.png").read_bytes()[1:4] == b"PNG"


def test_long_and_unprintable_names_are_cut_between_letters_and_saved(chromium, tmp_path):
    flow = tm.Dataflow("odd")
    flow.output("\x01\x08ctl", flow.input("\U0001f600" * 60, {"i": "int64"}).filter("i > 1"))
    opened = Opened(chromium, flow.to_html(), tmp_path)
    opened.page.evaluate("explorer.openAll()")
    cut = [t for t in opened.page.locator(".canvas text").all_text_contents() if "\U0001f600" in t]
    assert cut
    for text in cut:
        assert set(text) <= set("\U0001f600… input")
    for ending, begin in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with opened.page.expect_download() as found:
            opened.page.locator(f"[data-do={ending}]").click()
        found.value.save_as(tmp_path / f"saved.{ending}")
        assert (tmp_path / f"saved.{ending}").read_bytes().startswith(begin)
    texts = [e.text for e in ET.fromstring((tmp_path / "saved.svg").read_text(encoding="utf-8")).iter() if e.text]
    assert any("\ufffd\ufffdctl" in text for text in texts)
    assert opened.complaints == []


@pytest.mark.parametrize(
    ("ending", "fault", "said"),
    [
        ("svg", "XMLSerializer.prototype.serializeToString = () => { throw new Error('no room') }", "SVG: no room"),
        ("png", "HTMLCanvasElement.prototype.toBlob = (f) => f(null)", "PNG: the browser makes no picture of "),
        ("png", "XMLSerializer.prototype.serializeToString = () => '<svg'", "PNG: the browser does not draw its SVG"),
    ],
)
def test_what_cannot_be_saved_is_said_not_to_be(chromium, tmp_path, ending, fault, said):
    opened = Opened(chromium, FLOWS["plain"]().to_html(), tmp_path)
    opened.page.evaluate(f"() => {{ {fault}; }}")
    opened.page.locator(f"[data-do={ending}]").click()
    assert f"cannot be saved as {said}" in opened.page.locator("aside [role=alert]").inner_text()
    assert opened.complaints == []
