import pytest
from mlxlm_server.run import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_only_loopback_needs_no_warning(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
