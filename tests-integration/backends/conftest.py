"""The same computations on whichever backend the session is for."""

import os

import pytest
from mlxlm_cache.device import preload_blas

preload_blas()


@pytest.fixture(scope="session")
def wanted() -> str:
    """Return the backend under test: cpu, cuda or metal."""
    return os.environ["MLXLM_BACKEND"]
