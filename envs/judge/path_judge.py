"""A model as judge of reasoning paths: does a path lead to the right answer, slips of arithmetic aside (MSARL §3.1)?

The judgement is about the reasoning, not the outcome: it stands in the record of an episode, and changes neither
outcome nor reward. The path is untrusted, and reaches the model as one quoted text. A model that is down or keeps to no
form leaves the path unjudged. Not covered: how often a model errs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.messages.reading import spoken
from toolorchestra.envs.judge.model_judge import quoted
from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tasks.task import Task

_PROMPTS = read_yaml(Path(__file__).with_suffix(".yaml"))
_FORM = '{"sound": "yes" or "no"}'
_REPLY = re.compile(r'(?:```(?:json)?\s*)?\{\s*"sound"\s*:\s*"(yes|no)"\s*\}(?:\s*```)?')
DETAIL = "path"
"""What an episode's details call the judgement."""


class PathJudge:
    """A chat model that says whether a path is sound.

    Args:
        model: The model. What it costs is counted by its `meter`, and is no part of an episode's cost or time.
        max_tokens: Maximum tokens of a reply, the model's thoughts included.

    >>> from toolorchestra.agents.chat.base import ScriptedChat
    >>> task = Task(
    ...     id="d/i/1", domain="d", intent="i", split="train", difficulty=1, instruction="What is 7 * 6?",
    ...     reference_calls=(), communicate=(("42",),), answer="42",
    ... )
    >>> judge = PathJudge(ScriptedChat(['{"sound": "yes"}']))
    >>> judge.note(task, [{"role": "assistant", "content": "Seven sixes are 41."}])["sound"]
    True
    """

    def __init__(self, model: ChatModel, *, max_tokens: int = 8_192) -> None:
        if not callable(getattr(model, "complete", None)):
            raise OptionError(
                "Expected as `path_judge` the name of a model of the catalogue that has an endpoint, a ChatModel, a "
                f"PathJudge, or None, got {model!r}."
            )
        if max_tokens < 1:
            raise OptionError(f"Expected max_tokens of at least 1, got {max_tokens}.")
        self.model, self._max_tokens = model, max_tokens

    @classmethod
    def of(cls, judge: str | ChatModel | PathJudge | None) -> PathJudge | None:
        """Return the judge that an option asks for; a name is that of a model of the catalogue.

        Raises:
            UnknownNameError: There is no such model.
            OptionError: It is no judge, has no endpoint, or its key is not set.
        """
        if judge is None or isinstance(judge, PathJudge):
            return judge
        if not isinstance(judge, str):
            return cls(judge)
        try:
            return cls(Catalog.load().chat(judge))
        except ImportError as error:
            raise OptionError(f"{error}.") from None

    def note(self, task: Task, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what the record says of a path: the model, and whether it is ``sound``; None if it was not judged.

        Args:
            task: The problem.
            messages: What was written and read beside the problem and the system message.
        """
        path = "\n\n".join(str(message["content"]) for message in messages)
        content = _PROMPTS["question"].format(
            request=quoted(task.instruction), reference=quoted(task.answer), path=quoted(path), form=_FORM
        )
        asked = [{"role": "system", "content": _PROMPTS["system"]}, {"role": "user", "content": content}]
        request = ChatRequest(asked, temperature=0.0, max_tokens=self._max_tokens, seed=0)
        reply: Completion | ExpertError
        try:
            (reply,) = self.model.complete([request])
        except BatchError as error:
            (reply,) = error.results
        if isinstance(reply, ExpertError):
            return {"model": self.model.name, "sound": None, "why": str(reply)}
        found = _REPLY.fullmatch(spoken(reply.text))
        if found is None:
            return {"model": self.model.name, "sound": None, "why": f"expected {_FORM}, got {reply.text[-200:]!r}"}
        return {"model": self.model.name, "sound": found[1] == "yes"}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the judge itself: copies of an environment share the model."""
        return self


def sound_paths(episodes: Iterable[Episode]) -> list[bool]:
    """Return whether each path is sound, those left out that were not judged."""
    found = (episode.details.get(DETAIL, {}).get("sound") for episode in episodes)
    return [sound for sound in found if sound is not None]
