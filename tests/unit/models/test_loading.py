"""Loading bases, configurations and tokenizers; messages for what cannot be loaded."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, T5Config
from transformers.utils.logging import enable_progress_bar, is_progress_bar_enabled

from mada.errors import ModelError
from mada.models.loading import EMBEDDED, ChatModel, load_base, load_chat, load_config, stop_tokens_of


@pytest.fixture
def folder(tiny_model, tokenizer, tmp_path):
    tiny_model().to(torch.bfloat16).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def refusal(name, **settings):
    with pytest.raises(ModelError) as caught:
        load_base(str(name), **settings)
    return str(caught.value)


def test_a_base_is_frozen_and_says_its_name(folder, tiny_model, token_ids):
    base = load_base(str(folder), device="cpu")
    assert base.name == base.model.name_or_path == str(folder)
    assert not base.model.training
    assert not any(parameter.requires_grad for parameter in base.model.parameters())
    assert base.tokenizer.decode(base.tokenizer("w3 w5")["input_ids"]) == "w3 w5"
    assert base.model.config._attn_implementation == "sdpa"
    expected = tiny_model().to(torch.bfloat16).float()
    with torch.no_grad():
        torch.testing.assert_close(base.model(token_ids(2)).logits, expected(token_ids(2)).logits)


@pytest.mark.parametrize(
    ("wanted", "found"), [("auto", torch.float32), ("bfloat16", torch.bfloat16), ("float32", torch.float32)]
)
def test_dtypes_on_a_cpu(wanted, found, folder):
    assert load_base(str(folder), dtype=wanted, device="cpu").model.dtype is found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_auto_is_what_was_saved(folder):
    base = load_base(str(folder))
    assert (base.model.device.type, base.model.dtype) == ("cuda", torch.bfloat16)


def test_loading_shows_no_progress_bar_and_leaves_the_setting_alone(folder, capfd):
    enable_progress_bar()
    load_base(str(folder), device="cpu")
    assert capfd.readouterr() == ("", "")
    assert is_progress_bar_enabled()


@pytest.mark.parametrize("named", ["LlamaTokenizerFast", "Qwen2TokenizerFast", "PreTrainedTokenizerFast", None])
def test_a_tokenizer_does_what_its_file_says_whatever_class_is_named(named, folder, capfd):
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tokenizer_class": named}))
    tokenizer = load_base(str(folder), device="cpu").tokenizer
    assert tokenizer("w3 w5")["input_ids"] == [7, 9]
    assert tokenizer.decode([7, 9]) == "w3 w5"
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 0)


def test_without_tokenizer_json_transformers_decides(folder, monkeypatch):
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    seen = []
    monkeypatch.setattr(
        "transformers.AutoTokenizer.from_pretrained", lambda name, **_: seen.append(name) or range(3), raising=True
    )
    load_base(str(folder), device="cpu")
    assert seen == [str(folder)]


def test_every_tested_architecture_loads(architecture, tiny_model, tokenizer, tmp_path):
    tiny_model(architecture).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_base(str(tmp_path), device="cpu").model.config.hidden_size == 32


def test_wrong_settings(folder, monkeypatch):
    assert refusal(folder, dtype="int8") == "got the dtype 'int8', wanted one of auto, bfloat16, float16, float32"
    assert refusal(folder, device="gpu") == "got the device 'gpu', wanted auto, cpu, cuda or cuda:N"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert "no device cuda:1 here (0 CUDA devices)" in refusal(folder, device="cuda:1")


def test_no_such_model(tmp_path, monkeypatch):
    assert "no such folder or file; give a folder" in refusal(tmp_path / "nowhere")
    assert "no such folder or file; give a folder" in refusal(tmp_path / ("x" * 300))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refusal("nobody/nothing")
    assert message.startswith("nobody/nothing: no such folder, and the download from the Hub failed (")
    assert message.endswith("(hf download nobody/nothing) and give the folder")


def test_parts_that_are_missing(folder):
    tokens = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer in this folder" in refusal(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert "its tokenizer cannot be loaded: " in refusal(folder)
    (folder / "tokenizer.json").write_bytes(tokens)
    weights = load_file(folder / "model.safetensors")
    first = weights.pop("model.layers.0.mlp.up_proj.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    message = refusal(folder)
    assert "1 of the model's tensors are missing from its files" in message
    assert "model.layers.0.mlp.up_proj.weight" in message
    weights["model.layers.0.mlp.up_proj.weight"] = first[:5]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert "its weights cannot be loaded" in refusal(folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    assert "its weights cannot be loaded" in refusal(folder)
    (folder / "model.safetensors").unlink()
    assert "its weights cannot be loaded" in refusal(folder)
    (folder / "config.json").unlink()
    assert "no config.json in this folder" in refusal(folder)


def test_a_tokenizer_of_another_model(folder, tokenizer):
    import copy

    larger = copy.deepcopy(tokenizer)
    larger.add_tokens([f"more{number}" for number in range(20)])
    larger.save_pretrained(folder)
    assert "the tokenizer has 74 tokens, the model only 61" in refusal(folder)


def test_models_that_cannot_continue_a_text(tmp_path, tokenizer):
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    BertForMaskedLM(BertConfig(vocab_size=61, **sizes)).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    assert "is not a causal language model (BertForMaskedLM)" in refusal(tmp_path / "bert")
    T5Config(vocab_size=61, d_model=16).save_pretrained(tmp_path / "t5")
    assert "is not a causal language model (t5)" in refusal(tmp_path / "t5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model_type": "qwen2",', "config.json:1:24: not valid JSON"),
        ("[]", "'model_type' is missing"),
        ('{"model_type": 3}', "'model_type' is missing"),
        ('{"model_type": "zzz"}', "has no model 'zzz'; check 'model_type'"),
        ('{"model_type": "qwen2", "hidden_size": "x"}', "the model cannot be used: Validation error for field"),
        ('{"model_type": "qwen2", "name": "\udcff"}', "cannot be read"),
    ],
)
def test_unusable_configurations(text, message, tmp_path):
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    for name in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(ModelError) as caught:
            load_config(str(name))
        assert message in str(caught.value)


def test_a_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_base("~/base", device="cpu").name == "~/base"


def test_the_fixture_is_the_papers_base():
    folder = Path(__file__).parents[2] / "fixtures" / "deepseek-r1-distill-qwen-1.5b"
    config = load_config(str(folder))
    assert (config.model_type, config.num_hidden_layers) == ("qwen2", 28)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]


class _Code:
    def __reduce__(self):
        return print, ("this ran",)


@pytest.mark.parametrize("content", ["code", b"", b"not a pickle"])
def test_pickles_that_are_not_weights_are_refused_without_running_code(folder, capsys, content):
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    if content == "code":
        torch.save({"weights": _Code()}, file)
    else:
        file.write_bytes(content)
    assert refusal(folder, device="cpu").startswith(f"{folder}: its weights cannot be loaded")
    assert "this ran" not in capsys.readouterr().out


def test_code_in_a_models_folder_is_not_run(folder):
    settings = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text("raise SystemExit('this ran')")
    kinds = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "evil", "auto_map": kinds}))
    assert "custom code" in refusal(folder, device="cpu")


# Models without their weights


def test_a_chat_model_is_the_same_with_and_without_weights():
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
