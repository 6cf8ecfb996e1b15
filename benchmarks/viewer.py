"""How soon `toolorchestra view` shows a recording of 100,000 episodes, and how much memory its server takes.

    python benchmarks/viewer.py                              100,000 episodes, at least 1 GB; a few minutes
    python benchmarks/viewer.py --record                     and write results/viewer.json
    python benchmarks/viewer.py --episodes 2000 --rounds 1   a quick look

The recording is made of episodes that the noisy oracle plays in all domains with all tools, each written many times
with other seeds. The page is opened in headless Chromium, which is started before the clock is; needs Debian's
`chromium` and the Python package `playwright`. Measured are the seconds from the start of the command

- to the printed address, to the browser's first contentful paint, and to the first rows of the list, without an index
  (`first`) and with the one that a server before it made (`again`), and to the end of indexing;

then the milliseconds of questions that the page asks, and the server's peak of resident memory after all of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
from harness import cli, median, provenance, resident, rounded, write
from playwright.sync_api import Browser, sync_playwright

from toolorchestra.envs.records.episode import Episode, read_episodes

ENV = "ToolOrchestra-All-v0"
QUESTIONS = {
    "filter by outcome and reason": "episodes?outcome=failed&reason=execution&limit=100",
    "filter by tool": "episodes?tool=get_order&limit=100",
    "order by cost": "episodes?order=-cost&limit=100",
    "last rows": "episodes?offset=99000&limit=100",
    "search": "episodes?text=refund&limit=100",
    "state": "state",
    "an episode": "episodes/777",
    "its reference": "episodes/777/reference",
}
_WAIT = 300.0


def made(folder: Path, episodes: int, least_bytes: int) -> Path:
    """Return a recording of so many episodes; fewer bytes than asked for are made up for by more episodes."""
    played = folder / "played.jsonl"
    command = [sys.executable, "-m", "toolorchestra", "rollout", ENV, "--policy", "noisy-oracle", "--json"]
    options = ["--env-options", "tools", "full", "--episodes", "500", "--out", str(played)]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    file, found = folder / "large.jsonl", list(read_episodes(played))
    count = written = 0
    with file.open("wb") as stream:
        while count < episodes or (written < least_bytes and episodes >= 100_000):
            episode: Episode = msgspec.structs.replace(found[count % len(found)], seed=count)
            written += stream.write(episode.to_json() + b"\n")
            count += 1
    shutil.copy(played.with_suffix(".json"), file.with_suffix(".json"))
    return file


@contextmanager
def served(file: Path, cache: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, float]]:
    """Start the command; yield its process, the address, and the seconds until that was printed."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolorchestra", "view", str(file), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        yield process, address, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def opened(browser: Browser, address: str, printed: float) -> dict[str, float]:
    """Return the seconds from the command's start to the first paint and to the first rows."""
    page = browser.new_page()
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(".rows .row .badge")
    rows = time.perf_counter() - began
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    page.close()
    return {"address": printed, "first paint": printed + paint, "first rows": printed + rows}


def indexed(address: str) -> dict[str, Any]:
    """Wait for the end of indexing, and return the state."""
    end = time.monotonic() + _WAIT
    while time.monotonic() < end:
        with urlopen(f"{address}api/state") as answer:
            state: dict[str, Any] = json.load(answer)
        if state["done"]:
            return state
        time.sleep(0.2)
    raise TimeoutError(f"The recording was not indexed within {_WAIT:.0f} s.")


def asked(address: str) -> dict[str, float]:
    """Return the milliseconds of each question: the median of five."""
    found = {}
    for name, path in QUESTIONS.items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            with urlopen(address + "api/" + path) as answer:
                answer.read()
            times.append(1000 * (time.perf_counter() - began))
        found[name] = median(times)
    return found


def measure(file: Path, browser: Browser, folder: Path, number: int) -> dict[str, Any]:
    cache = folder / f"cache-{number}"
    began = time.perf_counter()
    with served(file, cache) as (process, address, printed):
        first = opened(browser, address, printed)
        state = indexed(address)
        first["indexed"] = time.perf_counter() - began
        questions = asked(address)
        page = browser.new_page()
        page.goto(address + "#/?outcome=failed")
        page.wait_for_selector(".rows .row .badge")
        for _ in range(30):  # look through the list, and at some episodes
            page.keyboard.press("PageDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(".turn.user")
        page.close()
        peak = resident("VmHWM", process.pid) / 2**20
    with served(file, cache) as (process, address, printed):
        again = opened(browser, address, printed)
    return {"episodes": state["episodes"], "first": first, "again": again, "questions": questions, "peak": peak}


def main(episodes: int = 100_000, least_bytes: int = 10**9, rounds: int = 3, record: bool = False) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "This needs Chromium: apt-get install chromium"
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        file = made(folder, episodes, least_bytes)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        each = [measure(file, browser, folder, number) for number in range(rounds)]
        size = file.stat().st_size
        index = sum(one.stat().st_size for one in (folder / "cache-0").rglob("*") if one.is_file())
        browser.close()
    typical = median(each)
    found: dict[str, Any] = {
        "episodes": typical["episodes"],
        "bytes": size,
        "bytes of the index": index,
        **{f"seconds, {stage}": rounded(typical[stage], 2) for stage in ("first", "again")},
        "worst seconds to the first rows": round(max(one["first"]["first rows"] for one in each), 2),
        "milliseconds of questions": rounded(typical["questions"], 1),
        "peak of the server's memory, MiB": round(max(one["peak"] for one in each), 1),
        "rounds": rounds,
        "load of the machine at the end": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(found, indent=1))
    if record:
        made_by = provenance("toolorchestra", "msgspec", "starlette", "uvicorn", "playwright")
        write("viewer", {"provenance": made_by, **found})


if __name__ == "__main__":
    cli(main)
