"""`mlx_lm.chat`: talk with a model over one live prompt cache."""

from argparse import Namespace

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.arguments.cache import add_cache_flags, check_cache_flags
from mlxlm_cli.arguments.generation import add_length_flags, add_template_flags
from mlxlm_cli.arguments.model import add_model_flags
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.sampling import add_sampling_flags, add_seed_flag
from mlxlm_cli.arguments.speculation import add_speculation_flags, check_speculation_flags
from mlxlm_cli.errors import CommandError, UsageError
from mlxlm_cli.run import run


def main(argv: list[str] | None = None, prog: str = "mlx_lm.chat") -> int:
    return run(build_parser(prog), execute, argv)


def build_parser(prog: str = "mlx_lm.chat") -> Parser:
    parser = Parser(prog, "Talk with a model. Answers go to stdout, all else to stderr.")
    add_model_flags(parser)
    add_template_flags(parser)
    add_length_flags(parser, max_tokens=GENERATION.chat_max_tokens)
    add_seed_flag(add_sampling_flags(parser), GENERATION.chat_seed)
    add_cache_flags(parser)
    add_speculation_flags(parser)
    parser.add_argument(
        "--pipeline", action="store_true", help="spread the layers over machines (not there yet)"
    )
    return parser


def execute(args: Namespace) -> None:
    check_cache_flags(args)
    check_speculation_flags(args)
    if args.pipeline:
        raise UsageError("--pipeline isn't there yet: a chat runs on one machine for now")

    import mlx.core as mx

    from mlxlm_cli.chat.conversation import Conversation
    from mlxlm_cli.chat.repl import talk
    from mlxlm_cli.loading import load, load_draft
    from mlxlm_cli.sampling import make_sampler

    model, tokenizer = load(args)
    if not tokenizer.has_chat_template:
        raise CommandError(
            f"the tokenizer of {args.model} has no chat template, so there is no way to hold "
            "a conversation; use mlx_lm.generate, or --use-default-chat-template"
        )
    draft = load_draft(args, tokenizer)
    mx.random.seed(args.seed)
    conversation = Conversation(
        model,
        tokenizer,
        system_prompt=args.system_prompt,
        max_kv_size=args.max_kv_size,
        draft_model=draft,
        ngram_draft=args.ngram_draft,
        num_draft_tokens=args.num_draft_tokens,
        template=args.chat_template_config or {},
        options={
            "max_tokens": args.max_tokens,
            "sampler": make_sampler(args, tokenizer),
            "prefill_step_size": args.prefill_step_size,
            "kv_bits": args.kv_bits,
            "kv_group_size": args.kv_group_size,
            "quantized_kv_start": args.quantized_kv_start,
        },
    )
    talk(conversation, step=args.prefill_step_size)
