"""What an expert or sub-agent is given: a question, and the parts of the conversation that come with it.

It knows nothing else of the episode. What it can work out follows from which values stand there, and from how similar
the question is to the request and to the tools; no word counts by its meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import msgspec

from toolorchestra.agents.problems import Problem, Step
from toolorchestra.toolscale.answers.mentions import tokens

UNKNOWN = "I could not find that out."
"""An answer that is right nowhere."""
UNCLEAR = "I was not told enough to say. What is to be done, and with what?"
"""The reply to a question that comes without what it is about."""
UNTOLD = "I was not told {}."
"""The reply to a question that comes without what it takes: the names of what is lacking."""
MAX_CHARACTERS = 20_000
"""Characters of a question that are read; what comes after does not count."""
_COVERED = 0.85  # share of a request's words that a text must have to repeat it


class Given(msgspec.Struct, frozen=True):
    """What is given to a model that is asked something.

    Attributes:
        question: What it is asked.
        request: The user's words, "" where they are not given.
        results: The results that it is given, by the ids of their calls, as the orchestrator read them.
    """

    question: str = ""
    request: str = ""
    results: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join((self.question[:MAX_CHARACTERS], self.request, *self.results.values()))

    def has_request(self, request: str) -> bool:
        """Return whether the user's request is given, or repeated in the question."""
        return bool(self.request) or repeats(self.question, request)


def unclear(key: str, subject: str = "other", said: str = UNCLEAR, difficulty: float = 0.0) -> Problem:
    """Return the problem of a question that comes without what it is about; `key` names the task."""
    return Problem(f"{key}@unclear", subject, (Step(said, (UNKNOWN,), (), difficulty),))


def repeats(text: str, request: str) -> bool:
    """Return whether a text has nearly all words of a request: it hands all of it on.

    >>> repeats("Please do this: cancel the order of Edgar!", "Cancel the order of Edgar.")
    True
    """
    wanted = words_of(request)
    return bool(wanted) and len(words_of(text[:MAX_CHARACTERS]) & wanted) >= _COVERED * len(wanted)


@functools.lru_cache(maxsize=65_536)  # the same texts come again and again
def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(tokens(text))
