PAIRS = "from tools.release.pairs import all_pairs; print({str(p): p.covered for p in all_pairs()})"


def pairs(repository) -> dict[str, bool]:
    return dict(eval(repository.python(PAIRS)))


def change(repository, package: str, kind: str = "fixed") -> None:
    module = package.replace("-", "_")
    repository.write(f"packages/{package}/src/{module}/{kind}.py", f"X = {kind!r}\n")
    repository.write(f"packages/{package}/changes/+{kind}.{kind}.md", "Something.\n")
    repository.commit(f"Change {package}")


def test_pairs_go_both_ways_and_unchanged_ones_are_covered_by_tests(repository) -> None:
    assert pairs(repository) == {}
    repository.release("demo-lib")
    repository.release("demo-app")
    back, forth = "demo-app+demo-lib@0.1.0", "demo-app@0.1.0+demo-lib"
    assert pairs(repository) == {back: True, forth: True}
    change(repository, "demo-lib")
    assert pairs(repository) == {back: False, forth: True}
    change(repository, "demo-app")
    assert pairs(repository) == {back: False, forth: False}


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
