"""Certificates of a server: what is refused, what is exchanged, what is said of them."""

import datetime as dt
import logging
import os
import ssl

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from headrace.errors import InvalidArgumentError
from headrace.runtime.clock import SystemClock
from headrace.security.certificates import ServerCertificates
from headrace.security.tls_config import TlsConfig
from tests.certificates import EXPIRED, CertificateFiles, put


@pytest.fixture
def files(tmp_path):
    return CertificateFiles(tmp_path)


def config_of(files, **others):
    return TlsConfig(cert=str(files.cert), key=str(files.key), **others)


def load(files, **others):
    return ServerCertificates(config_of(files, **others), SystemClock())


def look_twice(certificates):
    certificates.look()
    certificates.look()


def test_settings_that_belong_together():
    TlsConfig().check()
    TlsConfig(cert="c", key="k").check()
    TlsConfig(cert="c", key="k", authority="a", client_certs="optional").check()
    for broken in (
        TlsConfig(cert="c"),
        TlsConfig(key="k"),
        TlsConfig(client_certs="required"),
        TlsConfig(cert="c", key="k", client_certs="optional"),
        TlsConfig(cert="c", key="k", authority="a"),
    ):
        with pytest.raises(InvalidArgumentError, match=r"tls\."):
            broken.check()


def test_what_is_in_use_is_said_and_the_key_is_not(files, caplog):
    with caplog.at_level(logging.INFO):
        certificates = load(files)
    assert "for localhost, 127.0.0.1, not after 3000-01-01T00:00:00Z, SHA-256 " in caplog.text
    for line in files.key.read_text().splitlines():
        assert line not in caplog.text + repr(certificates.current) + repr(vars(certificates))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cert", None, "tls.cert = .*no such file"),
        ("key", None, "tls.key = .*no such file"),
        ("cert", b"hello", "tls.cert = .* holds no certificate in PEM form"),
        ("key", b"hello", "tls.key = .* holds no private key in PEM form"),
        ("cert", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "tls.cert = "),
        ("key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "tls.key = "),
        ("key", b"x" * (1 << 20) + b"x", "tls.key = .* larger"),
        ("cert", b"\xef\xbb\xbf-----BEGIN CERTIFICATE-----\n", "tls.cert = .* begins with a byte order mark"),
        ("key", b"\xef\xbb\xbf-----BEGIN PRIVATE KEY-----\n", "tls.key = .* byte order mark: save it as"),
        ("ca", "-----BEGIN CERTIFICATE-----".encode("utf-16"), "tls.authority = .* byte order mark"),
        ("ca", b"hello", "tls.authority = .* holds no certificate in PEM form"),
        ("ca", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "tls.authority = "),
        ("ca", None, "tls.authority = .*no such file"),
    ],
)
def test_files_that_are_not_what_they_should_be(files, name, content, message):
    path = getattr(files, name)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=message):
        load(files, authority=str(files.ca), client_certs="required")


def test_a_key_of_another_certificate(files, tmp_path):
    other = CertificateFiles(tmp_path / "other")
    put(files.key, other.key.read_bytes())
    with pytest.raises(InvalidArgumentError, match="do not belong together"):
        load(files)


def test_an_encrypted_key(files):
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        put(files.key, key.private_bytes(serialization.Encoding.PEM, form, secret))
        with pytest.raises(InvalidArgumentError, match=r"tls.key = .* is encrypted: store it without"):
            load(files)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (EXPIRED, "expired at 2001-02-03T00:00:00Z"),
        ({"not_before": dt.datetime(2990, 1, 1, tzinfo=dt.UTC)}, "not valid before 2990-01-01"),
    ],
)
def test_a_certificate_at_the_wrong_time_is_used_with_a_warning(tmp_path, caplog, options, message):
    load(CertificateFiles(tmp_path, **options))
    assert message in caplog.text


def test_a_certificate_for_clients_only_is_refused_with_the_reason(files, tmp_path):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "only a client")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    put(files.cert, made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    put(files.key, key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    with pytest.raises(InvalidArgumentError, match=r"cannot be shown to clients: .*purpose"):
        load(files)


def test_only_recent_versions(files):
    context = load(files).context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("client_certs", "mode"), [("optional", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)]
)
def test_certificates_of_clients(files, client_certs, mode):
    loaded = load(files, authority=str(files.ca), client_certs=client_certs)
    assert loaded.context().verify_mode is mode
    assert len(loaded.context().get_ca_certs()) == 1


def test_changed_files_are_taken_once_they_rest(files, caplog):
    caplog.set_level(logging.INFO)
    certificates = load(files)
    before = certificates.current
    look_twice(certificates)
    assert certificates.current is before
    files.exchange()
    certificates.look()
    assert certificates.current is before, "it may change further"
    files.exchange()
    certificates.look()
    assert certificates.current is before
    certificates.look()
    assert certificates.current is not before
    assert certificates.context() is not before.context
    assert certificates.current.chain == files.cert.read_bytes()
    assert caplog.text.count("new connections are encrypted with") == 2


def test_a_changed_authority_is_taken_too(files, tmp_path):
    certificates = load(files, authority=str(files.ca), client_certs="required")
    (before,) = certificates.context().get_ca_certs()
    put(files.ca, trustme.CA().cert_pem.bytes())
    look_twice(certificates)
    (after,) = certificates.context().get_ca_certs()
    assert before["serialNumber"] != after["serialNumber"]


@pytest.mark.parametrize("what", ["half a certificate", "another key", "no key"])
def test_changes_that_do_not_fit_leave_all_as_it_is_and_are_said_once(files, tmp_path, caplog, what):
    certificates = load(files)
    before = certificates.current
    if what == "half a certificate":
        put(files.cert, files.cert.read_bytes()[:300])
    elif what == "another key":
        put(files.key, CertificateFiles(tmp_path / "other").key.read_bytes())
    else:
        files.key.unlink()
    for _ in range(4):
        certificates.look()
    assert certificates.current is before
    assert caplog.text.count("changed certificates are not used, those before them are") == 1
    files.exchange()
    look_twice(certificates)
    assert certificates.current.chain == files.cert.read_bytes()


def test_the_same_content_written_in_place_is_no_trouble(files):
    certificates = load(files)
    content = files.cert.read_bytes()
    files.cert.write_bytes(content)
    os.utime(files.cert, ns=(1, 1))
    look_twice(certificates)
    assert certificates.current.chain == content
