"""The gradients of a mixed batch are, agent by agent, those PEFT computes for that agent's rows with its adapter on."""

import copy

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mada.models.adapters import AdapterStack, Lora

peft = pytest.importorskip("peft")

AGENTS = ("first", "second", "third")
RANK, ALPHA = 3, 12.0


@pytest.fixture(scope="module")
def base():
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    return Qwen2ForCausalLM(config).eval()


def with_peft(base, tensors):
    """The base with one PEFT adapter of these values."""
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0.0)
    model = peft.get_peft_model(copy.deepcopy(base), config)
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        place = "base_model.model." + name.replace(".weight", ".default.weight")
        parameters[place].data.copy_(value)
    return model


def loss_of(model, rows):
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")


@pytest.mark.parametrize("order", ["in blocks", "mixed"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_of_a_mixed_batch_equal_pefts(base, order, checkpointing):
    stack = AdapterStack.attach(copy.deepcopy(base), AGENTS, Lora(RANK, ALPHA, dropout=0.0))
    for parameter in stack.parameters().values():
        torch.nn.init.normal_(parameter, std=0.1)
    rows = torch.randint(0, 50, (6, 9))
    owners = ["first", "first", "second", "second", "third", "third"]
    if order == "mixed":
        owners = ["third", "first", "first", "second", "first", "third"]
    if checkpointing:
        stack.enable_checkpointing()
    with stack.routed(owners, learning=True):
        loss = loss_of(stack.model, rows)
    loss.backward()

    for place, agent in enumerate(AGENTS):
        theirs = with_peft(base, stack.tensors(agent))
        own = [row for row, owner in enumerate(owners) if owner == agent]
        loss_of(theirs, rows[own]).backward()
        parameters = dict(theirs.named_parameters())
        for path, layer in stack.layers.items():
            assert layer.A_KRI.grad is not None
            assert layer.B_KRO.grad is not None
            ours = {"lora_A": layer.A_KRI.grad[place], "lora_B": layer.B_KRO.grad[place].T}
            for kind, gradient in ours.items():
                expected = parameters[f"base_model.model.{path}.{kind}.default.weight"].grad
                assert expected is not None
                torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
