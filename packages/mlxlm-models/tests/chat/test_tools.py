import logging

import pytest
from mlxlm_models.chat.template_facts import read_template
from mlxlm_models.chat.tool_calls.formats import ALIASES, TOOL_PARSERS
from mlxlm_models.chat.tools import choose_tool_parser
from mlxlm_models.errors import TokenizerError

CODER = "{{ '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}"
HERMES = "<tool_call>\n{{ tool_call.name }}</tool_call>"


def inferred(template: str) -> str | None:
    parser = choose_tool_parser(read_template(template))
    return parser.name if parser else None


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("<minimax:tool_call>", "minimax_m2"),
        ("<|tool_call>x<tool_call|>", "gemma4"),
        ("<start_function_call>", "function_gemma"),
        ("<longcat_tool_call>", "longcat"),
        ("<tool_call>{{ tool_call.name }}<arg_key>", "glm47"),
        ("<|tool_list_start|>", "pythonic"),
        (CODER, "qwen3_coder"),
        ("<|tool_calls_section_begin|>", "kimi_k2"),
        ("[TOOL_CALLS]", "mistral"),
        (HERMES, "json_tools"),
        ('<tool_call>{"name": "f", "arguments": {}}</tool_call>', "json_tools"),
        ("{{ '<tool_call>' }}{{ call.function.name }}{{ '\"arguments\": ' }}", "json_tools"),
        ("<|tool_call_start|>[f()]<|tool_call_end|>", "pythonic"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "deepseek_v3"),
        ("<｜DSML｜function_calls>", "deepseek_v32"),
        ("{% set dsml = '｜DSML｜' %}<{{ dsml }}function_calls>", "deepseek_v32"),
        ("{{ '<|open|>' + tag + '<|sep|>' + '<|close|>' }}", "kimi_k3"),
        ("{{ 'function call' + '<|role_sep|>' }}", "gigachat3"),
        ("<|tool|>{{ tools }}<|/tool|>Use <|tool_call|>{{ call }}<|/tool_call|>", "phi4_mini"),
        ('{"name": function name, "parameters": dictionary}<|python_tag|>', "llama3_json"),
        ("<|python_start|>", "llama4_pythonic"),
        ("<|tool_call|>", "granite"),
        ("<|tool|>{{ tools }}<|/tool|>", "phi4_mini"),
        ("<|channel|>commentary <|constrain|>json", "gpt_oss"),
        ("<|START_ACTION|>", "command_a"),
        ("Write 'Action:' followed by", "command_r"),
        ("<seed:tool_call><function=f>", "seed_oss"),
        ("<tool_calls>", "hunyuan"),
        ("<|action_start|><|plugin|>", "internlm"),
        ("<TOOLCALL>", "nemotron"),
        ("<|tools_prefix|>", "apertus"),
        ("<function_calls>", "olmo3"),
        ("<tool_call>", None),
        ("<|tool_call>", None),
        ("{# [TOOL_CALLS] #}", None),
    ],
)
def test_R42_declared_markers_decide(
    template: str, name: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert inferred(template) == name
    assert not caplog.records


@pytest.mark.parametrize(
    ("template", "candidates"),
    [
        (HERMES + "{{ '<function=' }}", "qwen3_coder, json_tools"),
        ("[TOOL_CALLS]<start_function_call>", "function_gemma, mistral"),
    ],
)
def test_R42_ambiguity_is_a_warning(
    template: str, candidates: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert inferred(template) == candidates.split(", ", maxsplit=1)[0]
    assert candidates in caplog.text
    assert "tool_parser_type" in caplog.text


def test_R42_an_explicit_name_wins() -> None:
    parser = choose_tool_parser(read_template(HERMES), "kimi_k2")
    assert parser is TOOL_PARSERS["kimi_k2"]


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_R42_names_that_others_use(alias: str, name: str) -> None:
    assert choose_tool_parser(None, alias) is TOOL_PARSERS[name]
    assert alias not in TOOL_PARSERS


def test_R42_an_unknown_name_is_an_error() -> None:
    with pytest.raises(TokenizerError, match=r"'nope'.*Known: minimax_m2, .*json_tools"):
        choose_tool_parser(None, "nope")


def test_no_template_no_parser() -> None:
    assert choose_tool_parser(None) is None
