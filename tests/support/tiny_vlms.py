"""Random vision-language models of the real classes, small enough for tests, with their real processors.

    module, processor = tiny_vlms.make("qwen2_5_vl")
    folder = tiny_vlms.saved("internvl", tmp_path)      # as `save_pretrained` leaves it: what a download looks like

Tokenizers are byte-level BPE, learnt from a few sentences here, with the special tokens of each family. A question's
words are one or several tokens, with the space in front, as in the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from karat.kernel.sample import Sample

TEXTS = ("Is the cup to the left of the bottle?", "How many red circles are there, above the blue square?", "Is it?")
ANSWERS = ("yes", "(A) left", "no")
_CORPUS = [
    *TEXTS,
    *ANSWERS,
    "Yes No left right above below 0 1 2 3 A B C D user assistant system model",
    "You are a helpful assistant.",
    "Answer directly with only the letter inside parentheses, and nothing else.",
]
_PARTS = (
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
)
_CHAT = (
    "SYSTEM{% for message in messages %}<|im_start|>{{ message.role }}\n" + _PARTS + "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_QWEN_CHAT = _CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>").replace(
    "SYSTEM", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
)
_INTERNVL_CHAT = _CHAT.replace("IMAGE", "<IMG_CONTEXT>\n").replace("SYSTEM", "")
_GEMMA_CHAT = (
    "<bos>{% for message in messages %}<start_of_turn>user\n" + _PARTS.replace("IMAGE", "<start_of_image>") + ""
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_LLAVA_CHAT = (
    "{% for message in messages %}USER: " + _PARTS.replace("IMAGE", "<image>\n") + " {% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@cache
def _core() -> str:
    """The learnt vocabulary, without special tokens, as JSON: every tokenizer starts from it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(_CORPUS, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet))
    return str(core.to_str())


def tokenizer(special: dict[str, str], others: Sequence[str] = ()) -> Any:
    """`special` by the names under which processors look for them; `others` are special without a name."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    plain = ("bos_token", "eos_token", "pad_token")
    named = {key: token for key, token in special.items() if key not in plain}
    named |= {f"other_{k}_token": token for k, token in enumerate(others)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_core()),
        **{key: token for key, token in special.items() if key not in named},
        extra_special_tokens=named,
        padding_side="left",
    )


def _text(words: Any, **changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.2,
        "pad_token_id": words.pad_token_id,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        **changes,
    }


def _qwen_parts(patch: int = 14) -> tuple[Any, Any, dict[str, int]]:
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    words = tokenizer(
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "image_token": "<|image_pad|>"}
        | {
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
        },
        ["<|im_start|>"],
    )
    limits = {"shortest_edge": 4 * patch**2, "longest_edge": 4 * patch**2 * 64}
    images = Qwen2VLImageProcessor(patch_size=patch, merge_size=2, size=limits)
    videos = Qwen2VLVideoProcessor(patch_size=patch, merge_size=2)
    numbers = {
        "image_token_id": words.convert_tokens_to_ids("<|image_pad|>"),
        "video_token_id": words.convert_tokens_to_ids("<|video_pad|>"),
        "vision_start_token_id": words.convert_tokens_to_ids("<|vision_start|>"),
        "vision_end_token_id": words.convert_tokens_to_ids("<|vision_end|>"),
    }
    return words, (images, videos), numbers


def _qwen2_vl() -> tuple[Any, Any]:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLProcessor

    words, (images, videos), numbers = _qwen_parts()
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    config = Qwen2VLConfig(
        text_config=_text(words, rope_parameters=rope),
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 14,
        },
        tie_word_embeddings=False,
        **numbers,
    )
    processor = Qwen2VLProcessor(images, words, videos, chat_template=_QWEN_CHAT)
    return Qwen2VLForConditionalGeneration(config), processor


def _qwen2_5_vl() -> tuple[Any, Any]:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

    words, (images, videos), numbers = _qwen_parts()
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    vision = {"depth": 3, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 32}
    config = Qwen2_5_VLConfig(
        text_config=_text(words, rope_parameters=rope),
        vision_config=vision | {"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]},
        tie_word_embeddings=False,
        **numbers,
    )
    processor = Qwen2_5_VLProcessor(images, words, videos, chat_template=_QWEN_CHAT)
    return Qwen2_5_VLForConditionalGeneration(config), processor


def _qwen3_vl() -> tuple[Any, Any]:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor

    words, (images, _), numbers = _qwen_parts(patch=16)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0, "mrope_interleaved": True}
    vision = {"depth": 3, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 32}
    config = Qwen3VLConfig(
        text_config=_text(words, rope_parameters=rope, head_dim=8),
        vision_config=vision | {"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
        tie_word_embeddings=False,
        **numbers,
    )
    videos = Qwen3VLVideoProcessor(patch_size=16, merge_size=2)
    processor = Qwen3VLProcessor(images, words, videos, chat_template=_QWEN_CHAT)
    return Qwen3VLForConditionalGeneration(config), processor


def _internvl() -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
        Qwen2Config,
    )

    words = tokenizer(
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "context_image_token": "<IMG_CONTEXT>"}
        | {"start_image_token": "<img>", "end_image_token": "</img>", "video_token": "<video>"},
        ["<|im_start|>"],
    )
    side = 56
    images = GotOcr2ImageProcessor(size={"height": side, "width": side}, max_patches=2)
    videos = InternVLVideoProcessor(size={"height": side, "width": side})
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = InternVLConfig(
        vision_config=vision | {"image_size": [side, side], "patch_size": [14, 14], "layer_scale_init_value": 0.5},
        text_config=Qwen2Config(**_text(words)),
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    processor = InternVLProcessor(images, words, videos, image_seq_length=4, chat_template=_INTERNVL_CHAT)
    return InternVLForConditionalGeneration(config), processor


def _gemma3() -> tuple[Any, Any]:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

    words = tokenizer(
        {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "image_token": "<image_soft_token>"}
        | {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"},
        ["<start_of_turn>", "<end_of_turn>"],
    )
    images = Gemma3ImageProcessor(size={"height": 56, "width": 56})
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = Gemma3Config(
        text_config=_text(words, head_dim=8, sliding_window=12, query_pre_attn_scalar=8)
        | {"layer_types": ["sliding_attention", "full_attention"] * 2},
        vision_config=vision | {"image_size": 56, "patch_size": 14, "vision_use_head": False},
        mm_tokens_per_image=4,
        image_token_id=words.convert_tokens_to_ids("<image_soft_token>"),
        boi_token_id=words.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_id=words.convert_tokens_to_ids("<end_of_image>"),
        tie_word_embeddings=False,
    )
    return Gemma3ForConditionalGeneration(config), Gemma3Processor(images, words, _GEMMA_CHAT, image_seq_length=4)


def _llava() -> tuple[Any, Any]:
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    words = tokenizer({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "image_token": "<image>"})
    vision = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**vision, image_size=56, patch_size=14),
        text_config=LlamaConfig(**_text(words)),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
        vision_feature_layer=-2,
        tie_word_embeddings=False,
    )
    size = {"height": 56, "width": 56}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(size=size, do_center_crop=False),
        tokenizer=words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_LLAVA_CHAT,
    )
    return LlavaForConditionalGeneration(config), processor


_MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "llava": _llava,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "internvl": _internvl,
    "gemma3": _gemma3,
}
KINDS = tuple(_MAKERS)
# Images whose pixels are the model's own, so that nothing is resized: (height, width).
NATIVE = {
    "llava": (56, 56),
    "qwen2_vl": (84, 112),
    "qwen2_5_vl": (84, 140),
    "qwen3_vl": (64, 96),
    "internvl": (56, 112),  # two tiles and a thumbnail
    "gemma3": (56, 56),
}


def make(kind: str, seed: int = 0) -> tuple[Any, Any]:
    """(module, processor), weights drawn with `seed`; large enough that answers differ between images."""
    import torch

    torch.manual_seed(seed)
    module, processor = _MAKERS[kind]()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name and "lambda" not in name and parameter.ndim > 1:
                parameter.normal_(std=0.4 / parameter[0].numel() ** 0.5 * 2)
            elif name.endswith("bias") or "embedding" in name:
                parameter.normal_(std=0.1)
        module.get_submodule("lm_head").weight.normal_(std=0.15)
    module.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    return module.eval(), processor


def saved(kind: str, folder: Path, seed: int = 0) -> Path:
    """A directory as a download of such a model would be."""
    module, processor = make(kind, seed)
    module.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def samples(kind: str, n: int = 3, size: tuple[int, int] | None = None) -> list[Sample]:
    """Noise with a bright square, in the model's own size unless another is given."""
    rng = np.random.default_rng(0)
    height, width = size or NATIVE[kind]
    drawn = []
    for i in range(n):
        image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image[height // 4 : height // 2, width // 4 : width // 2] = 255
        drawn.append(Sample(f"s{i}", image, TEXTS[i % 3], answer=ANSWERS[i % 3]))
    return drawn


# ---- image and text encoders


CLIPS = ("clip", "siglip", "open_clip")


def make_clip(kind: str, seed: int = 0) -> tuple[Any, Any]:
    """(module, processor) of transformers' CLIP or SigLIP, or (module, tokenizer) of open_clip; 4 × 4 patches."""
    import torch

    torch.manual_seed(seed)
    tower = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 48}
    if kind == "open_clip":
        import open_clip

        shape = {"layers": 4, "width": 32, "head_width": 16, "patch_size": 16, "image_size": 64}
        module = open_clip.CLIP(16, shape, {"context_length": 24, "width": 32, "heads": 2, "layers": 1})
        return module.eval(), open_clip.SimpleTokenizer(context_length=24)
    from transformers import (
        CLIPConfig,
        CLIPImageProcessor,
        CLIPModel,
        CLIPProcessor,
        SiglipConfig,
        SiglipImageProcessor,
        SiglipModel,
        SiglipProcessor,
    )

    words = tokenizer({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"})
    words.model_max_length = 24
    text = tower | {"vocab_size": len(words), "max_position_embeddings": 24, "eos_token_id": words.eos_token_id}
    text |= {"bos_token_id": words.bos_token_id, "pad_token_id": words.pad_token_id}
    vision = tower | {"image_size": 64, "patch_size": 16}
    size = {"height": 64, "width": 64}
    if kind == "clip":
        module = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
        images = CLIPImageProcessor(size={"shortest_edge": 64}, crop_size=size)
        return module.eval(), CLIPProcessor(images, words)
    module = SiglipModel(SiglipConfig(text_config=text, vision_config=vision))
    return module.eval(), SiglipProcessor(SiglipImageProcessor(size=size), words)
