"""A fast BLAS in place of the reference one that MLX's Linux CPU wheel carries.

A float32 product is a hundred times faster with it. The dynamic loader binds MLX's
calls to `cblas_sgemm` and its kind when it loads MLX, so the library has to be there
before: see `preload_blas`.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from mlxlm_cache.device.alias import publish
from mlxlm_cache.device.backend import has_cpu_wheel
from mlxlm_cache.device.cores import usable_cores
from mlxlm_cache.device.one_row import with_one_row
from mlxlm_cache.device.threads import follow_free_cores

SWITCH = "MLXLM_BLAS"
"""Environment variable: `off`, or a library to use (a path, or a name the loader finds)."""

_WHEEL_PREFIX = "scipy_"
_SYSTEM = (
    ("OpenBLAS", ("libopenblas.so.0", "libopenblas.so")),
    ("MKL", ("libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so")),
    ("BLIS", ("libblis.so.4", "libblis.so")),
)
# What MLX calls: products, and the LAPACK drivers behind mx.linalg; and what serves one row.
_BLAS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm", "cblas_sgemv")
_LAPACK = tuple(
    f"{kind}{name}_"
    for name, kinds in {
        "geev": "sdcz",
        "geqrf": "sd",
        "gesdd": "sdcz",
        "getrf": "sd",
        "getri": "sd",
        "orgqr": "sd",
        "potrf": "sd",
        "syevd": "sd",
        "heevd": "cz",
        "trtri": "sd",
    }.items()
    for kind in kinds
)


@dataclass(frozen=True)
class Blas:
    """Which BLAS MLX's CPU products use.

    `library` is None where MLX's own is used. `reason` says why that is, or why a library
    that came first in line is not used; `notice` whether a user should be told.
    `threads` is the most it uses, 0 where unknown: one for each core that others leave
    free (see `threads`), unless OPENBLAS_NUM_THREADS or its kind says how many.
    """

    library: str | None
    path: str | None = None
    threads: int = 0
    reason: str = ""
    notice: bool = False

    def __str__(self) -> str:
        if self.library is None:
            return f"MLX's own BLAS ({self.reason})"
        instead = f"; {self.reason}" if self.reason else ""
        return f"{self.library}, {self.threads or 'unknown'} threads ({self.path}{instead})"


_loaded: Blas | None = None


def preload_blas() -> Blas:
    """Load a fast BLAS for MLX's CPU products; call it before MLX is imported.

    Does nothing where it would not help: on macOS, with a CUDA backend, with
    `MLXLM_BLAS=off`, or on a second call. Otherwise it takes the first it finds of the
    library that `MLXLM_BLAS` names, the `scipy-openblas32` wheel (the `cpu` extra
    installs it), and the system's OpenBLAS, MKL and BLIS. Never raises: the answer
    says what is used, and when it came too late.
    """
    global _loaded
    if _loaded is None:
        _loaded = _preload()
    return _loaded


def blas_status() -> Blas:
    """Return what `preload_blas` did, without loading anything."""
    return _loaded or Blas(None, reason="preload_blas() was not called", notice=has_cpu_wheel())


def _preload() -> Blas:
    wanted = os.environ.get(SWITCH, "")
    if sys.platform != "linux":
        return Blas(None, reason="not Linux")
    if wanted.lower() in {"off", "0", "none"}:
        return Blas(None, reason=f"{SWITCH}={wanted}")
    if not has_cpu_wheel():
        return Blas(None, reason="MLX is not the mlx-cpu wheel")
    if "mlx.core" in sys.modules:
        reason = "preload_blas() came after MLX was imported; call it first"
        return Blas(None, reason=reason, notice=True)
    failed: list[str] = []
    for name, path, prefix in _candidates(wanted):
        try:
            found = _load(name, path, prefix)
        except OSError as error:
            if name == SWITCH:
                failed.append(f"{SWITCH}={wanted} does not load: {error}")
            elif "/" in path:  # a library that is there and does not load is news
                failed.append(f"{name} does not load: {error}")
            continue
        return replace(found, reason="; ".join(failed), notice=bool(failed))
    missing = "no fast BLAS found: install the `cpu` extra, or the system's OpenBLAS"
    return Blas(None, reason="; ".join([missing, *failed]), notice=True)


def _candidates(wanted: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, path or soname, and symbol prefix, best first."""
    if wanted:
        yield SWITCH, str(Path(wanted).absolute()) if "/" in wanted else wanted, ""
    spec = find_spec("scipy_openblas32")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for file in sorted(Path(folder).glob("lib/libscipy_openblas*.so")):
            yield "OpenBLAS", str(file), _WHEEL_PREFIX
    for name, sonames in _SYSTEM:
        for soname in sonames:
            yield name, soname, ""


def _load(name: str, path: str, prefix: str) -> Blas:
    library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL if prefix else ctypes.RTLD_GLOBAL)
    if not hasattr(library, f"{prefix}cblas_sgemm"):
        raise OSError(f"{path}: no cblas_sgemm")
    if prefix:
        publish(with_one_row(_addresses(library, prefix)), soname="mlxlm-blas-names.so")
    return Blas(name, path, threads=_set_threads(library, prefix))


def _addresses(library: ctypes.CDLL, prefix: str) -> dict[str, int]:
    found = {}
    for name in (*_BLAS, *_LAPACK):
        function = getattr(library, prefix + name, None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


def _user_threads() -> bool:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    return any(os.environ.get(name) for name in names)


def _set_threads(library: ctypes.CDLL, prefix: str) -> int:
    """Use the cores that are free, unless the user's environment says how many."""
    setter = getattr(library, f"{prefix}openblas_set_num_threads", None)
    getter = getattr(library, f"{prefix}openblas_get_num_threads", None)
    if setter is None or getter is None:
        return 0
    if not _user_threads():
        setter(usable_cores())
        follow_free_cores(setter, usable_cores())
    return int(getter())
