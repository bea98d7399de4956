"""`mlx_lm.generate`: one answer to one prompt. Its text goes to stdout, all else to stderr."""

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.arguments.cache import add_cache_flags, check_cache_flags
from mlxlm_cli.arguments.generation import add_length_flags, add_template_flags
from mlxlm_cli.arguments.model import add_model_flags
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.sampling import add_sampling_flags, add_seed_flag
from mlxlm_cli.arguments.speculation import add_speculation_flags, check_speculation_flags
from mlxlm_cli.arguments.values import boolean, utf_8
from mlxlm_cli.errors import UsageError
from mlxlm_cli.run import run

if TYPE_CHECKING:
    from mlxlm_cache import PromptFile
    from mlxlm_generate import GenerationResponse


def main(argv: list[str] | None = None, prog: str = "mlx_lm.generate") -> int:
    return run(build_parser(prog), execute, argv)


def build_parser(prog: str = "mlx_lm.generate") -> Parser:
    parser = Parser(prog, "Generate text from a prompt.")
    add_model_flags(parser)
    _add_prompt_flags(parser)
    add_template_flags(parser)
    add_length_flags(parser, max_tokens=GENERATION.cli_max_tokens)
    add_seed_flag(add_sampling_flags(parser), GENERATION.cli_seed)
    add_cache_flags(parser)
    add_speculation_flags(parser)
    parser.add_argument(
        "--prompt-cache-file", help="a file with the cache of a prompt that this one continues"
    )
    parser.add_argument(
        "--verbose",
        type=boolean,
        default=True,
        help="true: also show settings, speed and memory, on stderr; false: only the text",
    )
    _add_coming_flags(parser)
    return parser


def _add_prompt_flags(parser: Parser) -> None:
    group = parser.add_argument_group("prompt")
    group.add_argument(
        "--prompt",
        "-p",
        type=utf_8,
        default=GENERATION.cli_prompt,
        help=r"the text; \n and \t are expanded; - reads stdin",
    )
    group.add_argument("--prefill-response", type=utf_8, help="how the answer begins")
    group.add_argument(
        "--ignore-chat-template", action="store_true", help="take the prompt as it is"
    )
    group.add_argument(
        "--extra-eos-token", nargs="+", default=(), help="more tokens that end the answer"
    )


def _add_coming_flags(parser: Parser) -> None:
    group = parser.add_argument_group("not there yet")
    group.add_argument(
        "--quantize-activations",
        "-qa",
        action="store_true",
        help="quantize activations too (not there yet)",
    )


def execute(args: Namespace) -> None:
    from mlxlm_cli.prompts import check_template_flags, read_prompt

    _refuse_coming_flags(args)
    check_cache_flags(args, file=args.prompt_cache_file is not None)
    check_speculation_flags(args)
    check_template_flags(args)
    prompt = read_prompt(args.prompt)
    _generate(args, prompt)


def _refuse_coming_flags(args: Namespace) -> None:
    if args.quantize_activations:
        raise UsageError("--quantize-activations isn't there yet; leave it out")


def _generate(args: Namespace, prompt: str) -> None:
    import mlx.core as mx
    from mlxlm_generate import statistics

    from mlxlm_cli.console import FENCE, say
    from mlxlm_cli.loading import load, load_draft
    from mlxlm_cli.prompt_cache import open_prompt_cache
    from mlxlm_cli.render import render

    file = open_prompt_cache(args) if args.prompt_cache_file is not None else None
    if args.seed is not None:
        mx.random.seed(args.seed)
    if file is None:
        model, tokenizer = load(args)
    else:
        model, tokenizer = load(args, model=file.model, revision=file.revision)
    draft = load_draft(args, tokenizer)
    for token in args.extra_eos_token:
        tokenizer.add_eos_token(token)
    ids = render(args, tokenizer, prompt, file)
    if args.verbose:
        if tokenizer.has_thinking:
            say(f"Thinking: {thinking_state(args, tokenizer)}")
        say(FENCE)
    last = _stream(args, model, draft, tokenizer, ids, file)
    if args.verbose and last is not None:
        say(FENCE)
        say(statistics(last))


def _stream(
    args: Namespace,
    model: Any,
    draft: Any,
    tokenizer: Any,
    ids: list[int],
    file: "PromptFile | None",
) -> "GenerationResponse | None":
    """Print the answer as it comes; return the last response."""
    from mlxlm_generate import NGramDrafter, stream_generate

    from mlxlm_cli.console import prefill_progress
    from mlxlm_cli.sampling import make_sampler

    guesses = draft is not None or args.ngram_draft
    last = None
    with prefill_progress(args.prefill_step_size) as progress:
        for last in stream_generate(
            model,
            tokenizer,
            ids,
            max_tokens=args.max_tokens,
            sampler=make_sampler(args, tokenizer),
            max_kv_size=args.max_kv_size,
            prompt_cache=None if file is None else file.cache,
            prefill_step_size=args.prefill_step_size,
            kv_bits=args.kv_bits,
            kv_group_size=args.kv_group_size,
            quantized_kv_start=args.quantized_kv_start,
            prompt_progress_callback=progress,
            draft_model=draft,
            drafter=NGramDrafter() if args.ngram_draft else None,
            num_draft_tokens=args.num_draft_tokens if guesses else None,
        ):
            print(last.text, end="", flush=True)
    print(flush=True)
    return last


def thinking_state(args: Namespace, tokenizer: Any) -> str:
    """Say whether the model thinks before it answers, and what decides it (R41)."""
    if args.ignore_chat_template:
        return "left to the prompt (--ignore-chat-template)"
    asked = (args.chat_template_config or {}).get("enable_thinking")
    state: str = tokenizer.thinking.state(asked)
    return state
