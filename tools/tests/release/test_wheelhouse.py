from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

BUILD = (
    "from tools.release.history import releases; from tools.release.wheelhouse import wheel;"
    "print(wheel('demo-lib', releases('demo-lib')[0])); print(wheel('demo-lib'))"
)


def test_an_old_release_is_rebuilt_as_it_was(repository) -> None:
    repository.release("demo-lib")
    repository.replace("packages/demo-lib/src/demo_lib/store.py", "def trim", "def cut")
    old, new = repository.python(BUILD).splitlines()
    assert b"def trim" in ZipFile(old).read("demo_lib/store.py")
    assert b"def cut" in ZipFile(new).read("demo_lib/store.py")


def test_a_wheel_is_built_again_only_when_its_sources_change(repository) -> None:
    repository.release("demo-lib")
    first, _ = repository.python(BUILD).splitlines()
    made = Path(first).stat().st_mtime_ns
    repository.write("packages/demo-lib/src/demo_lib/more.py", "X = 1\n")
    old, new = repository.python(BUILD).splitlines()
    assert (old, Path(old).stat().st_mtime_ns) == (first, made)
    assert "demo_lib/more.py" in ZipFile(new).namelist()
    (repository.root / "packages/demo-lib/src/demo_lib/more.py").unlink()
    assert repository.python(BUILD).splitlines()[1] == first


def test_processes_that_want_the_same_wheel_at_once_all_get_it(repository) -> None:
    code = "from tools.release.wheelhouse import wheel; print(wheel('demo-lib'))"
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: repository.python(code), range(4)))
    assert len(set(found)) == 1
    assert ZipFile(found[0]).testzip() is None
