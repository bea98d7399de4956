"""What a wheel installed alone has to do; runs in its environment, with nothing but it.

python alone.py DISTRIBUTION VERSION README.md MODULE...
"""

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path


def main(name: str, stated: str, readme: str, *modules: str) -> None:
    for module in modules:
        import_module(module)
    print("imports", *modules)
    early = {"mlx", "numpy", "transformers"} & {key.partition(".")[0] for key in sys.modules}
    if early:
        raise SystemExit(f"importing {name} imports {', '.join(early)}")
    installed = distribution(name)
    if installed.version != stated:
        raise SystemExit(f"installed {installed.version}, built {stated}")
    print("version", stated)
    for entry in installed.entry_points:
        entry.load()
        print("entry point", entry.group, entry.name)
        if entry.group == "console_scripts":
            script = Path(sys.executable).parent / entry.name
            subprocess.run([script, "--help"], check=True, stdout=subprocess.DEVNULL)
    examples = re.findall(r"^```python\n(.*?)^```", Path(readme).read_text(), re.S | re.M)
    if examples:
        # One after the other in one process: an example may build on the one before it.
        subprocess.run([sys.executable, "-c", "\n".join(examples)], check=True)
    print(len(examples), "examples")


if __name__ == "__main__":
    main(*sys.argv[1:])
