"""Whose certificates a source's TLS may show, for every kind of source."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

_SYSTEM_CAS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def tls_context(tls: str) -> ssl.SSLContext:
    """For 'require' and 'verify', when it is we who speak TLS."""
    if tls == "verify":
        return ssl.create_default_context(cafile=ca_file())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ca_file() -> str | None:
    """The authorities that tls 'verify' trusts: SSL_CERT_FILE, else the system's."""
    known = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile)
    for path in (*known, *_SYSTEM_CAS):
        if path and Path(path).is_file() and Path(path).stat().st_size:
            return path
    return None
