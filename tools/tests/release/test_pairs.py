import subprocess

import pytest

PAIRS = "from tools.release.pairs import all_pairs; print({str(p): p.covered for p in all_pairs()})"


def pairs(repository) -> dict[str, bool]:
    return dict(eval(repository.python(PAIRS)))


def change(repository, package: str, kind: str = "fixed") -> None:
    module = package.replace("-", "_")
    repository.write(f"packages/{package}/src/{module}/{kind}.py", f"X = {kind!r}\n")
    repository.write(f"packages/{package}/changes/+{kind}.{kind}.md", "Something.\n")
    repository.commit(f"Change {package}")


def test_pairs_go_both_ways_and_what_tests_or_lowest_run_is_covered(repository) -> None:
    assert pairs(repository) == {}
    repository.release("demo-lib")
    repository.release("demo-app")
    back, forth = "demo-app+demo-lib@0.1.0", "demo-app@0.1.0+demo-lib"
    assert pairs(repository) == {back: True, forth: True}
    change(repository, "demo-lib")
    assert pairs(repository) == {back: True, forth: True}
    change(repository, "demo-app")
    assert pairs(repository) == {back: True, forth: False}


def test_a_released_dependents_own_tests_count(repository) -> None:
    repository.release("demo-lib")
    repository.release("demo-app")
    change(repository, "demo-lib")
    repository.write("packages/demo-app/tests/test_app.py", "def test_adapted(): ...\n")
    assert pairs(repository)["demo-app@0.1.0+demo-lib"] is False


def test_of_a_minor_series_the_oldest_accepted_release_is_paired(repository) -> None:
    repository.release("demo-lib")
    change(repository, "demo-lib")
    repository.release("demo-lib")
    assert list(pairs(repository)) == ["demo-app+demo-lib@0.1.0"]
    repository.replace("packages/demo-app/pyproject.toml", ">=0.1.0", ">=0.1.1")
    assert list(pairs(repository)) == ["demo-app+demo-lib@0.1.1"]


def test_a_release_that_refuses_the_next_version_is_not_paired_with_it(repository) -> None:
    repository.release("demo-lib")
    repository.release("demo-app")
    change(repository, "demo-lib", "breaking")
    assert list(pairs(repository)) == ["demo-app+demo-lib@0.1.0"]


HELD = (
    "from tools.release.pairs import all_pairs, held_for;"
    "print({str(p): {n: str(r.version) for n, r in held_for(p).items()} for p in all_pairs()})"
)


def held(repository) -> dict[str, dict[str, str]]:
    return dict(eval(repository.python(HELD)))


@pytest.fixture
def three(repository):
    """Return the workspace with `demo-top`, which needs both others, all released."""
    for part in ("README.md", "CHANGELOG.md", "pyproject.toml"):
        text = repository.read(f"packages/demo-app/{part}").replace("demo-app", "demo-top")
        repository.write(f"packages/demo-top/{part}", text)
    needs = '["demo-lib>=0.1.0,<0.2", "demo-app>=0.1.0,<0.2"]'
    repository.replace("packages/demo-top/pyproject.toml", '["demo-lib>=0.1.0,<0.2"]', needs)
    repository.replace("pyproject.toml", "[tool.uv.sources]\n", SOURCES)
    repository.write("packages/demo-top/src/demo_top/__init__.py", "")
    repository.write("packages/demo-top/changes/+first.added.md", "The first thing.\n")
    repository.commit("Add demo-top")
    for package in ("demo-lib", "demo-app", "demo-top"):
        repository.release(package)
    return repository


SOURCES = "[tool.uv.sources]\ndemo-app = { workspace = true }\n"


def test_one_pair_tells_of_a_released_dependent_on_all_of_this_tree(three) -> None:
    for package in ("demo-lib", "demo-app", "demo-top"):
        change(three, package)
    run = {name for name, covered in pairs(three).items() if not covered}
    assert run == {"demo-app@0.1.0+demo-lib", "demo-top@0.1.0+demo-lib"}
    assert held(three)["demo-top@0.1.0+demo-app"] == {"demo-top": "0.1.0"}


def test_a_sibling_that_refuses_the_pair_comes_from_a_release(three) -> None:
    change(three, "demo-lib")
    three.release("demo-lib")
    three.replace("packages/demo-app/pyproject.toml", ">=0.1.0,<0.2", ">=0.1.1,<0.2")
    assert held(three)["demo-top+demo-lib@0.1.0"] == {"demo-lib": "0.1.0", "demo-app": "0.1.0"}


def test_a_break_between_two_others_is_kept_out_of_a_pair(three) -> None:
    change(three, "demo-lib", "breaking")
    assert "demo-top@0.1.0+demo-lib" not in pairs(three)
    found = held(three)["demo-top@0.1.0+demo-app"]
    assert found == {"demo-top": "0.1.0", "demo-lib": "0.1.0"}


def test_a_pair_that_nothing_goes_with_says_what_to_do(three) -> None:
    change(three, "demo-app")
    three.release("demo-app")
    three.replace("packages/demo-app/pyproject.toml", ">=0.1.0,<0.2", ">=0.1.1,<0.2")
    three.replace("packages/demo-top/pyproject.toml", "demo-app>=0.1.0", "demo-app>=0.1.2")
    change(three, "demo-app", "added")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        held(three)
    assert "Accept other versions of demo-lib" in refused.value.stderr
