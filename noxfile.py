"""Every check of the workspace; `nox -l` lists them, `nox` runs what CI runs.

Tests install wheels, never the source tree, so a dependency that a package forgot to
declare is missing from its environment.
"""

import shutil
from functools import cache
from pathlib import Path

import nox

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.tags = ["ci"]

ROOT = Path(__file__).parent
WHEELS = ROOT / ".nox" / "wheels"
PYTHONS = ["3.11", "3.12", "3.13"]
PACKAGES = [file.parent.name for file in sorted(ROOT.glob("packages/*/pyproject.toml"))]
# What the engine needs, and all that an app with its own model and tokenizer installs.
ENGINE = ["mlxlm-cache", "mlxlm-sample", "mlxlm-generate"]


@cache
def wheels() -> dict[str, Path]:
    """Build the wheel of each package, once per run."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    command = ["uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", str(WHEELS)]
    nox.command.run(command, external=True, silent=True)
    found = {file.name.split("-")[0].replace("_", "-"): file for file in WHEELS.glob("*.whl")}
    if sorted(found) != PACKAGES:
        raise RuntimeError(f"built {sorted(found)}, wanted {PACKAGES}")
    return found


def install(session: nox.Session, *packages: str, groups: tuple[str, ...] = ()) -> None:
    """Install packages from their wheels with what they declare, and test groups.

    The constraints keep an index's packages of the same names out of it.
    """
    pins = Path(session.create_tmp()) / "workspace.txt"
    pins.write_text("".join(f"{name} @ {file.as_uri()}\n" for name, file in wheels().items()))
    targets = [f"{name}[cpu] @ {wheels()[name].as_uri()}" for name in packages]
    session.install(*targets, *groups, "--constraint", str(pins))


def group(package: str) -> tuple[str, str]:
    """Return uv's options for a package's test group."""
    return "--group", f"packages/{package}/pyproject.toml:test"


def pytest(session: nox.Session, folder: Path) -> None:
    """Run tests from outside the tree, so that only what is installed is imported."""
    options = ["-q", "--import-mode=importlib", "-c", str(ROOT / "pyproject.toml")]
    session.chdir(session.create_tmp())
    session.run("pytest", *options, str(folder), *session.posargs)


@nox.session(python=PYTHONS[0], tags=["ci"])
def lint(session: nox.Session) -> None:
    """Check format, lint, package boundaries and declared dependencies."""
    session.run_install("uv", "sync", "--active", "--quiet", "--group", "lint", external=True)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache")
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("deptry", "src", "--known-first-party", package.replace("-", "_"))


@nox.session(python=PYTHONS[0], tags=["ci"])
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    groups = ("--group", "types", "--group", "test")
    session.run_install("uv", "sync", "--active", "--quiet", *groups, external=True)
    for package in PACKAGES:
        session.run("mypy", str(ROOT / "packages" / package / "src"))


@nox.session(python=PYTHONS, tags=["ci"])
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests(session: nox.Session, package: str) -> None:
    """Test one package's wheel with only what it declares."""
    install(session, package, groups=group(package))
    pytest(session, ROOT / "packages" / package / "tests")


@nox.session(python=PYTHONS[0], tags=["ci"])
def minimal(session: nox.Session) -> None:
    """Test the engine alone: no tokenizer library, no hub, nothing but MLX."""
    install(session, *ENGINE, groups=("pytest",))
    pytest(session, ROOT / "tests-integration" / "minimal")


@nox.session(python=PYTHONS[0], tags=["ci"])
def integration(session: nox.Session) -> None:
    """Test all packages together, from their wheels, with a real model."""
    install(session, *PACKAGES, groups=("--group", "test"))
    pytest(session, ROOT / "tests-integration" / "together")


@nox.session(python=PYTHONS[0], tags=["ci"])
def build(session: nox.Session) -> None:
    """Build every sdist and wheel with `build`, check them, and import each one alone."""
    session.install("build[uv]", "twine", "check-wheel-contents")
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    for package in PACKAGES:
        source = str(ROOT / "packages" / package)
        session.run("python", "-m", "build", "--installer=uv", "--outdir", str(out), source)
    files = sorted(map(str, out.iterdir()))
    session.run("twine", "check", "--strict", *files)
    # W009: mlxlm-cli has two top-level packages on purpose, its own and the facade.
    wheels = [file for file in files if file.endswith(".whl")]
    session.run("check-wheel-contents", "--ignore=W009", *wheels)


@nox.session(python=PYTHONS[0])
def oracle(session: nox.Session) -> None:
    """Compare with mlx-lm, installed in an environment of its own."""
    peer = Path(session.create_tmp()) / "peer"
    session.run_install("uv", "venv", "--quiet", "--clear", str(peer), external=True)
    python = str(peer / "bin" / "python")
    session.run_install(
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "mlx-lm==0.32.2",
        "mlx[cpu]",
        external=True,
    )
    install(session, *PACKAGES, groups=("--group", "test"))
    session.env["MLXLM_PEER"] = python
    pytest(session, ROOT / "tests-integration" / "oracle")
