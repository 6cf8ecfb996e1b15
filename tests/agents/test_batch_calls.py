from __future__ import annotations

import asyncio

import pytest

from toolorchestra.agents.batch_calls import BatchCalls
from toolorchestra.agents.event_loop import iterate, run, together
from toolorchestra.toolscale.common.errors import ExpertError


def test_coroutines_that_only_wait_for_the_function_share_every_call() -> None:
    batches: list[list[str]] = []
    calls = BatchCalls(lambda items: batches.append(items) or items)

    async def player(name: str, turns: int) -> None:
        for turn in range(turns):
            await calls.ask(f"{name}{turn}")

    run(together(player("a", 3), player("b", 1), player("c", 2)))
    assert batches == [["a0", "b0", "c0"], ["a1", "c1"], ["a2"]]


def test_one_that_waits_for_something_else_holds_up_nobody() -> None:
    batches: list[list[str]] = []
    calls = BatchCalls(lambda items: batches.append(items) or items)

    async def main() -> None:
        tool = asyncio.Event()

        async def slow() -> None:
            await calls.ask("slow0")
            await tool.wait()
            await calls.ask("slow1")

        async def fast() -> None:
            for turn in range(3):
                await calls.ask(f"fast{turn}")
            tool.set()

        await together(slow(), fast())

    run(main())
    assert batches == [["slow0", "fast0"], ["fast1"], ["fast2"], ["slow1"]]


def test_an_answer_that_is_an_error_is_raised_to_who_asked() -> None:
    calls = BatchCalls(lambda items: [ExpertError("too busy") if item == "b" else item for item in items])

    async def main() -> list[object]:
        return await asyncio.gather(*map(calls.ask, "abc"), return_exceptions=True)

    a, b, c = run(main())
    assert (a, str(b), c) == ("a", "too busy", "c")


def test_a_function_that_fails_fails_for_all_who_wait() -> None:
    calls: BatchCalls[str, str] = BatchCalls(lambda items: [][0])

    async def main() -> list[object]:
        return await asyncio.gather(*map(calls.ask, "ab"), return_exceptions=True)

    assert [type(error) for error in run(main())] == [IndexError, IndexError]


def test_a_failure_ends_all_and_is_raised_as_it_is() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    async def fail() -> None:
        raise ExpertError("no such host")

    with pytest.raises(ExpertError, match=r"^no such host$"):
        run(together(wait(), fail(), wait()))
    assert ended == ["waiting"] * 2


def test_coroutines_run_where_an_event_loop_runs_already() -> None:
    async def numbers() -> object:
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def notebook() -> list[int]:
        async def one() -> int:
            return 3

        return [*iterate(numbers()), run(one())]

    assert asyncio.run(notebook()) == [0, 1, 2, 3]
