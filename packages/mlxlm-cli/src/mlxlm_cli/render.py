"""From a prompt to the token ids that a model is fed."""

from argparse import Namespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mlxlm_cli.errors import CommandError
from mlxlm_cli.prompts import Message, messages, template_flags

if TYPE_CHECKING:
    from mlxlm_cache import PromptFile


def render(args: Namespace, tokenizer: Any, prompt: str, file: "PromptFile | None") -> list[int]:
    """Return the ids of the prompt, or of what it adds to the prompt cached in `file`.

    Raises CommandError for flags that need a chat template where there is none (R40),
    and where the template does not continue what is cached (R21).
    """
    if args.ignore_chat_template or not tokenizer.has_chat_template:
        for flag in template_flags(args):
            raise CommandError(
                f"{flag} needs a chat template, and the tokenizer of this model has none; "
                "leave the flag out, or try --use-default-chat-template"
            )
        return _encode(tokenizer, prompt, special=file is None)
    if file is None:
        asked = messages(prompt, args.system_prompt, args.prefill_response)
        return _encode(tokenizer, _text(args, tokenizer, asked))
    return _continue(args, tokenizer, prompt, file)


def _text(args: Namespace, tokenizer: Any, asked: list[Message]) -> str:
    prefilled = args.prefill_response is not None
    text: str = tokenizer.apply_chat_template(
        asked,
        tokenize=False,
        continue_final_message=prefilled,
        add_generation_prompt=not prefilled,
        **(args.chat_template_config or {}),
    )
    return text


def _encode(tokenizer: Any, text: str, *, special: bool = False) -> list[int]:
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=special)]


def _continue(args: Namespace, tokenizer: Any, prompt: str, file: "PromptFile") -> list[int]:
    """Take the prompt as the rest of the user's turn that `file` begins.

    A mark stands for what is cached of that turn, so the template shows what goes before
    it, which has to be in the cache already, and what comes after, which is to be fed.
    """
    before, after = _split(args, tokenizer, prompt)
    if (before, after) != _split(args, tokenizer, prompt):
        raise CommandError(
            "the chat template gives a different text each time, so what follows the cached "
            "prompt is unknown; use --ignore-chat-template, or do without --prompt-cache-file"
        )
    if file.tokens is not None:
        _check_cached(args, tokenizer, _encode(tokenizer, before), file.tokens)
    elif args.system_prompt is not None:
        raise CommandError(
            f"{args.prompt_cache_file} doesn't record its tokens, so there is no telling whether "
            "it holds the --system-prompt; leave the flag out"
        )
    return _encode(tokenizer, after)


def _split(args: Namespace, tokenizer: Any, prompt: str) -> tuple[str, str]:
    mark = uuid4().hex
    asked = messages(mark + prompt, args.system_prompt, args.prefill_response)
    before, *after = _text(args, tokenizer, asked).split(mark)
    if len(after) != 1:
        raise CommandError(
            f"the chat template shows the user's text {len(after)} times, so it can't continue "
            "a cached prompt; use --ignore-chat-template, or do without --prompt-cache-file"
        )
    return before, after[0]


def _check_cached(args: Namespace, tokenizer: Any, head: list[int], cached: list[int]) -> None:
    from mlxlm_models import PromptMismatchError, prompt_suffix

    try:
        # The head's last token may have merged with the first of the cached text.
        turn = prompt_suffix(head[:-1], cached, tokenizer.decode)
    except PromptMismatchError as error:
        raise CommandError(
            f"{args.prompt_cache_file} doesn't begin as the chat template does: {error}"
        ) from error
    if tokenizer.eos_token_ids.intersection(turn):
        raise CommandError(
            f"{args.prompt_cache_file} holds a turn that has ended, and --prompt can only "
            "continue one that is open"
        )
