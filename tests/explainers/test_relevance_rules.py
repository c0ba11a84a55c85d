"""Rules on calls, however layers are spelt: fused or written out, transformers' decoders; the model stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from relevance_networks import CASES, Network, session_of

from karat.explainers.relevance import AttnLrp, CpLrp
from karat.explainers.relevance_rules import Propagation


def test_fused_and_spelt_out_attention_agree() -> None:
    for explainer in (AttnLrp(), CpLrp()):
        one = explainer(session_of(Network(2, "rms", True, 4, 2, True)))
        other = explainer(session_of(Network(2, "rms", True, 4, 2, False)))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.visual, b.visual, rtol=1e-6, atol=1e-10)
            assert a.notes["leak"] == pytest.approx(b.notes["leak"], abs=1e-9)


def _decoder(kind: str, implementation: str) -> Any:
    import transformers

    sizes = {
        "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 32, "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, f"{kind}ForCausalLM")._from_config(config, attn_implementation=implementation)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
        if name.endswith("bias"):
            parameter.zero_()
    return model.double().eval()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3", "Mistral"])
def test_decoders_of_transformers(kind: str) -> None:
    """Eager and fused attention give the same relevance; embeddings have the logit, less what the softmaxes lose."""
    tokens = torch.arange(14).reshape(2, 7)
    for hold in (True, False):
        maps = []
        for implementation in ("eager", "sdpa"):
            model = _decoder(kind, implementation)
            embedded = model.get_input_embeddings()(tokens).detach().requires_grad_()
            with Propagation(model, 2, hold) as rules:
                logits = model(inputs_embeds=embedded).logits[:, -1, 3]
            [slope] = torch.autograd.grad(logits.sum(), embedded)
            relevance = (embedded * slope).sum(-1).detach()
            # its norms work in float32, whatever the model does
            torch.testing.assert_close(relevance.sum(1) + rules.tally.lost, logits.detach(), rtol=1e-5, atol=1e-5)
            assert bool((rules.tally.lost == 0).all()) == hold
            maps.append(relevance)
        torch.testing.assert_close(*maps, rtol=1e-4, atol=1e-6)


def test_the_model_is_as_it_was() -> None:
    network = Network(*CASES["layer norm, gelu"])
    session = session_of(network)
    with torch.no_grad():
        before = network(session.inputs.pixels)
    AttnLrp()(session)
    with pytest.raises(RuntimeError, match="stop"), Propagation(network, 2, True):
        raise RuntimeError("stop")
    with torch.no_grad():
        assert bool((network(session.inputs.pixels) == before).all())
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in network.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())
    plain = torch.autograd.grad(network(session.inputs.pixels.requires_grad_())[:, 0].sum(), session.inputs.pixels)
    assert bool(plain[0].isfinite().all())
