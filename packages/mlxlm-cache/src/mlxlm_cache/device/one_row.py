"""One row times a matrix, by the routine that is made for it.

MLX's CPU backend hands every product to `cblas_sgemm`, decoding one token included, and
OpenBLAS then copies the whole matrix into an order that suits many rows. Its `cblas_sgemv`
reads the matrix once, which takes 0.6 of the time. Nothing between the two asks how many
rows there are, so a few instructions of machine code do: they stand in for `cblas_sgemm`,
go on to it unless there is one row, and else rearrange the arguments for `cblas_sgemv`.
x86-64 alone: on ARM OpenBLAS does the same by itself. (System V ABI, AMD64, 3.2.3.)
"""

import ctypes
import mmap
import platform
import struct
from collections.abc import Mapping
from contextlib import suppress

# int 101: row-major; 111: as it is; 112: transposed (cblas.h).
# cblas_sgemm(order edi, trans_a esi, trans_b edx, m ecx, n r8d, k r9d, alpha xmm0,
#             a [rsp+8], lda [rsp+16], b [rsp+24], ldb [rsp+32], beta xmm1, c [rsp+40], ldc)
# cblas_sgemv(order edi, trans esi, m edx, n ecx, alpha xmm0, a r8, lda r9d,
#             x [rsp+8], incx [rsp+16], beta xmm1, y [rsp+24], incy [rsp+32])
_CODE = (
    "f3 0f 1e fa",  #              endbr64
    "83 f9 01",  #                 cmp ecx, 1            one row?
    "75 5f",  #                    jne gemm
    "83 ff 65",  #                 cmp edi, 101
    "75 5a",  #                    jne gemm
    "83 fe 6f",  #                 cmp esi, 111          the row lies as one
    "75 55",  #                    jne gemm
    "83 fa 70",  #                 cmp edx, 112
    "75 0d",  #                    jne as_it_is
    "44 89 c2",  #                 mov edx, r8d          b is n x k: y = b x
    "44 89 c9",  #                 mov ecx, r9d
    "be 6f 00 00 00",  #           mov esi, 111
    "eb 10",  #                    jmp gemv
    "83 fa 6f",  #        as_it_is: cmp edx, 111
    "75 3e",  #                    jne gemm
    "44 89 ca",  #                 mov edx, r9d          b is k x n: y = b' x
    "44 89 c1",  #                 mov ecx, r8d
    "be 70 00 00 00",  #           mov esi, 112
    "4c 8b 44 24 18",  #     gemv: mov r8, [rsp+24]      b
    "44 8b 4c 24 20",  #           mov r9d, [rsp+32]     ldb
    "48 8b 44 24 28",  #           mov rax, [rsp+40]     c; a is where x belongs
    "48 89 44 24 18",  #           mov [rsp+24], rax
    "48 c7 44 24 10 01 00 00 00",  # mov qword [rsp+16], 1
    "48 c7 44 24 20 01 00 00 00",  # mov qword [rsp+32], 1
    "49 bb {gemv}",  #             mov r11, cblas_sgemv
    "41 ff e3",  #                 jmp r11
    "49 bb {gemm}",  #       gemm: mov r11, cblas_sgemm
    "41 ff e3",  #                 jmp r11
)

_kept: list[mmap.mmap] = []  # for as long as the process runs


def machine_code(gemm: int, gemv: int) -> bytes:
    """Return the instructions that choose between the functions at two addresses."""
    text = " ".join(_CODE)
    return bytes.fromhex(
        text.format(gemm=struct.pack("<Q", gemm).hex(), gemv=struct.pack("<Q", gemv).hex())
    )


def with_one_row(addresses: Mapping[str, int]) -> dict[str, int]:
    """Return the addresses with one for `cblas_sgemm` that knows of `cblas_sgemv`.

    As they are where that can't be: elsewhere than on x86-64, or where a process may not
    make code.
    """
    found = dict(addresses)
    gemm, gemv = (found.get(f"cblas_{name}", 0) for name in ("sgemm", "sgemv"))
    if platform.machine() == "x86_64" and gemm and gemv:
        with suppress(OSError):
            found["cblas_sgemm"] = _executable(machine_code(gemm, gemv))
    return found


def _executable(code: bytes) -> int:
    """Return the address of a copy of `code` that can be run and no longer written."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(
        ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC
    ):
        raise OSError(ctypes.get_errno(), "mprotect")
    _kept.append(page)
    return address
