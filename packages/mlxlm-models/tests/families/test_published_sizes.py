"""Published configs, their sizes alone: they build without memory, and have as many parameters
as their model cards count."""

import resource
import sys
from typing import Any

import pytest
from mlx.utils import tree_flatten
from mlxlm_models.registry import get_architecture


def sizes(layers: int, hidden: int, inner: int, heads: int, kv_heads: int, vocab: int) -> Any:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
    }


TIED = {"tie_word_embeddings": True}
DEEPSEEK_V3 = sizes(61, 7168, 18432, 128, 128, 129280) | {
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
}
PUBLISHED: dict[str, tuple[str, Any, int]] = {
    "Llama-3.2-1B": (
        "llama",
        sizes(16, 2048, 8192, 32, 8, 128256) | TIED | {"head_dim": 64},
        1_235_814_400,
    ),
    "Llama-3.1-8B": ("llama", sizes(32, 4096, 14336, 32, 8, 128256), 8_030_261_248),
    "Mistral-7B-v0.1": ("mistral", sizes(32, 4096, 14336, 32, 8, 32000), 7_241_732_096),
    "Mixtral-8x7B": ("mixtral", sizes(32, 4096, 14336, 32, 8, 32000), 46_702_792_704),
    "Qwen2.5-0.5B": ("qwen2", sizes(24, 896, 4864, 14, 2, 151936) | TIED, 494_032_768),
    "Qwen3-0.6B": ("qwen3", sizes(28, 1024, 3072, 16, 8, 151936) | TIED, 596_049_920),
    "Qwen1.5-MoE-A2.7B": (
        "qwen2_moe",
        sizes(24, 2048, 5632, 16, 16, 151936)
        | {
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
        },
        14_315_784_192,
    ),
    "Qwen3-30B-A3B": (
        "qwen3_moe",
        sizes(48, 2048, 6144, 32, 4, 151936)
        | {
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
        30_532_122_624,
    ),
    "gpt-oss-20b": (
        "gpt_oss",
        sizes(24, 2880, 2880, 64, 8, 201088) | {"num_local_experts": 32},
        20_914_757_184,
    ),
    "DeepSeek-V2-Lite": (
        "deepseek_v2",
        sizes(27, 2048, 10944, 16, 16, 102400)
        | {
            "q_lora_rank": None,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
        },
        15_706_484_224,
    ),
    "DeepSeek-V3": ("deepseek_v3", DEEPSEEK_V3, 671_026_419_200),
    "DeepSeek-V3.2": ("deepseek_v32", DEEPSEEK_V3, 671_877_944_064),
    "GLM-5": (
        "glm_moe_dsa",
        sizes(78, 6144, 12288, 64, 64, 154880)
        | {"moe_intermediate_size": 2048, "n_routed_experts": 256},
        743_911_218_432,
    ),
    "LongCat-Flash": (
        "longcat_flash",
        {"num_layers": 28, "hidden_size": 6144, "ffn_hidden_size": 12288}
        | {"num_attention_heads": 64, "vocab_size": 131072},
        560_664_980_480,
    ),
    "MiniMax-M3": (
        "minimax_m3_vl",
        {
            "text_config": sizes(60, 6144, 3072, 64, 4, 200064)
            | {
                "layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57,
                "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 57,
            }
        },
        426_174_572_928,
    ),
    "Mellum-2-12B": ("mellum", sizes(28, 2304, 7168, 32, 4, 98304), 12_149_923_072),
    "gemma-2-2b": (
        "gemma2",
        sizes(26, 2304, 9216, 8, 4, 256000) | {"head_dim": 256},
        2_614_341_888,
    ),
    "gemma-3-1b": (
        "gemma3_text",
        sizes(26, 1152, 6912, 4, 1, 262144) | {"head_dim": 256, "sliding_window": 512},
        999_885_952,
    ),
    "Phi-3-mini": ("phi3", sizes(32, 3072, 8192, 32, 32, 32064), 3_821_079_552),
    "phi-2": ("phi", sizes(32, 2560, 10240, 32, 32, 51200), 2_779_683_840),
    "SmolLM3-3B": ("smollm3", sizes(36, 2048, 11008, 16, 4, 128256), 3_075_098_624),
    "OLMoE-1B-7B": ("olmoe", sizes(16, 2048, 1024, 16, 16, 50304), 6_919_161_856),
    "gpt2": (
        "gpt2",
        {"n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257},
        124_439_808,
    ),
    "pythia-70m": ("gpt_neox", sizes(6, 512, 2048, 8, 8, 50304), 70_426_624),
    "stablelm-2-1_6b": (
        "stablelm",
        sizes(24, 2048, 5632, 32, 32, 100352) | {"use_qkv_bias": True},
        1_644_515_328,
    ),
    "starcoder2-3b": ("starcoder2", sizes(30, 3072, 12288, 24, 2, 49152), 3_030_371_328),
    "c4ai-command-r-v01": ("cohere", sizes(40, 8192, 22528, 64, 64, 256000), 34_980_831_232),
    "GLM-4-9B-0414": ("glm4", sizes(40, 4096, 13696, 32, 2, 151552), 9_400_279_040),
    "Seed-OSS-36B": ("seed_oss", sizes(64, 5120, 27648, 80, 8, 155136), 36_151_104_512),
}


def peak() -> int:
    """Return the largest memory this process had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_have_the_published_parameters(name: str) -> None:
    model_type, config, count = PUBLISHED[name]
    before = peak()
    model, _ = get_architecture(model_type).create({"model_type": model_type, **config})
    flat: Any = tree_flatten(model.parameters())
    assert sum(value.size for _, value in flat) == count
    assert peak() - before < 100e6
