"""The engine's tests run where nothing but MLX and the three engine packages is installed."""

from mlxlm_cache.device import preload_blas

preload_blas()
