"""What is uploaded: sdist, wheel, SBOM, and the hash of each."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.wheelhouse import wheel, write_pins
from tools.workspace import folder, modules

# On macOS MLX comes without an extra; elsewhere the list has to name one backend.
EXTRA = "" if sys.platform == "darwin" else "[cpu]"


def build(package: str, out: Path) -> list[Path]:
    """Build and check one package into its own folder below `out`; return what it holds."""
    target = out.resolve() / package
    target.mkdir(parents=True)
    run("build", "--installer=uv", "--outdir", str(target), str(folder(package)))
    files = sorted(target.iterdir())
    run("twine", "check", "--strict", *map(str, files))
    built = next(file for file in files if file.suffix == ".whl")
    # W009 is about more than one top-level module, which is right where it is declared.
    declared = ["--ignore=W009"] if len(modules(folder(package))) > 1 else []
    run("check_wheel_contents", *declared, str(built))
    bill_of_materials(package, target / f"{built.stem}.cdx.json")
    files = sorted(target.iterdir())
    sums = "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)
    (target / "SHA256SUMS").write_text(sums)
    return [*files, target / "SHA256SUMS"]


def bill_of_materials(package: str, out: Path) -> None:
    """List what installing a package's wheel brings, as CycloneDX JSON."""
    with TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        subprocess.run(["uv", "venv", "--quiet", str(environment)], check=True)
        binaries = environment / ("Scripts" if os.name == "nt" else "bin")
        install = ["uv", "pip", "install", "--quiet", "--python", str(binaries / "python")]
        pins = ["--constraint", str(write_pins(Path(scratch)))]
        subprocess.run(
            [*install, *pins, f"{package}{EXTRA} @ {wheel(package).as_uri()}"], check=True
        )
        # Where a sibling's wheel lay on this machine is nobody's business.
        for origin in environment.rglob("*.dist-info/direct_url.json"):
            origin.unlink()
        options = ("--output-reproducible", "--of", "JSON", "--output-file", str(out))
        project = ("--pyproject", str(folder(package) / "pyproject.toml"))
        run("cyclonedx_py", "environment", *options, *project, str(binaries / "python"))


def run(module: str, *arguments: str) -> None:
    """Run one of this environment's tools, and stop where it complains."""
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)
