"""Make the pictures of docs/viewer.md, docs/gallery.md and README.md: the page of `toolorchestra view`, light and dark.

    python docs/viewer_pictures.py RUN…        folders of training runs, for the pictures of curves and tokens

Recordings are played for it; the pictures are written beside this file, in viewer/. Needs Debian's `chromium`, the
Python packages `playwright` and `pillow`, and the extra `view`.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from toolorchestra.envs.records.episode import write_episodes
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.teachers import teacher_of

PICTURES = Path(__file__).parent / "viewer"
WIDTH, HEIGHT = 1280, 800
COMMAND = [sys.executable, "-m", "toolorchestra"]
RESTAURANT = ["rollout", "ToolOrchestra-Restaurant-v0", "--episodes", "300", "--json"]
RECORDINGS = {
    "noisy": [*RESTAURANT, "--policy", "noisy-oracle", "--error", "0.3"],
    "careful": [*RESTAURANT, "--policy", "noisy-oracle", "--error", "0.05"],
    "team": ["rollout", "TMATR-Math-v0", "--policy", "random", "--episodes", "20", "--json"],
    "experts": ["rollout", "ToolOrchestra-Restaurant-v0", "--policy", "strongest", "--episodes", "12", "--json",
                "--env-options", "tools", "full"],
    "paramanager": ["rollout", "ParaManager-Restaurant-v0", "--policy", "oracle", "--episodes", "12", "--json"],
}  # fmt: skip
TAUGHT = {"msarl": ("MSARL-Math-v0", {}), "tmatr": ("TMATR-Math-v0", {"python": "simulated"}),
          "dialogue": ("Dialogue-Restaurant-v0", {})}  # fmt: skip
"""Recordings of the teachers of teams, who err now and then."""
FAMILIES = ("power_remainder", "other_number")
"""Families of mathematical problems that all teachers can solve."""
ERROR = 0.3


def recorded(folder: Path) -> None:
    """Play the recordings."""
    for name, words in RECORDINGS.items():
        options = ["--env-options", "python", "simulated"] if name == "team" else []
        file = folder / f"{name}.jsonl"
        subprocess.run([*COMMAND, *words, *options, "--out", str(file)], check=True, stdout=subprocess.DEVNULL)
    designs = ["run", "--source", "MASBenchBreadth", "--orchestrator", "oracle", "--episodes", "12", "--json"]
    file = folder / "designs.jsonl"
    subprocess.run(
        [sys.executable, "-m", "examples.designs", *designs, "--record", str(file)],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=PICTURES.parents[1],
    )
    for name, (env_id, given) in TAUGHT.items():
        taught(folder / f"{name}.jsonl", env_id, given)


def taught(file: Path, env_id: str, options: dict[str, Any]) -> None:
    """Record a team's teacher."""
    rng = random.Random(0)
    env = make_multiagent(env_id, **options)
    teacher, episodes, seed = teacher_of(env), [], 0
    while len(episodes) < 12:
        env.reset(seed=seed)
        play, seed = env.play, seed + 1
        if play.task.id.startswith("math/") and play.task.id.split("/")[1] not in FAMILIES:
            continue
        while not play.over:
            play.act(teacher.inject_error(play, rng) if rng.random() < ERROR else teacher.teach(play))
        episodes.append(play.episode)
    env.close()
    write_episodes(file, episodes)


@contextmanager
def served(*paths: Path) -> Iterator[str]:
    """Serve the page; yield its address."""
    words = [*COMMAND, "view", *map(str, paths), "--no-browser"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.wait(10)


def numbers(page: Page) -> dict[str, int]:
    """Return the numbers of the recordings by the names of their files."""
    found = page.evaluate("fetch('api/state').then((answer) => answer.json()).then((state) => state.recordings)")
    return {one["name"].rpartition("/")[2]: one["id"] for one in found}


def opened(page: Page, filters: str, part: str) -> None:
    """Open the first episode that fits filters, at one of its parts."""
    page.goto(page.url.split("#")[0] + f"#/?{filters}")
    page.locator(".summary", has_text=" of ").wait_for()
    page.wait_for_selector(".rows .row .badge")
    page.keyboard.press("Enter")
    page.get_by_role("tab", name=part).click()
    page.wait_for_timeout(400)


def shown_list(page: Page) -> None:
    page.wait_for_selector(".rows .row .badge")


def database(page: Page) -> None:
    opened(page, f"recording={numbers(page)['noisy.jsonl']}&reason=execution&level=3", "Database")
    page.get_by_role("tab", name="Database").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('.tabs').scrollIntoView()")


def episode(page: Page) -> None:
    opened(page, f"recording={numbers(page)['noisy.jsonl']}&level=5&outcome=failed&order=-calls", "Conversation")
    page.evaluate("document.querySelector('main.episode > .card').scrollIntoView()")


def graph(page: Page) -> None:
    opened(page, "text=breadth4", "Graph")
    page.evaluate("document.querySelector('.tabs').scrollIntoView()")
    page.locator(".board .box").nth(1).click()


def tree(page: Page) -> None:
    opened(page, "policy=random&order=-calls", "Tree")
    page.evaluate("document.querySelector('.tabs').scrollIntoView()")


def compared(page: Page) -> None:
    by_name = numbers(page)
    page.goto(page.url.split("#")[0] + f"#/recordings/{by_name['noisy.jsonl']}/{by_name['careful.jsonl']}")
    page.wait_for_selector(".links a")


def episodes_beside(page: Page) -> None:
    compared(page)
    page.locator(".links a").first.click()
    page.wait_for_selector("main.beside .gantt-row")


def training(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#/training")
    page.wait_for_selector(".chart-box")
    if page.locator("#bands").count():
        page.locator("#bands").check()


def tokens(page: Page) -> None:
    training(page)
    page.wait_for_selector(".folded summary")
    page.locator(".folded summary", has_text="reward 0 ·").first.click()
    page.evaluate("document.querySelector('.folded').closest('.card').scrollIntoView()")
    page.locator(".tokens .token.own").last.hover()


def of_protocol(name: str, order: str = "-calls") -> Callable[[Page], None]:
    """Return what shows the request, the timeline and the conversation of an episode in a recording."""

    def show(page: Page) -> None:
        opened(page, f"recording={numbers(page)[name + '.jsonl']}&order={order}", "Conversation")
        page.evaluate("document.querySelector('main.episode > .card').scrollIntoView()")

    return show


VIEWS: dict[str, Callable[[Page], None]] = {
    "list": shown_list,
    "episode": episode,
    "database": database,
    "graph": graph,
    "tree": tree,
    "recordings": compared,
    "episodes": episodes_beside,
    "training": training,
    "tokens": tokens,
    "gallery_toolorchestra": of_protocol("experts"),
    "gallery_paramanager": of_protocol("paramanager"),
    "gallery_masorchestra": of_protocol("designs"),
    "gallery_msarl": of_protocol("msarl", "-turns"),
    "gallery_tmatr": of_protocol("tmatr", "-turns"),
    "gallery_dialogue": of_protocol("dialogue", "-turns"),
}


def taken(browser: Any, address: str, view: Callable[[Page], None], theme: str, width: int = WIDTH) -> Image.Image:
    """Return the picture of a view in a theme."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=theme)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("main")
    view(page)
    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    return picture


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of training runs")
    parser.add_argument("--only", nargs="*", default=list(VIEWS), choices=VIEWS)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "recordings"
        recorded(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(folder, *options.runs) as address:
            for name in options.only:
                for theme in ("light", "dark"):
                    picture = taken(browser, address, VIEWS[name], theme)
                    picture.convert("RGB").save(PICTURES / f"{name}_{theme}.webp", lossless=True, quality=100, method=6)
        browser.close()


if __name__ == "__main__":
    main()
