"""Text parts of multimodal checkpoints; the vision towers are as small as they can be."""

from .base import VISION, YARN, Case, Config, tiny
from .deepseek import MLA

QWEN_VISION = {
    "depth": 1,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_heads": 1,
    "patch_size": 2,
    "spatial_merge_size": 2,
}


def qwen(model_type: str, vision: Config, text: Config) -> Case:
    tokens = {"image_token_id": 46, "video_token_id": 45, "vision_start_token_id": 44}
    return Case(
        {
            "model_type": model_type,
            "text_config": text,
            "vision_config": QWEN_VISION | vision,
            "tie_word_embeddings": False,
            "vision_end_token_id": 43,
        }
        | tokens
    )


CASES: dict[str, Case] = {
    "qwen2_vl": qwen(
        "qwen2_vl",
        {"embed_dim": 8, "hidden_size": 32, "mlp_ratio": 1},
        tiny("qwen2_vl_text", rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2]}),
    ),
    "qwen3_vl": qwen(
        "qwen3_vl",
        {"out_hidden_size": 32, "deepstack_visual_indexes": [], "num_position_embeddings": 4},
        tiny(
            "qwen3_vl_text",
            head_dim=16,
            rope_scaling={
                "rope_type": "default",
                "mrope_interleaved": True,
                "mrope_section": [3, 3, 2],
            },
        ),
    ),
    "qwen3_vl_moe": qwen(
        "qwen3_vl_moe",
        {"out_hidden_size": 32, "deepstack_visual_indexes": [], "num_position_embeddings": 4},
        tiny(
            "qwen3_vl_moe_text",
            head_dim=16,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            norm_topk_prob=True,
            rope_scaling={
                "rope_type": "default",
                "mrope_interleaved": True,
                "mrope_section": [3, 3, 2],
            },
        ),
    ),
    "mistral3": Case(
        {
            "model_type": "mistral3",
            "text_config": tiny(
                "ministral3",
                head_dim=16,
                rope_parameters=YARN
                | {
                    "rope_theta": 100.0,
                    "original_max_position_embeddings": 8,
                    "llama_4_scaling_beta": 0.5,
                },
            ),
            "vision_config": {
                "model_type": "pixtral",
                "hidden_size": 8,
                "intermediate_size": 8,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "head_dim": 8,
                "image_size": 8,
                "patch_size": 4,
            },
            "image_token_index": 46,
            "tie_word_embeddings": False,
        }
    ),
    "llama4": Case(
        {
            "model_type": "llama4",
            "text_config": tiny(
                "llama4_text",
                head_dim=8,
                intermediate_size=16,
                intermediate_size_mlp=24,
                num_local_experts=4,
                interleave_moe_layer_step=2,
                attention_chunk_size=8,
            ),
            "vision_config": {
                "model_type": "llama4_vision_model",
                "hidden_size": 8,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "image_size": 8,
                "patch_size": 4,
                "projector_input_dim": 8,
                "projector_output_dim": 8,
                "vision_output_dim": 8,
            },
            "boi_token_index": 45,
            "eoi_token_index": 44,
            "image_token_index": 46,
            "tie_word_embeddings": False,
        }
    ),
    "llava": Case(
        {
            "model_type": "llava",
            "text_config": tiny("llama"),
            "vision_config": VISION | {"model_type": "clip_vision_model", "projection_dim": 8},
            "image_token_index": 46,
            "tie_word_embeddings": False,
        }
    ),
    "kimi_k25": Case(
        {
            "model_type": "kimi_k25",
            "text_config": tiny(
                "deepseek_v3",
                n_shared_experts=1,
                n_group=1,
                topk_group=1,
                pad_token_id=None,
                **{**MLA, "n_routed_experts": 4},
            ),
            "vision_config": {
                "hidden_size": 8,
                "intermediate_size": 8,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "patch_size": 4,
                "pos_emb_height": 2,
                "pos_emb_width": 2,
                "pos_emb_time": 1,
            },
            # Tokens that the text doesn't have: positions after them count differently.
            "image_token_id": 0,
            "video_token_id": 0,
            "vision_start_token_id": 0,
            "vision_end_token_id": 0,
            "tie_word_embeddings": False,
        }
    ),
}
