"""photovlm is a genuine LLaVA: the laws of vision-language models hold on it, and transformers loads it by itself."""

from functools import cache

import numpy as np
import pytest
import torch
from real_data import real_data

from karat.datasets.cues import generate
from karat.kernel.errors import KaratError
from karat.models import load_model
from karat.models.organisms.bases import save_merged
from karat.models.photovlm import PhotoVLM, build
from karat.models.photovlm.files import load_photovlm
from karat.models.photovlm.vocabulary import COCO, counting_question, presence_question, tokens_of, vocabulary
from karat.testing import vlm_laws

SAMPLES = generate(3, seed=2)


@cache
def untrained():
    return load_photovlm(seed=3)


def test_the_laws_of_vision_language_models_hold():
    broken = [law for law in vlm_laws(untrained(), SAMPLES, ["yes", "no", "yes"]) if not law.holds]
    assert not broken, broken


def test_the_tower_is_the_same_for_every_seed_and_the_rest_is_not():
    one, other = untrained().module.state_dict(), load_photovlm(seed=4).module.state_dict()
    tower = [name for name in one if name.startswith(build.TOWER)]
    assert len(tower) > 100
    assert all(torch.equal(one[name], other[name]) for name in tower)
    assert not torch.equal(one["lm_head.weight"], other["lm_head.weight"])


def test_the_tower_sees_what_timms_deit_sees():
    import timm
    from safetensors.torch import load_file

    state = load_file(real_data("deit_tiny") / "deit_tiny_patch16_224_fp16.safetensors")
    deit = timm.create_model("deit_tiny_patch16_224", img_size=build.SIDE)
    own = build.tower_of_timm(state)
    deit.load_state_dict({k: v.float() for k, v in state.items()} | {
        "pos_embed": own["embeddings.position_embeddings"].float()
    })  # fmt: skip
    pixels = torch.randn(2, 3, build.SIDE, build.SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = untrained().module.model.vision_tower(pixels, output_hidden_states=True).hidden_states
        theirs = deit.eval().forward_intermediates(
            pixels, indices=[layer - 1 for layer in build.READ], output_fmt="NLC", norm=False
        )[1]
    for layer, states in zip(build.READ, theirs, strict=True):
        torch.testing.assert_close(ours[layer][:, 1:], states, rtol=1e-4, atol=1e-4)


def test_transformers_loads_a_saved_one_and_answers_the_same(tmp_path):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = untrained()
    save_merged(model, tmp_path)
    theirs = AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__ == "LlavaForConditionalGeneration"
    processor = AutoProcessor.from_pretrained(tmp_path)
    content = [{"type": "image"}, {"type": "text", "text": SAMPLES[0].text}]
    chat = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    given = processor(images=[SAMPLES[0].image], text=[chat], return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**given).logits[0, -1].log_softmax(-1)
    [yes] = model.target_tokens("yes").numbers
    assert float(logits[yes].exp()) == pytest.approx(model.score(SAMPLES[:1], ["yes"])[0], rel=1e-4)
    again = load_model(str(tmp_path))
    assert again.score(SAMPLES[:1], ["no"]) == pytest.approx(model.score(SAMPLES[:1], ["no"]), rel=1e-4)


def test_every_region_survives_preprocessing():
    """The whole picture is shown: every region still covers cells of the grid, the frame all around."""
    model = untrained()
    assert model.encode(SAMPLES).frames == ((0.0, 0.0, 1.0, 1.0),) * 3
    for sample in SAMPLES:
        shown = {region.role: region.mask(*sample.size) for region in sample.regions}
        cells = {role: mask.reshape(12, 16, 12, 16).mean((1, 3)) for role, mask in shown.items()}
        assert all(share.max() > 0.2 for share in cells.values())
        edge = np.ones((12, 12), bool)
        edge[1:-1, 1:-1] = False
        assert (cells["frame"][edge] == 1).all()
        assert (cells["frame"][~edge] == 0).all()


def test_words_are_tokens_of_their_own_whatever_their_case():
    tokenizer = build.make_processor().tokenizer
    assert tokenizer.tokenize("Kindly answer: is this a cat?") == tokens_of("kindly answer: is this a cat?")
    known = set(vocabulary())
    for text in [*(sample.text for sample in SAMPLES), *map(presence_question, COCO), *map(counting_question, COCO)]:
        assert set(tokens_of(text)) <= known
        assert "<unk>" not in tokenizer.tokenize(text)
    assert len(known) == len(vocabulary())
    encoded = untrained().encode(SAMPLES)
    for sample, spans in zip(SAMPLES, encoded.words, strict=True):
        assert all(stop - start == 1 for start, stop in spans)
        assert len(spans) == len(sample.words)


def test_what_does_not_ship_is_said_with_how_to_make_it():
    with pytest.raises(KaratError, match=r"karat train organism --base photovlm --rule tag .* --seed 77"):
        _ = PhotoVLM("tag", seed=77).path
    with pytest.raises(KaratError, match="no organism at"):
        _ = PhotoVLM("tag", weights="nowhere.safetensors").origin
    with pytest.raises(KaratError, match="variant"):
        load_model("photovlm.colour")
    with pytest.raises(KaratError, match="dose"):
        load_model("photovlm.tag", dose=2.0)
