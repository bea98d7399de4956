import pytest
from packaging.version import Version

from tools.release.changes import Step, is_breaking, next_version


@pytest.mark.parametrize(
    ("last", "step", "following"),
    [
        ("0.1.0", Step.PATCH, "0.1.1"),
        ("0.1.3", Step.MINOR, "0.1.4"),
        ("0.1.3", Step.BREAKING, "0.2.0"),
        ("1.2.3", Step.PATCH, "1.2.4"),
        ("1.2.3", Step.MINOR, "1.3.0"),
        ("1.2.3", Step.BREAKING, "2.0.0"),
    ],
)
def test_before_1_0_only_a_breaking_change_moves_the_minor(last, step, following) -> None:
    assert next_version(Version(last), step) == Version(following)


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [("0.1.0", "0.1.9", False), ("0.1.0", "0.2.0", True), ("1.0.0", "1.9.0", False)],
)
def test_what_a_version_may_break(old, new, may) -> None:
    assert is_breaking(Version(old), Version(new)) is may


def test_a_fragment_of_no_known_kind_is_refused(repository) -> None:
    repository.write("packages/demo-lib/changes/+thing.feature.md", "A thing.\n")
    done = repository.run("release", "changed")
    assert done.returncode == 1
    assert "+thing.feature.md" in done.stderr
    assert "added" in done.stderr


def test_a_change_that_nothing_tells_of_is_refused(repository) -> None:
    repository.release("demo-lib")
    assert repository.run("release", "check").returncode == 0
    repository.write("packages/demo-lib/src/demo_lib/more.py", "X = 1\n")
    done = repository.run("release", "check")
    assert done.returncode == 1
    assert "demo-lib changed since 0.1.0" in done.stderr
    repository.write("packages/demo-lib/changes/+more.added.md", "`X`.\n")
    assert repository.run("release", "check").returncode == 0
