"""The README's example runs, and its list of architectures is the registry's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mlxlm_models import TOOL_PARSERS, list_architectures
from mlxlm_models.chat.tool_calls.formats import ALIASES

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, ["The"]),
        (
            1,
            [
                "ReasoningDelta(text='Paris?')",
                "ToolCallBegin(index=0, name='weather', id=None)",
                """ArgumentsDelta(index=0, json='{"city": "Paris"}')""",
            ],
        ),
    ],
)
def test_the_examples_run(number: int, printed: list[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    done = subprocess.run([sys.executable, "-c", examples[number]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == printed
    assert len(examples) == 2


def test_the_tool_parsers_are_all_there() -> None:
    part = re.search(r"<!-- tool parsers -->(.*)<!-- /tool parsers -->", README.read_text(), re.S)
    assert part is not None
    assert sorted(re.findall(r"`([^`]+)`", part[1])) == sorted([*TOOL_PARSERS, *ALIASES])


def test_the_architectures_are_those_of_the_registry() -> None:
    part = re.search(r"<!-- architectures -->(.*)<!-- /architectures -->", README.read_text(), re.S)
    assert part is not None
    assert re.findall(r"`([^`]+)`", part[1]) == list_architectures()
