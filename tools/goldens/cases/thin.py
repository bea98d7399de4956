"""More types that transformers lacks: layers looped, mixed, in blocks."""

from .base import Case, tiny
from .own import own

PHI3_SMALL = {
    "model_type": "phi3small",
    "vocab_size": 48,
    "hidden_size": 32,
    "ff_intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "gegelu_limit": 1.5,
    "rope_embedding_base": 100.0,
    "mup_use_scaling": True,
    "mup_attn_multiplier": 2.0,
    "mup_embedding_multiplier": 10.0,
    "mup_width_multiplier": 8.0,
    "dense_attention_every_n_layers": 2,
    "blocksparse_block_size": 4,
    "blocksparse_num_local_blocks": 2,
    "blocksparse_vert_stride": 3,
    "blocksparse_homo_head_pattern": False,
}
CASES: dict[str, Case] = {
    "iquestloopcoder": own(
        {"loop_num": 1},
        {"loop_window_size": 64},
        **tiny("iquestloopcoder", head_dim=16, rope_theta=100.0),
        loop_num=2,
        loop_window_size=8,
    ),
    "iquestloopcoder_thrice": own(
        peer=None,  # it goes twice
        **tiny("iquestloopcoder", head_dim=16, rope_theta=100.0),
        loop_num=3,
        loop_window_size=8,
    ),
    "baichuan_m1": own(
        {"sliding_window": 64},
        {"rope_theta": 10000.0},
        **tiny("baichuan_m1", num_hidden_layers=3, rope_theta=100.0, sliding_window=8),
        sliding_window_layers=[1],
        num_swa_attention_heads=2,
        num_swa_key_value_heads=1,
        conv_window=2,
    ),
    "phi3small": own(
        {"blocksparse_vert_stride": 64},
        {"blocksparse_num_local_blocks": 6},
        {"blocksparse_homo_head_pattern": True},
        {"dense_attention_every_n_layers": 1},
        {"gegelu_limit": 20.0},
        {"mup_use_scaling": False},
        # There, blocks are large, tokens without a meaning have fixed places at the end of a
        # large vocabulary, and a prefill isn't causal.
        beside={"vocab_size": 100352, "blocksparse_block_size": 32},
        steps=True,
        repeats=9,
        **PHI3_SMALL,
    ),
}
