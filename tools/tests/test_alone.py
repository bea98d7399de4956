import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "alone.py"


@pytest.mark.parametrize(
    ("stated", "example", "said"),
    [
        (version("packaging"), "import packaging", None),
        ("0.0.1", "import packaging", "built 0.0.1"),
        (version("packaging"), "import packaging.nothing", "ModuleNotFoundError"),
    ],
)
def test_version_and_examples_are_checked(tmp_path, stated, example, said) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# A package\n\n```python\n{example}\n```\n")
    command = [sys.executable, str(SCRIPT), "packaging", stated, str(readme), "packaging"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == (1 if said else 0), done.stderr
    assert said is None or said in done.stderr
