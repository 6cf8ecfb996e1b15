r"""The rules of MSARL (§3.2), independent of any environment interface.

The *reasoner* reasons and writes code in fenced blocks. A block is run, and the *helper* of its tool reads the code and
its output. The reasoner observes the helper's short interpretation, and not the raw output. After a number
of calls further code is ignored, and the reasoner must answer in text with ``\boxed{}``.

    reasoner ──```python … ```──▶ tool ──code, output──▶ helper ──interpretation──▶ reasoner ──\boxed{…}──▶ verdict

The helper sees neither the question nor the reasoner's thoughts, and of several calls one at a time: its code, and its
output. Without helpers the reasoner observes the raw output, which may be deleted once it has read it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.envs.judge.path_judge import DETAIL, PathJudge
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.tools.text_input import arguments_of
from toolorchestra.toolscale.answers.answers import boxed
from toolorchestra.toolscale.tools.tool import Status, Tool

REASONER = "reasoner"
HELPER = "helper"
OldOutputs = Literal["kept", "deleted"]
Tag = Literal["interpretation", "answer"]
_DELETED = "<output>\n(deleted)\n</output>"
_BLOCK = re.compile(r"```[ \t]*(\w+)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_OUTPUT = re.compile(r"```[ \t]*output\b")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_ALIASES = {"py": "python", "python3": "python"}


class CodeBlock(msgspec.Struct, frozen=True):
    """A fenced block: the tool that its language names, and its text."""

    tool: str
    text: str


def read_block(text: str, tools: Mapping[str, Tool]) -> CodeBlock | None:
    r"""Return the last block of a message whose language is a tool, or None.

    A fence of the language ``output`` ends the message, as it ends generation in the paper: what follows was made up.

    >>> read_block("I compute.\n```python\nprint(2 + 2)\n```", {"python": None})
    CodeBlock(tool='python', text='print(2 + 2)')
    """
    found = None
    for language, code in _BLOCK.findall(_OUTPUT.split(text, 1)[0]):
        name = _ALIASES.get(language.lower(), language.lower())
        if name in tools:
            found = CodeBlock(name, textwrap.dedent(code).strip("\n"))
    return found


def is_well_formed(text: str) -> bool:
    r"""Return whether a message gives its answer in ``\boxed{}``.

    >>> is_well_formed(r"So it is \boxed{\frac{1}{2}}."), is_well_formed("The answer is 2."), is_well_formed(r"\boxed{")
    (True, False, False)
    """
    return bool((boxed(text) or "").strip())


class MSARLPlay(Play):
    """An episode of reasoner and helpers; blocks can run the tools of `start`, by language.

    `readers` has the agent that reads the output of a tool, by tool; the reasoner itself reads that of the others. The
    other options are those of `toolorchestra.envs.msarl.env.MSARLEnv`.
    """

    def __init__(
        self,
        start: PlayStart,
        *,
        readers: Mapping[str, str],
        max_calls: int,
        output_characters: int,
        interpretation_characters: int,
        helper_memory: bool = False,
        old_outputs: OldOutputs = "kept",
        tag: Tag = "interpretation",
        path_judge: PathJudge | None = None,
    ) -> None:
        super().__init__(start)
        self.path_judge = path_judge
        self.tag = tag
        self.readers = readers
        self.helper_memory = helper_memory
        self.old_outputs = old_outputs
        self.max_calls = max_calls
        self.output_characters = output_characters
        self.interpretation_characters = interpretation_characters

    @property
    def calls_left(self) -> int:
        """Blocks that will still be run."""
        return self.max_calls - sum(1 for _ in self.episode.calls)

    @property
    def may_block(self) -> bool | None:
        """Whether a message may wait for something outside this process."""
        return self.path_judge is not None or super().may_block

    def judge(self, answer: str) -> None:
        """End the episode with a final answer, and have the path to it judged if there is a model for it."""
        super().judge(answer)
        if self.path_judge is not None:
            path = [*self.histories[REASONER][2:], {"role": "assistant", "content": answer}]
            self.episode.details = {**self.episode.details, DETAIL: self.path_judge.note(self.task, path)}

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        if agent == REASONER:
            self._reason(message.text)
        else:
            interpretation = _cut(_field(message.text), self.interpretation_characters)
            self.observe(REASONER, f"<{self.tag}>\n{interpretation}\n</{self.tag}>")
            self.pass_to(REASONER)

    def _reason(self, text: str) -> None:
        block = read_block(text, self.tools)
        if block is not None and self.calls_left > 0:
            record = self.call(block.tool, arguments_of(self.tools[block.tool], block.text))
            output = _cut(_result_text(record), self.output_characters)
            reader = self.readers.get(block.tool)
            if reader is None:
                if self.old_outputs == "deleted" and self._has_spoken(REASONER):
                    self.rewrite(REASONER, _without_outputs)
                self.observe(REASONER, f"<output>\n{output}\n</output>")
            else:
                if not self.helper_memory and self._has_spoken(reader):
                    self.rewrite(reader, lambda history: [each for each in history if each["role"] == "system"])
                self.observe(reader, f"Code:\n```{block.tool}\n{block.text}\n```\nOutput:\n{output}")
                self.pass_to(reader)
        elif is_well_formed(text):
            self.judge(text)
        elif block is not None:
            self.observe(REASONER, r"No call is left, so the code was not run. Answer in text with \boxed{…}.")
        else:
            self.observe(REASONER, r"Go on: write a code block, or answer with \boxed{…}.")

    def _has_spoken(self, agent: str) -> bool:
        """Return whether an agent wrote something before the message in progress."""
        return any(message["role"] == "assistant" for message in self.histories[agent])


def _field(text: str) -> str:
    """Return a helper's interpretation: what stands in the last ``<answer>`` of its message, else all of it."""
    return str((_ANSWER.findall(text) or [text])[-1]).strip()


def _without_outputs(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a history with the outputs deleted that stand in it."""
    return [
        {**message, "content": _DELETED}
        if message["role"] == "user" and str(message["content"]).startswith("<output>\n")
        else message
        for message in history
    ]


def _result_text(record: CallRecord) -> str:
    """Return what came of a call as text."""
    if record.status is not Status.OK:
        return f"{record.status}: {record.error}"
    return record.value if isinstance(record.value, str) else msgspec.json.encode(record.value).decode()


def _cut(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[:max_characters]}… (cut)"
