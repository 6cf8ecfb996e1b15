from __future__ import annotations

from html.parser import HTMLParser

import gymnasium as gym

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.records.episode import CallRecord, Episode, Turn
from toolorchestra.toolscale.tools.tool import InnerCall, Status

ATTACK = "</div></style><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b"


class Tags(HTMLParser):
    """The tags and the text of HTML; its tags must be closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_the_request_the_calls_and_the_outcome() -> None:
    env = gym.make("ToolOrchestra-Restaurant-v0")
    play_episode(env, make_policy("oracle", seed=0), seed=0)
    assert isinstance(env.unwrapped, OrchestrationEnv)
    episode = env.unwrapped.episode
    shown = Tags(episode._repr_html_())
    assert episode.instruction in shown.text
    assert "solved" in shown.text
    assert str(episode.answer) in shown.text
    assert all(call.name in shown.text for call in episode.calls)


def test_hostile_text_stays_text() -> None:
    call = CallRecord(
        ATTACK, ATTACK, {ATTACK: ATTACK}, Status.OK, [ATTACK], end=1.0, children=(InnerCall(ATTACK, end=1.0),)
    )
    failed = CallRecord("b", ATTACK, None, Status.PARSE_ERR, error=ATTACK)
    turn = Turn({"role": "assistant", "content": ATTACK}, (call, failed), agent=ATTACK, seconds=1.0)
    episode = Episode(
        env_id=ATTACK, task_id=ATTACK, split="test", difficulty=1, prompt="", instruction=ATTACK, tools=(),
        turns=[turn], outcome="failed", why=ATTACK,
    )  # fmt: skip
    shown = Tags(episode._repr_html_())
    assert shown.tags <= {"div", "span", "b", "code", "details", "summary", "p"}
    assert shown.attributes <= {"style", "dir"}
    assert shown.text.count("onerror=alert(1)") >= 8
    assert not set(shown.text) & {"\u202e", "\x1b"}


def test_an_episode_in_progress_and_a_long_one_are_shown() -> None:
    empty = Episode(env_id="x", task_id="x", split="test", difficulty=1, prompt="", instruction="Do it.", tools=())
    assert "in progress" in empty._repr_html_()
    empty.turns = [Turn({"role": "assistant", "content": "A" * 1_000_000}, seconds=1.0)] * 200
    assert len(empty._repr_html_()) < 300_000
    assert "170 more turns" in empty._repr_html_()
