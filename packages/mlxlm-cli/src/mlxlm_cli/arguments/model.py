"""Which model, and how it is loaded."""

from mlxlm_cli.arguments.parser import Group, Parser

DEFAULT_MODEL = "mlx-community/Llama-3.2-3B-Instruct-4bit"


def add_model_flags(parser: Parser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="a directory, a .gguf file, package:<import name>, or a Hugging Face repo id",
    )
    group.add_argument("--revision", help="branch, tag or commit of the Hugging Face repo")
    add_loading_flags(group)


def add_loading_flags(group: Group) -> None:
    group.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="let the model's repo run its own Python code here",
    )
    group.add_argument("--adapter-path", help="directory of trained LoRA or DoRA adapters")
    group.add_argument(
        "--cpu-weights",
        default="auto",
        choices=("auto", "packed", "float32"),
        help="how quantized weights are kept where the CPU computes",
    )
