"""Models whose frozen weights are of 4 bits (bitsandbytes), under adapters that are trained."""

from __future__ import annotations

import torch


def keep_differentiable(model: torch.nn.Module) -> None:
    """Let a model whose frozen weights are of 4 bits be trained on a CPU too, after it has sampled.

    On CPUs with instructions for bfloat16, bitsandbytes lays weights out anew in the first pass without a gradient, and
    from then on the layers under it have none.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]  # of bitsandbytes, which torch does not know
