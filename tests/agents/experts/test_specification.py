from __future__ import annotations

import pytest
from msgspec.structs import replace

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency
from toolorchestra.toolscale.common.errors import OptionError

SPEC = ExpertSpec(
    provider="none", roles=("math",), price=Price(1, 2), latency=Latency(10.0), context=1000, skills={"other": 0.8}
)


def test_a_specification_without_a_skill_for_other_subjects_is_refused() -> None:
    with pytest.raises(ValueError, match="a skill for `other`"):
        replace(SPEC, skills={"math": 0.5})


def test_shares_of_noise_beyond_1_are_refused() -> None:
    with pytest.raises(OptionError, match="add up to at most 1"):
        SimulatedExpert("ada", replace(SPEC, own_noise=0.9), shared_noise=0.2)


def test_a_step_is_harder_by_the_load_for_each_doubling_of_the_steps() -> None:
    assert SPEC.chance("math", difficulty=0.0, steps=1) == pytest.approx(0.8)
    assert SPEC.chance("math", difficulty=0.0, steps=4) == pytest.approx(SPEC.chance("math", 2 * SPEC.load, steps=1))


def test_what_exceeds_the_context_is_not_read() -> None:
    assert SPEC.chance("math", 0.0, 1, reading=4000) == pytest.approx(0.2)
