from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.event_loop import run, together
from toolorchestra.algos.rollout.starts import make_env
from toolorchestra.envs.step_threads import StepThreads

HERE = threading.current_thread()


def threads_of(env: Any, *steps: Any) -> list[bool]:
    """Whether each step ran in the thread of the event loop."""

    async def main() -> list[bool]:
        runner, found = StepThreads(2), []
        for step in steps:
            found.append(await runner.run(env, lambda step=step: (step(), threading.current_thread() is HERE)[1]))
        runner.close()
        return found

    return run(main())


def nap() -> None:
    time.sleep(0.02)


def work() -> None:
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass


def test_where_a_step_runs_is_what_the_environment_says() -> None:
    assert threads_of(SimpleNamespace(may_block=False), nap, nap) == [True, True]
    assert threads_of(SimpleNamespace(may_block=True), int, int) == [False, False]


def test_steps_of_a_foreign_environment_leave_the_event_loop_once_one_has_slept() -> None:
    # a step that waits for Python's lock while others have the core looks like one that sleeps: it may be tried again
    tries = (threads_of(object(), work, work, nap, int) for _ in range(5))
    assert next((one for one in tries if one[:3] == [True, True, True]), None) == [True, True, True, False]


@pytest.mark.parametrize(
    ("name", "options", "blocks"),
    [("ToolOrchestra-Restaurant-v0", {}, False), ("ToolOrchestra-Restaurant-v0", {"judge": ScriptedChat([])}, True)],
)
def test_our_environments_know_it_from_what_they_ask(name: str, options: dict[str, Any], blocks: bool) -> None:
    env = make_env(name, options)
    assert env.unwrapped.may_block is False  # before the first episode there is nothing to wait for
    env.reset(seed=0)
    assert env.unwrapped.may_block is blocks
    env.close()


def test_steps_that_block_run_at_the_same_time() -> None:
    barrier = threading.Barrier(8, timeout=10)  # passed only if all eight are in a step together
    steps = StepThreads(8)
    env = SimpleNamespace(may_block=True)

    async def step() -> None:
        await steps.run(env, barrier.wait)

    async def main() -> None:
        async with asyncio.timeout(10):
            await together(*(step() for _ in range(8)))

    run(main())
    steps.close()
