"""Give functions of a loaded library other names, for libraries loaded later.

The OpenBLAS wheel prefixes its symbols (`scipy_cblas_sgemm`) so that it never takes
another library's place; here that is just what we want. A shared object whose only
content is absolute symbols, name and address, puts the plain names into the process's
global scope, where they come before the ones that MLX's own libraries bring. It holds
no code. (ELF gABI, chapters 4 and 5; glibc honours SHN_ABS since 2.28.)
"""

import ctypes
import os
import struct
from collections.abc import Mapping
from pathlib import Path

_EHDR, _PHDR, _SYM, _DYN = 64, 56, 24, 16
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ_WRITE = 6
_SHN_ABS = 0xFFF1
_GLOBAL_FUNCTION = 1 << 4 | 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 4, 5, 6, 10, 11, 14


def publish(addresses: Mapping[str, int], soname: str) -> None:
    """Make each name resolve to its address for every library loaded from now on.

    Raises OSError where the dynamic loader refuses.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("this Python has no os.memfd_create")
    image = elf_image(addresses, soname, machine=_machine())
    file = os.memfd_create(soname)
    try:
        with os.fdopen(file, "wb", closefd=False) as out:
            out.write(image)
        ctypes.CDLL(f"/proc/self/fd/{file}", mode=ctypes.RTLD_GLOBAL)
    finally:
        os.close(file)


def elf_image(addresses: Mapping[str, int], soname: str, machine: int) -> bytes:
    """Return a 64-bit little-endian shared object that defines only absolute symbols."""
    strings = b"\0" + soname.encode() + b"\0"
    symbols = bytes(_SYM)  # index 0 is undefined by definition
    for name, address in addresses.items():
        symbols += struct.pack("<IBBHQQ", len(strings), _GLOBAL_FUNCTION, 0, _SHN_ABS, address, 0)
        strings += name.encode() + b"\0"
    # One bucket: a chain through all the symbols is fast enough for a few dozen.
    count = len(addresses) + 1
    chain = [0, *range(2, count), 0][:count]
    table = struct.pack(f"<II I {count}I", 1, count, 1 if count > 1 else 0, *chain)
    strings += bytes(-len(strings) % 8)
    table += bytes(-len(table) % 8)

    at_symbols = _EHDR + 3 * _PHDR
    at_strings = at_symbols + len(symbols)
    at_hash = at_strings + len(strings)
    at_dynamic = at_hash + len(table)
    entries = [
        (_DT_HASH, at_hash),
        (_DT_SYMTAB, at_symbols),
        (_DT_STRTAB, at_strings),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYM),
        (_DT_SONAME, 1),
        (0, 0),
    ]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = at_dynamic + len(dynamic)

    def header(kind: int, at: int, length: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, _READ_WRITE, at, at, at, length, length, align)

    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, _EHDR, 0, 0, _EHDR, _PHDR, 3, 0, 0, 0
    )
    return (
        elf
        + header(_PT_LOAD, 0, size, 0x10000)
        + header(_PT_DYNAMIC, at_dynamic, len(dynamic), 8)
        + header(_PT_GNU_STACK, 0, 0, 16)  # without it glibc wants an executable stack
        + symbols
        + strings
        + table
        + dynamic
    )


def _machine() -> int:
    """Return this process's ELF machine number."""
    with Path("/proc/self/exe").open("rb") as file:
        head = file.read(20)
    return int(struct.unpack_from("<H", head, 18)[0])
