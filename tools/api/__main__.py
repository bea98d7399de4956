"""`python -m tools.api check` compares each package with its contract; `write` rewrites them."""

import sys

from tools.api.contract import check, contract_file, render
from tools.workspace import folder, packages


def main() -> None:
    match sys.argv[1:]:
        case ["check"]:
            wrong = check()
            if wrong:
                raise SystemExit("\n\n".join(wrong))
            print(f"{len(packages())} API contracts hold")
        case ["write"]:
            for package in packages():
                contract_file(folder(package)).write_text(render(folder(package)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
