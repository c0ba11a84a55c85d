"""A random LLaVA of a chosen size with a word-level tokenizer: genuine transformers classes, built in a second."""

from __future__ import annotations

from typing import Any

WORDS = "how many red green blue circles squares are left right of above below there any ? , yes no 0 1 2 3 twenty one"
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<image>")
IMAGE_FIRST = "USER: <image>\n{text} ASSISTANT:"
TEXT_FIRST = "USER: {text} <image>\nASSISTANT:"


def template(order: str) -> str:
    shown = order.replace("{text}", "' + messages[0]['content'][1]['text'] + '").replace("\n", "\\n")
    return "{{ '" + shown + "' }}"


def make_processor(order: str = IMAGE_FIRST, side: int = 96, patch: int = 16) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import CLIPImageProcessor, LlavaProcessor, PreTrainedTokenizerFast

    names = list(dict.fromkeys([*SPECIAL, "USER", "ASSISTANT", ":", *WORDS.split()]))
    core = Tokenizer(models.WordLevel({name: k for k, name in enumerate(names)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", names.index("<s>"))])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
        extra_special_tokens={"image_token": "<image>"},
    )
    images = CLIPImageProcessor(size={"height": side, "width": side}, do_center_crop=False)
    return LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template(order),
    )


def make_module(
    processor: Any,
    side: int = 96,
    patch: int = 16,
    vision: tuple[int, int] = (2, 32),
    decoder: tuple[int, int] = (3, 32),
    key_value_heads: int = 2,
    seed: int = 0,
) -> Any:
    """`vision` and `decoder` are (layers, width)."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed)
    tokenizer = processor.tokenizer
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=vision[1],
            intermediate_size=2 * vision[1],
            num_hidden_layers=vision[0],
            num_attention_heads=4,
            image_size=side,
            patch_size=patch,
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=decoder[1],
            intermediate_size=2 * decoder[1],
            num_hidden_layers=decoder[0],
            num_attention_heads=4,
            num_key_value_heads=key_value_heads,
            max_position_embeddings=256,
            initializer_range=0.2,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(side // patch) ** 2,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    return LlavaForConditionalGeneration(config).eval()
