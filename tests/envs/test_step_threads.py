from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.event_loop import run, together
from toolorchestra.envs.starts import make_env
from toolorchestra.envs.step_threads import StepThreads

HERE = threading.current_thread()


def threads_of(env: Any, steps: int) -> list[bool]:
    """Whether each step ran in the thread of the event loop."""

    async def main() -> list[bool]:
        runner = StepThreads(2)
        found = [await runner.run(env, lambda: threading.current_thread() is HERE) for _ in range(steps)]
        runner.close()
        return found

    return run(main())


@pytest.mark.parametrize(
    ("env", "here"),
    [
        (SimpleNamespace(may_block=False), True),
        (SimpleNamespace(may_block=True), False),
        (SimpleNamespace(may_block=None), False),
        (object(), False),  # of another library, which does not say it
        (SimpleNamespace(unwrapped=SimpleNamespace(may_block=False)), True),
    ],
)
def test_a_step_leaves_the_event_loop_unless_the_environment_says_that_it_cannot_block(env: Any, here: bool) -> None:
    assert threads_of(env, 3) == [here] * 3


@pytest.mark.parametrize(
    ("name", "options", "blocks"),
    [
        ("ToolOrchestra-Restaurant-v0", {}, False),
        ("ToolOrchestra-Restaurant-v0", {"answer": "text", "judge": ScriptedChat([])}, True),
    ],
)
def test_our_environments_know_it_from_what_they_ask(name: str, options: dict[str, Any], blocks: bool) -> None:
    env = make_env(name, options)
    assert env.unwrapped.may_block is False  # before the first episode there is nothing to wait for
    env.reset(seed=0)
    assert env.unwrapped.may_block is blocks
    env.close()


def test_steps_that_block_run_at_the_same_time() -> None:
    barrier = threading.Barrier(8, timeout=60)  # passed only if all eight are in a step together
    steps = StepThreads(8)
    env = SimpleNamespace(may_block=True)

    async def step() -> None:
        await steps.run(env, barrier.wait)

    async def main() -> None:
        async with asyncio.timeout(60):
            await together(*(step() for _ in range(8)))

    run(main())
    steps.close()
