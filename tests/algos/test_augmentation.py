from __future__ import annotations

import random

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.algos.data.augmentation import ValueShuffler, drop_words, exchange_numbers, sft_rows, thin
from toolorchestra.algos.data.demonstrations import Demonstration, encode


def test_labels_cover_the_policys_own_tokens_only(good: list[Demonstration], renderer: CompactRenderer) -> None:
    rows = sft_rows(renderer, good, rows=8, rng=random.Random(0), curriculum=False)
    for ids, labels in rows:
        kept = [renderer.tokens[label] for label in labels if label != -100]
        assert kept[0] in ("<call>", "<answer>")
        assert kept[-1] == "<end>"
        assert "<result>" not in kept
        assert all(label in (-100, i) for i, label in zip(ids, labels, strict=True))


def test_thinning_leaves_out_only_what_the_policy_never_mentions(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    for demonstration in good:
        bare = thin(demonstration, 0.0, random.Random(0))
        whole = thin(demonstration, 1.0, random.Random(0))
        actions = [m for m in bare.messages if m["role"] == "assistant"]
        assert actions == [m for m in demonstration.messages if m["role"] == "assistant"]
        assert len(encode(renderer, bare)[0]) <= len(encode(renderer, whole)[0])
        assert encode(renderer, whole) == encode(renderer, demonstration)


def test_words_of_the_request_are_left_out_and_nothing_else(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    words = renderer.plain_words()
    assert renderer.index["the"] in words
    assert not words & {renderer.index[token] for token in renderer.kinds}
    for demonstration in good:
        ids, mask = encode(renderer, demonstration)
        begin = mask.index(1)
        kept, mask_kept = drop_words(ids, mask, words, 1.0, random.Random(0))
        assert kept == [i for i in ids[:begin] if i not in words] + ids[begin:]
        assert mask_kept == [0] * (len(kept) - len(ids) + begin) + mask[begin:]
        assert drop_words(ids, mask, words, 0.0, random.Random(0)) == (ids, mask)


def test_values_are_exchanged_consistently_and_those_of_a_request_only_for_their_kind(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    shuffle = ValueShuffler(renderer)
    changed = of_any_kind = shown = 0
    for demonstration in good:
        ids, mask = encode(renderer, demonstration)
        other = shuffle(ids, mask, random.Random(1))
        mapping = dict(zip(ids, other, strict=True))
        assert [mapping[i] for i in ids] == other  # one replacement for each value
        assert len(set(mapping.values())) == len(mapping)  # two values stay two
        request = ids[: mask.index(1)]
        for a, b in mapping.items():
            before, after = (renderer.kinds.get(renderer.tokens[i]) for i in (a, b))
            assert (before is None) is (after is None)  # only values are exchanged, and for values
            assert before == after or a not in request
            shown += before is not None and a != b and a not in request
            of_any_kind += before != after
        changed += other != ids
    assert changed > len(good) / 2
    assert 0.3 < of_any_kind / shown < 0.5  # half of them, and a few were drawn of their own kind


def test_what_the_policy_works_out_itself_is_not_exchanged(renderer: CompactRenderer) -> None:
    day, dish = renderer.index["2025-07-30"], renderer.index["D07"]
    ids = [dish, day, dish, day]
    assert ValueShuffler(renderer)(ids, [0, 1, 1, 0], random.Random(0))[1] == day


def test_numbers_that_are_copied_are_exchanged_alike_and_others_stay() -> None:
    # 10 to 13 are numbers; 10 is read and written, 11 only read, 12 only written
    ids, mask = [10, 11, 5, 10, 12], [0, 0, 0, 1, 1]
    assert exchange_numbers(ids, mask, [10, 11, 12, 13], random.Random(0)) == [13, 11, 5, 13, 12]
    assert exchange_numbers(ids, mask, [10, 11, 12], random.Random(0)) == ids  # there is no other number left
