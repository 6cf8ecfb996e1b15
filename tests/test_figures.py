"""The figures are what their records say, and their texts can be read, light and dark: none overlaps or is cut."""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
FIGURES = [*sorted((ROOT / "docs" / "_assets").glob("*.svg")), *sorted((ROOT / "benchmarks" / "results").glob("*.svg"))]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def test_the_figures_are_what_the_records_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("matplotlib", "torch"):
        pytest.importorskip(package, reason="comes with the extra `train`")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    assert not importlib.import_module("figures").main(check=True), capsys.readouterr().out


def test_the_readme_has_them_in_both_themes_and_opens_with_the_viewer() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, where in (("docs/_assets/episode", text), ("docs/viewer/gallery_toolorchestra", text.split("\n## ")[0])):
        dark, light = re.findall(rf'src(?:set)?="({name}_\w+\.\w+)"', where)
        assert ("dark" in dark, "light" in light) == (True, True)
        assert all((ROOT / file).is_file() for file in (dark, light))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("drives the browser: sudo apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="drives the browser: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


MEASURED = """
() => [...document.querySelectorAll('text')].map((one) => {
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  let place = one, opacity = 1;
  for (; place instanceof SVGElement; place = place.parentNode) opacity *= +getComputedStyle(place).opacity;
  const grounds = document.elementsFromPoint(...middle)
    .filter((other) => !['text', 'tspan', 'svg'].includes(other.tagName) && getComputedStyle(other).fill !== 'none');
  return {words: one.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom, opacity,
    colour: style.fill, ground: grounds.length ? getComputedStyle(grounds[0]).fill : null};
})
"""


def luminance(colour: list[float]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(text: dict[str, Any]) -> float:
    """The contrast of a text, as opaque as it is, with what is drawn behind it (WCAG 2)."""
    words, ground = ([int(part) / 255 for part in re.findall(r"\d+", text[of])[:3]] for of in ("colour", "ground"))
    shown = [text["opacity"] * one + (1 - text["opacity"]) * other for one, other in zip(words, ground, strict=True)]
    dark, light = sorted((luminance(shown), luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.stem)
def test_every_text_can_be_read_in_both_themes_and_none_overlaps_another_or_is_cut(browser: Any, figure: Path) -> None:
    """WCAG 2 asks for a contrast of 4.5."""
    root = ElementTree.parse(figure).getroot()
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    page = browser.new_page(viewport={"width": ceil(width * 4 / 3) + 20, "height": ceil(height * 4 / 3) + 20})
    page.goto(figure.as_uri())
    size = page.evaluate("(({width, height}) => [width, height])(document.documentElement.getBoundingClientRect())")
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        texts = page.evaluate(MEASURED)
        assert len(texts) >= 15
        grounds.add(texts[0]["ground"])
        for text in texts:
            words = text["words"]
            assert text["left"] >= 0, words
            assert text["top"] >= 0, words
            assert text["right"] <= size[0], words
            assert text["bottom"] <= size[1], words
            assert contrast(text) >= 4.5, f"{words!r}, {scheme}"
    page.close()
    assert len(grounds) == 2 or figure.stem.endswith(("_light", "_dark"))
    for one, other in itertools.combinations(texts, 2):
        apart = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
        apart = apart or one["bottom"] <= other["top"] + 3 or other["bottom"] <= one["top"] + 3
        assert apart, f"{one['words']!r} overlaps {other['words']!r}"


def test_the_documents_show_no_figure_that_is_not_looked_at() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).resolve() in FIGURES, f"{page}: {target}"
