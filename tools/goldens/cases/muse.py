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
}
