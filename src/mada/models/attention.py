"""Which attention kernels torch may take."""

from contextlib import AbstractContextManager, nullcontext

import torch


def lengths_vary(device: torch.device) -> AbstractContextManager[object]:
    """Keep torch from cuDNN's attention in a block in which hardly any shape comes twice.

    cuDNN plans every new shape before it runs it, which takes the host far longer than the other kernels take in all;
    torch prefers it on some GPUs nevertheless.
    """
    if device.type != "cuda":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
