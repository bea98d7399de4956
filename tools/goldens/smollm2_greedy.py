"""Greedy continuations of SmolLM2-135M-Instruct by other implementations.

    python smollm2_greedy.py export GGUF DIR        needs: gguf, numpy, safetensors, transformers
    python smollm2_greedy.py mlx-lm DIR OUT.json    needs: mlx-lm (PYTHONPATH may preload a BLAS)
    python smollm2_greedy.py transformers DIR OUT.json   needs: torch, transformers

`export` dequantizes with the `gguf` package and undoes llama.cpp's permutation of the
query and key rows, so that the checkpoint owes nothing to mlxlm. Each answer holds, per
prompt, the token ids and the gap between the two best logits at each step: where two
implementations part at a gap near zero, it is a tie.
"""

import json
import sys
from pathlib import Path

TOKENS = 64
PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three uses for a paperclip.",
    "Explain photosynthesis to a child.",
    "What is 17 + 25?",
    "Translate 'good morning' into Spanish.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "def fibonacci(n):",
    "Name the planets of the solar system.",
    "Why is the sky blue?",
    "Summarize the story of Cinderella in two sentences.",
    "What does HTTP stand for?",
    "Tell me a joke about cats.",
    "How many days are there in a leap year?",
    "Describe a sunset over the mountains. 🌄",
    "Écris une phrase en français.",
    "日本の首都はどこですか？",
    "Complete: Once upon a time",
    "What are the primary colors?",
]
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat(prompt: str) -> str:
    """Return the prompt as the model's own template renders it."""
    return (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
        f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    )


def export(gguf_file: Path, folder: Path) -> None:
    import gguf
    import numpy as np
    from safetensors.numpy import save_file

    reader = gguf.GGUFReader(gguf_file)

    def field(name: str):
        return reader.fields[name].contents()

    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }

    def unpermute(rows, count):
        split = rows.reshape(count, rows.shape[0] // count // 2, 2, *rows.shape[1:])
        return split.swapaxes(1, 2).reshape(rows.shape)

    weights = {}
    for tensor in reader.tensors:
        value = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name == "token_embd.weight":
            name = "model.embed_tokens.weight"
        elif tensor.name == "output_norm.weight":
            name = "model.norm.weight"
        else:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{names[part]}.weight"
            if part in ("attn_q", "attn_k"):
                value = unpermute(value, heads if part == "attn_q" else kv_heads)
        weights[name] = np.ascontiguousarray(value)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": field("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": field("llama.rope.freq_base"),
        "max_position_embeddings": field("llama.context_length"),
        "vocab_size": field("llama.vocab_size"),
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "eos_token_id": 2,
        "bos_token_id": 1,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(gguf_file.parent), gguf_file=gguf_file.name)
    ids = [tokenizer.encode(chat(prompt), add_special_tokens=False) for prompt in PROMPTS]
    (folder / "prompts.json").write_text(json.dumps(ids))


def run_mlx_lm(folder: Path) -> list[dict]:
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    answers = []
    for ids in json.loads((folder / "prompts.json").read_text()):
        tokens, gaps = [], []
        for token, logprobs in generate_step(mx.array(ids), model, max_tokens=TOKENS):
            first, second = mx.sort(logprobs)[-2:][::-1].tolist()
            tokens.append(int(token))
            gaps.append(round(first - second, 6))
        answers.append({"prompt": ids, "tokens": tokens, "gaps": gaps})
    return answers


def run_transformers(folder: Path) -> list[dict]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    answers = []
    for ids in json.loads((folder / "prompts.json").read_text()):
        tokens, gaps, cache = [], [], None
        step = torch.tensor([ids])
        with torch.no_grad():
            for _ in range(TOKENS):
                out = model(step, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                best = out.logits[0, -1].topk(2)
                tokens.append(int(best.indices[0]))
                gaps.append(round(float(best.values[0] - best.values[1]), 6))
                step = best.indices[:1][None]
        answers.append({"prompt": ids, "tokens": tokens, "gaps": gaps})
    return answers


def main(job: str, *paths: str) -> None:
    if job == "export":
        return export(Path(paths[0]), Path(paths[1]))
    run = {"mlx-lm": run_mlx_lm, "transformers": run_transformers}[job]
    answers = run(Path(paths[0]))
    lines = ",\n".join(json.dumps(answer, separators=(",", ":")) for answer in answers)
    Path(paths[1]).write_text(f"[\n{lines}\n]\n")
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
