"""The loop that has guesses checked: one pass of the model settles several tokens."""

from time import perf_counter
from typing import cast

import mlx.core as mx

from mlxlm_generate.launch import CLEAR_EVERY, Launch, Steps
from mlxlm_generate.logprobs import Observed
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.protocols import ProgressCallback
from mlxlm_generate.speculate.check import Checked, check
from mlxlm_generate.speculate.drafter import Guesses, Speculation
from mlxlm_generate.speculate.rewind import Pass, checkpoints


def speculative_steps(
    prompt: Prompt,
    launch: Launch,
    speculation: Speculation,
    *,
    max_tokens: int,
    cache_is_kept: bool,
    prefill_step_size: int,
    progress: ProgressCallback | None,
) -> Steps:
    """Yield what `token_steps` does, with guesses checked several at once; see `check`.

    While there is nothing to guess, or it does not pay, the next step is under way before
    its token is read, as without speculation.
    """
    forward, drafter, length = launch.forward, speculation.drafter, speculation.length
    total, yielded = len(prompt), 0
    with checkpoints(forward.cache, length.longest + 1):
        latest = Pass(forward)
        try:
            following = launch.first(prompt, max_tokens, prefill_step_size, progress)
            drafter.extend(cast(list[int], prompt.tokens.tolist()))
            if following is not None and progress is not None:
                mx.eval(following.token)
                progress(total, total)
            under_way = True  # `following` is computed while the consumer is at work
            while following is not None and yielded != max_tokens:
                began, current = perf_counter(), following
                settled: list[tuple[int, Observed, bool]]
                left = None if max_tokens < 0 else max_tokens - yielded - 1  # after `current`
                # A pass feeds one token more than it has guesses.
                bounds = [n - 1 for n in (left, forward.before_switch) if n is not None]
                wanted = min([length.next(), *bounds])
                if wanted <= 0 or not drafter.ready():
                    latest = Pass(forward)
                    if left != 0:
                        following = launch(current.token)
                    elif cache_is_kept:
                        launch.absorb(current.token)
                    token = cast(int, current.token.item())
                    if yielded:
                        length.plain(perf_counter() - began)
                    settled, under_way = [(token, current.observed, False)], True
                else:
                    token = cast(int, current.token.item())
                    if under_way and yielded:
                        length.waited(perf_counter() - began)
                    began, under_way = perf_counter(), False
                    drafter.extend([token])
                    latest, checked, drafted = _checked(launch, speculation, token, wanted)
                    latest.keep(1 + len(checked.right))
                    following = checked.following
                    length.checked(drafted, len(checked.right), perf_counter() - began)
                    settled = [(token, current.observed, False)]
                    settled += [
                        (guess, seen, True)
                        for guess, seen in zip(checked.right, checked.observed, strict=True)
                    ]
                for place, (token, observed, guessed) in enumerate(settled):
                    if place or under_way:
                        drafter.extend([token])
                    yielded += 1
                    speculation.accepted += guessed
                    if yielded % CLEAR_EVERY == 0:
                        mx.clear_cache()
                    yield token, observed, guessed
        finally:
            latest.keep(total + yielded - latest.start)
            interrupted = forward.fed < total  # within the prompt
            drafter.finish(forward.fed if interrupted else total + yielded)


def _checked(
    launch: Launch, speculation: Speculation, token: int, wanted: int
) -> tuple[Pass, Checked, int]:
    """Feed a token and guesses for what follows it; return the pass, and how it went."""
    forward, choose = launch.forward, launch.choose

    def draw(logits: mx.array) -> mx.array:
        return choose.foresee(widened(logits, forward.vocabulary))

    with mx.stream(launch.stream):
        before = choose.mark()
        guesses = speculation.drafter.propose(wanted, draw)[:wanted]
        choose.rewind(before)
        fed = mx.array([token], dtype=mx.uint32)
        if len(guesses):
            # A guess that is no token is refused, but must not be looked up.
            known = mx.clip(_array(guesses), 0, forward.vocabulary - 1)
            fed = mx.concatenate([fed, known.astype(mx.uint32)])
        latest = Pass(forward, fed)
        try:
            checked = check(launch, forward.each(fed), guesses)
        except BaseException:
            latest.keep(0)
            raise
    speculation.drafted += len(guesses)
    return latest, checked, len(guesses)


def _array(guesses: Guesses) -> mx.array:
    return guesses if isinstance(guesses, mx.array) else mx.array(list(guesses))


def widened(logits: mx.array, size: int) -> mx.array:
    """Return logits of as many tokens as the target has."""
    missing = size - logits.shape[-1]
    if missing <= 0:
        return logits[..., :size]
    return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
