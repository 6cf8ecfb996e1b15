from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import msgspec
import pytest
from answering import right
from msgspec import structs

from toolorchestra.envs.records.render import episode_text, raw_text
from toolorchestra.toolscale.tools.tool import InnerCall, Status

Make = Callable[..., Any]


@pytest.fixture
def env(make_env: Make) -> Any:
    env = make_env(render_mode="ansi", orchestrator=None)
    env.reset(options={"task_id": "mini/ask_price/000"})
    return env


def test_a_transcript_shows_request_calls_results_and_outcome(env: Any) -> None:
    task = env.unwrapped.task
    env.step([{"name": "get_ordr"}])
    env.step('Let me look.<tool_call>{"name": "get_order", "arguments": {"order_id": "O001"}}</tool_call>')
    env.step("It costs a lot.")
    env.step([{"name": "submit", "arguments": {"answer": {"price": 12.5}, "message": "It cost a lot."}}])
    drawn = env.render()
    for part in (
        task.instruction,
        "mini/ask_price/000 · ",
        "difficulty 1",
        "✗ PARSE_ERR: Unknown tool",
        "Let me look.",
        'get_order(order_id="O001")  0.0–0.2 s, $0.0100',
        '{"order_id":"O001","customer_id"',
        "It costs a lot.",
        "╭─ message ─",
        "╭─ answer ─",
        "│ price: 12.5 ",
        "│ It cost a lot. ",
        "failed · reward 0 · 4 turns · 3 calls · $0.0100 · 0.2 s",
        "completeness: orders['O013'] was not looked up, and no result shows it with its price; fidelity: the",
    ):
        assert part in drawn
    assert all(len(line) <= 100 for line in drawn.splitlines())
    assert "\x1b" not in drawn


def test_the_answer_to_a_question_is_shown_as_such_however_it_is_given() -> None:
    env: Any = gym.make("ToolOrchestra-Math-v0").unwrapped
    for action in (r"It is \boxed{12}.", [{"name": "submit", "arguments": {"answer": "12"}}]):
        env.reset(seed=0)
        env.step([{"name": "calculator", "arguments": {"expression": "3 * 4"}}])
        env.step(action)
        shown = episode_text(env.episode)
        assert "╭─ answer ─" in shown
        assert "12" in shown.partition("─ answer ─")[2].splitlines()[1]
        assert "None" not in shown


def test_a_solved_episode_looks_solved(env: Any) -> None:
    task = env.unwrapped.task
    env.step([{"name": call.name, "arguments": call.arguments} for call in task.reference_calls])
    env.step(right(env))
    assert "solved · reward 1 · 2 turns · 2 calls" in env.render()


def test_in_a_notebook_the_transcript_is_returned_too(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=0)
    shown = env.render()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert env.render() == shown != ""


def test_an_episode_in_progress_has_no_ending(env: Any) -> None:
    assert "reward" not in env.render()
    env.step([{"name": "count_orders"}])
    assert "→ 40" in env.render()
    assert "reward" not in env.render()


def test_colours_can_be_kept(env: Any) -> None:
    env.step([{"name": "count_orders"}])
    coloured = episode_text(env.unwrapped.episode, color=True)
    assert "\x1b[1;33mcount_orders\x1b[0m()" in coloured
    assert re.search(r"\x1b\[32m→ 40 *\x1b\[0m", coloured)
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == env.render().splitlines()


@pytest.mark.parametrize(
    ("said", "name", "answer"),
    [
        ("[red]not markup[/red]", "[red]not markup[/red](", "[red]not markup[/red]"),
        ("[/]", "[/](", "[/]"),
        ("\x1b[31mred", r"\u001b[31mred(", r"\u001b[31mred"),
        ("a\x1b]0;title\x07b\x9b2J", r"a\u001b]0;title\u0007b\u009b2J(", r"a\u001b]0;title\u0007b\u009b2J"),
        ("飲み物 ☃", "飲み物 ☃(", "飲み物 ☃"),
        ("", "(no name)(", "(nothing)"),
        ("a\tb\r\nc", "a       b", "a       b"),
    ],
)
def test_any_message_is_rendered_as_text(env: Any, said: str, name: str, answer: str) -> None:
    env.step([{"name": said, "arguments": {"x": said}}])
    env.step(said)
    env.step([{"name": "submit", "arguments": {"answer": {said: said}, "message": said}}])
    lines = env.render().splitlines()
    assert lines[5].strip().startswith(f"1 {name}")
    panel = next(number for number, line in enumerate(lines) if line.startswith("╭─ message ─"))
    assert lines[panel + 1].strip("│ ") == answer
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", env.render())
    env.unwrapped.episode.turns[1] = structs.replace(
        env.unwrapped.episode.turns[1],
        message={"content": f"{said}<tool_call>"},
        calls=env.unwrapped.episode.turns[0].calls,
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", env.render())


def test_arguments_that_could_not_be_read_are_shown_as_they_were_written(env: Any) -> None:
    env.step('<tool_call>{"name": "get_order", "arguments": {"order_id": }}</tool_call>')
    env.step('<tool_call>{"name": "get_order", "arguments": {"ordr": "O001"}}</tool_call><tool_call>get_order')
    env.step([{"name": "get_order", "arguments": '{"order_id": "O0'}, {"name": "get_order", "arguments": {"n": 1}}])
    drawn = env.render()
    for part in (
        'get_order({"name": "get_order", "arguments": {"order_id": }})',
        'get_order({"ordr": "O001"})',
        "(no name)(get_order)",
        'get_order({"order_id": "O0)',
        'get_order({"n":1})',
    ):
        assert part in drawn


def test_raw_text_has_every_message_as_it_was_written(env: Any) -> None:
    said = 'Red \x1b[31m and back\u202ewards.\n<tool_call>{"name": </tool_call>'
    env.step(said)
    env.step([{"name": "count_orders"}])
    env.step("Forty.")
    raw = raw_text(env.unwrapped.episode)
    assert 'Red \\u001b[31m and back\\u202ewards.\n<tool_call>{"name": </tool_call>\n' in raw
    assert '"function":{"name":"count_orders"' in raw
    assert "── 3 orchestrator ──\nForty.\n" in raw
    assert env.unwrapped.task.instruction in raw
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", raw)


def test_long_values_are_shortened(env: Any) -> None:
    env.step([{"name": "list_orders", "arguments": {"most": 20}}])
    value = msgspec.json.encode(env.unwrapped.episode.turns[0].calls[0].value).decode()
    assert env.render().splitlines()[-1] == f"    {value[:95]}…"  # without a space, what fits in a line
    turn = env.unwrapped.episode.turns[0]
    call = structs.replace(turn.calls[0], value="soup " * 100)
    env.unwrapped.episode.turns[0] = structs.replace(turn, calls=(call,))
    shown = " ".join(line.strip() for line in env.render().splitlines()[6:])
    assert shown == f'→ "{"soup " * 79}soup…'


def test_human_mode_prints_turns_as_they_come(make_env: Make, capsys: pytest.CaptureFixture[str]) -> None:
    env = make_env(render_mode="human")
    env.reset(options={"task_id": "mini/ask_price/000"})
    assert "mini/ask_price/000" in capsys.readouterr().out
    env.step([{"name": "count_orders"}])
    assert "count_orders()" in capsys.readouterr().out
    env.step(env.unwrapped.final("Forty."))
    out = capsys.readouterr().out
    assert "Forty." in out
    assert "failed · reward 0" in out
    assert env.render() is None


def test_inner_calls_are_indented(env: Any) -> None:
    deep = InnerCall("local_search", Status.TIMEOUT, None, "too slow", start=1.0, end=2.0)
    inner = InnerCall("gpt-5", value="4", cost=0.5, start=0.0, end=2.5, children=(deep,))
    env.step([{"name": "count_orders"}])
    turn = env.unwrapped.episode.turns[0]
    call = structs.replace(turn.calls[0], name="ask_gpt_5", children=(inner,))
    env.unwrapped.episode.turns[0] = structs.replace(turn, calls=(call,))
    lines = [line.strip("\n") for line in env.render().splitlines()]
    at = next(i for i, line in enumerate(lines) if "ask_gpt_5" in line)
    assert lines[at + 1].split("└")[1] == " gpt-5  0.0–2.5 s, $0.5000"
    assert lines[at + 2].split("└")[1] == " local_search  1.0–2.0 s  ✗ TIMEOUT: too slow"
    assert lines[at + 2].index("└") > lines[at + 1].index("└")
    assert "→ 40" in lines[at + 3]
