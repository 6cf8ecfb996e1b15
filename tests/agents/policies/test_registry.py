from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.registry import POLICIES, make_policy
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

ALL = {"split": "all"}


def test_policies_are_made_by_name():
    options: dict[str, dict[str, Any]] = {"llm": {"model": ScriptedChat([])}}
    for name, kind in POLICIES.items():
        assert isinstance(make_policy(name, **options.get(name, {})), kind)


def test_an_unknown_policy_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        make_policy("orcale")


def test_wrong_options_are_refused():
    with pytest.raises(OptionError, match="cannot be made so"):
        make_policy("oracle", error=0.1)
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        make_policy("noisy-oracle", error=1.5)
    with pytest.raises(UnknownNameError, match="Did you mean 'skip'"):
        make_policy("noisy-oracle", mistakes=["skips"])
