from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from toolorchestra.cli.viewer.bundle import bundle
from toolorchestra.cli.viewer.export import write_page
from toolorchestra.cli.viewer.index import EpisodeIndex
from toolorchestra.cli.viewer.pages import Answers, static_files
from toolorchestra.cli.viewer.places import Places
from toolorchestra.toolscale.common.errors import OptionError

FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?://(?!www\.w3\.org)")
"""What would make HTML or code of text, or ask another machine."""


def data_of(page: str) -> dict[str, object]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    found: dict[str, object] = json.loads(text)
    return found


def test_the_file_has_the_page_and_the_data(answers: Answers, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert write_page(file, answers, episodes=10) == 10
    data = data_of(file.read_text(encoding="utf-8"))
    assert len(data["rows"]) == 10  # type: ignore[arg-type]
    recordings = {row["recording"] for row in data["rows"]}  # type: ignore[attr-defined]
    assert len(recordings) == 5  # some of each


def test_nothing_in_the_data_can_end_its_element(hostile: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    places = Places.find([hostile])
    with EpisodeIndex(places.recordings, tmp_path / "index.sqlite") as index:
        assert write_page(file, Answers(places, index), episodes=5) == 2
    page = file.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "window.hacked" in page  # it is there, as text
    assert "data" in page
    assert data_of(page)["rows"]


def test_modules_become_one_script_in_which_names_stay_apart() -> None:
    static = {
        "a.js": b'import { two } from "./b.js";\nconst kept = 1;\nexport const one = two + kept;\n',
        "b.js": b"const kept = 5;\nexport function two() {}\n",
    }
    script = bundle(static, "a.js")
    assert script.index("module_b =") < script.index("module_a =")
    assert "const { two } = module_b;" in script
    assert "import " not in script
    with pytest.raises(OptionError, match=r"a\.js → c\.js → a\.js"):
        bundle({"a.js": b'import { c } from "./c.js";\n', "c.js": b'import { a } from "./a.js";\n'}, "a.js")


def test_the_pages_modules_can_be_put_together() -> None:
    script = static_files()["main.js"].decode()
    for file in (resources.files("toolorchestra.cli.viewer") / "static").iterdir():
        code = file.read_text(encoding="utf-8")
        assert "\r" not in code
        if file.name.endswith(".js"):
            assert f"const module_{file.name.removesuffix('.js')} = " in script
            assert not FORBIDDEN.search(code)
    assert set(static_files()) == {"index.html", "style.css", "icon.svg", "main.js"}
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
