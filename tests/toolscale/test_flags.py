from __future__ import annotations

import pytest

from toolorchestra.toolscale.common.errors import DomainError, OptionError, UnknownNameError
from toolorchestra.toolscale.common.flags import error_in_flags, in_flags

OPTIONS = ["env", "env_options", "policy_options", "max_ids", "beta", "evaluate_only", "n"]
WORDS = [*("rollout", "E", "--policy-options", "votes", "0"), *("--env-options", "max_calls", "-1", "helpers", "none")]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`beta` must be at least 0, got -1.0.", "--beta must be at least 0, got -1.0."),
        ("Lower `max_ids`, or `beta`.", "Lower --max-ids, or --beta."),
        ("`max_ids=64` is too little.", "`--max-ids 64` is too little."),
        ("`evaluate_only` needs evaluate_only=True.", "--evaluate-only needs --evaluate-only."),
        ("Expected a vote, got n=0.", "Expected a vote, got `--n 0`."),
        ("`max_calls` is too low.", "`--env-options max_calls` is too low."),
        ("`votes` is too low.", "`--policy-options votes` is too low."),
        ("`helpers` needs old_outputs='kept'.", "`--env-options helpers` needs `--env-options old_outputs kept`."),
        ("give the folder of a `domain`.", "give the folder of a `--env-options domain`."),
        ("`result_characters` must be positive.", "`result_characters` must be positive."),
        ("Run `toolorchestra train grpo --beta 0`.", "Run `toolorchestra train grpo --beta 0`."),
        ("Start it with --max-ids=100.", "Start it with --max-ids=100."),
        ("tasks.jsonl:3: `beta`: expected a number.", "tasks.jsonl:3: `beta`: expected a number."),
        ("runs/a.yaml: expected `beta`.", "runs/a.yaml: expected `beta`."),
        ("x.max_ids=3 and `Beta` and `max ids`", "x.max_ids=3 and `Beta` and `max ids`"),
        ("unbalanced `beta and max_ids=", "unbalanced `beta and max_ids="),
    ],
)
def test_arguments_are_named_as_the_command_line_has_them(message: str, shown: str) -> None:
    assert in_flags(message, OPTIONS, WORDS, ["domain"]) == shown


def test_a_command_without_options_leaves_messages_as_they_are() -> None:
    for message in ("`beta` must be at least 0.", "`domain` and n=3", ""):
        assert in_flags(message, [], [], ["domain"]) == message


def test_every_error_is_translated_but_that_about_the_files_of_a_domain() -> None:
    assert error_in_flags(OptionError("`beta` is wrong."), OPTIONS) == "--beta is wrong."
    assert error_in_flags(UnknownNameError("`beta`", "x", ["y"]), OPTIONS).startswith("Unknown --beta 'x'")
    assert error_in_flags(DomainError("expected `n`"), OPTIONS) == "expected `n`"


def test_a_long_message_is_translated_in_linear_time() -> None:
    message = "`a" * 100_000 + "b=" * 100_000 + "`beta`"
    assert in_flags(message, OPTIONS).endswith("--beta")
