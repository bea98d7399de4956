import subprocess
import sys

from tools.footprint import END, START, listed


def test_the_packages_of_a_table_are_found() -> None:
    rows = "| package | size |\n|---|--:|\n| mlxlm-cache | 1 kB |\n| mlxlm-sample | 2 kB |\n"
    elsewhere = "| mlxlm-cli | 3 kB |\n"
    assert listed(f"{elsewhere}{START}\n{rows}{END}\n{elsewhere}") == [
        "mlxlm-cache",
        "mlxlm-sample",
    ]


def test_a_package_that_the_readme_leaves_out_fails(repository) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.footprint", "check"]
        return subprocess.run(command, cwd=repository.root, capture_output=True, text=True)

    repository.write("README.md", f"{START}\n| demo-app | 1 |\n| demo-lib | 1 |\n{END}\n")
    assert check().returncode == 0
    repository.write("README.md", f"{START}\n| demo-app | 1 |\n{END}\n")
    done = check()
    assert done.returncode == 1
    assert "'demo-lib'" in done.stderr
