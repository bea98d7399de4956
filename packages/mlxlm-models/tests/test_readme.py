"""The README's example runs, and its list of architectures is the registry's."""

import re
import subprocess
import sys
from pathlib import Path

from mlxlm_models import list_architectures

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The"


def test_the_architectures_are_those_of_the_registry() -> None:
    part = re.search(r"<!-- architectures -->(.*)<!-- /architectures -->", README.read_text(), re.S)
    assert part is not None
    assert re.findall(r"`([^`]+)`", part[1]) == list_architectures()
