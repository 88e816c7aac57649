"""The self-signed certificate of the Atom API, made once per data folder."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=825)
_NAMES = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
)


def context_for(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server's TLS context and the certificate that clients must trust."""
    certificate, key = folder / "certificate.pem", folder / "certificate-key.pem"
    if not (key.exists() and _is_valid(certificate)):
        _make(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def _is_valid(path: Path) -> bool:
    if not path.exists():
        return False
    expires = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    return expires > datetime.now(UTC) + timedelta(days=1)


def _make(path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _built(key)
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key_path.unlink(missing_ok=True)
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(encoded)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _built(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gleichlauf Service Bus emulator")])
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        # Its own authority, so that clients can trust just this file, also under strict checks.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(_NAMES, critical=False)
        .sign(key, hashes.SHA256())
    )


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
