import pytest

STORE = "packages/demo-lib/src/demo_lib/store.py"


@pytest.fixture
def released(repository):
    """Return the workspace with its contracts written and `demo-lib` released."""
    assert repository.run("api", "write").returncode == 0
    repository.commit("Write the contracts")
    repository.release("demo-lib")
    assert repository.run("api", "check").returncode == 0
    return repository


def test_the_contract_lists_what_type_checkers_see(released) -> None:
    assert released.read("packages/demo-lib/api.txt").splitlines()[2:] == [
        "[demo_lib]",
        "Store: class()",
        "Store.trim(count: int) -> int",
    ]


def test_a_renamed_method_fails_before_and_after_the_contract_is_rewritten(released) -> None:
    released.replace(STORE, "def trim", "def cut")
    done = released.run("api", "check")
    assert done.returncode == 1
    assert "- Store.trim(count: int) -> int" in done.stderr
    assert released.run("api", "write").returncode == 0
    done = released.run("api", "check")
    assert done.returncode == 1
    assert "demo-lib breaks 0.1.0" in done.stderr
    assert "trim" in done.stderr


def test_a_breaking_fragment_makes_room_for_a_rename(released) -> None:
    released.replace(STORE, "def trim", "def cut")
    released.write("packages/demo-lib/changes/+cut.breaking.md", "`trim` is `cut`.\n")
    assert released.run("api", "write").returncode == 0
    assert released.run("api", "check").returncode == 0


def test_a_new_required_parameter_breaks_and_an_optional_one_does_not(released) -> None:
    released.replace(STORE, "count: int)", "count: int, step: int = 1)")
    assert released.run("api", "write").returncode == 0
    assert released.run("api", "check").returncode == 0
    released.replace(STORE, "step: int = 1)", "step: int)")
    assert released.run("api", "write").returncode == 0
    assert "breaks 0.1.0" in released.run("api", "check").stderr


def test_an_addition_needs_the_contract_rewritten(released) -> None:
    released.write(STORE, released.read(STORE) + "\n    def size(self) -> int:\n        return 0\n")
    done = released.run("api", "check")
    assert done.returncode == 1
    assert "+ Store.size() -> int" in done.stderr
    assert released.run("api", "write").returncode == 0
    assert released.run("api", "check").returncode == 0


def test_a_name_that_is_listed_and_not_there_is_named(released) -> None:
    released.replace(
        "packages/demo-lib/src/demo_lib/__init__.py", "import Store", "import Store, Gone"
    )
    done = released.run("api", "check")
    assert done.returncode == 1
    assert "Gone" in done.stderr


def test_an_imported_name_hides_the_submodule_that_it_is_called_after(released) -> None:
    released.write("packages/demo-lib/src/demo_lib/store.py", "def store() -> int:\n    return 1\n")
    released.write(
        "packages/demo-lib/src/demo_lib/__init__.py",
        "from demo_lib.store import store\n\n__all__ = ['store']\n",
    )
    assert released.run("api", "write").returncode == 0
    assert "store() -> int" in released.read("packages/demo-lib/api.txt")
