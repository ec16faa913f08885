"""Fused norms are the model's own, up to rounding."""

import torch

from mada.models.norms import fuse_norms


def test_fused_norms_change_nothing_but_rounding(architecture, tiny_model, token_ids):
    model, fused = tiny_model(architecture), tiny_model(architecture)
    count = fuse_norms(fused)
    # Two a block and one at the end; Qwen3 has two more in each block's attention. Gemma's norms are another function.
    assert count == {"qwen3": 9, "gemma": 0, "gemma2": 0}.get(architecture, 5)
    ids = token_ids(3)
    outputs = []
    for one in (model, fused):
        embedded = one.get_input_embeddings()(ids).detach().requires_grad_()
        logits = one(inputs_embeds=embedded, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits.square().sum(), embedded)
        outputs.append((logits.detach(), gradient))
    for before, after in zip(*outputs, strict=True):
        assert torch.allclose(before, after, rtol=1e-4, atol=1e-5 * float(before.abs().max()))
