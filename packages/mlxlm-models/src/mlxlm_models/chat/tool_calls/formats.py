"""The formats of tool calls, by the name that `tool_parser_type` gives them.

Each is what the chat template of its models writes for the calls of earlier turns.
"""

import re

from .form import IN_JSON, IN_PYTHON, Block, Body, Either, Quote, Value
from .gemma_bodies import GemmaCalls
from .harmony import MESSAGE_ENDS, Message
from .json_bodies import (
    action_calls,
    deepseek_calls,
    json_calls,
    keyed_calls,
    kimi_calls,
    known_json_calls,
    mistral_calls,
)
from .parser import Marker, ToolParser
from .python_bodies import known_python_calls, python_calls, python_lines
from .tag_bodies import (
    ArgKeys,
    dsml_call,
    framed_function_calls,
    function_calls,
    invoke_calls,
    xtml_call,
)

_MISTRAL_HEAD = re.compile(r"\s*(?:[^\[\]{}\s]+\s*(?:\[CALL_ID\][^\[\]{}]*)?(?:\[ARGS\])?\s*)?")
_NOTHING = re.compile("")
_IN_PARAMETER = (Quote("<parameter=", "</parameter>"),)
_IN_XTML = tuple(Quote(f"<|open|>{tag} ", f"<|close|>{tag}<|sep|>") for tag in ("argument", "json"))
_IN_DSML = (Quote("<｜DSML｜parameter", "</｜DSML｜parameter>"),)


def _block(
    name: str,
    start: str,
    end: str,
    body: Body,
    quotes: tuple[Quote, ...] = IN_JSON,
    *,
    markers: tuple[Marker, ...] | None = None,
    decisive: tuple[Marker, ...] | None = None,
) -> ToolParser:
    """One block a call, or for all of them; by default, its start in a template decides."""
    forms = (Block(start, end, body, quotes),)
    markers = (start,) if markers is None else markers
    return ToolParser(name, start, end, markers, forms, markers if decisive is None else decisive)


def _section(
    name: str,
    start: str,
    end: str,
    call: Block,
    *,
    markers: tuple[Marker, ...] | None = None,
    silent: tuple[str, ...] = (),
) -> ToolParser:
    """Calls in blocks of their own, within a section."""
    markers = (start,) if markers is None else markers
    return ToolParser(name, start, end, markers, (call,), markers, (start, end, *silent))


def _named(*parsers: ToolParser) -> dict[str, ToolParser]:
    return {parser.name: parser for parser in parsers}


_FROM_THE_REFERENCE = _named(
    _block(
        "minimax_m2",
        "<minimax:tool_call>",
        "</minimax:tool_call>",
        invoke_calls,
        (Quote('<parameter name="', "</parameter>"),),
    ),
    _block(
        "gemma4",
        "<|tool_call>",
        "<tool_call|>",
        GemmaCalls('<|"|>'),
        (Quote('<|"|>', '<|"|>'),),
        markers=("<|tool_call>", "<tool_call|>"),
    ),
    _block(
        "function_gemma",
        "<start_function_call>",
        "<end_function_call>",
        GemmaCalls("<escape>"),
        (Quote("<escape>", "<escape>"),),
    ),
    ToolParser(
        "longcat",
        "<longcat_tool_call>",
        "</longcat_tool_call>",
        ("<longcat_tool_call>",),
        (
            Either(
                Block("<longcat_tool_call>", "</longcat_tool_call>", json_calls, IN_JSON),
                Block(
                    "<longcat_tool_call>",
                    "</longcat_tool_call>",
                    ArgKeys("longcat_"),
                    (Quote("<longcat_arg_value>", "</longcat_arg_value>"),),
                ),
            ),
        ),
        ("<longcat_tool_call>",),
    ),
    _block(
        "glm47",
        "<tool_call>",
        "</tool_call>",
        ArgKeys(),
        (Quote("<arg_value>", "</arg_value>"),),
        markers=("<arg_key>",),
    ),
    _block(
        "pythonic",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        python_calls,
        IN_PYTHON,
        markers=(("<|tool_list_start|>", "<|tool_call_start|>"),),
    ),
    _block(
        "qwen3_coder",
        "<tool_call>",
        "</tool_call>",
        framed_function_calls,
        _IN_PARAMETER,
        markers=("<tool_call>", "<function="),
        decisive=("<tool_call>\n<function=",),
    ),
    _section(
        "kimi_k2",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        Block("<|tool_call_begin|>", "<|tool_call_end|>", kimi_calls, IN_JSON),
    ),
    ToolParser(
        "mistral",
        "[TOOL_CALLS]",
        "",
        ("[TOOL_CALLS]",),
        (Value("[TOOL_CALLS]", mistral_calls, _MISTRAL_HEAD, ("[ARGS]", "[CALL_ID]")),),
        ("[TOOL_CALLS]",),
    ),
    _block(
        "json_tools",
        "<tool_call>",
        "</tool_call>",
        json_calls,
        markers=("<tool_call>", ("tool_call.name", '"arguments"')),
        decisive=(),
    ),
)

_MORE = _named(
    _section(
        "deepseek_v3",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        Block("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", deepseek_calls, IN_JSON),
    ),
    _section(
        "deepseek_v32",
        "<｜DSML｜function_calls>",
        "</｜DSML｜function_calls>",
        Block('<｜DSML｜invoke name="', "</｜DSML｜invoke>", dsml_call, _IN_DSML),
        markers=("｜DSML｜",),  # a variable in some templates
        silent=("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ),
    _section(
        "kimi_k3",
        "<|open|>tools<|sep|>",
        "<|close|>tools<|sep|>",
        Block("<|open|>call ", "<|close|>call<|sep|>", xtml_call, _IN_XTML),
        markers=("<|open|>", "<|close|>", "<|sep|>"),
        silent=(
            "<|open|>response<|sep|>",
            "<|close|>response<|sep|>",
            "<|close|>message<|sep|>",
            "<|end_of_msg|>",
        ),
    ),
    ToolParser(
        "gigachat3",
        "function call<|role_sep|>",
        "<|message_sep|>",
        ("function call", "<|role_sep|>"),
        (Value("function call<|role_sep|>", json_calls),),
        ("function call", "<|role_sep|>"),
        silent=("<|message_sep|>",),
    ),
    ToolParser(
        "llama3_json",
        "",
        "",
        ('{"name": function name, "parameters":',),
        (
            Value("<|python_tag|>", known_json_calls),
            Value("{", known_json_calls, _NOTHING, keep_start=True, beginning=True),
        ),
        ('{"name": function name, "parameters":',),
        between=";",
    ),
    ToolParser(
        "llama4_pythonic",
        "<|python_start|>",
        "<|python_end|>",
        ("<|python_start|>",),
        (
            Block("<|python_start|>", "<|python_end|>", python_calls, IN_PYTHON),
            Value(
                "[",
                known_python_calls,
                _NOTHING,
                dialect="python",
                keep_start=True,
                beginning=True,
            ),
        ),
        ("<|python_start|>",),
    ),
    ToolParser(
        "granite",
        "<|tool_call|>",
        "",
        ("<|tool_call|>",),
        (Value("<|tool_call|>", json_calls),),
        silent=("<|/tool_call|>",),
    ),
    ToolParser(
        "phi4_mini",
        "<|tool_call|>",
        "<|/tool_call|>",
        ("<|tool|>", "<|/tool|>"),
        (Value("<|tool_call|>", json_calls), Value("functools", json_calls)),
        ("<|tool|>", "<|/tool|>"),
        silent=("<|/tool_call|>",),
    ),
    ToolParser(
        "gpt_oss",
        "<|start|>",
        "<|call|>",
        ("<|channel|>", "<|constrain|>"),
        (Message("<|start|>"), Message("<|channel|>")),
        ("<|channel|>", "<|constrain|>"),
        silent=MESSAGE_ENDS,
    ),
    ToolParser(
        "command_a",
        "<|START_ACTION|>",
        "<|END_ACTION|>",
        ("<|START_ACTION|>",),
        (Block("<|START_ACTION|>", "<|END_ACTION|>", json_calls, IN_JSON),),
        ("<|START_ACTION|>",),
        silent=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    _block(
        "command_r",
        "Action: ```json",
        "```",
        action_calls,
        markers=("Write 'Action:'",),
    ),
    _block("seed_oss", "<seed:tool_call>", "</seed:tool_call>", function_calls, _IN_PARAMETER),
    _block("hunyuan", "<tool_calls>", "</tool_calls>", json_calls),
    _block("internlm", "<|action_start|><|plugin|>", "<|action_end|>", json_calls),
    _block("nemotron", "<TOOLCALL>", "</TOOLCALL>", json_calls),
    _block("apertus", "<|tools_prefix|>", "<|tools_suffix|>", keyed_calls),
    _block("olmo3", "<function_calls>", "</function_calls>", python_lines, IN_PYTHON),
)

TOOL_PARSERS = _FROM_THE_REFERENCE | _MORE

ALIASES = {
    "hermes": "json_tools",
    "qwen3": "json_tools",
    "qwen3_xml": "qwen3_coder",
    "glm45": "glm47",
    "deepseek_v31": "deepseek_v3",
    "harmony": "gpt_oss",
    "functiongemma": "function_gemma",
    "lfm2": "pythonic",
    "minimax": "hunyuan",
}
"""Names that others give to these formats."""
