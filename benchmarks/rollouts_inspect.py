"""The episodes of `benchmarks/rollouts.py` by the runner of inspect_ai: five replies each, from the same server.

    python benchmarks/rollouts_inspect.py URL EPISODES IN_FLIGHT

It needs inspect_ai and openai only, and prints the seconds that the evaluation took, and its CPU seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.solver import solver

REPLIES = 5


@solver
def five_replies():  # type: ignore[no-untyped-def]
    """Ask for five replies, and show each what a tool found."""

    async def solve(state, generate):  # type: ignore[no-untyped-def]
        for turn in range(REPLIES):
            state = await generate(state)
            if turn < REPLIES - 1:
                state.messages.append(ChatMessageUser(content='{"status": "OK", "result": 12}'))
        return state

    return solve


def main() -> None:
    """Run the evaluation."""
    url, episodes, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    task = Task(dataset=[Sample(input=f"Question {n}") for n in range(episodes)], solver=five_replies())
    model = get_model("openai-api/local/m", base_url=url, api_key="none")
    with tempfile.TemporaryDirectory() as folder:
        began, worked = time.perf_counter(), time.process_time()
        (log,) = eval(
            task,
            model=model,
            max_samples=in_flight,
            max_connections=in_flight,
            log_dir=folder,
            display="none",
            log_level="error",
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    assert log.status == "success", log.error
    print(json.dumps({"seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main()
