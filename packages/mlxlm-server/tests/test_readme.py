import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_makes_an_application_with_the_paths_of_the_table() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    table = set(re.findall(r"^\| `(/\S+)` \|", README, re.MULTILINE))
    assert table == set(names["app"].openapi()["paths"])  # type: ignore[attr-defined]
