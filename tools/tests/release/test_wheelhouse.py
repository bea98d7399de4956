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
