import socket
from pathlib import Path

import pytest
from mlxlm_server.listen import check_certificate, listen, shown


def test_a_free_port_is_the_same_on_every_address() -> None:
    sockets = listen("localhost", 0)
    try:
        assert len({each.getsockname()[1] for each in sockets}) == 1
        host, port = shown(sockets[-1]).rsplit(":", 1)
        with socket.create_connection((host.strip("[]"), int(port)), 5):
            pass
    finally:
        for each in sockets:
            each.close()


def test_an_address_that_cannot_be_had_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use.*--port"):
            listen("127.0.0.1", port)
    with pytest.raises(OSError, match="no such address.*--host"):
        listen("203.0.113.1", 0)
    with pytest.raises(OSError, match="'no host' is not known"):
        listen("no host", 0)


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    with pytest.raises(ValueError, match="cert.pem can't be read"):
        check_certificate(file, None)
    file.write_text("no PEM")
    with pytest.raises(ValueError, match="cert.pem: no certificate"):
        check_certificate(file, None)
    with pytest.raises(ValueError, match="needs --ssl-certfile"):
        check_certificate(None, file)
    check_certificate(None, None)
