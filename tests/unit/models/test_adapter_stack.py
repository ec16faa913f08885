"""Many adapters on one base: every row is computed as it would be alone with its agent."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mada.errors import AdapterError
from mada.models.adapters import AdapterStack, Lora, StackedLinear
from mada.models.adapters.layer import RoutingState, _even_span, target_layers  # pyright: ignore[reportPrivateUsage]

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
SHAPES = {"one": Lora(rank=4, alpha=6), "two": Lora(rank=2, alpha=8), "three": Lora(rank=1, alpha=1)}


@pytest.fixture
def stack(tiny_model, fill):
    made = AdapterStack.attach(tiny_model(), SHAPES)
    fill(made)
    return made


def logits(stack, ids):
    return stack.model(input_ids=ids, use_cache=False).logits


def gradients(stack):
    found = {name: parameter.grad.clone() for name, parameter in stack.parameters().items()}
    for parameter in stack.parameters().values():
        parameter.grad = None
    return found


# Routing


@given(st.lists(st.integers(-1, 3), max_size=9))
def test_an_even_span_is_recognised_exactly_when_there_is_one(agents):
    spans = {(first, end): range(first, end) for first in range(4) for end in range(first + 1, 5)}
    fitting = [
        span
        for span, places in spans.items()
        for count in range(1, 10)
        if agents == [place for place in places for _ in range(count)]
    ]
    assert _even_span(agents) == (fitting[0] if fitting else None)
    assert len(fitting) <= 1


def plain_layer(x, base, stacked, agents, scales):
    """The layer's definition, row by row."""
    rows = []
    for row, agent in zip(x, agents, strict=True):
        y = row @ base.weight.T + base.bias
        if agent >= 0:
            y = y + scales[agent] * (row @ stacked.A_KRI[agent].T) @ stacked.B_KRO[agent]
        rows.append(y)
    return torch.stack(rows)


@settings(max_examples=60)
@given(agents=st.lists(st.integers(-1, 2), min_size=1, max_size=7), length=st.integers(1, 3), seed=st.integers(0, 99))
def test_any_rows_give_what_each_gives_alone(agents, length, seed):
    from mada.models.adapters import Routing

    torch.manual_seed(seed)
    state, base = RoutingState(), nn.Linear(5, 6)
    layer = StackedLinear(base, agents=3, rank=2, dropout=0.0, routing_state=state)
    nn.init.normal_(layer.A_KRI)
    nn.init.normal_(layer.B_KRO)
    scale_K = torch.tensor([0.5, 2.0, 3.0])
    x = torch.randn(len(agents), length, 5, requires_grad=True)
    expected = plain_layer(x, base, layer, agents, scale_K)
    parameters = [layer.A_KRI, layer.B_KRO, x]
    wanted = torch.autograd.grad(expected.square().sum(), parameters, allow_unused=True)
    for given_x in (x, x.flatten(0, 1), x.reshape(1, -1, 5), x.transpose(0, 1).contiguous().transpose(0, 1)):
        with state.set(Routing.of(agents, scale_K)):
            found = layer(given_x)
        assert found.shape == (*given_x.shape[:-1], 6)
        torch.testing.assert_close(found.reshape(expected.shape), expected, **CLOSE)
        got = torch.autograd.grad(found.square().sum(), parameters, retain_graph=True)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, rtol=1e-3, atol=1e-4)


@settings(max_examples=15)
@given(st.lists(st.sampled_from([None, *SHAPES]), min_size=1, max_size=6))
def test_a_model_gives_every_row_what_it_gives_alone(tiny_model, fill, token_ids, agents):
    stack = AdapterStack.attach(tiny_model(num_hidden_layers=1), SHAPES)
    fill(stack)
    ids = token_ids(len(agents))
    with torch.no_grad(), stack.routed(agents):
        together = logits(stack, ids)
    for row, agent in enumerate(agents):
        with torch.no_grad(), stack.routed([agent]):
            torch.testing.assert_close(together[row], logits(stack, ids[row : row + 1])[0], **CLOSE)


def test_rows_without_an_agent_each_are_refused(stack, token_ids):
    for agents, rows in ((["one"], 2), (["one", "two"], 4), (["one"] * 3, 2), (["two", "one"], 3)):
        with stack.routed(agents), pytest.raises(AdapterError, match=f"has {rows} rows, but agents were named for"):
            logits(stack, token_ids(rows))


def test_unknown_agents_are_named(stack):
    with (
        pytest.raises(AdapterError, match="no agent 'four' here; the agents are one"),
        stack.routed(["four"]),
    ):
        pass


# On and off


@torch.no_grad()
def test_outside_of_routed_the_model_is_the_base(tiny_model, fill, token_ids):
    model, ids = tiny_model(), token_ids(2)
    bare = model(input_ids=ids).logits
    stack = AdapterStack.attach(model, SHAPES)
    fill(stack)
    assert torch.equal(logits(stack, ids), bare)
    with stack.routed(["one", "two"], learning=True):
        with stack.disabled():
            assert torch.equal(logits(stack, ids), bare)
            with stack.routed(["one", None]):
                inner = logits(stack, ids)
        assert stack.routing_state.learning
        assert not torch.allclose(logits(stack, ids)[1], bare[1], atol=1e-3)
    torch.testing.assert_close(inner[1], bare[1], **CLOSE)
    assert not torch.allclose(inner[0], bare[0], atol=1e-3)
    with pytest.raises(KeyError), stack.routed(["one", "two"]):
        raise KeyError
    assert torch.equal(logits(stack, ids), bare)


@torch.no_grad()
def test_a_fresh_adapter_changes_nothing(architecture, tiny_model, token_ids):
    model, ids = tiny_model(architecture), token_ids(2)
    bare = model(input_ids=ids).logits
    stack = AdapterStack.attach(model, ["one", "two"], Lora(rank=3))
    for agents in (["one", "two"], ["two", "one"]):
        with stack.routed(agents):
            torch.testing.assert_close(logits(stack, ids), bare, **CLOSE)


@torch.no_grad()
def test_dropout_is_on_only_while_learning(stack, token_ids):
    ids = token_ids(3)
    stack.model.train()  # which alone does not turn it on
    for agents in (["one", "two", "three"], ["three", None, "one"]):
        with stack.routed(agents):
            still = [logits(stack, ids) for _ in range(2)]
        with stack.routed(agents, learning=True):
            torch.manual_seed(0)
            dropped = [logits(stack, ids) for _ in range(2)]
        assert torch.equal(*still)
        assert not torch.allclose(*dropped)
        if None in agents:
            torch.testing.assert_close(dropped[0][1], still[0][1], **CLOSE)


# Gradients


def test_only_adapters_learn_and_each_only_from_its_rows(stack, token_ids):
    asking = {name for name, parameter in stack.model.named_parameters() if parameter.requires_grad}
    assert asking == set(stack.parameters())
    for agents in (["one", "one", "three"], ["one", "two", "three"]):
        with stack.routed(agents):
            logits(stack, token_ids(3))[:2].square().sum().backward()
        for name, gradient in gradients(stack).items():
            used = [gradient[place].any().item() for place in range(3)]
            assert used == [True, "two" in agents, False], name
            assert not gradient[1, 2:].any()


@pytest.mark.parametrize("learning", [False, True])
def test_recomputed_activations_give_the_same_gradients(architecture, learning, tiny_model, fill, token_ids):
    ids, agents = token_ids(3), ["two", None, "one"]
    found, calls = [], []
    for recompute in (False, True):
        stack = AdapterStack.attach(tiny_model(architecture), {"one": SHAPES["one"], "two": SHAPES["two"]})
        fill(stack)
        if recompute:
            stack.enable_checkpointing()
            stack.enable_checkpointing()  # once more is no more
        count = 0

        def counted(module, *_):
            nonlocal count
            count += 1

        stack.layers["model.layers.0.self_attn.q_proj"].register_forward_pre_hook(counted)
        torch.manual_seed(0)
        with stack.routed(agents, learning=learning):
            loss = logits(stack, ids).square().mean()
        with stack.routed(["one", "one", "one"]):  # the backward pass must not look here
            loss.backward()
        found.append(gradients(stack))
        calls.append(count)
    assert calls == [1, 2 if learning else 1]
    for name, gradient in found[0].items():
        assert gradient.any()
        torch.testing.assert_close(found[1][name], gradient, **CLOSE)


def test_recomputing_leaves_sampling_and_its_cache_alone(stack, token_ids):
    ids = token_ids(2)
    with torch.no_grad(), stack.routed(["one", "two"]):
        whole = logits(stack, ids)
        stack.enable_checkpointing()
        cache = stack.model(input_ids=ids[:, :-1], use_cache=True).past_key_values
        last = stack.model(input_ids=ids[:, -1:], past_key_values=cache, use_cache=True).logits
    torch.testing.assert_close(last[:, 0], whole[:, -1], **CLOSE)
    with (
        stack.routed(["one", "two"], learning=True),
        pytest.raises(ValueError, match="learn with use_cache=False"),
    ):
        stack.model(input_ids=ids, use_cache=True)


def test_a_model_without_blocks_cannot_recompute():
    stack = AdapterStack.attach(nn.Sequential(nn.Linear(3, 3)), ["one"])
    with pytest.raises(AdapterError, match="Sequential has no blocks to recompute"):
        stack.enable_checkpointing()


# Tensors


def test_tensors_are_views_and_assigning_writes_in_place(stack, token_ids):
    places = {name: parameter.data_ptr() for name, parameter in stack.parameters().items()}
    own = stack.tensors("two")
    name = "model.layers.1.self_attn.q_proj.lora_B.weight"
    assert own[name].shape == (32, 2)
    stack.assign("two", {key: torch.full_like(tensor, 7.0) for key, tensor in own.items()})
    assert (own[name] == 7).all()
    layer = stack.layers["model.layers.1.self_attn.q_proj"]
    assert (layer.B_KRO[1, :2] == 7).all()
    assert not layer.B_KRO[1, 2:].any()
    assert {key: parameter.data_ptr() for key, parameter in stack.parameters().items()} == places
    with torch.no_grad():
        layer.B_KRO += 1
    assert (own[name] == 8).all()
    assert stack.trainable_parameters("one") == 2 * stack.trainable_parameters("two")


def test_assigning_is_all_or_nothing(stack):
    before = {name: own.clone() for name, own in stack.tensors("one").items()}
    last = list(before)[-1]
    zeros = {name: torch.zeros_like(own) for name, own in before.items()}
    with pytest.raises(AdapterError, match=r"has shape \[3, 3\], wanted"):
        stack.assign("one", {**zeros, last: torch.zeros(3, 3)})
    with pytest.raises(AdapterError, match=r"it lacks .* \(1 tensors missing, 0 unknown\)"):
        stack.assign("one", {name: tensor for name, tensor in zeros.items() if name != last})
    with pytest.raises(AdapterError, match="it has other, which the base has not"):
        stack.assign("one", {**zeros, "other": torch.zeros(1)})
    assert all(torch.equal(own, before[name]) for name, own in stack.tensors("one").items())


def test_resizing(stack):
    stack.resize("one", rank=3, alpha=9)
    assert stack.scale_K.tolist() == [3, 4, 1]
    assert stack.tensors("one")["model.layers.0.mlp.up_proj.lora_A.weight"].shape == (3, 32)
    assert not stack.layers["model.layers.0.mlp.up_proj"].A_KRI[0].any()
    with pytest.raises(AdapterError, match="one cannot have rank 5 in a stack of rank 4"):
        stack.resize("one", rank=5, alpha=9)


def test_fresh_adapters_are_pefts_and_follow_the_seed(tiny_model):
    def fresh(*agents, **settings):
        stack = AdapterStack.attach(tiny_model(), agents or ["one", "two"], Lora(rank=64), **settings)
        return [stack.tensors(agent)["model.layers.0.mlp.down_proj.lora_A.weight"] for agent in stack.agents]

    one, two = fresh()
    bound = 48**-0.5
    assert 0.99 * bound < one.max() <= bound
    assert -bound <= one.min() < -0.99 * bound
    assert abs(one.std() - bound / 3**0.5) < 0.02 * bound
    assert not torch.equal(one, two)
    assert torch.equal(one, fresh()[0])
    assert torch.equal(two, fresh("two")[0]), "an agent begins the same whoever else is there"
    assert not torch.equal(one, fresh(seed=1)[0])


# Attaching


def test_targets(tiny_model):
    model = tiny_model()
    assert len(list(target_layers(model, "all-linear"))) == 14
    assert [path for path, _ in target_layers(model, ("k_proj", "1.mlp.up_proj"))] == [
        *("model.layers.0.self_attn.k_proj", "model.layers.1.self_attn.k_proj", "model.layers.1.mlp.up_proj"),
    ]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("proj",), "no linear layer called 'proj'; its linear layers are down_proj, gate_proj"),
        (("q_proj", "x", "y"), "no linear layer called 'x', 'y'"),
        (("mlp",), "model.layers.0.mlp is a Qwen2MLP, not a linear layer"),
        (("embed_tokens",), "model.embed_tokens is a Embedding, not a linear layer"),
        (("lm_head",), "lm_head is the output head"),
    ],
)
def test_wrong_targets(targets, message, tiny_model):
    with pytest.raises(AdapterError) as caught:
        AdapterStack.attach(tiny_model(), ["one"], Lora(targets=targets))
    assert message in str(caught.value)


def test_experts_and_quantized_layers_are_refused():
    experts = nn.ModuleDict({"experts": nn.ModuleList([nn.Linear(2, 2)])})
    with pytest.raises(AdapterError, match=r"experts.0 belongs to a mixture of experts"):
        AdapterStack.attach(experts, ["one"])
    quantized = nn.Sequential(nn.Linear(2, 2))
    quantized[0].weight = nn.Parameter(torch.zeros(2, 2, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(AdapterError, match=r"0 has quantized weights \(torch.uint8\)"):
        AdapterStack.attach(quantized, ["one"])
    with pytest.raises(AdapterError, match="no linear layer called 'all-linear'; its linear layers are none"):
        AdapterStack.attach(nn.Sequential(nn.ReLU()), ["one"])


def test_attaching_mistakes(tiny_model):
    model = tiny_model()
    with pytest.raises(ValueError, match="at least one agent"):
        AdapterStack.attach(model, [])
    with pytest.raises(ValueError, match="names must differ, got a, a"):
        AdapterStack.attach(model, ["a", "a"])
    with pytest.raises(AdapterError, match="b has other lora targets or dropout than a"):
        AdapterStack.attach(model, {"a": Lora(), "b": Lora(dropout=0)})
    AdapterStack.attach(model, ["a"])
    with pytest.raises(ValueError, match="has a stack of adapters already"):
        AdapterStack.attach(model, ["a"])
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"rank": 0}, "rank must be at least 1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1"),
    )
    for shape, message in wrong:
        with pytest.raises(ValueError, match=message):
            Lora(**shape)


def test_layers_of_one_input_share_a_dropout_mask():
    routing_state = RoutingState()
    x, other = torch.ones(4, 50), torch.ones(4, 50)
    with routing_state.set(None, learning=True):
        first = routing_state.dropout(x, 0.5)
        assert routing_state.dropout(x, 0.5) is first
        assert not torch.equal(routing_state.dropout(other, 0.5), first)
        assert not torch.equal(routing_state.dropout(x, 0.5), first)
    with routing_state.set(None, learning=True):
        assert not torch.equal(routing_state.dropout(x, 0.5), first)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_dropout_keeps_its_share_and_the_mean(share):
    routing_state = RoutingState()
    torch.manual_seed(0)
    x = torch.ones(997, 501)
    with routing_state.set(None, learning=True):
        dropped = routing_state.dropout(x, share)
    assert float((dropped == 0).float().mean()) == pytest.approx(share, abs=0.005)
    assert float(dropped.max()) == pytest.approx(1 / (1 - share))
    assert float(dropped.mean()) == pytest.approx(1, abs=0.01)
