"""Tiny random models of the architectures that are tested, and a tokenizer made on the spot."""

import pytest
import torch

import factories
from factories import CONFIGS


@pytest.fixture(params=CONFIGS)
def architecture(request):
    return request.param


@pytest.fixture(scope="session")
def tiny_model():
    return factories.tiny_model


@pytest.fixture(scope="session")
def fill():
    return factories.fill_adapters


@pytest.fixture(scope="session")
def token_ids():
    """Make a batch of random token ids."""

    def draw(rows, *, length=9, seed=2):
        return torch.randint(3, 61, (rows, length), generator=torch.Generator().manual_seed(seed))

    return draw


@pytest.fixture(scope="session")
def tokenizer():
    return factories.word_tokenizer()
