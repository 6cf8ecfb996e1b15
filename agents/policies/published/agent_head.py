"""A linear head that chooses which agent is asked next: its weights, and what it sees of an episode."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from toolorchestra.agents.policies.expert_roles import ExpertRole, Proposal, same_proposal, slug
from toolorchestra.agents.policies.published.question_vectors import Floats
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.writing import write_whole

WORDS = 12
"""Number of counts that the words of a request are hashed into."""


class AgentHead(msgspec.Struct, frozen=True):
    """Weights learnt, with the names of what they choose among.

    Attributes:
        actions: Names of the actions, one for each row.
        weights: A row of weights for each action, with one for each feature.
        texts: Texts whose words the encoder of the state knows, where a model encodes it.
    """

    actions: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, actions: Sequence[str], weights: Floats, texts: Sequence[str] = ()) -> AgentHead:
        """Return the head of an array of weights."""
        return cls(tuple(actions), tuple(tuple(map(float, row)) for row in weights), tuple(texts))

    def scores(self, features: Floats) -> Floats:
        """Return the score of each action."""
        return np.array(self.weights) @ features

    def save(self, file: Path) -> None:
        """Write the head as JSON."""
        write_whole(file, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def load(cls, file: Path) -> AgentHead:
        """Read a head that `save` wrote; else raise `OptionError`."""
        try:
            found = msgspec.json.decode(file.read_bytes(), type=cls)
        except OSError as error:
            raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise OptionError(f"{file}: expected the JSON of a head that `save` writes: {error}.") from None
        if len(found.weights) != len(found.actions) or len({len(row) for row in found.weights}) != 1:
            raise OptionError(f"{file}: expected a row of weights, all of one length, for each of the actions.")
        return found


def given_head(head: AgentHead | Path | str | None, policy: str) -> AgentHead:
    """Return a head, read from a file if it is one; `OptionError` that says how to get one where there is none."""
    if head is None:
        raise OptionError(f"{policy} learns which agent to ask: use {policy}.fit(env), or give the file of a head.")
    return head if isinstance(head, AgentHead) else AgentHead.load(Path(head))


def agent_name(role: ExpertRole) -> str:
    """Return the name of an expert in a role, such as ``code:gpt_5``."""
    return f"{role.job}:{slug(role.expert)}"


def state_features(request: str, proposals: Sequence[Proposal], steps: int) -> Floats:
    """Return the features of a state: the request's words, and how far experts agree.

    They are a constant, the request's length, counts of its hashed words, the share of the steps taken, whether
    anything was proposed, and the share of the proposals that agree with the most frequent one, with their number.
    """
    words = list(tokens(request))
    counts = np.zeros(WORDS)
    for word in words:
        counts[zlib.crc32(word.encode()) % WORDS] += 1
    most = max((sum(same_proposal(one, other) for other in proposals) for one in proposals), default=0)
    share = most / len(proposals) if proposals else 0.0
    state = (1.0, min(len(words), 100) / 100, len(proposals) / steps, bool(proposals), share, min(most, 3) / 3)
    return np.array([*state, *np.minimum(counts, 4) / 4], dtype=np.float64)
