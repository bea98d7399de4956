"""Who is let in, by a server that has loaded no model yet."""

import json
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AuthenticationError, NotFoundError, OpenAI


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of this machine's, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        + ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"]
        + ["subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True,
        capture_output=True,
    )
    return files


def test_a_config_file_with_keys_tls_and_a_log_for_machines(
    start: Any, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    keys, config = tmp_path / "keys", tmp_path / "server.toml"
    keys.write_text("first-key\nsecond-key\n")
    config.write_text(
        f'api-key = ["file:{keys}", "env:A_KEY"]\nlog-format = "json"\nstrict = true\n'
        f'ssl-certfile = "{certificate[0]}"\nssl-keyfile = "{certificate[1]}"\n'
        'allowed-origins = ["https://app.example"]\nport = 1\n'
    )
    server = start("--config", str(config), A_KEY="third-key")
    assert server.url.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx.Client(base_url=server.url, verify=trusting) as http:
        assert http.get("/health").status_code == 200
        for key in ("first-key", "second-key", "third-key"):
            headers = {"Authorization": f"Bearer {key}"}
            assert http.get("/v1/models", headers=headers).status_code == 200
        for wrong in ({}, {"Authorization": "Bearer first-ke"}, {"x-api-key": "first-keys"}):
            assert http.get("/v1/models", headers=wrong).status_code == 401
        origin = {"Origin": "https://app.example"}
        allowed = http.get("/v1/models", headers=origin)  # a browser shows the page this 401
        assert allowed.status_code == 401
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert http.get("/health", headers={"Origin": "https://b.example"}).status_code == 403
    client = {"base_url": f"{server.url}/v1", "max_retries": 0}
    with httpx.Client(verify=trusting) as http:
        ask: Any = {"model": "no/such", "messages": [{"role": "user", "content": "Hello"}]}
        with pytest.raises(AuthenticationError):
            OpenAI(**client, api_key="wrong-key", http_client=http).chat.completions.create(**ask)
        with pytest.raises(NotFoundError) as caught:
            OpenAI(**client, api_key="third-key", http_client=http).chat.completions.create(**ask)
    assert caught.value.body == {
        "message": "The model 'no/such' can't be loaded.",
        "type": "not_found_error",
        "param": "model",
        "code": "model_not_found",
    }
    server.send()
    assert server.wait() == 0
    entries = [json.loads(line) for line in server.lines]
    assert {entry["status"] for entry in entries if "status" in entry} == {200, 401, 403, 404}
    assert "no/such" in "".join(server.said('"level": "error"'))
    for key in ("first-key", "second-key", "third-key", "wrong-key"):
        assert not server.said(key)


def test_on_loopback_without_a_key_requests_name_this_machine(start: Any) -> None:
    server = start()
    assert httpx.get(f"{server.url}/health").status_code == 200
    for host in ("localhost:1", "127.0.0.1"):
        assert httpx.get(f"{server.url}/health", headers={"Host": host}).status_code == 200
    refused = httpx.get(f"{server.url}/health", headers={"Host": "evil.example"})
    assert refused.json()["error"]["code"] == "host_not_allowed"
    assert not server.said("warning")
    for path in ("/nowhere", "/v1/../../etc/passwd", "/static/..%2f..%2fetc/passwd"):
        wrong = httpx.get(f"{server.url}{path}")
        assert wrong.status_code == 404
        assert "Traceback" not in wrong.text
        assert "/" not in wrong.json()["error"]["message"]


def test_an_open_address_without_a_key_warns(start: Any) -> None:
    server = start("--host", "0.0.0.0", "--allowed-hosts", "*")
    (warning,) = server.said("warning: ")
    assert "no API key is set" in warning
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    assert httpx.get(f"{url}/health", headers={"Host": "any.example"}).status_code == 200
