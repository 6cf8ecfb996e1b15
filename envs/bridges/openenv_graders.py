"""Graders of OpenEnv's RFC 008 for any served environment that takes text: entry points `openenv.validation.graders`.

They are those checks that OpenEnv 0.10 has no grader for and that can be judged by playing: the panel of adversaries of
`toolorchestra.envs.checks.audit` plays the running environment, over connections of its own. Level 4 is not among them:
OpenEnv's policy leaves it to operators, and a local report may not have it; `toolorchestra validate --rfc008` has.

OpenEnv 0.10 defines the entry points, and its `openenv validate` does not load them yet; `GraderRegistry` does. An
environment is also audited at its address, without a package:

    toolorchestra validate toolorchestra.envs.bridges.openenv_graders:ServedText --env-options url http://localhost:8000
"""

from __future__ import annotations

import functools
import json
import time
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from openenv.core import GenericEnvClient
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Level

from toolorchestra.envs.checks.audit.evidence import Evidence, gather
from toolorchestra.envs.checks.audit.graders import GRADERS, why
from toolorchestra.envs.checks.audit.report import catalogue
from toolorchestra.envs.checks.audit.subject import AuditSubject
from toolorchestra.toolscale.common.errors import OptionError

EPISODES = 20
"""Episodes of each adversary."""
_SECONDS = 10.0  # until the server has answered what its actions are


class ServedText:
    """A served environment of OpenEnv, with Gymnasium's interface: a session of its own.

    Args:
        url: Address of the server.

    Raises:
        OptionError: It does not say what its actions are, or they are not one text.
    """

    def __init__(self, url: str) -> None:
        self._field = _text_field(url)
        self._client = GenericEnvClient(base_url=url).sync()
        try:
            self._client.connect()
        except BaseException:
            self._client.close()
            raise

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; `options` go with the request."""
        return self._told(self._client.reset(seed=seed, **(options or {})))

    def step(self, action: Any) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Send a text."""
        result = self._client.step({self._field: str(action)})
        text, info = self._told(result)
        return text, 0.0 if result.reward is None else result.reward, bool(result.done), False, info

    def close(self) -> None:
        """End the session."""
        self._client.close()

    @staticmethod
    def _told(result: Any) -> tuple[str, dict[str, Any]]:
        """Return an observation as text, with its metadata as info."""
        observation = dict(result.observation)
        info = dict(observation.pop("metadata", None) or {})
        text = observation.get("text")
        return text if isinstance(text, str) else json.dumps(observation, sort_keys=True), info


def _text_field(url: str) -> str:
    """Return the name of the one field of an action that must be given and is text."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/schema", timeout=_SECONDS) as answer:
            action = json.load(answer)["action"]
        fields = {name: action["properties"][name].get("type") for name in action.get("required", ())}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{url} does not say what its actions are: {why(error)}") from None
    if list(fields.values()) != ["string"]:
        raise OptionError(f"An action of {url} needs {fields or 'nothing'}, and not one text: no policy of text fits.")
    return str(next(iter(fields)))


@functools.lru_cache(maxsize=1)
def _evidence(url: str) -> Evidence:
    """Return what was played at an address; all graders of a run judge the same."""
    with closing(AuditSubject(f"{__name__}:ServedText", {"url": url}, episodes=EPISODES)) as subject:
        return gather(subject)


class PlayedGrader:
    """A grader that judges one check by the episodes of the panel.

    Args:
        check_id: Id of the check.
    """

    requires_capabilities: frozenset[str] = frozenset()
    requires_provider: frozenset[Any] = frozenset()
    depends_on = ("runtime.startup",)

    def __init__(self, check_id: str) -> None:
        self.check_id = check_id
        self.level = Level(next(check.level for check in catalogue().checks if check.id == check_id))

    def applies_to(self, manifest: Any) -> bool:
        """Return that it applies to every package; where it cannot be played, the check is skipped with the reason."""
        return True

    def run(self, subject: Any) -> CheckResult:
        """Judge a running environment."""
        began = time.monotonic()

        def result(status: str, evidence: Any, measured: Any = None, remedy: str | None = None) -> CheckResult:
            return CheckResult(
                check_id=self.check_id,
                status=CheckStatus(status),
                evidence=list(evidence),
                measured=dict(measured or {}),
                remediation=remedy or None,
                duration_s=time.monotonic() - began,
            )

        if subject.running is None:
            return result("skip", ["the environment is not running"])
        try:
            evidence = _evidence(subject.running.base_url)
            with closing(evidence.subject):  # ends the sessions that this grader begins
                found = GRADERS[self.check_id](evidence, subject.manifest.reward.range)
        except OptionError as error:
            return result("skip", [str(error)])
        except Exception as error:  # of the server, or on the way to it: such as one with room for one session
            return result("error", [f"the environment could not be played: {why(error)}"])
        return result(found.status, found.evidence, found.measured, found.remediation)


resource_bounds = PlayedGrader("runtime.resource_bounds")
episode_isolation = PlayedGrader("runtime.episode_isolation")
oracle_containment = PlayedGrader("runtime.oracle_containment")
seed_control = PlayedGrader("runtime.seed_control")
episode_determinism = PlayedGrader("runtime.episode_determinism")
floor_gap = PlayedGrader("semantic.floor_gap")
canary_floor = PlayedGrader("semantic.canary_floor")
no_solution_leakage = PlayedGrader("semantic.no_solution_leakage")
verifier_determinism = PlayedGrader("semantic.verifier_determinism")
replayability = PlayedGrader("semantic.replayability")
