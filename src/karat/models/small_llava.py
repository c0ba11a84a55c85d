"""Tokenizer and processor of the small LLaVAs (`gridvlm`, `photovlm`): a token a word, whole images, one template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
