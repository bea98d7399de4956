import pytest

LIST = (
    "from tools.release.history import releases;"
    "print([(str(found.version), found.commit) for found in releases('demo-lib')])"
)


def listed(repository) -> dict[str, str]:
    return dict(eval(repository.python(LIST)))


def test_a_version_is_released_by_the_commit_that_also_dates_it(repository) -> None:
    assert listed(repository) == {}
    first = repository.release("demo-lib")
    repository.write("packages/demo-lib/src/demo_lib/more.py", "X = 1\n")
    repository.commit("Change something")
    assert listed(repository) == {"0.1.0": first}


def test_a_release_made_on_a_branch_is_found_where_it_was_made(repository) -> None:
    repository.git("switch", "--quiet", "--create", "side")
    made = repository.release("demo-lib")
    repository.git("switch", "--quiet", "main")
    repository.write("packages/demo-app/src/demo_app/other.py", "")
    repository.commit("Meanwhile")
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert listed(repository) == {"0.1.0": made}


def test_tags_are_honoured_and_not_needed(repository) -> None:
    first = repository.release("demo-lib")
    assert repository.run("release", "tag", "demo-lib").stdout.strip() == "demo-lib-v0.1.0"
    assert repository.git("rev-parse", "demo-lib-v0.1.0^{commit}") == first
    repository.git("tag", "demo-lib-v0.0.9", "HEAD~1")
    assert list(listed(repository)) == ["0.0.9", "0.1.0"]


@pytest.mark.parametrize("command", ["changed", "check"])
def test_a_shallow_clone_says_so_and_fails(repository, command) -> None:
    repository.release("demo-lib")
    shallow = type(repository)(repository.root.parent / "shallow")
    origin = repository.root.as_uri()
    repository.git("clone", "--quiet", "--depth=1", origin, str(shallow.root))
    done = shallow.run("release", command)
    assert done.returncode == 1
    assert "shallow" in done.stderr


def test_a_folder_without_history_says_so_and_fails(repository) -> None:
    (repository.root / ".git").rename(repository.root.parent / "gone")
    done = repository.run("release", "check")
    assert done.returncode == 1
    assert "clone the repository" in done.stderr


def test_a_date_that_no_commit_holds_fails(repository) -> None:
    repository.write(
        "packages/demo-lib/CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n"
    )
    done = repository.run("release", "changed")
    assert done.returncode == 1
    assert "no commit states" in done.stderr
