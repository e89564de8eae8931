"""Settings of the log-ins that others decide: an LDAP directory, an OIDC provider.

Each comes as one value or None; whether the parts fit is checked in `config.checks`.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from catalog.access.group_rules import GroupRules, rules_from
from catalog.access.ldap_spec import LdapGroups, LdapServers, LdapSpec, LdapUsers
from catalog.access.oidc_spec import OidcSpec
from config.env import at_least, boolean, read


def _rules(prefix: str) -> GroupRules:
    """GROUP_MAP, ADMIN_GROUPS and ALLOWED_GROUPS of one provider."""
    admins = read(
        f"{prefix}_ADMIN_GROUPS",
        "comma-separated groups there whose members are administrators; empty = "
        "decided here",
    )
    allowed = read(
        f"{prefix}_ALLOWED_GROUPS",
        "comma-separated groups there whose members may log in; empty = all",
    )
    return read(
        f"{prefix}_GROUP_MAP",
        "comma-separated <group there>=<group here>; empty = same names",
        lambda text: rules_from(text, admins, allowed),
    )


def public_url() -> str:
    """Scheme and host as browsers see them, without a slash at the end."""

    def parse(text: str) -> str:
        parts = urlsplit(text)
        if text and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("expected https://host")
        if parts.path.strip("/") or parts.query:
            raise ValueError("no path: Sluice wants a host of its own")
        return text.rstrip("/")

    return read(
        "PUBLIC_URL",
        "https://host of the proxy that does TLS: cookies become secure",
        parse,
    )


def trusted_proxy() -> str:
    """The address of the reverse proxy that tells who asks; "" for none."""

    def parse(text: str) -> str:
        return str(ip_address(text)) if text else ""

    return read(
        "TRUSTED_PROXY",
        "address of the reverse proxy whose X-Forwarded-For names the client",
        parse,
    )


def oidc() -> OidcSpec | None:
    """None while no SLUICE_OIDC_ISSUER is set."""
    usual = OidcSpec(issuer="")
    spec = OidcSpec(
        issuer=read("OIDC_ISSUER", "identity provider for sign-ins: https://…"),
        client_id=read("OIDC_CLIENT_ID", "what Sluice is called there"),
        client_secret=read(
            "OIDC_CLIENT_SECRET",
            "its secret there; better as SLUICE_OIDC_CLIENT_SECRET_FILE",
            is_secret=True,
        ),
        label=read(
            "OIDC_LABEL", "words of the button: Sign in with …", default=usual.label
        ),
        scopes=read("OIDC_SCOPES", "what is asked for", default=usual.scopes),
        name_claim=read("OIDC_NAME_CLAIM", "a user's name", default=usual.name_claim),
        groups_claim=read(
            "OIDC_GROUPS_CLAIM", "their groups", default=usual.groups_claim
        ),
        rules=_rules("OIDC"),
        ca_file=read("OIDC_CA_FILE", "PEM file of who signed the provider's key"),
        allows_plaintext=read(
            "OIDC_ALLOW_PLAINTEXT",
            "allow http:// addresses of the provider: for tests only",
            boolean,
            default="false",
        ),
        session_seconds=read(
            "OIDC_SESSION_SECONDS",
            "after so long the provider is asked again who it is",
            at_least(60),
            default="28800",
        ),
    )
    return spec if spec.issuer else None


def ldap() -> LdapSpec | None:
    """None while no SLUICE_LDAP_URL is set."""
    spec = LdapSpec(
        servers=_ldap_servers(),
        users=_ldap_users(),
        groups=_ldap_groups(),
        recheck_seconds=read(
            "LDAP_RECHECK_SECONDS",
            "how often the directory is asked whether its users still exist",
            at_least(10),
            default="300",
        ),
    )
    return spec if spec.servers.urls else None


def _ldap_servers() -> LdapServers:
    urls = read(
        "LDAP_URL",
        "directory for log-ins: ldaps://host, several with blanks between",
        str.split,
    )
    return LdapServers(
        urls=tuple(urls),
        start_tls=read(
            "LDAP_START_TLS",
            "begin TLS on an ldap:// address before anything else",
            boolean,
            default="false",
        ),
        allows_plaintext=read(
            "LDAP_ALLOW_PLAINTEXT",
            "allow ldap:// without TLS: passwords travel readable",
            boolean,
            default="false",
        ),
        ca_file=read("LDAP_CA_FILE", "PEM file of who signed the directory's key"),
    )


def _ldap_users() -> LdapUsers:
    usual = LdapUsers()
    return LdapUsers(
        bind_dn=read("LDAP_BIND_DN", "account that searches for users"),
        bind_password=read(
            "LDAP_BIND_PASSWORD",
            "its password; better as SLUICE_LDAP_BIND_PASSWORD_FILE",
            is_secret=True,
        ),
        direct_dn=read(
            "LDAP_DIRECT_DN", "without such an account: uid={user},ou=people,dc=…"
        ),
        base=read("LDAP_USER_BASE", "where users are searched"),
        filter=read(
            "LDAP_USER_FILTER", "who {user} is and may log in", default=usual.filter
        ),
        name_attribute=read(
            "LDAP_NAME_ATTRIBUTE",
            "a user's name; sAMAccountName at Active Directory",
            default=usual.name_attribute,
        ),
        id_attribute=read(
            "LDAP_ID_ATTRIBUTE",
            "what never changes of an entry; objectGUID at Active Directory",
            default=usual.id_attribute,
        ),
    )


def _ldap_groups() -> LdapGroups:
    usual = LdapGroups()
    return LdapGroups(
        base=read("LDAP_GROUP_BASE", "where groups are searched; empty = no groups"),
        filter=read(
            "LDAP_GROUP_FILTER",
            "groups of the entry {dn} named {user}",
            default=usual.filter,
        ),
        attribute=read(
            "LDAP_GROUP_ATTRIBUTE", "a group's name", default=usual.attribute
        ),
        rules=_rules("LDAP"),
    )
