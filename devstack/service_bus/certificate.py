"""The self-signed certificate of the Atom API, made once per data folder."""

import logging
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devstack import private_file

_LOG = logging.getLogger(__name__)

_VALID = timedelta(days=825)
_NAMES = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
)


def context_for(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server's TLS context and the certificate that clients must trust."""
    certificate, key = folder / "certificate.pem", folder / "certificate-key.pem"
    if not _is_usable(certificate, key):
        if certificate.exists():
            _LOG.warning("%s: cannot be used any more; made a new one", certificate)
        _make(certificate, key)
    return _loaded(certificate, key), certificate


def _is_usable(path: Path, key_path: Path) -> bool:
    try:
        _loaded(path, key_path)
        expires = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (FileNotFoundError, ssl.SSLError, ValueError):
        return False
    return expires > datetime.now(UTC) + timedelta(days=1)


def _loaded(path: Path, key_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password OpenSSL would ask the terminal for that of a foreign key.
    context.load_cert_chain(path, key_path, password="")
    return context


def _make(path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _built(key)
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # A kill between the two leaves a pair that does not match, and is made anew.
    private_file.write(key_path, encoded)
    private_file.write(path, certificate.public_bytes(serialization.Encoding.PEM))


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
