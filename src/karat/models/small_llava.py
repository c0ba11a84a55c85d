"""What the small LLaVAs (`gridvlm`, `photovlm`) share: a Llama decoder, a token a word, whole images, one template.

Nothing here is our own architecture: `LlavaForConditionalGeneration`, saved with `save_pretrained`, so that every tool
for LLaVA meets a model whose rule is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<image>")
TEMPLATE = (
    "{% for message in messages %}"
    "{{ 'USER: ' if message['role'] == 'user' else 'ASSISTANT: ' }}"
    "{% for part in message['content'] %}"
    "{{ '<image>\n' if part['type'] == 'image' else part['text'] + ' ' }}"
    "{% endfor %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def word_tokenizer(vocabulary: Sequence[str], longest: int, lowercase: bool = False) -> Any:
    """A word-level fast tokenizer: one token a word, punctuation apart, `<s>` in front; `longest` tokens at most."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(vocabulary)}
    core = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", numbers["<s>"])])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
        extra_special_tokens={"image_token": "<image>"},
        padding_side="left",
        model_max_length=longest,
    )


def llava_processor(
    tokenizer: Any, side: int, patch: int, resample: int, mean: Sequence[float], std: Sequence[float]
) -> Any:
    """Whole images to `side` × `side` pixels, never cropped; an image token a patch, the class token dropped."""
    from transformers import CLIPImageProcessor, LlavaProcessor

    scale = CLIPImageProcessor(
        size={"height": side, "width": side},
        resample=resample,
        do_center_crop=False,
        image_mean=list(mean),
        image_std=list(std),
    )
    return LlavaProcessor(
        image_processor=scale,
        tokenizer=tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )


def make_llava(
    vision: Any,
    vocabulary: Sequence[str],
    *,
    read: int | list[int],
    patches: int,
    longest: int,
    width: int,
    hidden: int,
    layers: int,
    heads: int,
    rope: float,
    spread: float,
    head: int | None = None,
) -> Any:
    """An untrained LLaVA; seed torch before.

    Args:
        vision: config of the tower; `read` are its hidden states that the projector gets, `patches` a side.
        vocabulary: tokens in the order of their numbers.
        longest: tokens of a sequence at most.
        width, hidden, layers, heads: of the decoder; `head` is the width of a head, width / heads if not given.
        rope: base of its rotary positions.
        spread: standard deviation of its first weights.
    """
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    names = list(vocabulary)
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(
            vocab_size=len(names),
            hidden_size=width,
            intermediate_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=width // heads if head is None else head,
            max_position_embeddings=longest,
            rope_parameters={"rope_type": "default", "rope_theta": rope},
            initializer_range=spread,
            pad_token_id=names.index("<pad>"),
            bos_token_id=names.index("<s>"),
            eos_token_id=names.index("</s>"),
            tie_word_embeddings=False,
        ),
        image_token_index=names.index("<image>"),
        image_seq_length=patches * patches,
        vision_feature_layer=read,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,
    )
    return LlavaForConditionalGeneration(config)
