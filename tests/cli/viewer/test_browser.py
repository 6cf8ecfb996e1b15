"""The page in headless Chromium, served and exported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="drives the browser: pip install playwright")
pytest.importorskip("uvicorn", reason="comes with the extra `view`: pip install 'toolorchestra[view]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

expect = getattr(sync_api, "expect", None)
Open = Callable[..., Any]
ROWS = ".rows .row"


@contextmanager
def served(*paths: Path, cache: Path) -> Iterator[str]:
    """Serve the page of paths in a process of its own; yield its address."""
    command = [sys.executable, "-m", "toolorchestra", "view", *map(str, paths), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"XDG_CACHE_HOME": str(cache)}
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:  # closed with the module: its loop would be in the way of others
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(30_000)
        yield page
        browser.close()


@pytest.fixture(scope="module")
def address(recordings: Path, run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(recordings, run_folder, cache=tmp_path_factory.mktemp("cache")) as found:
        yield found


@pytest.fixture
def visit(page: Any) -> Iterator[Open]:
    """Open an address as a new visitor; an error, a dialogue or a breach of the policy fails the test.

    All tests share the page, since a new one takes most of a second.
    """
    wrong: list[str] = []
    listeners = {
        "pageerror": lambda error: wrong.append(str(error)),
        "console": lambda message: message.type == "error" and wrong.append(message.text),
        "dialog": lambda dialog: (wrong.append(dialog.message), dialog.dismiss()),
    }
    for event, listener in listeners.items():
        page.on(event, listener)

    def visit(address: str, *, width: int = 1200, offline: bool = False) -> Any:
        page.set_viewport_size({"width": width, "height": 800})
        page.context.set_offline(offline)
        page.goto(address)
        page.wait_for_selector("main")
        return page

    yield visit
    page.evaluate("try { localStorage.clear() } catch {}")
    page.goto("about:blank")
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert not wrong


def shown_tasks(page: Any) -> list[str]:
    return page.locator(f"{ROWS} .c-task a").all_inner_texts()  # type: ignore[no-any-return]


def choose(page: Any, name: str, value: str) -> None:
    page.select_option(f"select[name={name}]", value)


def test_the_list_is_filtered_and_ordered(visit: Open, address: str) -> None:
    page = visit(address)
    expect(page.locator(".summary")).to_contain_text(re.compile(r"46 episodes · [\d.]+ % solved \[[\d.]+, [\d.]+\]"))
    choose(page, "policy", "oracle")
    expect(page.locator(".summary")).to_have_text("20 of 46 episodes · 100.0 % solved [83.9, 100.0]")
    choose(page, "policy", "")
    page.get_by_role("group", name="Outcome").get_by_text("failed").click()
    expect(page.locator(".summary")).to_contain_text("of 46 episodes · 0.0 % solved")
    assert set(page.locator(f"{ROWS} .badge").all_inner_texts()) == {"failed"}
    choose(page, "policy", "noisy-oracle")
    expect(page.locator("select[name=policy]")).to_have_value("noisy-oracle")
    reason = page.locator("select[name=reason] option").nth(1).get_attribute("value")
    choose(page, "reason", reason)
    expect(page.locator(f"{ROWS} .c-why").first).to_contain_text(reason)
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(".summary")).to_contain_text("46 episodes")
    intent = page.locator("select[name=intent] option").nth(1).get_attribute("value")
    choose(page, "intent", intent)
    expect(page.locator(f"{ROWS} .c-task a").first).to_contain_text(f"/{intent}/")
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("columnheader").get_by_role("button", name="cost").click()
    expect(page.get_by_role("button", name="cost ▲")).to_be_visible()
    page.get_by_role("button", name="cost ▲").click()
    expect(page.get_by_role("button", name="cost ▼")).to_be_visible()
    expect(page.locator(f"{ROWS} .c-cost").first).to_be_visible()
    costs = [float(text.strip("$")) for text in page.locator(f"{ROWS} .c-cost").all_inner_texts()]
    assert costs == sorted(costs, reverse=True)
    page.fill("input[name=min_cost]", "1000000")
    page.press("input[name=min_cost]", "Enter")
    expect(page.locator(".empty")).to_have_text("No episode fits these filters.")


def test_an_episode_is_opened_and_all_its_parts_shown(visit: Open, address: str) -> None:
    page = visit(address + "#/?policy=noisy-oracle&reason=execution")
    page.locator(f"{ROWS} .c-task a").first.click()
    page.wait_for_selector("main.episode .gantt-row .bar")
    expect(page.locator(".turn.user")).to_be_visible()
    expect(page.locator(".call").first).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("<tool_call>")  # it is a call, and not what is said
    page.get_by_role("tab", name="Verdict").click()
    expect(page.locator(".criteria li").filter(has_text="execution").locator(".badge")).to_have_text("fails")
    page.get_by_role("tab", name="Database").click()
    expect(page.locator(".change").first).to_be_visible()
    headings = page.locator(".change thead").first.locator("th").all_inner_texts()
    assert headings == ["column", "before", "reference", "episode"]
    assert page.locator(".changes tr.differs").count() > 0
    page.get_by_role("tab", name="Costs").click()
    expect(page.locator(".costs")).to_contain_text("orchestrator, own messages")


def test_three_clicks_lead_to_why_an_episode_failed(visit: Open, address: str) -> None:
    page = visit(address + "#/?policy=noisy-oracle&reason=fidelity")
    wrong = page.locator(f"{ROWS} .c-why").first.inner_text().rpartition("fidelity: ")[2]
    slot = re.match("the slot '(.+)' has", wrong)
    assert slot is not None, wrong
    page = visit(address)
    choose(page, "reason", "fidelity")
    page.locator(f"{ROWS} .c-task a").first.click()
    page.get_by_role("tab", name="Verdict").click()
    expect(page.locator(".criteria li").filter(has_text="fidelity").locator(".badge")).to_have_text("fails")
    expect(page.locator(".criteria")).to_contain_text(wrong)
    expect(page.locator(".slots tr.differs th")).to_contain_text([slot[1]])


def test_designs_trees_histories_and_tokens_are_shown(visit: Open, address: str) -> None:
    page = visit(address + "#/?text=masbench")
    page.wait_for_selector(ROWS)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Graph").click()
    page.locator(".board .box").last.click()
    expect(page.locator(".described h4", has_text="Input")).to_be_visible()
    expect(page.locator(".gantt-row.depth-1").first).to_be_visible()
    unfolded = page.locator(".gantt-row").count()
    page.get_by_role("button", name="Fold inner calls").click()
    assert page.locator(".gantt-row").count() < unfolded
    page = visit(address + "#/?env=TMATR-Math-v0")
    page.wait_for_selector(ROWS)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Tree").click()
    expect(page.locator(".board .box").first).to_contain_text("Question")
    page.get_by_role("tab", name="Agents").click()
    expect(page.locator(".column h3 .agent")).to_have_text(["planner", "inferencer"])
    page = visit(address + "#/?policy=grpo%20final")
    page.wait_for_selector(ROWS)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Tokens").click()
    page.locator(".tokens .token.own.p2").hover()
    expect(page.locator(".token-info")).to_contain_text("log-probability -1.2000 (30.1 %)")


def test_it_is_used_by_keyboard(visit: Open, address: str) -> None:
    page = visit(address + "#/?policy=noisy-oracle")
    page.wait_for_selector(ROWS)
    tasks = shown_tasks(page)
    for key in ("j", "ArrowDown", "k"):
        page.keyboard.press(key)
    expect(page.locator(f"{ROWS}.selected .c-task a")).to_have_text(tasks[1])
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(tasks[1])
    page.keyboard.press("2")
    expect(page.locator(".tab.chosen")).to_contain_text("Verdict")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_have_text(tasks[2])
    expect(page.locator(".tab.chosen")).to_contain_text("Verdict")
    page.keyboard.press("x")  # the second one that is marked: the two are compared
    page.wait_for_selector("main.beside")
    expect(page.locator("h1")).to_have_text(tasks[1:3])
    page.keyboard.press("Escape")
    page.wait_for_selector("main.list")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(tasks[3])
    page.keyboard.press("Enter")
    expect(page.locator(ROWS)).to_have_count(1)


def test_two_recordings_and_two_episodes_are_beside_each_other(visit: Open, address: str) -> None:
    page = visit(address)
    page.get_by_role("link", name="Two recordings").click()
    page.wait_for_selector("main.beside")
    names = page.locator("select[aria-label='Recording A'] option").all_inner_texts()
    wanted = [
        next(name for name in names if name.startswith(f"{policy}.jsonl")) for policy in ("noisy-oracle", "oracle")
    ]
    for side, name in zip("AB", wanted, strict=True):
        page.select_option(f"select[aria-label='Recording {side}']", label=name)
    expect(page.locator("tr", has_text="success")).to_contain_text("100.0 %")
    page.locator(".links a").first.click()
    page.wait_for_selector("main.beside .gantt-row")
    first, second = page.locator("h1").all_inner_texts()
    assert first == second
    assert page.locator("main.beside table").get_by_text("failed").count() == 1
    assert len(set(page.locator(".gantt-scale .gantt-track").all_inner_texts())) == 1  # on one scale


def test_curves_grow_while_they_are_looked_at(visit: Open, address: str, run_folder: Path) -> None:
    file = run_folder / "metrics.jsonl"
    before = file.read_bytes()
    page = visit(address + "#/training")
    expect(page.locator(".chart-box")).to_have_count(2)
    expect(page.locator("h2", has_text="GRPO").locator("..")).to_contain_text("step 5")
    try:
        with file.open("a") as stream:
            stream.write(json.dumps({"phase": "grpo", "step": 6, "kind": "train", "success": 0.9, "loss": 1.0}) + "\n")
        expect(page.locator("h2", has_text="GRPO").locator("..")).to_contain_text("step 6")
        expect(page.locator(".chart-box")).to_have_count(3)
    finally:
        file.write_bytes(before)
    page.locator("summary", has_text="advantage 0.75").click()
    page.locator(".tokens .token.read", has_text="4").hover()
    expect(page.locator(".token-info")).to_contain_text("mask 0")
    page.locator(".tokens .token.own").filter(has_text="3").hover()
    expect(page.locator(".token-info")).to_contain_text("log-probability -0.1000 (90.5 %) · advantage 0.75")


def test_the_list_grows_with_its_recording(visit: Open, recordings: Path, tmp_path: Path) -> None:
    lines = (recordings / "oracle.jsonl").read_bytes().splitlines(keepends=True)
    file = tmp_path / "growing.jsonl"
    file.write_bytes(b"".join(lines[:3]))
    with served(file, cache=tmp_path / "cache") as address:
        page = visit(address)
        expect(page.locator(".summary")).to_contain_text("3 episodes · 100.0 % solved")
        with file.open("ab") as stream:
            stream.write(b"".join(lines[3:7]))
        expect(page.locator(".summary")).to_contain_text("7 episodes · 100.0 % solved")
        expect(page.locator(ROWS)).to_have_count(7)
        show = """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
        with page.expect_event("requestfailed", lambda request: request.url.endswith("api/news")):
            page.evaluate(show, True)  # a hidden tab leaves its connection to others
        with file.open("ab") as stream:
            stream.write(b"".join(lines[7:9]))
        page.evaluate(show, False)
        expect(page.locator(".summary")).to_contain_text("9 episodes · 100.0 % solved")


def test_several_seeds_are_drawn_as_a_band(visit: Open, tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"seed{seed}").mkdir()
        records = [
            {"phase": "grpo", "step": step, "kind": "train", "success": (step + seed) / 10} for step in range(1, 5)
        ]
        (tmp_path / f"seed{seed}" / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    with served(tmp_path, cache=tmp_path / "cache") as address:
        page = visit(address + "#/training")
        expect(page.locator(".chart .line")).to_have_count(3)
        page.locator("#bands").check()
        expect(page.locator(".chart .line")).to_have_count(1)
        expect(page.locator(".chart .band")).to_have_count(1)
        expect(page.locator(".chart-read")).to_have_text("0.5")  # of 0.4, 0.5 and 0.6 at the last step
        page.locator(".legend.runs label", has_text="seed2").locator("input").uncheck()
        expect(page.locator(".chart-read")).to_have_text("0.45")


def test_axe_finds_nothing(visit: Open, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="has axe: pip install axe-playwright-python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page = visit(address)
    page.wait_for_selector(f"{ROWS} .badge")
    ask = "(path) => fetch(`api/${path}`).then((answer) => answer.json())"
    policies = {one["policy"]: one["id"] for one in page.evaluate(ask, "state")["recordings"]}
    rows = page.evaluate(ask, "episodes?limit=100")["rows"]
    of_env = {one["env_id"]: one["id"] for one in rows}
    noisy, oracle = (
        next(one["id"] for one in rows if one["recording"] == policies[name]) for name in ("noisy-oracle", "oracle")
    )
    views = ["#/", f"#/recordings/{policies['noisy-oracle']}/{policies['oracle']}", f"#/compare/{noisy}/{oracle}"]
    views += ["#/training", f"#/episode/{of_env['MASOrchestra-MASBenchBreadth-v0']}?tab=graph"]
    views += [f"#/episode/{noisy}?tab={tab}" for tab in ("conversation", "verdict", "database", "costs", "record")]
    views += [f"#/episode/{of_env['TMATR-Math-v0']}?tab={tab}" for tab in ("tree", "agents")]
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in views:
            page.goto(address + path)
            page.wait_for_selector("main h1, main h2, main .row .badge, main table")
            page.wait_for_timeout(50)
            page.evaluate(source)
            for one in page.evaluate("axe.run().then((result) => result.violations)"):
                found += [f"{path} {scheme} {one['id']}: {node['html'][:150]}" for node in one["nodes"][:3]]
    assert not found, "\n".join(found)


def test_a_hundred_thousand_episodes_are_listed_filtered_and_found_again(visit: Open, tmp_path: Path) -> None:
    begin = '{"env_id":"ToolOrchestra-Restaurant-v0","split":"test","difficulty":%d,"prompt":"","instruction":"Do it.",'
    rest = '"tools":[],"task_id":"restaurant/kind%d/%06d","outcome":"%s","why":"%s","turns":[],"cost":%.4f}\n'
    file = tmp_path / "many.jsonl"
    with file.open("w") as stream:
        for n in range(100_000):
            wrong = n % 4 == 0
            ended = ("failed", f"execution: row {n}") if wrong else ("solved", "solved")
            stream.write(begin % (n % 5 + 1) + rest % (n % 7, n, *ended, n / 1e4))
    for _ in range(2):  # the second time by the index of the first
        with served(file, cache=tmp_path / "cache") as address:
            page = visit(address)
            expect(page.locator(".summary")).to_have_text(
                "100,000 episodes · 75.0 % solved [74.7, 75.3]", timeout=30_000
            )
            page.keyboard.press("End")
            expect(page.locator(f"{ROWS}.selected .c-task a")).to_have_text("restaurant/kind4/099999")
            page.fill("input[name=text]", "row 99996")
            page.press("input[name=text]", "Enter")
            expect(page.locator(".summary")).to_have_text("1 of 100,000 episodes · 0.0 % solved [0.0, 79.3]")
            page.locator(f"{ROWS} .c-task a").click()
            expect(page.locator("h1")).to_have_text("restaurant/kind1/099996")


def test_it_is_light_and_dark_as_the_system_is_and_as_is_chosen(visit: Open, address: str) -> None:
    page = visit(address)

    def brightness() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) // 3

    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert (brightness() < 100) == (scheme == "dark")
    for theme, dark in (("light", False), ("dark", True)):
        page.keyboard.press("d")
        expect(page.locator("#theme")).to_have_text(f"Theme: {theme}")
        assert (brightness() < 100) == dark
    page.reload()
    page.wait_for_selector("main")
    assert brightness() < 100  # what was chosen is kept


def test_nothing_is_wider_than_a_narrow_screen(visit: Open, address: str) -> None:
    page = visit(address, width=360)
    for path in ("#/", "#/episode/1", "#/episode/1?tab=verdict", "#/compare/1/21", "#/recordings/1/2", "#/training"):
        page.goto(address + path)
        page.wait_for_selector("main h1, main h2, main .row .badge, main .empty")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


TABS = ("conversation", "verdict", "database", "costs", "tree", "agents", "tokens", "record")


def assert_inert(page: Any, address: str) -> None:
    for path in ("#/", *(f"#/episode/1?tab={tab}" for tab in TABS), "#/compare/1/2"):
        page.goto(address + path)
        page.wait_for_selector("main.list .row .badge, main .card h2")
        for _ in range(3):  # what is folded holds more of it
            page.evaluate("document.querySelectorAll('details.folded').forEach((one) => (one.open = true))")
            page.wait_for_timeout(30)
        assert page.evaluate("[window.hacked, {}.polluted]") == [None, None], path
        assert page.locator("#app img, #app script, #app iframe, #app b").count() == 0, path
        text = page.locator("#app").inner_text()
        assert "<img src=x onerror=" in text, path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", text), path
        assert "\\u202e" in text, path
    page.goto(address + "#/episode/1")
    call = page.locator(".call", has_text="read_file")
    more = call.get_by_role("button", name="Show 100,000 more of 1,000,000 characters")
    more.evaluate("(one) => one.click()")
    pieces = call.locator(".text > span").evaluate_all(
        "(all) => all.flatMap((one) => Array.from(one.childNodes, (piece) => piece.length))"
    )
    assert sum(pieces) >= 104_000
    assert max(pieces) <= 500  # a browser needs seconds to break a longer word into lines


@pytest.mark.long
def test_hostile_content_is_inert_on_the_served_page(visit: Open, hostile: Path, tmp_path: Path) -> None:
    with served(hostile, cache=tmp_path) as address:
        assert_inert(visit(address), address)


def test_hostile_content_is_inert_in_an_exported_file(visit: Open, hostile: Path, tmp_path: Path) -> None:
    from toolorchestra.cli.main import main

    file = tmp_path / "page.html"
    assert main(["view", str(hostile), "--export", str(file)]) == 0
    assert_inert(visit(file.as_uri()), file.as_uri())


def test_an_exported_file_does_what_the_page_does_without_a_server(
    visit: Open, recordings: Path, run_folder: Path, tmp_path: Path
) -> None:
    from toolorchestra.cli.main import main

    file = tmp_path / "page.html"
    assert main(["view", str(recordings), str(run_folder), "--export", str(file)]) == 0
    page = visit(file.as_uri(), offline=True)
    expect(page.locator(".summary")).to_contain_text("46 episodes · ")
    choose(page, "policy", "oracle")
    expect(page.locator(".summary")).to_have_text("20 of 46 episodes · 100.0 % solved [83.9, 100.0]")
    choose(page, "policy", "noisy-oracle")
    page.get_by_role("group", name="Outcome").get_by_text("failed").click()
    expect(page.locator(".summary")).to_contain_text("of 46 episodes")
    page.locator(f"{ROWS} .c-task a").first.click()
    page.get_by_role("tab", name="Database").click()
    expect(page.locator(".panel")).to_contain_text("Reference trajectory")
    page.get_by_role("link", name="Training").click()
    expect(page.locator(".chart-box")).to_have_count(2)
