"""The flags of `mlx_lm.server`. Defaults are those of `ServerSettings` (R56)."""

from pathlib import Path

from mlxlm_server import ServerSettings

from mlxlm_cli.arguments.cache import add_cache_flags
from mlxlm_cli.arguments.config import add_config_flag
from mlxlm_cli.arguments.model import add_loading_flags
from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.arguments.sampling import add_sampling_flags
from mlxlm_cli.arguments.speculation import add_speculation_flags
from mlxlm_cli.arguments.values import integer, number, size, template_settings
from mlxlm_cli.server.values import api_keys, named, template

_DEFAULT = ServerSettings()
_LEAST_SECONDS = 0.001


def add_server_flags(parser: Parser) -> None:
    _add_model_flags(parser)
    _add_network_flags(parser)
    _add_template_flags(parser)
    group = add_sampling_flags(parser, title="sampling, where a request doesn't say")
    group.add_argument(
        "--max-tokens",
        type=integer(1),
        default=_DEFAULT.max_tokens,
        help="tokens generated at most, where a request doesn't say",
    )
    _add_batch_flags(parser)
    add_cache_flags(parser)
    _add_prefix_flags(parser)
    add_speculation_flags(parser)
    _add_limit_flags(parser)
    add_config_flag(parser)
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json is an object a line",
    )
    parser.add_argument(
        "--pipeline", action="store_true", help="spread the layers over machines (not there yet)"
    )


def _add_model_flags(parser: Parser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument(
        "--model",
        action="append",
        type=named(),
        metavar="[NAME=]MODEL",
        help="a directory, a .gguf file, package:<import name>, or a Hugging Face repo id; once "
        "more for each further one, the first is the default; without any, requests name "
        "Hugging Face repos",
    )
    group.add_argument(
        "--max-models",
        type=integer(1),
        default=_DEFAULT.max_models,
        help="models loaded at once; the one unused for longest makes room",
    )
    add_loading_flags(group)
    group.add_argument(
        "--adapter",
        action="append",
        type=named("DIRECTORY"),
        metavar="NAME=DIRECTORY",
        help="a further name to ask for: the first model with this adapter",
    )


def _add_network_flags(parser: Parser) -> None:
    group = parser.add_argument_group("network")
    group.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    group.add_argument(
        "--port", type=integer(0, most=65535), default=8080, help="0 takes one that is free"
    )
    group.add_argument(
        "--api-key",
        action="append",
        type=api_keys,
        metavar="file:FILE|env:NAME",
        help="where the key stands that requests need: a file, one a line, or an environment "
        "variable",
    )
    group.add_argument(
        "--allowed-origins",
        help="web origins whose pages may ask from a browser, with commas between; * is every "
        "one, as mlx-lm has it",
    )
    group.add_argument(
        "--allowed-hosts",
        help="names by which requests may ask for this server, with commas between; * is any, as "
        "it is with a key or on other addresses; on loopback without a key those of loopback",
    )
    group.add_argument("--ssl-certfile", type=Path, help="serve TLS with this certificate (PEM)")
    group.add_argument("--ssl-keyfile", type=Path, help="its private key (PEM)")


def _add_template_flags(parser: Parser) -> None:
    group = parser.add_argument_group("conversation")
    group.add_argument(
        "--chat-template",
        type=template,
        default="",
        help="a template in place of the model's, or @ and the file that has it",
    )
    group.add_argument(
        "--use-default-chat-template",
        action="store_true",
        help="the tokenizer's default chat template, where it has no other",
    )
    group.add_argument(
        "--chat-template-args",
        type=template_settings,
        default={},
        help="JSON object of settings for the template, such as '{\"enable_thinking\": false}'",
    )


def _add_batch_flags(parser: Parser) -> None:
    group = parser.add_argument_group("batching")
    for flag, default, text in (
        ("--decode-concurrency", _DEFAULT.decode_concurrency, "answers computed at once"),
        ("--prompt-concurrency", _DEFAULT.prompt_concurrency, "prompts processed at once"),
        (
            "--prefill-step-size",
            _DEFAULT.prefill_step_size,
            "prompt tokens processed at a time; fewer need less memory",
        ),
    ):
        group.add_argument(flag, type=integer(1), default=default, help=text)


def _add_prefix_flags(parser: Parser) -> None:
    group = parser.add_argument_group("memory, and prefixes kept for later requests")
    group.add_argument(
        "--memory-limit",
        type=size(1),
        help="bytes for keys and values in all, such as 8GB; most of what is free unless given",
    )
    group.add_argument(
        "--prompt-cache-size",
        type=integer(0),
        default=_DEFAULT.prompt_cache_size,
        help="prefixes kept in memory",
    )
    group.add_argument(
        "--prompt-cache-bytes",
        type=size(),
        help="bytes of them, such as 8GB; a third of --memory-limit unless given",
    )
    group.add_argument(
        "--disk-cache", type=Path, help="a directory that keeps prefixes across restarts"
    )
    group.add_argument(
        "--disk-cache-bytes",
        type=size(),
        default=f"{_DEFAULT.disk_cache_bytes >> 30}GiB",
        help="bytes that it may hold",
    )


def _add_limit_flags(parser: Parser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--max-queue",
        type=integer(1),
        default=_DEFAULT.max_queue,
        help="answers that may run or wait; more are status 429",
    )
    group.add_argument(
        "--max-prompt-tokens", type=integer(1), help="tokens of a prompt; more are status 400"
    )
    group.add_argument(
        "--max-body-bytes",
        type=size(1),
        default=f"{_DEFAULT.max_body_bytes >> 20}MiB",
        help="size of a request; more is status 413",
    )
    for flag, default, text in (
        ("--request-timeout", _DEFAULT.request_timeout, "seconds that a request may take"),
        (
            "--stall-timeout",
            _DEFAULT.stall_timeout,
            "seconds without a token for anyone after which the engine starts anew",
        ),
    ):
        group.add_argument(flag, type=number(_LEAST_SECONDS), default=default, help=text)
    group.add_argument(
        "--shutdown-timeout",
        type=number(0),
        default=30.0,
        help="seconds that requests under way have once the server is told to stop",
    )
    group.add_argument(
        "--keepalive",
        type=number(0),
        default=_DEFAULT.keepalive,
        help="seconds between the comments of a silent stream; 0 is none",
    )
    group.add_argument("--strict", action="store_true", help="refuse fields that nobody knows")
