"""Muse: the text part of the multimodal checkpoints."""

from typing import Any

from .base import Case, Config, tiny

_TEXT: Config = {
    "num_hidden_layers": 5,
    "head_dim": 8,
    "rms_norm_eps": 1e-3,
    "sliding_window": 8,
    "qk_scale_factor": 5.0,
    "output_multiplier": 0.7,
    "final_logit_softcapping": 3.0,
    "post_norm_eps": 1e-2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
}
_EXPERTS: Config = {
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "moe_hidden_size": 16,
    "routed_scaling_factor": 1.5,
    "residual_gate_temperature": 0.5,
    "mlp_layer_types": ["dense", *["sparse"] * 4],
}
_VISION = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "patch_size": 2,
    "pos_emb_height": 2,
    "pos_emb_width": 2,
    "merge_size": 1,
}


def glimmer(**changes: Any) -> Config:
    text = tiny("muse_glimmer_text", **_TEXT | changes)
    return {
        "model_type": "muse_glimmer",
        "text_config": text,
        "vision_config": {"model_type": "muse_glimmer_vision", **_VISION},
        "out_hidden_size": 8,
        "projector_hidden_size": 8,
        "image_token_id": 0,  # which the text doesn't have
        "video_token_id": 0,
    }


def spark(**changes: Any) -> Config:
    text = tiny("muse_spark_text", **_TEXT | _EXPERTS | changes)
    return glimmer() | {
        "model_type": "muse_spark",
        "text_config": text,
        "vision_config": {"model_type": "muse_spark_vision", **_VISION},
        "audio_config": {
            "model_type": "muse_spark_audio",
            "patch_sizes": [2],
            "hidden_sizes": [8],
            "depths": [1],
            "num_hidden_layers": 1,
            "out_hidden_size": 32,
        },
        "audio_token_id": 0,
    }


CASES: dict[str, Case] = {
    "muse_glimmer": Case(
        glimmer(),
        [
            glimmer(sliding_window=64),
            glimmer(qk_scale_factor=1.0),
            glimmer(output_multiplier=1.0),
            glimmer(final_logit_softcapping=100.0),
            glimmer(post_norm_eps=1.0),
            glimmer(layer_rope_theta=[100.0] * 5),
        ],
    ),
    "muse_spark": Case(
        spark(),
        [
            spark(sliding_window=64),
            spark(residual_gate_temperature=0.1),
            spark(output_multiplier=1.0),
            spark(post_norm_eps=1.0),
        ],
    ),
}
