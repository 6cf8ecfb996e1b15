"""Sums that are asked for in so many figures, whatever the world: "What is 12 * 3.5?"."""

from __future__ import annotations

import datetime
import re

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE, outside_specialty
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.problems import Problem
from toolorchestra.envs.ground_truth.given import MAX_CHARACTERS
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.tools.functions import calculator

_BESIDE = 6  # words that may stand beside a sum that is asked for
_DATE = re.compile(r"\b\d{4}[-/]\d{1,2}[-/]\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{4}\b")
_NUMBER = r"\({0,4}\d{1,15}(?:\.\d{1,10})?\){0,4}"
_SUM = re.compile(rf"{_NUMBER}(?:(?:\s{{0,3}}[+*/×÷]\s{{0,3}}|\s{{1,3}}[-−x]\s{{1,3}}){_NUMBER}){{1,40}}")
_SIGNS = str.maketrans({"×": "*", "x": "*", "÷": "/", "−": "-"})
_TODAY = datetime.date(2000, 1, 1)  # the calculator has no use for it


def asked_sum(text: str) -> str | None:
    """Return the arithmetic expression that a text asks to work out, if it has a value and little stands beside it.

    >>> asked_sum("Please compute 21 + 25 + 24 dollars."), asked_sum("Book it for 2025-07-23."), asked_sum("1 / 0")
    ('21 + 25 + 24', None, None)
    >>> asked_sum("Ada had 2 + 3 red and 4 blue hats at home.")
    """
    text = text[:MAX_CHARACTERS]
    found = max(_SUM.findall(_DATE.sub(" ", text)), key=len, default="")
    expression = found.strip().translate(_SIGNS)
    surplus = expression.count("(") - expression.count(")")
    expression = expression + ")" * surplus if surplus > 0 else expression
    if not expression or sum(token.isalpha() for token in tokens(text)) > _BESIDE:
        return None
    try:
        calculator(expression, _TODAY)
    except ValueError:
        return None
    return expression


def sum_problem(key: str, expression: str, role: Role | None = None) -> Problem:
    """Return the problem of working out an expression, with a step for each operation.

    It is `HARDER_OUTSIDE` logits harder for a trade that it does not suit.
    """
    value = calculator(expression, _TODAY)
    operations = sum(expression.count(sign) for sign in "+-*/") or 1
    wrong = tuple(f"{other:.6g}" for other in (value + 1, value - 1, value * 10) if other != value)
    difficulty = HARDER_OUTSIDE if outside_specialty(role, "computation") else 0.0
    return Problem.chain(f"{key}={expression}", "math", operations, f"{value:.10g}", wrong, difficulty)
