from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "b": {"type": "boolean"},
                    "l": {"type": "array", "items": {"type": "string"}},
                    "o": {"$ref": "#/$defs/pair"},
                    "either": {"type": ["number", "integer"]},
                    "colour": {"enum": ["blue", 7]},
                    "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
                "$defs": {"pair": {"type": "object"}},
            },
        },
    },
    {"name": "g", "input_schema": {"type": "object", "properties": {}}},
]

# Two calls as each format writes them: f(n=1, s='a}</tool_call>\\n"q" é') and g().
TEXT = 'a}</tool_call>\n"q" é'
JSON_TEXT = '"a}</tool_call>\\n\\"q\\" é"'
ARGUMENTS = f'{{"n": 1, "s": {JSON_TEXT}}}'
F = f'{{"name": "f", "arguments": {ARGUMENTS}}}'
G = '{"name": "g", "arguments": {}}'
PYTHON = "f(n=1, s='a}</tool_call>\\n\"q\" é'), g()"

CALLS = {
    "minimax_m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="n">1</parameter>\n'
    f'<parameter name="s">{TEXT}</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n'
    "</minimax:tool_call>",
    "gemma4": f'<|tool_call>call:f{{n:1,s:<|"|>{TEXT}<|"|>}}<tool_call|>'
    "<|tool_call>call:g{}<tool_call|>",
    "function_gemma": f"<start_function_call>call:f{{n:1,s:<escape>{TEXT}<escape>}}"
    "<end_function_call><start_function_call>call:g{}<end_function_call>",
    "longcat": f"<longcat_tool_call>{F}</longcat_tool_call>\n<longcat_tool_call>g\n"
    "</longcat_tool_call>",
    "glm47": "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n<arg_key>s</arg_key>\n"
    f"<arg_value>{TEXT}</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
    "pythonic": f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n<parameter=s>\n"
    f"{TEXT}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n"
    "</tool_call>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_call_begin|>functions.g:1"
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    "mistral": f"[TOOL_CALLS]f[ARGS]{ARGUMENTS}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{{}}",
    "json_tools": f"<tool_call>\n{F}\n</tool_call>\n<tool_call>\n{G}\n</tool_call>",
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
    f"{ARGUMENTS}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{{}}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>\n'
    f'<｜DSML｜parameter name="s" string="true">{TEXT}</｜DSML｜parameter>\n'
    '</｜DSML｜invoke>\n<｜DSML｜invoke name="g">\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>",
    "llama3_json": F.replace("arguments", "parameters") + "; " + G,
    "llama4_pythonic": f"[{PYTHON}]",
    "granite": f"<|tool_call|>[{F}, {G}]",
    "kimi_k3": '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
    '<|open|>argument key="n" type="number"<|sep|>1<|close|>argument<|sep|>'
    f'<|open|>argument key="s" type="string"<|sep|>{TEXT}<|close|>argument<|sep|>'
    '<|close|>call<|sep|><|open|>call tool="g" index="2"<|sep|><|open|>json type="object"<|sep|>'
    "{}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    "gigachat3": f"function call<|role_sep|>\n{F}<|message_sep|>\n\n"
    f"function call<|role_sep|>\n{G}<|message_sep|>",
    "phi4_mini": f"<|tool_call|>[{F}]<|/tool_call|>functools[{G}]",
    "olmo3": "<function_calls>\n" + PYTHON.replace("), g", ")\ng") + "\n</function_calls>",
    "gpt_oss": "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    f"{ARGUMENTS}<|call|><|start|>assistant to=functions.g<|channel|>commentary<|message|>{{}}"
    "<|call|>",
    "command_a": f'<|START_ACTION|>[{F}, {{"tool_call_id": "1", "tool_name": "g", '
    '"parameters": {}}]<|END_ACTION|>',
    "command_r": f"Action: ```json\n[{F}, {G}]\n```",
    "seed_oss": "<seed:tool_call>\n<function=f>\n<parameter=n>1</parameter>\n<parameter=s>"
    f"{TEXT}</parameter>\n</function>\n</seed:tool_call><seed:tool_call><function=g></function>"
    "</seed:tool_call>",
    "hunyuan": f"<tool_calls>\n[{F}, {G}]\n</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>{F}<|action_end|><|action_start|><|plugin|>{G}"
    "<|action_end|>",
    "nemotron": f"<TOOLCALL>[{F}, {G}]</TOOLCALL>",
    "apertus": f'<|tools_prefix|>[{{"f": {ARGUMENTS}}}, {{"g": {{}}}}]<|tools_suffix|>',
}

NAKED = {"llama3_json", "llama4_pythonic"}
"""Calls without a marker: only at the beginning of an answer."""
