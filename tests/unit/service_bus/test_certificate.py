"""A start always ends with a certificate that works, whatever an earlier one left behind."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from devstack import private_file
from devstack.service_bus.certificate import context_for

CERTIFICATE, KEY = "certificate.pem", "certificate-key.pem"


def made(folder: Path) -> tuple[bytes, bytes]:
    """Return the pair of certificate and key after a start."""
    _, certificate = context_for(folder)
    return certificate.read_bytes(), (folder / KEY).read_bytes()


def a_key(password: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


def test_a_pair_is_made_once_and_its_key_kept_private(tmp_path: Path) -> None:
    pair = made(tmp_path)
    assert made(tmp_path) == pair
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == [KEY, CERTIFICATE]


@pytest.mark.parametrize("name", [CERTIFICATE, KEY])
@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"-----BEGIN CERTIFICATE-----\n"])
def test_half_a_file_is_made_anew(tmp_path: Path, name: str, content: bytes) -> None:
    made(tmp_path)
    (tmp_path / name).write_bytes(content)
    pair = made(tmp_path)
    assert content not in pair
    assert made(tmp_path) == pair


@pytest.mark.parametrize("other", [a_key, lambda: a_key(b"password")])
def test_a_key_of_another_certificate_is_made_anew(
    tmp_path: Path, other: Callable[[], bytes]
) -> None:
    made(tmp_path)
    (tmp_path / KEY).write_bytes(other())
    pair = made(tmp_path)
    assert made(tmp_path) == pair


def test_a_private_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    private_file.write(path, b"before")

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            private_file.write(path, b"after")
    assert path.read_bytes() == b"before"
    private_file.write(path, b"after")
    assert path.read_bytes() == b"after"
