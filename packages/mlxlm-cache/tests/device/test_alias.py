import struct
import subprocess
import sys

import pytest
from mlxlm_cache.device.alias import elf_image
from mlxlm_cache.device.backend import has_cpu_wheel

linux = pytest.mark.skipif(sys.platform != "linux", reason="ELF is Linux's")


def test_the_image_is_a_shared_object_of_absolute_symbols() -> None:
    addresses = {"one": 0x1111, "another_name": 0x7FFF_0000_2222, "x": 3}
    image = elf_image(addresses, "names.so", machine=62)
    assert image[:7] == b"\x7fELF\x02\x01\x01"
    kind, machine = struct.unpack_from("<HH", image, 16)
    assert (kind, machine) == (3, 62)
    at, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", image, at + 56 * i) for i in range(count)]
    assert [h[0] for h in headers] == [1, 2, 0x6474E551]
    assert headers[0][5] == len(image)
    assert headers[0][1] & 1 == 0, "nothing in it is executable"

    start, size = headers[1][2], headers[1][5]
    dynamic = dict(struct.iter_unpack("<QQ", image[start : start + size]))
    strings = image[dynamic[5] : dynamic[5] + dynamic[10]]

    def name(offset: int) -> str:
        return strings[offset : strings.index(b"\0", offset)].decode()

    assert name(dynamic[14]) == "names.so"
    found, index = {}, struct.unpack_from("<I", image, dynamic[4] + 8)[0]
    chain = dynamic[4] + 12
    while index:  # as the loader walks the one bucket
        at_name, info, _, section, value, _ = struct.unpack_from(
            "<IBBHQQ", image, dynamic[6] + 24 * index
        )
        assert (info, section) == (0x12, 0xFFF1)
        found[name(at_name)] = value
        index = struct.unpack_from("<I", image, chain + 4 * index)[0]
    assert found == addresses


def test_an_image_without_symbols_is_whole() -> None:
    assert elf_image({}, "none.so", machine=183)[:4] == b"\x7fELF"


@linux
def test_published_names_resolve_in_the_process() -> None:
    code = """
import ctypes
from mlxlm_cache.device.alias import publish
double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: 2 * n)
publish({"mlxlm_test_double": ctypes.cast(double, ctypes.c_void_p).value}, "names.so")
print(ctypes.CDLL(None).mlxlm_test_double(21))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "42\n"


@linux
@pytest.mark.skipif(not has_cpu_wheel(), reason="only for MLX's Linux CPU wheel")
def test_mlx_calls_what_was_published_before_it() -> None:
    code = """
import ctypes
from mlxlm_cache.device.alias import publish
calls = []
sgemm = ctypes.CFUNCTYPE(None)(lambda: calls.append(1))
publish({"cblas_sgemm": ctypes.cast(sgemm, ctypes.c_void_p).value}, "names.so")
import mlx.core as mx
mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))
print(len(calls) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"
