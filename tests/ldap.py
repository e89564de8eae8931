"""A real slapd on loopback: throw-away data, TLS from a certificate authority of its own.

It refuses passwords on connections without TLS, and takes an empty password for an
anonymous login, as careless servers do.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ldap3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_for

SUFFIX = "dc=sluice,dc=test"
PEOPLE, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
ROOT_DN, ROOT_PASSWORD = f"cn=root,{SUFFIX}", "root's password"
SEARCHER, SEARCHER_PASSWORD = f"cn=searcher,{SUFFIX}", "searcher's password"

_CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
allow bind_anon_cred bind_anon_dn
security simple_bind=128
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
attributetype ( 1.2.840.113556.1.4.96 NAME 'pwdLastSet'
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
database mdb
maxsize 10485760
suffix "{suffix}"
rootdn "{root}"
rootpw "{password}"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{searcher}" read by self read by * none
"""

_DATA = f"""
dn: {SUFFIX}
objectClass: organization
objectClass: dcObject
dc: sluice
o: Sluice

dn: {SEARCHER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: searcher
userPassword: {SEARCHER_PASSWORD}

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: {GROUPS}
objectClass: organizationalUnit
ou: groups

dn: ou=elsewhere,{PEOPLE}
objectClass: referral
objectClass: extensibleObject
ou: elsewhere
ref: ldap://127.0.0.1:1/ou=people,dc=elsewhere
"""


@dataclass(frozen=True)
class Slapd:
    """A running directory. `ca` signed its certificate for 127.0.0.1."""

    folder: Path
    plain_port: int
    tls_port: int

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    def add_person(self, uid: str, password: str, **attributes: Any) -> str:
        dn = f"uid={ldap3.utils.dn.escape_rdn(uid)},{PEOPLE}"
        values = {"sn": uid, "cn": uid, "userPassword": password, **attributes}
        self._do("add", dn, ["inetOrgPerson", "extensibleObject"], values)
        return dn

    def date_password(self, dn: str, mark: str) -> None:
        """Tell when the password was set, as Active Directory does: its attribute needs
        no wait for the next second, as that of OpenLDAP's own policy would."""
        change = {"pwdLastSet": [(ldap3.MODIFY_REPLACE, [mark])]}
        self._do("modify", dn, change)

    def put_group(self, name: str, *members: str) -> None:
        dn = f"cn={name},{GROUPS}"
        with contextlib.suppress(LookupError):
            self._do("delete", dn)
        if members:
            self._do("add", dn, ["groupOfNames"], {"member": list(members)})

    def rename(self, dn: str, uid: str) -> str:
        self._do("modify_dn", dn, f"uid={uid}")
        return f"uid={uid},{PEOPLE}"

    def remove(self, dn: str) -> None:
        self._do("delete", dn)

    def empty(self) -> None:
        """Back to the state of a fresh one."""
        with self._link() as link:
            for base in (PEOPLE, GROUPS):
                link.search(base, "(objectClass=*)", search_scope=ldap3.LEVEL)
                for item in link.response:
                    if item["type"] == "searchResEntry":
                        link.delete(item["dn"])

    @contextlib.contextmanager
    def _link(self) -> Iterator[ldap3.Connection]:
        tls = ldap3.Tls(ca_certs_file=self.ca)
        server = ldap3.Server(
            "127.0.0.1", self.tls_port, use_ssl=True, tls=tls, get_info=ldap3.NONE
        )
        link = ldap3.Connection(server, ROOT_DN, ROOT_PASSWORD, auto_bind=True)
        try:
            yield link
        finally:
            link.unbind()

    def _do(self, verb: str, *arguments: Any) -> None:
        with self._link() as link:
            if not getattr(link, verb)(*arguments):
                raise LookupError(f"{verb} {arguments[0]}: {link.result}")


@contextlib.contextmanager
def running_slapd(folder: Path) -> Iterator[Slapd]:
    """A Slapd with its data in `folder`, ended when the block ends."""
    slapd = shutil.which("slapd") or "/usr/sbin/slapd"
    make_certificates(folder)
    (folder / "data").mkdir()
    config, data = folder / "slapd.conf", folder / "data.ldif"
    config.write_text(
        _CONFIG.format(
            folder=folder,
            suffix=SUFFIX,
            root=ROOT_DN,
            password=ROOT_PASSWORD,
            searcher=SEARCHER,
        )
    )
    data.write_text(_DATA)
    add = [slapd, "-T", "add", "-f", str(config), "-l", str(data)]
    subprocess.run(add, check=True, capture_output=True)
    plain, tls = free_port(), free_port()
    urls = f"ldap://127.0.0.1:{plain}/ ldaps://127.0.0.1:{tls}/"
    process = subprocess.Popen(
        [slapd, "-d", "0", "-f", str(config), "-h", urls],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(process, tls)
        yield Slapd(folder, plain, tls)
    finally:
        process.terminate()
        process.wait(LIMIT_SECONDS)


def make_certificates(folder: Path) -> None:
    """ca.pem, other-ca.pem, and server.pem with server.key for 127.0.0.1 by the first."""
    ca_key, ca = _certificate("Sluice test CA", None)
    _, other = _certificate("Somebody else", None)
    key, server = _certificate("127.0.0.1", (ca_key, ca))
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "other-ca.pem").write_bytes(
        other.public_bytes(serialization.Encoding.PEM)
    )
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _certificate(name: str, issuer: Any) -> tuple[ec.EllipticCurvePrivateKey, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, by = (issuer[0], issuer[1].subject) if issuer else (key, subject)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(not issuer, None), critical=True)
    )
    if issuer:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([address])
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(signer, hashes.SHA256())


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"slapd ended with {process.returncode}")
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)),
        ):
            return True
        return False

    wait_for(answers, "slapd to answer")
