"""A model without its weights is spoken to as with them."""

import json
import shutil

import pytest

from mada.errors import ModelError
from mada.models.loading import EMBEDDED, ChatModel, load_base, load_chat, stop_tokens_of


def test_without_weights_it_is_spoken_to_as_with_them():
    with_weights, without = ChatModel.of(load_base("mada-nano", device="cpu")), load_chat("mada-nano")
    assert (without.name, without.window, without.stop_tokens) == (
        with_weights.name,
        with_weights.window,
        with_weights.stop_tokens,
    )
    assert without.stop_tokens
    assert without.tokenizer.encode("64 + 57") == with_weights.tokenizer.encode("64 + 57")


def test_no_weights_are_read(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(EMBEDDED["mada-nano"], folder)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    assert load_chat(str(folder)).stop_tokens == load_chat("mada-nano").stop_tokens
    with pytest.raises(ModelError, match="weights"):
        load_base(str(folder), device="cpu")


def test_generation_settings_may_name_more_stop_tokens_or_be_missing(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(EMBEDDED["mada-nano"], folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 7]}))
    own = load_chat("mada-nano").tokenizer.eos_token_id
    assert isinstance(own, int)
    assert load_chat(str(folder)).stop_tokens == tuple(sorted({own, 5, 7}))
    (folder / "generation_config.json").unlink()
    assert load_chat(str(folder)).stop_tokens == (own,)
    assert stop_tokens_of(load_chat(str(folder)).tokenizer, None) == (own,)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no such folder or file"):
        load_chat(str(tmp_path / "nowhere"))
