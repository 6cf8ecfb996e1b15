from __future__ import annotations

import pytest

from toolorchestra.algos.grpo import TrainGRPO
from toolorchestra.algos.learner_choice import OWN_LEARNERS, require_several_agents
from toolorchestra.algos.sft import TrainSFT
from toolorchestra.envs.registration import PROTOCOLS
from toolorchestra.toolscale.errors import OptionError


@pytest.mark.parametrize("learner", [TrainGRPO, TrainSFT])
def test_learners_of_one_agent_refuse_games_and_name_their_learners(learner: type) -> None:
    for protocol in (name for name, one in PROTOCOLS.items() if one.kind == "several"):
        own = OWN_LEARNERS.get(protocol, "multi_grpo")
        with pytest.raises(OptionError, match=rf"algos/{own}\.py --env {protocol}-Math-v0"):
            learner(env=f"{protocol}-Math-v0")
    learner(env="ToolOrchestra-Math-v0")


def test_learners_of_several_refuse_environments_of_one_and_name_theirs() -> None:
    with pytest.raises(OptionError, match=r"algos/grpo\.py --env ToolOrchestra-Math-v0"):
        require_several_agents("ToolOrchestra-Math-v0")
    require_several_agents("MSARL-Math-v0")
