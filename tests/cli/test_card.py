from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.export.domain_card import card

Run = Callable[..., Any]


def test_the_card_of_a_folder_is_markdown(run: Run, folder: str):
    output = run("card", folder)
    assert output.code == 0
    assert output.out == card(load_domain(folder))
