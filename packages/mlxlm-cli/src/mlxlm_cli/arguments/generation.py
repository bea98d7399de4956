"""The prompt's frame and how much is generated."""

from mlxlm_generate.defaults import GENERATION

from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.values import integer, template_settings, utf_8


def add_template_flags(parser: Parser) -> None:
    group = parser.add_argument_group("conversation")
    group.add_argument(
        "--system-prompt", type=utf_8, help="what the model is told before the conversation"
    )
    group.add_argument(
        "--use-default-chat-template",
        action="store_true",
        help="the tokenizer's default chat template, where it has no other",
    )
    group.add_argument(
        "--chat-template-config",
        type=template_settings,
        help="JSON object of settings for the template, such as '{\"enable_thinking\": false}'",
    )


def add_length_flags(parser: Parser, *, max_tokens: int) -> None:
    group = parser.add_argument_group("generation")
    group.add_argument(
        "--max-tokens",
        "-m",
        type=integer(0, also=-1),
        default=max_tokens,
        help="tokens generated at most; -1 is no limit",
    )
    group.add_argument(
        "--prefill-step-size",
        type=integer(1),
        default=GENERATION.prefill_step_size,
        help="prompt tokens processed at a time; fewer need less memory",
    )
