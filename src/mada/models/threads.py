"""How many CPU threads a model is computed with."""

import os

import torch
from transformers import PreTrainedModel

SMALL_MODEL = 50_000_000  # parameters; below, a layer is over before a second thread has joined in


def choose_threads(model: PreTrainedModel, wanted: int | None = None) -> int:
    """Set the threads of this process, and return how many: the wanted number, or 1 for a small model on a CPU.

    On cores that others use too, two threads of a small model wait for each other several times as long as either
    computes. OMP_NUM_THREADS, where it is set, is somebody's decision already.
    """
    if wanted is not None:
        torch.set_num_threads(wanted)
    elif model.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ and model.num_parameters() < SMALL_MODEL:
        torch.set_num_threads(1)
    return torch.get_num_threads()
