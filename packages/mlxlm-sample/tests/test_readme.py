import re
from dataclasses import asdict
from pathlib import Path

from mlxlm_sample import SAMPLING

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})


def test_R53_the_table_of_settings_is_the_defaults_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", README, re.MULTILINE)
    assert dict(rows) == {name: str(value) for name, value in asdict(SAMPLING).items()}
    assert [name for name, _ in rows] == list(asdict(SAMPLING))
