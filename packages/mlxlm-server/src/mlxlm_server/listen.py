"""Sockets and certificates, checked before anything takes time."""

import errno
import socket
import ssl
from pathlib import Path

_WHY = {
    errno.EADDRINUSE: "is in use: stop what listens there, or take another (--port)",
    errno.EACCES: "may not be used by this user: take one from 1024 up (--port)",
    errno.EADDRNOTAVAIL: "can't be had, as this machine has no such address (--host)",
}
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_BACKLOG = 2048


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of `host`; OSError says why there is none.

    Port 0 takes one that is free, the same on every address.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"the host {host!r} is not known (--host): {error}") from error
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, *_, address in dict.fromkeys(found):
        where = (address[0], port, *address[2:])
        try:
            sockets.append(socket.create_server(where, family=family, backlog=_BACKLOG))
        except OSError as error:
            failure = failure or error
            if error.errno not in _ABSENT:  # the name may stand for an IPv6 that isn't there
                break
            continue
        port = sockets[0].getsockname()[1]
    else:
        if sockets:
            return sockets
    for each in sockets:
        each.close()
    assert failure is not None  # getaddrinfo returns one address at least
    why = _WHY.get(failure.errno or 0, f"can't be listened on: {failure.strerror}")
    raise OSError(f"port {port} of {host or 'every address'} {why}") from failure


def shown(listening: socket.socket) -> str:
    """Return an address as it stands in a URL."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"


def check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Raise ValueError that names the file for what TLS can't be served with."""
    if certificate is None:
        if key is not None:
            raise ValueError(f"{key}: a private key (--ssl-keyfile) needs --ssl-certfile.")
        return
    for file in filter(None, (certificate, key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise ValueError(f"{file} can't be read: {error.strerror}.") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM").replace("_", " ").lower()
        names = certificate if key is None else f"{certificate} and {key}"
        raise ValueError(f"{names}: no certificate and key for TLS ({reason}).") from error


def _no_password() -> str:
    raise ValueError("The private key is encrypted: give one without a password.")
