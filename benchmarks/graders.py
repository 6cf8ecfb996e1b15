"""Grade hostile answers, compute hostile expressions, and print how long the slowest took.

    python benchmarks/graders.py                     1,000,000 texts: about an hour on one core
    python benchmarks/graders.py --texts 10000
    python benchmarks/graders.py --texts 200000 --record    adds 200,000 others to those of results/graders.json

Each text is an answer to a question with a random reference answer, as it is, in a box, or in a tag, and an expression
for the two calculators. The run fails if anything raises, if a call ends otherwise than OK or EXEC_ERR, or if one of
them takes more than 50 ms of CPU time. What was slow once is measured twice more and counts as its fastest run, since
what is measured is work and not the machine. One text in 500 is an answer of a million characters.

Texts are tried in slices of 10,000, each with a seed of its own. `--record` writes the results down after each slice,
and goes on with the seeds that the record lacks; delete the record to begin again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from provenance import provenance

from toolorchestra.envs.checks.hostile_expressions import hostile_expressions, long_answers
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.answers.answers import is_right
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status

RESULTS = Path(__file__).parent / "results" / "graders.json"
LIMIT = 0.05
SLICE = 10_000
REFERENCES = ("5", r"\frac{3}{4}", r"2\sqrt{39}", "5x+1", r"\{1,2\}", "Brenholm", "explorer", "B", "87 years", "0")
FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: rf"\boxed{{{text}}}",
    lambda text: f"<answer>{text}</answer>",
)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its CPU time: the least of three runs if the first was slow."""
    start = time.process_time()
    result = run()
    seconds = time.process_time() - start
    for _ in range(2 if seconds > LIMIT / 2 else 0):
        start = time.process_time()
        run()
        seconds = min(seconds, time.process_time() - start)
    return result, seconds


def attack(texts: int, seed: int) -> tuple[Counter[str], dict[str, list[tuple[float, str]]]]:
    """Grade and compute so many texts; return what became of them, and the three slowest of each kind.

    Raises:
        AssertionError: Something raised, ended wrongly, or took too long; the message says what.
    """
    rng = random.Random(seed)
    expressions, answers = hostile_expressions(rng), long_answers(rng)
    domain = load_domain("restaurant")
    calculators = [Calculator(), domain.tools["calculator"]]
    found: Counter[str] = Counter()
    slowest: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def note(kind: str, seconds: float, text: str) -> None:
        assert seconds <= LIMIT, f"{kind}: {seconds * 1e3:.0f} ms for {text[:300]!r}"
        if len(slowest[kind]) < 3 or seconds > slowest[kind][-1][0]:
            slowest[kind] = sorted([*slowest[kind], (seconds, text[:200])], reverse=True)[:3]

    for number in range(texts):
        kind, text = ("million", next(answers)) if number % 500 == 499 else next(expressions)
        said, right = rng.choice(FORMS)(text), rng.choice(REFERENCES)
        try:
            judged, seconds = timed(partial(is_right, said, [right]))
            note(f"{kind}: graded", seconds, said)
            found["right" if judged else "wrong"] += 1
            calculator, arguments = calculators[number % 2], {"expression": text[:500]}
            run = partial(calculator.run, arguments, NO_CONTEXT)
            result, seconds = timed(run)
            note(f"{kind}: computed", seconds, text)
            assert result.status in (Status.OK, Status.EXEC_ERR), f"{result.status} for {text!r}"
            found[f"{('exact', 'decimal')[number % 2]} calculator: {result.status}"] += 1
            json.dumps(result.value, allow_nan=False)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {said[:300]!r} against {right!r}: {error}") from error
    return found, slowest


def add(record: dict[str, Any], seed: int, texts: int) -> None:
    """Try a slice of the texts, and add what became of them to a record."""
    start = time.process_time()
    record["seeds"].append(seed)
    try:
        found, slowest = attack(texts, seed)
    except AssertionError as error:
        record["faults"].append(f"seed {seed}: {error}")
        return
    record["texts"] += texts
    record["cpu_seconds"] = round(record["cpu_seconds"] + time.process_time() - start, 1)
    record["found"] = dict(sorted((Counter(record["found"]) + found).items()))
    for kind, slow in slowest.items():
        shown = [[round(seconds * 1e3, 2), text] for seconds, text in slow]
        record["slowest_ms"][kind] = sorted([*record["slowest_ms"].get(kind, ()), *shown], reverse=True)[:3]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first slice")
    parser.add_argument("--record", action="store_true", help="add the results to the output")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"a JSON file; {RESULTS.name} by default")
    given = parser.parse_args()
    record: dict[str, Any] = {"texts": 0, "cpu_seconds": 0.0, "seeds": [], "faults": [], "found": {}, "slowest_ms": {}}
    if given.record and given.output.exists():
        record |= json.loads(given.output.read_text(encoding="utf-8"))  # its provenance is written anew
    new, left = itertools.filterfalse(set(record["seeds"]).__contains__, itertools.count(given.seed)), given.texts
    while left > 0:
        add(record, next(new), min(left, SLICE))
        left -= SLICE
        if given.record:
            write_whole(given.output, json.dumps({**record, **provenance()}, indent=1) + "\n")
    for kind, slow in sorted(record["slowest_ms"].items()):
        print(f"{kind:24}" + "".join(f"{milliseconds:>9.1f} ms" for milliseconds, _ in slow))
    print(", ".join(f"{count:,} {what}" for what, count in record["found"].items()))
    for fault in record["faults"]:
        print(fault, file=sys.stderr)
    faults = len(record["faults"])
    held = f"{faults} slices did NOT hold" if faults else f"nothing raised, nothing above {LIMIT * 1e3:g} ms"
    print(f"{record['texts']:,} texts in {record['cpu_seconds']:,.0f} s of CPU time: {held}.")
    return bool(record["faults"])


if __name__ == "__main__":
    sys.exit(main())
