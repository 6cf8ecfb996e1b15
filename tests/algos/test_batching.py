"""Rows of like length are computed together, and nothing comes of it but speed."""

from __future__ import annotations

from hypothesis import given, strategies as st

from toolorchestra.algos.hardware.batching import (
    MAX_PADDING,
    MIN_ROWS,
    MIN_SHARED,
    bundles,
    common_prefix,
    sharing_bundles,
)


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


rows_of_few_beginnings = st.lists(
    st.builds(
        lambda begin, length, end: [begin] * length + end,
        st.integers(0, 2),
        st.sampled_from([0, 100, MIN_SHARED, 400]),
        st.lists(st.integers(0, 3), min_size=1, max_size=300),
    ),
    max_size=20,
)


@given(rows_of_few_beginnings, st.integers(1, 4000), st.integers(1, 5))
def test_rows_that_begin_alike_are_computed_with_fewer_ids_than_alone(
    rows: list[list[int]], room: int, most: int
) -> None:
    found = sharing_bundles(rows, room, most)
    assert len({row for bundle in found for row in bundle}) == sum(map(len, found))
    for bundle in found:
        several = [rows[n] for n in bundle]
        shared = common_prefix(several)
        computed = shared + len(several) * (max(map(len, several)) - shared)
        assert all(row[:shared] == several[0][:shared] for row in several)
        assert 1 < len(bundle) <= most
        assert shared >= MIN_SHARED
        assert computed <= min(room, sum(map(len, several)))


def test_the_rollouts_of_a_task_share_their_prompt() -> None:
    first, second = ([task] * 600 for task in (1, 2))
    rows = [[*(first if n % 2 else second), *[n] * (50 + n)] for n in range(8)]
    assert sharing_bundles(rows, 10_000) == [[1, 3, 5, 7], [0, 2, 4, 6]]
    assert sharing_bundles(rows, 720) == [[1, 3], [5, 7], [0, 2], [4, 6]]  # 600, and twice up to 60
