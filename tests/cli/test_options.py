from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolorchestra.cli.options import UsageError, option_values, require_at_least


def test_values_are_decoded_where_they_are_json():
    given = {"n": "8", "share": "0.5", "only": '["a", "b"]', "tools": "full", "quoted": '"8"', "none": "null"}
    expected = {"n": 8, "share": 0.5, "only": ["a", "b"], "tools": "full", "quoted": "8", "none": None}
    assert option_values(given) == expected


def test_a_value_below_its_bound_is_refused_by_the_name_of_its_option():
    command = SimpleNamespace(max_tokens=1, timeout=0.5)
    require_at_least(command, max_tokens=1, timeout=0.5)
    with pytest.raises(UsageError, match=r"^--max-tokens must be at least 2, got 1\.$"):
        require_at_least(command, timeout=0.1, max_tokens=2)
