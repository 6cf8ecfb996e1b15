"""How far the sampler is from the trainer, in numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from toolorchestra.algos.hardware.mismatch import Mismatch


def test_statistics_are_of_the_ids_under_the_mask_since_the_last_call() -> None:
    mismatch = Mismatch()
    sampled = torch.tensor([[-1.0, -2.0, -9.0]])
    mismatch.add(sampled, torch.tensor([[-1.0 + math.log(2), -2.0, 0.0]]), torch.tensor([[1, 1, 0]]))
    mismatch.add(sampled, torch.tensor([[-1.0, -2.0 - math.log(4), 0.0]]), torch.tensor([[1, 1, 0]]))
    found = mismatch.metrics()
    assert found["mismatch"] == pytest.approx((math.log(2) + math.log(4)) / 4)
    assert found["mismatch_max"] == pytest.approx(math.log(4))
    assert found["importance_ratio"] == pytest.approx((2 + 1 + 1 + 1 / 4) / 4)
    mismatch.add(sampled, sampled, torch.zeros(1, 3))
    assert mismatch.metrics() == {}
