"""Small random models of every image-text-to-text type of transformers that can be built from its configuration.

    module, processor = vlm_zoo.make("smolvlm")

A model is its configuration's defaults with sizes made small by name (`_TEXT`, `_VISION`), its real processor classes
and a tokenizer learnt here; `TYPES` has what else each type wants. `UNBUILT` says why some cannot be built.
"""

from __future__ import annotations

import copy
import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tiny_vlms

from karat.kernel.sample import Sample

_TOKENS = {
    "image_token": "<image>", "boi_token": "<boi>", "eoi_token": "<eoi>", "video_token": "<video>",
    "audio_token": "<audio>", "boa_token": "<boa>", "eoa_token": "<eoa>", "start_image_token": "<img>",
    "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>",
    "image_thumbnail": "<|img_thumbnail|>", "image_thumbnail_token": "<|img_thumbnail|>",
    "fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>", "image_newline_token": "<nl>",
    "vision_bos_token": "<|vbos|>", "vision_eos_token": "<|veos|>", "audio_bos_token": "<|abos|>",
    "audio_eos_token": "<|aeos|>", "image_break_token": "[IMG_BREAK]", "mask_token": "<mask>", "unk_token": "<unk>",
    "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>", "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
}  # fmt: skip
_OTHERS = (
    "<|im_start|>", "<|im_end|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>", "TILE",
    "TILE_GLOBAL", "<|patch|>", "<|tile_x_separator|>", "<|tile_y_separator|>", "<|image|>", "[IMG]", "[IMG_END]",
    "<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>", "<row_2_col_2>", "<image_soft_token>", "<start_of_image>",
    "<end_of_image>", "<|image_pad|>", "<|video_pad|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>",
    "<|end_of_video|>", "<|video|>", "<|IMAGE_PLACEHOLDER|>", "<im_patch>", "<im_start>", "<im_end>", "<im_col>",
    "<low_res_im_start>", "<|img|>", "<|endofimg|>", "<|imgpad|>", "<imgpad>", "<IMG_START>", "<IMG_ATOM>",
    "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>",
)  # fmt: skip
_TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 2, "head_dim": 8,
    "global_head_dim": 8, "max_position_embeddings": 512, "initializer_range": 0.2, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "top_k_experts": 2, "n_group": 1,
    "topk_group": 1, "n_shared_experts": 1, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "expert_intermediate_size": 16, "intermediate_size_mlp": 48, "moe_num_experts": 4, "moe_topk": 2,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "first_k_dense_replace": 1, "sliding_window": 64, "attention_dropout": 0.0, "hidden_size_per_layer_input": 8,
    "query_pre_attn_scalar": 8, "d_model": 32, "d_ff": 48, "d_kv": 8, "ffn_dim": 48, "word_embed_proj_dim": 32,
    "decoder_layers": 2, "encoder_layers": 2, "decoder_attention_heads": 4, "encoder_attention_heads": 4,
    "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4, "v_head_dim": 8, "qk_head_dim": 8, "num_mtp_layers": 0, "block_auto_adjust_ff_dim": False,
    "block_ff_dim": 48, "conv_dim": 32, "laurel_rank": 4, "layers": 2, "attention_heads": 4, "embed_dim": 32,
    "hidden_sizes": None, "encoder_hidden_size": 32, "vocab_size_per_layer_input": 400, "num_kv_shared_layers": 0,
}  # fmt: skip
_VISION = {
    "hidden_size": 32, "embed_dim": 32, "intermediate_size": 48, "num_hidden_layers": 2, "depth": 2, "num_layers": 2,
    "num_attention_heads": 2, "num_heads": 2, "image_size": 56, "patch_size": 14, "out_hidden_size": 32, "head_dim": 16,
    "mlp_ratio": 2, "num_channels": 3, "attention_dropout": 0.0, "hidden_dropout": 0.0, "vision_output_dim": 32,
    "num_key_value_heads": 2, "num_global_layers": 1, "projection_dim": 32, "drop_path_rate": 0.0,
    "num_position_embeddings": 64, "layers": 2, "heads": 2, "width": 32, "mlp_dim": 48, "embedding_size": 32,
}  # fmt: skip
_CHAT = (
    "{% for message in messages %}<|im_start|>user\n{% for part in message.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Type:
    """What a type wants beside small sizes. `text`, `vision` and `config` change its configurations, `images` are
    parameters of its image processor, `processor` those of its processor; `token` is what its template writes for an
    image ("" where prompts hold none), `sequence` the name of the token that is repeated, if it is another."""

    text: Mapping[str, Any] = field(default_factory=dict)
    vision: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other parts of the configuration
    images: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    token: str | None = None
    sequence: str = "<image>"
    processor_class: str = ""
    image_class: str = ""
    video: str = ""
    template: bool = True
    tokens: Mapping[str, str] = field(default_factory=dict)
    gain: float = 0.8  # of weights that are drawn: more, where much lies between an image and its tokens
    tweak: Callable[[Any], None] | None = None  # of the configuration, before the model is built


def tokenizer(changes: Mapping[str, str] = {}) -> Any:
    plain = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    named = {name: token for name, token in (plain | _TOKENS | dict(changes)).items() if token}
    made = tiny_vlms.tokenizer(named, _OTHERS)
    for name in ("image", "video", "audio"):
        if f"{name}_token" not in named:
            continue
        setattr(made, f"{name}_token_id", made.convert_tokens_to_ids(getattr(made, f"{name}_token")))
    return made


_SQUARE = {"size": {"height": 56, "width": 56}}
_ROPE = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [2, 1, 1],
        "partial_rotary_factor": 1.0,
    }
}
_EDGES = {"size": {"shortest_edge": 56 * 56, "longest_edge": 448 * 448}}
_CLIP = {"size": {"height": 56, "width": 56}, "crop_size": {"height": 56, "width": 56}, "do_center_crop": False}
_LLAVA = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
_ANYRES = {"image_grid_pinpoints": [[56, 112], [112, 56], [112, 112]]}
_QWEN = {"depth": 2, "num_heads": 2}


def _qwen(**changes: Any) -> Type:
    text = _ROPE | changes.pop("text", {})
    vision = {"patch_size": 14} | changes.pop("vision", {})
    images = {"patch_size": 14, "merge_size": 2} | _EDGES | changes.pop("images", {})
    return Type(text=text, vision=vision, images=images, **changes)


def _omni(config: Any) -> None:
    """What the files of a thinker hold and its class does not declare."""
    words = tokenizer()
    config.vision_start_token_id = words.convert_tokens_to_ids("<|vbos|>")
    config.audio_start_token_id = words.convert_tokens_to_ids("<|abos|>")


TYPES: dict[str, Type] = {
    "llava": Type(images=_CLIP, processor=_LLAVA, config={"image_seq_length": 16}),
    "vipllava": Type(
        images=_CLIP, processor=_LLAVA, config={"vision_feature_layers": [-1, -2], "image_seq_length": 16}
    ),
    "llava_next": Type(images=_CLIP | _ANYRES, processor=_LLAVA, config=_ANYRES),
    "llava_next_video": Type(
        images=_CLIP | _ANYRES, processor=_LLAVA, config=_ANYRES, image_class="LlavaNextImageProcessor"
    ),
    "llava_onevision": Type(
        vision={"image_size": 56},
        images=_ANYRES,
        config=_ANYRES,
        processor={"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
    ),
    "video_llava": Type(
        images=_CLIP, processor=_LLAVA, config={"image_seq_length": 17}, image_class="VideoLlavaImageProcessor"
    ),
    "qwen2_vl": _qwen(vision={"embed_dim": 32}),
    "qwen2_5_vl": _qwen(vision={"window_size": 56, "fullatt_block_indexes": [1]}),
    "qwen3_vl": _qwen(vision={"deepstack_visual_indexes": [0, 1]}),
    "qwen3_vl_moe": _qwen(vision={"deepstack_visual_indexes": [0, 1]}, image_class="Qwen2VLImageProcessor"),
    "qwen3_5": _qwen(),
    "qwen3_5_moe": _qwen(),
    "qwen4_exp": _qwen(),
    "glm4v": _qwen(),
    "glm4v_moe": _qwen(image_class="Glm4vImageProcessor"),
    "glm46v": _qwen(),
    "glm5_next": _qwen(text={"num_key_value_heads": 4, "qk_rope_head_dim": 0}),
    "ernie4_5_vl_moe": _qwen(
        text={
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
            "moe_k": 2,
        },
        tokens={"video_end_token": "<ve>", "video_start_token": "<vs>"},
    ),
    "exaone4_5": _qwen(),
    "paddleocr_vl": _qwen(),
    "video_llama_3": _qwen(),
    "hyperclovax_vision_v2": _qwen(),
    "kimi_k25": _qwen(
        vision={"projection_hidden_size": 32},
        config={"projection_hidden_size": 32},
        images={"size": {"max_height": 448, "max_width": 448}},
    ),
    "minimax_m3_vl": _qwen(tokens={"image_token": "]<]image[>["}),
    "cohere_compass": _qwen(tokens={"image_token": "<|IMAGE_PAD|>"}),
    "cosmos3_edge": _qwen(),
    "internvl": Type(
        vision={"image_size": [56, 56], "patch_size": [14, 14]},
        images={"max_patches": 2},
        config={"image_seq_length": 4},
        processor={"image_seq_length": 4},
    ),
    "qianfan_ocr": Type(
        token="<image>",
        vision={"image_size": [56, 56], "patch_size": [14, 14]},
        images={"max_patches": 2},
        config={"image_seq_length": 4},
        processor={"image_seq_length": 4},
    ),
    "gemma3": Type(config={"mm_tokens_per_image": 4}, processor={"image_seq_length": 4}, token="<boi>"),
    "gemma4": Type(
        text={"per_layer_config": None},
        config={
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "patch_size": 14,
                "pooling_kernel_size": 2,
                "position_embedding_size": 64,
            }
        },
        images={"patch_size": 14, "pooling_kernel_size": 2, "max_soft_tokens": 70},
    ),
    "diffusion_gemma": Type(image_class="Gemma4ImageProcessor", text={"per_layer_config": None}),
    "gemma4_unified": Type(text={"per_layer_config": None}),
    "gemma3n": Type(),
    "paligemma": Type(
        images={"image_seq_length": 16},
        vision={"vision_use_head": False},
        config={"projection_dim": 32, "hidden_size": 32},
    ),
    "idefics3": Type(
        config={"scale_factor": 2},
        vision={"image_size": 56},
        images={"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}},
        processor={"image_seq_len": 4},
    ),
    "smolvlm": Type(
        config={"scale_factor": 2},
        vision={"image_size": 56},
        images={"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}},
        processor={"image_seq_len": 4},
    ),
    "idefics2": Type(
        tokens={"image_boundary_token": "<fake_token_around_image>"},
        images={"size": {"shortest_edge": 28, "longest_edge": 56}},
        others={
            "perceiver_config": {
                "hidden_size": 32,
                "resampler_n_latents": 8,
                "resampler_depth": 1,
                "resampler_n_heads": 2,
                "resampler_head_dim": 16,
                "num_key_value_heads": 2,
            }
        },
        processor={"image_seq_len": 8},
    ),
    "mistral3": Type(
        images={"patch_size": 14, "size": {"longest_edge": 112}},
        processor={"patch_size": 14, "spatial_merge_size": 2},
        vision={"image_size": 112},
        token="[IMG]",
        tokens={"image_token": "[IMG]", "image_end_token": "[IMG_END]"},
    ),
    "lighton_ocr": Type(
        images={"patch_size": 14, "size": {"longest_edge": 112}},
        vision={"image_size": 112},
        processor={"patch_size": 14, "spatial_merge_size": 2},
    ),
    "aya_vision": Type(
        vision={"image_size": 56},
        images={"size": {"height": 56, "width": 56}},
        processor={"patch_size": 14, "img_size": 56, "downsample_factor": 2},
        config={"downsample_factor": 2},
    ),
    "cohere2_vision": Type(
        tokens={
            "img_line_break_token": "<|IMG_LINE_BREAK|>",
            "boi_token": "<|START_OF_IMG|>",
            "eoi_token": "<|END_OF_IMG|>",
        },
        images={"patch_size": 2, "downsample_factor": 2, "max_patches": 2},
    ),
    "perception_lm": Type(
        config={
            "vision_config": {
                "model_type": "timm_wrapper",
                "architecture": "vit_pe_lang_large_patch14_448",
                "do_pooling": True,
                "num_classes": 32,
                "global_pool": "map",
                "model_args": {
                    "embed_dim": 32,
                    "depth": 2,
                    "num_heads": 2,
                    "img_size": [56, 56],
                    "ref_feat_shape": [4, 4],
                    "global_pool": "",
                    "use_post_transformer_norm": False,
                    "init_values": 0.1,
                    "mlp_ratio": 2.0,
                },
            },
            "projector_pooling_ratio": 2,
        },
        images={"tile_size": 56, "max_num_tiles": 4, "vision_input_type": "thumb+tile"},
        processor={"patch_size": 14, "pooling_ratio": 2},
    ),
    "lfm2_vl": Type(
        vision={"patch_size": 14, "num_patches": 16},
        images={
            "encoder_patch_size": 14,
            "tile_size": 56,
            "min_image_tokens": 4,
            "max_image_tokens": 16,
            "max_num_patches": 64,
        },
    ),
    "llama4": Type(
        processor={"patch_size": 14},
        vision={
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "vision_output_dim": 32,
            "intermediate_size": 128,
        },
        images={"max_patches": 2},
    ),
    "deepseek_vl": Type(processor={"num_image_tokens": 16}),
    "janus": Type(processor={"num_image_tokens": 16}),
    "fast_vlm": Type(
        gain=1.2,
        processor_class="LlavaProcessor",
        image_class="CLIPImageProcessor",
        images={"size": {"height": 128, "width": 128}, "do_center_crop": False},
        processor={"patch_size": 32, "vision_feature_select_strategy": "full", "num_additional_image_tokens": 0},
        config={
            "vision_config": {
                "model_type": "timm_wrapper",
                "architecture": "fastvit_t8",
                "do_pooling": True,
                "global_pool": "avg",
                "hidden_size": 768,
                "model_args": {"inference_mode": True},
            }
        },
    ),
    "ovis2": Type(processor={"image_seq_length": 16}, images={"max_patches": 2}),
    "molmo2": Type(
        vision={
            "image_default_input_size": [112, 112],
            "image_patch_size": 14,
            "image_num_pos": 64,
            "num_hidden_layers": 2,
        },
        others={
            "adapter_config": {
                "vision_feature_layer": [1, 0],
                "hidden_size": 32,
                "text_hidden_size": 32,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "intermediate_size": 48,
            }
        },
        images={
            "size": {"height": 112, "width": 112},
            "max_crops": 4,
            "overlap_margins": [1, 1],
            "pooling_size": [2, 2],
            "patch_size": 14,
        },
    ),
    "minicpmv4_6": Type(config={"insert_layer_id": 0}, images={"scale_resolution": 224, "max_slice_nums": 1}),
    "got_ocr2": Type(
        images={"size": {"height": 256, "width": 256}},
        vision={
            "image_size": 256,
            "patch_size": 16,
            "window_size": 4,
            "global_attn_indexes": [1],
            "output_channels": 16,
            "mlp_dim": 48,
        },
        processor={},
    ),
    "blip-2": Type(
        tokens={"image_token": ""},
        processor={"num_query_tokens": 8},
        config={"num_query_tokens": 8},
        token="",
        template=False,
        others={
            "qformer_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 48,
                "encoder_hidden_size": 32,
            }
        },
    ),
    "instructblip": Type(
        tokens={"image_token": ""},
        processor={"num_query_tokens": 8, "qformer_tokenizer": tokenizer()},
        config={"num_query_tokens": 8},
        token="",
        template=False,
        image_class="BlipImageProcessor",
        others={
            "qformer_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 48,
                "encoder_hidden_size": 32,
                "vocab_size": 420,
            }
        },
    ),
    "mllama": Type(
        vision={
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "intermediate_layers_indices": [0, 1],
            "vision_output_dim": 96,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            "max_num_tiles": 2,
        },
        text={"cross_attention_layers": [1, 3]},
        images={"max_image_tiles": 2},
        token="<|image|>",
        tokens={"image_token": "<|image|>"},
    ),
    "florence2": Type(
        tokens={"image_token": "<image>"},
        vision={
            "embed_dim": [16, 16, 16, 32],
            "num_heads": [2, 2, 2, 2],
            "num_groups": [2, 2, 2, 2],
            "depths": [1, 1, 1, 1],
            "window_size": 4,
            "patch_size": [7, 3, 3, 3],
            "projection_dim": 32,
        },
        text={"max_position_embeddings": 128},
        images={"size": {"height": 128, "width": 128}, "image_seq_length": 17, "do_center_crop": False},
        token="",
        template=False,
        image_class="CLIPImageProcessor",
    ),
    "kosmos-2": Type(
        processor_class="Kosmos2Processor",
        image_class="CLIPImageProcessor",
        images=_CLIP,
        processor={"num_patch_index_tokens": 4},
        config={"latent_query_num": 64},
        token="<grounding>",
        template=False,
    ),
    "chameleon": Type(
        token="<image>",
        images={"size": {"height": 64, "width": 64}, "crop_size": {"height": 64, "width": 64}},
        processor={"image_seq_length": 16},
    ),
    "hunyuan_vl": Type(
        text={"head_dim": 8} | _ROPE, token="<|image_start|><image><|image_end|>", images=_EDGES | {"patch_size": 14}
    ),
    "glm_ocr": _qwen(processor_class="Glm46VProcessor", image_class="Glm46VImageProcessor"),
    "glmga": _qwen(processor_class="Glm46VProcessor", image_class="Glm46VImageProcessor"),
    "qwen2_5_omni_thinker": _qwen(
        video="Qwen2VLVideoProcessor",
        processor_class="Qwen2_5OmniProcessor",
        image_class="Qwen2VLImageProcessor",
        token="<|vbos|><image><|veos|>",
        tweak=_omni,
    ),
    "qwen3_omni_moe_thinker": _qwen(
        video="Qwen2VLVideoProcessor",
        processor_class="Qwen3OmniMoeProcessor",
        image_class="Qwen2VLImageProcessor",
        vision={"deepstack_visual_indexes": [0, 1]},
        token="<|vbos|><image><|veos|>",
        tweak=_omni,
    ),
    "muse_glimmer": _qwen(),
    "muse_spark": _qwen(),
    "step3p7": Type(text={"sliding_window": 64}),
    "deepseek_vl_hybrid": Type(
        processor={"num_image_tokens": 16},
        images={"high_res_size": {"height": 128, "width": 128}},
        others={
            "high_res_vision_config": {
                "image_size": 128,
                "patch_size": 16,
                "window_size": 4,
                "global_attn_indexes": [1],
                "output_channels": 16,
                "mlp_dim": 48,
                "mlp_ratio": 2.0,
            }
        },
    ),
    "minicpm_ocr": Type(images={"scale_resolution": 112, "max_slice_nums": 1}),
    "minicpmv4_7": Type(config={"insert_layer_id": 0}, images={"scale_resolution": 224, "max_slice_nums": 1}),
    "granite4_vision": Type(),
    "git": Type(images=_CLIP, token="", template=False),
    "blip": Type(token="", template=False),
    "aria": Type(images={"max_image_size": 490, "min_image_size": 56}),
}
_LARGE = "its configuration has sizes that are not made small by name yet: too large to build here"
UNBUILT: dict[str, str] = {
    "inkling_mm_model": _LARGE,
    "pi0": _LARGE,
    "deepseek_ocr2": _LARGE,
    "t5gemma2": _LARGE,
    "unlimited_ocr": _LARGE,
    "evolla": "reads proteins, no images",
    "mistral4": "reads text alone; transformers lists no processor for it",
    "cosmos3_omni": "transformers lists no processor for it",
    "udop": "its image processor needs pytesseract",
    "instructblipvideo": "reads videos, no single images",
    "shieldgemma2": "gives yes or no of policies, not answers; its language model is gemma3",
    "vision-encoder-decoder": "any encoder with any decoder, and reads no question",
    "pp_formulanet": "reads no question",
    "pix2struct": "writes the question into the image: no words are left to hide",
    "glm5_next": "built, but too slow here; its attention runs over an index, not over a list of layers",
    "aria": "built, but its images have 490 pixels or more: too slow here; differentiates, its tokens are resampled",
}


def configuration(kind: str, words: Any, wanted: Type, image: int) -> Any:
    """The defaults of its class, made small by name."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING[kind]
    values = made().to_dict()
    for name, part in values.items():
        if isinstance(part, dict) and name.endswith("_config") and part:
            vision = "vi" in name and "text" not in name
            _shrink(part, _VISION if vision else _TEXT, words)
            part.update(wanted.others.get(name, wanted.vision if vision else wanted.text))
    _shrink(values, _TEXT, words)
    for name in ("image_token_id", "image_token_index", "image_patch_id"):
        if name in values:
            values[name] = image
    for name in [name for name in values if name.endswith("_token_id") and "image_token" not in name]:
        known = words.convert_tokens_to_ids(_TOKENS.get(name.removesuffix("_id"), "<pad>"))
        if not isinstance(values[name], list) and name not in ("bos_token_id", "eos_token_id", "pad_token_id"):
            values[name] = known
    values.update(wanted.config)
    values["tie_word_embeddings"] = wanted.config.get("tie_word_embeddings", False)
    for name in ("transformers_version", "architectures", "model_type", "_name_or_path", "dtype"):
        values.pop(name, None)
    config = made(**values)
    if wanted.tweak is not None:
        wanted.tweak(config)
    return config


def _shrink(values: dict[str, Any], sizes: Mapping[str, Any], words: Any) -> None:
    layers = values.get("num_hidden_layers")
    for name, size in sizes.items():
        if name in values and values[name] is not None and not isinstance(values[name], list):
            values[name] = type(values[name])(size) if isinstance(values[name], float) else size
    for name in ("vocab_size", "vocab_size_per_layer_input"):
        if name in values:
            values[name] = len(words)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if name in values:
            values[name] = getattr(words, name)
    for name, value in list(values.items()):  # one entry per layer
        if isinstance(value, list) and layers and len(value) == layers and layers != values["num_hidden_layers"]:
            values[name] = value[-values["num_hidden_layers"] :]


def make(kind: str, seed: int = 0) -> tuple[Any, Any]:
    """(module, processor), weights drawn with `seed`."""
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as MODELS

    if kind in UNBUILT:
        raise LookupError(UNBUILT[kind])
    wanted = TYPES.get(kind, Type())
    words = tokenizer(wanted.tokens)
    processor = _processor(kind, words, wanted)
    config = configuration(kind, words, wanted, _repeated(processor, wanted))
    torch.manual_seed(seed)
    name = MODELS[kind]
    module = getattr(transformers, name if isinstance(name, str) else name[0])(config)
    return revived(module, processor, wanted.gain), processor


def revived(module: Any, processor: Any, gain: float = 0.8) -> Any:
    """Weights large enough that answers differ between images."""
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name and "lambda" not in name and parameter.ndim > 1:
                fan = parameter[0].numel() if parameter.ndim != 3 else parameter.shape[-1]
                parameter.normal_(std=gain / max(fan, 1) ** 0.5)
            elif name.endswith("bias") or "embedding" in name:
                parameter.normal_(std=0.1)
            elif not bool(parameter.isfinite().all()) or float(parameter.abs().sum()) == 0:
                parameter.normal_(std=0.2)
        head = module.get_output_embeddings()
        if head is not None:
            head.weight.normal_(std=0.15)
    if module.generation_config is not None:
        module.generation_config.eos_token_id = processor.tokenizer.eos_token_id
        module.generation_config.pad_token_id = processor.tokenizer.pad_token_id
    return module.eval()


def _repeated(processor: Any, wanted: Type) -> int:
    """The token that the processor writes for every place of an image."""
    from karat.models.discovery.processing import Processing

    image, processing = np.zeros((112, 112, 3), np.uint8), Processing(processor)
    made = processing.call([image], [processing.chat("Is it?")])
    special = set(processor.tokenizer.all_special_ids)
    written = [number for number in made["input_ids"][0].tolist() if number in special]
    number, times = Counter(written).most_common(1)[0] if written else (0, 0)
    return int(number if times > 2 else processor.tokenizer.convert_tokens_to_ids(wanted.sequence))


def _processor(kind: str, words: Any, wanted: Type) -> Any:
    import inspect

    import transformers
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES as IMAGES
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES as PROCESSORS

    made = getattr(transformers, wanted.processor_class or PROCESSORS[kind])
    listed = wanted.image_class or IMAGES.get(kind)
    if isinstance(listed, dict):
        listed = listed.get("torchvision") or next(iter(listed.values()))
    elif isinstance(listed, tuple):
        listed = next(one for one in reversed(listed) if one)
    cls = getattr(transformers, listed, None) or _found(listed)
    images = cls(**{"size": {"height": 56, "width": 56}} | copy.deepcopy(dict(wanted.images)))
    given: dict[str, Any] = {"image_processor": images, "tokenizer": words}
    takes = inspect.signature(made.__init__).parameters
    if "video_processor" in takes:
        given["video_processor"] = _video(kind, wanted)
    if "feature_extractor" in takes:
        given["feature_extractor"] = transformers.WhisperFeatureExtractor()
    processor = made(**given, **wanted.processor)
    token = wanted.token if wanted.token is not None else getattr(processor, "image_token", "<image>")
    if wanted.template:
        processor.chat_template = _CHAT.replace("IMAGE", token)
    return processor


def _video(kind: str, wanted: Type) -> Any:
    import transformers
    from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES as VIDEOS

    listed = wanted.video or VIDEOS.get(kind) or "LlavaOnevisionVideoProcessor"
    listed = next(iter(listed.values())) if isinstance(listed, dict) else listed
    listed = next(one for one in reversed(listed) if one) if isinstance(listed, tuple) else listed
    return getattr(transformers, listed)()


def _found(name: str) -> Any:
    import pkgutil

    from transformers import models

    for part in pkgutil.iter_modules(models.__path__):
        module = importlib.import_module(f"transformers.models.{part.name}")
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


def law_samples(model: Any, n: int = 2) -> tuple[list[Any], list[str]]:
    """Samples for laws: noise with a bright square, a square image and a wide one. Not black and white: resizing that
    sharpens edges would go beyond both, and cut off there."""
    sizes = [(112, 112), (112, 224)]
    made = []
    for k in range(n):
        rng = np.random.default_rng(k)
        height, width = sizes[k % 2]
        image = rng.integers(48, 208, (height, width, 3), dtype=np.uint8)
        image[height // 4 : height // 2, width // 4 : width // 2] = 232
        made.append(Sample(f"s{k}", image, tiny_vlms.TEXTS[k], answer=tiny_vlms.ANSWERS[k]))
    return made, list(tiny_vlms.ANSWERS[:n])
