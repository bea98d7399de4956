import mlx.core as mx
from mlxlm_cache.device import backend
from mlxlm_cache.device.backend import has_cpu_wheel


def test_the_backend_is_where_a_product_runs() -> None:
    device = mx.default_device()
    assert (backend() == "cpu") == (device.type == mx.DeviceType.cpu)
    try:
        mx.set_default_device(mx.Device(mx.DeviceType.cpu))
        assert backend() == "cpu"
    finally:
        mx.set_default_device(device)
    if has_cpu_wheel():
        assert backend() == "cpu"
