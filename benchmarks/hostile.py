"""Send hostile actions of every kind and print how the environment answered them.

    python benchmarks/hostile.py                    100,000 actions against the restaurant

For each kind: actions sent, calls answered by status, and seconds of CPU time. The run fails if `step` raises, if a
call is answered without a status and a message, if an episode ends in a fault of the library's own, or if the
database changes in a turn in which no call ended OK (by the journal after every action, and by a comparison of all
rows every so often).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from provenance import provenance

from toolorchestra.envs.checks.hostile import KINDS, hostile_actions
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status

TURNS = 20
ACTIONS_BETWEEN_DUMPS = 500
RESULTS = Path(__file__).parent / "results" / "hostile.json"


def rows(session: Session) -> dict[str, Any]:
    """Return all rows of all tables."""
    return {t: session.execute(f"SELECT * FROM {quote(t)}").fetchall() for t in session.database.tables}


def attack(domain: Domain, actions: int, seed: int) -> tuple[dict[str, Counter[str]], dict[str, float]]:
    """Send `actions` actions, of each kind as many, and return per kind the statuses and the seconds.

    Raises:
        AssertionError: The contract is broken; the message says by what.
    """
    rng = random.Random(seed)
    env = ToolOrchestraEnv(domain=domain.file.parent if domain.file else domain.name, split="all", max_turns=TURNS)
    arguments = Guesser(domain.database, rng).arguments
    sources = {kind: hostile_actions(rng, list(domain.tools.values()), arguments, [kind]) for kind in KINDS}
    statuses: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    seconds = dict.fromkeys(KINDS, 0.0)
    over = True
    for number in range(actions):
        kind = KINDS[number % len(KINDS)]
        if over:
            env.reset(seed=number)
        action = next(sources[kind])
        session = env.play.session
        before = session.touched()
        all_before = rows(session) if number % ACTIONS_BETWEEN_DUMPS == 0 else None
        start = time.process_time()
        observation, reward, terminated, truncated, info = env.step(action)
        seconds[kind] += time.process_time() - start
        over = terminated or truncated
        what = f"action {number} ({kind})"
        assert env.observation_space.contains(observation), f"{what}: the observation is outside its space"
        assert info.get("outcome") not in ("infra_error", "judge_error"), f"{what}: {info['verdict']}"
        assert reward in (0.0, 1.0), f"{what}: reward {reward}"
        assert info["calls"] or terminated, f"{what}: no call was answered"
        for record in info["calls"]:
            assert record.status is Status.OK or (record.error or "").strip(), f"{what}: no message"
            statuses[kind][record.status] += 1
        if terminated:
            statuses[kind]["answer"] += 1
        elif not any(record.status is Status.OK for record in info["calls"]):
            assert session.touched() == before, f"{what}: the database changed"
            assert all_before is None or rows(session) == all_before, f"{what}: rows changed"
    env.close()
    return statuses, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", default="restaurant", help="name or folder of a domain")
    parser.add_argument("--actions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help=f"write the results to {RESULTS.name}")
    given = parser.parse_args()
    statuses, seconds = attack(load_domain(given.domain), given.actions, given.seed)
    columns = [*Status, "answer"]
    print(f"{'kind':30}{'actions':>9}" + "".join(f"{column:>11}" for column in columns) + f"{'seconds':>10}")
    for number, kind in enumerate(KINDS):
        sent = len(range(number, given.actions, len(KINDS)))
        found = "".join(f"{statuses[kind][column]:>11,}" for column in columns)
        print(f"{kind.replace('_', ' '):30}{sent:>9,}{found}{seconds[kind]:>10.1f}")
    total = sum(statuses.values(), Counter())
    print(f"{'all':30}{given.actions:>9,}" + "".join(f"{total[column]:>11,}" for column in columns), end="")
    print(f"{sum(seconds.values()):>10.1f}\nNothing raised, and nothing changed that no valid call changed.")
    if given.record:
        kinds = {k: {"statuses": dict(statuses[k]), "seconds": round(seconds[k], 2)} for k in KINDS}
        RESULTS.write_text(json.dumps({**provenance(), "actions": given.actions, "kinds": kinds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
