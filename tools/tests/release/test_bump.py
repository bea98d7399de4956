def test_the_first_release_keeps_its_version_and_moves_the_fragments(repository) -> None:
    repository.write("packages/demo-lib/changes/+other.fixed.md", "A fault.\n")
    repository.commit("Fix")
    repository.release("demo-lib", "2026-03-04")
    assert repository.read("packages/demo-lib/CHANGELOG.md") == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-03-04\n\n"
        "### Added\n\n- The first thing.\n\n### Fixed\n\n- A fault.\n"
    )
    assert 'version = "0.1.0"' in repository.read("packages/demo-lib/pyproject.toml")
    assert not list((repository.root / "packages/demo-lib/changes").glob("*.md"))


def test_lines_written_under_unreleased_are_part_of_the_first_release(repository) -> None:
    changelog = "packages/demo-lib/CHANGELOG.md"
    repository.write(changelog, "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- By hand.\n")
    (repository.root / "packages/demo-lib/changes/+first.added.md").unlink()
    repository.commit("Write by hand")
    repository.release("demo-lib", "2026-03-04")
    assert repository.read(changelog) == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-03-04\n\n### Added\n\n- By hand.\n"
    )


def test_a_later_release_stands_above_the_earlier_one(repository) -> None:
    repository.release("demo-lib")
    repository.write("packages/demo-lib/changes/+crash.fixed.md", "A crash.\n")
    repository.release("demo-lib", "2026-02-01")
    changelog = repository.read("packages/demo-lib/CHANGELOG.md")
    assert changelog.index("## [0.1.1] - 2026-02-01") < changelog.index("## [0.1.0] - 2026-01-01")
    assert 'version = "0.1.1"' in repository.read("packages/demo-lib/pyproject.toml")
    assert "<0.2" in repository.read("packages/demo-app/pyproject.toml")


def test_a_breaking_release_raises_the_range_of_what_depends_on_it(repository) -> None:
    repository.release("demo-lib")
    repository.release("demo-app")
    repository.write("packages/demo-lib/changes/+cut.breaking.md", "`trim` is `cut`.\n")
    repository.release("demo-lib")
    assert "- **Breaking:** `trim` is `cut`." in repository.read("packages/demo-lib/CHANGELOG.md")
    assert '"demo-lib>=0.2.0,<0.3"' in repository.read("packages/demo-app/pyproject.toml")
    told = repository.read("packages/demo-app/changes/+demo-lib.changed.md")
    assert "Needs demo-lib 0.2.0" in told
    assert "next: 0.1.1" in repository.run("release", "changed").stdout


def test_nothing_to_say_is_nothing_to_release(repository) -> None:
    repository.release("demo-lib")
    done = repository.run("release", "bump", "demo-lib")
    assert done.returncode == 1
    assert "no fragments" in done.stderr
