"""The head apart from the trunk, fused norms, attention kernels, and how many threads a model is computed with."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.backends import cuda

from mada.errors import ModelError
from mada.models.forward import check_head, fuse_norms, logits_of, no_cudnn_attention, set_threads, trunk


@torch.no_grad()
def test_the_head_on_part_of_the_hidden_states_gives_the_models_own_logits(architecture, tiny_model, token_ids):
    model, ids = tiny_model(architecture), token_ids(2)
    check_head(model)
    hidden = trunk(model)(input_ids=ids)[0]
    torch.testing.assert_close(logits_of(model, hidden[:, 3:5]), model(input_ids=ids).logits[:, 3:5])


def test_an_unknown_cap_is_noticed(tiny_model, monkeypatch):
    monkeypatch.setattr("mada.models.forward.logits_of", lambda model, hidden: model.lm_head(hidden))
    with pytest.raises(ModelError, match="Gemma2ForCausalLM changes its logits"):
        check_head(tiny_model("gemma2"))


def test_a_model_without_a_head(tiny_model):
    with pytest.raises(ModelError, match="Qwen2Model has no output head"):
        logits_of(tiny_model().model, torch.zeros(1, 1, 32))


def test_fused_norms_change_nothing_but_rounding(architecture, tiny_model, token_ids):
    model, fused = tiny_model(architecture), tiny_model(architecture)
    # Two a block and one at the end; Qwen3 has two more in each block's attention. Gemma's norms are another function.
    assert fuse_norms(fused) == {"qwen3": 9, "gemma": 0, "gemma2": 0}.get(architecture, 5)
    outputs = []
    for one in (model, fused):
        embedded = one.get_input_embeddings()(token_ids(3)).detach().requires_grad_()
        logits = one(inputs_embeds=embedded, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits.square().sum(), embedded)
        outputs.append((logits.detach(), gradient))
    for before, after in zip(*outputs, strict=True):
        assert torch.allclose(before, after, rtol=1e-4, atol=1e-5 * float(before.abs().max()))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_cudnn_attention_is_off_inside_the_block_on_a_gpu_only(kind):
    cuda.enable_cudnn_sdp(True)
    with no_cudnn_attention(torch.device(kind)):
        assert cuda.cudnn_sdp_enabled() == (kind == "cpu")
        assert cuda.flash_sdp_enabled()
        assert cuda.mem_efficient_sdp_enabled()
    assert cuda.cudnn_sdp_enabled()


@pytest.fixture
def threads(monkeypatch):
    """PyTorch's setting, 8 until it is set."""
    now = [8]
    monkeypatch.setattr("torch.set_num_threads", lambda count: now.__setitem__(0, count))
    monkeypatch.setattr("torch.get_num_threads", lambda: now[0])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return now


@pytest.mark.parametrize(
    ("parameters", "device", "wanted", "variable", "expected"),
    [
        (49_999_999, "cpu", None, None, 1),
        (50_000_000, "cpu", None, None, 8),
        (2_000_000, "cuda", None, None, 8),
        (2_000_000, "cpu", 3, None, 3),
        (10, "cpu", None, "8", 8),
        (10, "cpu", 2, "8", 2),
    ],
)
def test_threads(threads, monkeypatch, parameters, device, wanted, variable, expected):
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    model: Any = SimpleNamespace(device=SimpleNamespace(type=device), num_parameters=lambda: parameters)
    assert set_threads(model, wanted) == expected
    assert threads == [expected]


def test_a_real_small_model_gets_one_thread(threads, tiny_model):
    assert set_threads(tiny_model()) == 1
