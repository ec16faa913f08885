"""Adapters in PEFT's format: what is saved here means the same in PEFT, and the other way round (T6)."""

import json
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from mada.errors import AdapterError, RunError
from mada.models.adapters import AdapterStack, Lora, count_adapter_parameters, load_adapter, read_lora, save_adapter

TARGETS = {"all": "all-linear", "named": ("q_proj", "v_proj"), "longer": ("self_attn.o_proj", "mlp.down_proj")}
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


@torch.no_grad()
def logits(model, ids):
    return model(input_ids=ids, use_cache=False).logits


def peft_adapter(model, folder, **changes):
    """Have PEFT make, fill and save an adapter; returns PEFT's model."""
    settings: dict[str, Any] = {"r": 3, "lora_alpha": 5, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    wrapped = get_peft_model(model, LoraConfig(**{**settings, **changes})).eval()
    torch.manual_seed(4)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    wrapped.save_pretrained(folder)
    return wrapped


@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS)
def test_what_is_saved_here_is_the_same_in_peft(architecture, targets, tiny_model, fill, token_ids, tmp_path):
    shapes = {"one": Lora(rank=4, alpha=6, targets=targets), "two": Lora(rank=2, alpha=8, targets=targets)}
    model, ids = tiny_model(architecture), token_ids(4)
    bare = logits(model, ids)
    stack = AdapterStack.attach(model, shapes)
    fill(stack)
    with stack.routed(["two", "one", None, "two"]):
        routed = logits(model, ids)
    torch.testing.assert_close(routed[2], bare[2], **CLOSE)
    for agent, rows in (("one", [1]), ("two", [0, 3])):
        save_adapter(stack, agent, tmp_path / agent, base_name="tiny")
        loaded = PeftModel.from_pretrained(tiny_model(architecture), tmp_path / agent).eval()
        theirs = logits(loaded, ids)
        torch.testing.assert_close(routed[rows], theirs[rows], **CLOSE)
        assert (theirs - bare).abs().max() > 0.01
        assert {path.name for path in (tmp_path / agent).iterdir()} == {
            "adapter_config.json",
            "adapter_model.safetensors",
        }


@pytest.mark.parametrize(
    "targets",
    ["all-linear", ["q_proj", "down_proj"], r".*\.0\..*(q|up)_proj", "q_proj", "all-linear-but-one"],
)
def test_what_peft_saved_is_the_same_here(architecture, targets, tiny_model, token_ids, tmp_path):
    settings: dict[str, Any] = {"target_modules": targets}
    if targets == "all-linear-but-one":
        settings = {"target_modules": ["q_proj", "k_proj"], "exclude_modules": ["model.layers.1.self_attn.k_proj"]}
    if targets == "q_proj":
        settings = {"target_modules": ["q_proj"], "layers_to_transform": [1]}
    ids = token_ids(3)
    theirs = logits(peft_adapter(tiny_model(architecture), tmp_path / "saved", **settings), ids)
    model = tiny_model(architecture)
    bare = logits(model, ids)
    shape = read_lora(tmp_path / "saved")
    assert (shape.rank, shape.alpha, shape.dropout) == (3, 5.0, 0.0)
    stack = AdapterStack.attach(model, ["loaded", "fresh"], shape)
    load_adapter(stack, "loaded", tmp_path / "saved")
    with stack.routed(["loaded", "fresh", "loaded"]):
        ours = logits(model, ids)
    torch.testing.assert_close(ours[[0, 2]], theirs[[0, 2]], **CLOSE)
    torch.testing.assert_close(ours[1], bare[1], **CLOSE)
    assert (theirs - bare).abs().max() > 0.01


def test_a_file_with_fewer_layers_and_a_smaller_rank_loads_into_a_larger_stack(tiny_model, fill, token_ids, tmp_path):
    ids = token_ids(2)
    theirs = logits(peft_adapter(tiny_model(), tmp_path / "saved", target_modules=["q_proj"]), ids)
    stack = AdapterStack.attach(tiny_model(), ["mine", "other"], Lora(rank=8, alpha=16, dropout=0.25))
    fill(stack)
    with stack.routed(["other"]):
        before = logits(stack.model, ids[:1])
    load_adapter(stack, "mine", tmp_path / "saved")
    assert stack.lora["mine"] == Lora(rank=3, alpha=5.0, dropout=0.25)
    assert stack.scale_K.tolist() == pytest.approx([5 / 3, 2.0])
    with stack.routed(["mine", "mine"]):
        torch.testing.assert_close(logits(stack.model, ids), theirs, **CLOSE)
    with stack.routed(["other"]):
        torch.testing.assert_close(logits(stack.model, ids[:1]), before, rtol=0, atol=0)
    down = stack.tensors("mine")["model.layers.0.mlp.down_proj.lora_A.weight"]
    assert down.shape[0] == 3
    assert not down.any()


def test_saving_and_loading_changes_nothing(tiny_model, fill, tmp_path):
    stack = AdapterStack.attach(tiny_model(), ["one", "two"], Lora(rank=4, alpha=6.5))
    fill(stack)
    save_adapter(stack, "one", tmp_path / "deep" / "folder", base_name="tiny")
    load_adapter(stack, "two", tmp_path / "deep" / "folder")
    assert read_lora(tmp_path / "deep" / "folder").alpha == 6.5
    for name, own in stack.tensors("one").items():
        assert torch.equal(own, stack.tensors("two")[name])
    # Once more over what is there, and back.
    save_adapter(stack, "two", tmp_path / "deep" / "folder", base_name="tiny")
    assert len(list((tmp_path / "deep" / "folder").iterdir())) == 2


def test_target_modules_are_short_names_where_those_are_unambiguous(tiny_model, tmp_path):
    def saved_targets(targets):
        stack = AdapterStack.attach(tiny_model(), ["one"], Lora(targets=targets))
        save_adapter(stack, "one", tmp_path, base_name="some/base")
        config = json.loads((tmp_path / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == "some/base"
        return config["target_modules"]

    assert saved_targets(("mlp.up_proj", "q_proj")) == ["q_proj", "up_proj"]
    assert saved_targets(("0.self_attn.q_proj",)) == ["model.layers.0.self_attn.q_proj"]
    assert saved_targets("all-linear") == sorted(
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    )


def test_layers_missing_from_a_file_stay_zero_in_training(tiny_model, token_ids, tmp_path):
    peft_adapter(tiny_model(), tmp_path, target_modules=["q_proj"])
    stack = AdapterStack.attach(tiny_model(), ["mine"], Lora(rank=8))
    load_adapter(stack, "mine", tmp_path)
    with stack.routed(["mine"]):
        stack.model(input_ids=token_ids(1), use_cache=False).logits.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in stack.parameters().items()}
    for name, gradient in gradients.items():
        assert gradient is not None
        assert gradient.any() == ("q_proj" in name)
        assert not gradient[:, 3:].any()  # the padding


@pytest.fixture
def saved(tiny_model, fill, tmp_path):
    """A valid adapter of rank 4, for tests to damage."""
    stack = AdapterStack.attach(tiny_model(), ["one"], Lora(rank=4, alpha=8, targets=("q_proj", "v_proj")))
    fill(stack)
    save_adapter(stack, "one", tmp_path / "saved", base_name="owner/right")
    return tmp_path / "saved"


def edit_config(folder, **changes):
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_rslora": True}, "use_rslora = true is not plain LoRA"),
        ({"use_something_new": 3}, "use_something_new = 3 is not plain LoRA"),
        ({"rank_pattern": {"q_proj": 2}}, 'rank_pattern = {"q_proj": 2} is not plain LoRA'),
        ({"modules_to_save": ["lm_head"]}, 'modules_to_save = ["lm_head"] is not plain LoRA'),
        ({"bias": "all"}, 'bias = "all" is not plain LoRA'),
        ({"init_lora_weights": "pissa"}, 'init_lora_weights = "pissa" is not plain LoRA'),
        ({"peft_type": "LOHA"}, 'peft_type is "LOHA"; only LORA'),
        ({"r": "4"}, "'r' is \"4\", wanted a number"),
        ({"r": 0}, "rank must be at least 1, got 0"),
        ({"lora_alpha": None}, "'lora_alpha' is null, wanted a number"),
        ({"lora_dropout": 1.5}, "dropout must be in [0, 1), got 1.5"),
        ({"r": 16}, "'r' is 16, and the weights have rank 4"),
    ],
)
def test_variants_of_lora_are_refused(changes, message, saved, tiny_model):
    edit_config(saved, **changes)
    stack = AdapterStack.attach(tiny_model(), ["one"], Lora(rank=4, targets=("q_proj", "v_proj")))
    before = {name: own.clone() for name, own in stack.tensors("one").items()}
    with pytest.raises(AdapterError) as caught:
        load_adapter(stack, "one", saved)
    assert message in str(caught.value)
    assert str(saved) in str(caught.value)
    assert stack.lora["one"].alpha == 128
    assert all(torch.equal(own, before[name]) for name, own in stack.tensors("one").items())


def test_an_adapter_that_does_not_fit_is_refused(saved, tiny_model):
    wrong = tiny_model(hidden_size=64)
    wrong.config.name_or_path = wrong.name_or_path = "some folder"
    stack = AdapterStack.attach(wrong, ["one"], Lora(rank=4, targets=("q_proj", "v_proj")))
    with pytest.raises(AdapterError, match=r"is for owner/right, and the base here is some folder: .* has shape"):
        load_adapter(stack, "one", saved)
    stack = AdapterStack.attach(tiny_model(num_hidden_layers=1), ["one"], Lora(rank=4))
    with pytest.raises(AdapterError, match=r"base here is unnamed: it has model.layers.1.*read_lora\(folder\).targets"):
        load_adapter(stack, "one", saved)
    with pytest.raises(AdapterError, match="no agent 'two' here; the agents are one"):
        load_adapter(stack, "two", saved)
    for lora, message in ((Lora(rank=4, targets=("q_proj",)), "v_proj"), (Lora(rank=2), "rank of at least 4")):
        with pytest.raises(AdapterError, match=message):
            load_adapter(AdapterStack.attach(tiny_model(), ["one"], lora), "one", saved)


def test_another_hub_id_is_refused_unless_allowed(saved, tiny_model):
    model = tiny_model()
    model.name_or_path = "owner/other"
    stack = AdapterStack.attach(model, ["one"], Lora(rank=4))
    with pytest.raises(AdapterError, match=r"is for owner/right, and the base here is owner/other: .* any_base=True"):
        load_adapter(stack, "one", saved)
    load_adapter(stack, "one", saved, any_base=True)
    model.name_or_path = "Owner/Right"
    load_adapter(stack, "one", saved)


def change_tensors(folder, change):
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def test_damaged_files(saved, tiny_model, tmp_path):
    stack = AdapterStack.attach(tiny_model(), ["one"], Lora(rank=4))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    whole = load_file(saved / "adapter_model.safetensors")

    def message(folder=saved):
        with pytest.raises(AdapterError) as caught:
            load_adapter(stack, "one", folder)
        return str(caught.value)

    change_tensors(saved, lambda tensors: tensors.pop(name))
    assert "q_proj has only one of lora_A and lora_B" in message()
    change_tensors(saved, lambda tensors: tensors.update({**whole, name: whole[name] * torch.inf}))
    assert f"{name} has values that are not finite" in message()
    (saved / "adapter_model.safetensors").write_bytes(b"nothing")
    assert "adapter_model.safetensors cannot be read" in message()
    (saved / "adapter_model.safetensors").rename(saved / "adapter_model.bin")
    assert "no such file (adapter_model.bin is PEFT's old format" in message()
    (saved / "adapter_config.json").write_text("{")
    assert "adapter_config.json cannot be read" in message()
    (saved / "adapter_config.json").write_text("[]")
    assert "peft_type is null" in message()
    (saved / "adapter_config.json").unlink()
    assert "is " in message()
    assert message(tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: no such folder")


def test_parameters_of_an_adapter_are_counted(tiny_model, tmp_path):
    # Two layers; q_proj is 32 × 32 and v_proj 32 × 16 in the tiny model, and each has A and B of rank 3.
    theirs = peft_adapter(tiny_model(), tmp_path / "theirs", target_modules=["q_proj", "v_proj"])
    assert count_adapter_parameters(tmp_path / "theirs") == 2 * (3 * (32 + 32) + 3 * (32 + 16)) == 672
    assert theirs.get_nb_trainable_parameters()[0] == 672
    stack = AdapterStack.attach(tiny_model(), {"one": Lora(rank=4, targets="all-linear"), "two": Lora(rank=1)})
    save_adapter(stack, "one", tmp_path / "one", base_name="tiny")
    save_adapter(stack, "two", tmp_path / "two", base_name="tiny")
    # q 32·32, k and v 32·16, o 32·32, gate and up 32·48, down 48·32: in + out is 448 a layer.
    assert count_adapter_parameters(tmp_path / "one") == 2 * 4 * (64 + 48 + 48 + 64 + 80 + 80 + 80)
    assert count_adapter_parameters(tmp_path / "two") == count_adapter_parameters(tmp_path / "one") / 4


def test_a_crash_while_saving_leaves_the_old_file(saved, tiny_model, monkeypatch):
    before = (saved / "adapter_model.safetensors").read_bytes()
    stack = AdapterStack.attach(tiny_model(), ["one"], Lora(rank=4))
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(RunError, match="No space left on device"):
        save_adapter(stack, "one", saved, base_name="tiny")
    assert (saved / "adapter_model.safetensors").read_bytes() == before
    assert len(list(saved.iterdir())) == 2


@pytest.mark.parametrize("rank", ["1000000000", "1e999", "3"])
def test_a_rank_that_the_weights_do_not_have_is_refused_before_memory_is_taken(saved, rank):
    config = json.loads((saved / "adapter_config.json").read_text())
    (saved / "adapter_config.json").write_text(json.dumps({**config, "r": 0}).replace('"r": 0', f'"r": {rank}'))
    with pytest.raises(AdapterError, match="adapter_config"):
        read_lora(saved)
