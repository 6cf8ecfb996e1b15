"""Rows of like length are computed together, and nothing comes of it but speed."""

from __future__ import annotations

from hypothesis import given, strategies as st

from toolorchestra.algos.hardware.batching import MAX_PADDING, MIN_ROWS, bundles


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=200))
def test_every_row_is_in_one_bundle_and_little_of_it_is_padding(lengths: list[int]) -> None:
    found = bundles(lengths)
    assert sorted(row for rows in found for row in rows) == list(range(len(lengths)))
    assert all(len(rows) >= MIN_ROWS for rows in found[:-1])
    for rows in found:
        longest = max(lengths[row] for row in rows)
        assert all(lengths[row] >= (1 - MAX_PADDING) * longest for row in rows[MIN_ROWS:])


def test_rows_of_nearly_one_length_stay_together() -> None:
    assert len(bundles([80, 100, 90, 76] * 20)) == 1
