import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    code = "\n".join(blocks)
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code + "\nassert isinstance(text, str)"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert len(re.findall(r"^\d \d+ (?:None|length|stop)$", done.stdout, re.M)) >= 40
    assert len(re.findall(r"^\[(?:length|stop), \d+ tokens\]$", done.stdout, re.M)) == 2


def test_the_table_names_what_there_is() -> None:
    import mlxlm_generate

    table = (
        README.read_text(encoding="utf-8").partition("## What there is")[2].partition("\n\n|")[2]
    )
    rows = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(names) >= 8
    assert set(names) <= set(dir(mlxlm_generate))
