"""The prompt goes into the cache in chunks, so that activations stay small."""

import mlx.core as mx

from mlxlm_generate.forward import Forward
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.protocols import ProgressCallback


def prefill(
    forward: Forward,
    prompt: Prompt,
    *,
    step_size: int,
    progress: ProgressCallback | None,
    stream: mx.ThreadLocalStream,
) -> Prompt:
    """Feed all of the prompt but its last chunk, and return that.

    The last chunk is one token, unless the model can do without the logits of the others.
    Each chunk is evaluated, but for its logits, before the next begins, and what MLX
    holds in reserve is given back. `progress` hears (0, total) first, then of each chunk.
    """
    total, done = len(prompt), 0
    left = step_size if forward.one_pass else 1
    if progress is not None:
        progress(done, total)
    while done < total - left:
        chunk = prompt[done : min(done + step_size, total - 1)]
        with mx.stream(stream):
            forward(chunk.tokens, chunk.embeddings)
        mx.eval(forward.states())
        mx.clear_cache()
        done += len(chunk)
        if progress is not None:
            progress(done, total)
    return prompt[done:]
