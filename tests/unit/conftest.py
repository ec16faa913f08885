"""Tokenizers that know every byte, with and without a chat template, and a tiny model that speaks the first."""

import pytest

from factories import CHAT_TEMPLATE, byte_tokenizer, save_chat_model


@pytest.fixture(scope="session")
def chat_tokenizer():
    return byte_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_that_opens_thinking():
    return byte_tokenizer(CHAT_TEMPLATE.replace("<|assistant|>", "<|assistant|><think>\n"))


@pytest.fixture(scope="session")
def tokenizer_without_template():
    return byte_tokenizer(None)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A base model as it lies on a disk, with random weights."""
    return save_chat_model(tmp_path_factory.mktemp("models") / "tiny")
