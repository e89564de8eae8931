"""The one settings file. Values come from `SLUICE_*`; see `manage.py settings`.

No module of the repository imports it: packages read `django.conf.settings`.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.contrib.messages import constants
from django.core.exceptions import ImproperlyConfigured

from config.cluster import spark_master, web_door
from config.env import at_least, boolean, heap, one_of, read, words
from config.lakes import lake_lock, lake_uri, object_store
from config.logins import ldap, oidc, public_url, trusted_proxy
from config.toolchain.paths import extras_of, spark_classpath
from core.addresses import is_loopback, reached_at
from ingest.alerts.smtp_spec import parse_smtp

BASE_DIR = Path(__file__).resolve().parent.parent

SLUICE_HOME = read(
    "HOME",
    "directory of state, keys, logs and the embedded servers",
    lambda text: Path(text).absolute(),
    default=str(BASE_DIR / ".sluice"),
)
_keys = SLUICE_HOME / "keys"


def _key_default(name: str) -> str | None:
    path = _keys / name
    return path.read_text().strip() if path.is_file() else None


DEBUG = read("DEBUG", "Django's DEBUG", boolean, default="false")
SECRET_KEY = read(
    "SECRET_KEY",
    "signs sessions and CSRF tokens",
    default=_key_default("django"),
    is_secret=True,
)
SECRET_KEY_FALLBACKS = read(
    "SECRET_KEY_FALLBACKS",
    "comma-separated former secret keys, still accepted",
    words,
    is_secret=True,
)
SLUICE_SECRETS_KEYS = read(
    "SECRETS_KEYS",
    "comma-separated Fernet keys of stored secrets, newest first",
    words,
    default=_key_default("secrets"),
    is_secret=True,
)
SLUICE_SERVICE_SECRET = read(
    "SERVICE_SECRET",
    "authenticates the web process to the gateway's internal API",
    default=_key_default("service"),
    is_secret=True,
)
ALLOWED_HOSTS = read(
    "ALLOWED_HOSTS",
    "host names the web server answers to",
    words,
    default="127.0.0.1,localhost",
)


def _database(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError("the metadata database is PostgreSQL: postgresql://…")
    return {
        "ENGINE": "core.postgresql",
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or 5432),
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            "options": "-c statement_timeout=60000 -c lock_timeout=10000"
            # one that idles keeps its locks, and vacuum from old rows
            " -c idle_in_transaction_session_timeout=600000",
        },
    }


DATABASES = {
    "default": read(
        "DATABASE_URL",
        "metadata database, postgresql://user:password@host:port/name",
        _database,
        default=_key_default("database_url")
        or "postgresql://sluice:sluice@127.0.0.1:5432/sluice",
        is_secret=True,
    )
}
SLUICE_REDIS_URL = read(
    "REDIS_URL",
    "broker: redis://… or redis+socket:///path",
    default=_key_default("redis_url") or "redis://127.0.0.1:6379/0",
    is_secret=True,
)
SLUICE_LAKE_URI = lake_uri(SLUICE_HOME)
SLUICE_OBJECT_STORE = object_store()
SLUICE_LAKE_LOCK = lake_lock()
SLUICE_SPARK_MASTER = read(
    "SPARK_MASTER",
    "Spark master of drivers: local[N] or spark://host:port",
    spark_master,
    default="local[2]",
)
SLUICE_SPARK_MASTER_UI = read(
    "SPARK_MASTER_UI",
    "web address of a standalone master; default is port 8080 of its host",
    default=web_door(SLUICE_SPARK_MASTER),
)
SLUICE_SPARK_SECRET = read(
    "SPARK_SECRET",
    "what drivers and executors of a cluster know each other by; encrypts too",
    is_secret=True,
)
SLUICE_DRIVER_HOST = read(
    "DRIVER_HOST",
    "address under which executors of a cluster reach drivers",
    default="127.0.0.1",
)
SLUICE_EXECUTOR_MEMORY = read("EXECUTOR_MEMORY", "heap of an executor", default="1g")
SLUICE_EXECUTOR_CORES = read(
    "EXECUTOR_CORES",
    "most cores of the cluster that one driver takes",
    at_least(1),
    default="2",
)
SLUICE_SPARK_JARS = read(
    "SPARK_JARS",
    "class path of drivers and engines beyond Spark's own jars",
    default=spark_classpath(*extras_of(SLUICE_LAKE_URI)),
)
SLUICE_DRIVER_MEMORY = read("DRIVER_MEMORY", "heap of the warm driver", default="1200m")
SLUICE_OWN_DRIVER_MEMORY = read(
    "OWN_DRIVER_MEMORY",
    "most memory that a compaction with a driver of its own may ask for",
    heap,
    default="4g",
)
SLUICE_OWN_DRIVER_CORES = read(
    "OWN_DRIVER_CORES",
    "most cores that a compaction with a driver of its own may ask for",
    at_least(1),
    default="4",
)
SLUICE_ENGINE_MEMORY = read("ENGINE_MEMORY", "heap of a query engine", default="900m")
SLUICE_STATEMENT_SECONDS = read(
    "STATEMENT_SECONDS",
    "longest SQL statement, to its last row; tables keep old files as long",
    float,
    default="1800",
)
SLUICE_DISCOVER_SECONDS = read(
    "DISCOVER_SECONDS",
    "how often sources with synced tables are discovered again; 0 = never",
    float,
    default="3600",
)
SLUICE_STALLED_SECONDS = read(
    "STALLED_SECONDS",
    "a job of which nothing comes for so long is an alert; 0 = never",
    float,
    default="300",
)
SLUICE_BIND = read("BIND", "address of all listeners", default="127.0.0.1")
SLUICE_WEB_PORT = read("WEB_PORT", "web port", int, default="8000")
SLUICE_GATEWAY_PORT = read("GATEWAY_PORT", "HiveServer2 port", int, default="10000")
SLUICE_GATEWAY_HTTP_PORT = read(
    "GATEWAY_HTTP_PORT", "HiveServer2 port over HTTP, /cliservice", int, default="10001"
)
SLUICE_GATEWAY_INTERNAL = read(
    "GATEWAY_INTERNAL",
    "file in which the gateway says where its internal API listens",
    default=str(SLUICE_HOME / "run" / "gateway-internal.json"),
)
SLUICE_TLS_CERTIFICATE = read("TLS_CERTIFICATE", "PEM certificate of the gateway")
SLUICE_TLS_KEY = read("TLS_KEY", "PEM key file of the gateway")
SLUICE_ALLOW_PLAINTEXT = read(
    "ALLOW_PLAINTEXT",
    "allow listening beyond loopback without TLS",
    boolean,
    default="false",
)
SLUICE_LEASE_SECONDS = read(
    "LEASE_SECONDS", "length of a table lease", float, default="30"
)
SLUICE_SOURCE_NETWORKS_DENIED = read(
    "SOURCE_NETWORKS_DENIED",
    "networks that a datasource may not point to",
    words,
    default="169.254.0.0/16,fe80::/10,0.0.0.0/8,::/128,"
    # where clouds keep the credentials of a machine
    "fd00:ec2::254/128,100.100.100.200/32",
)

if not is_loopback(SLUICE_BIND) and not (
    SLUICE_TLS_CERTIFICATE or SLUICE_ALLOW_PLAINTEXT
):
    raise ImproperlyConfigured(
        f"SLUICE_BIND={SLUICE_BIND} would offer passwords in plain text: set "
        "SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY, or SLUICE_ALLOW_PLAINTEXT=true "
        "behind a proxy that does TLS"
    )

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "core",
    "catalog.apps.CatalogConfig",
    "ingest.apps.IngestConfig",
    "gateway.apps.GatewayConfig",
    "frontend.apps.FrontendConfig",
    "config.apps.ConfigConfig",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "frontend.middleware.PageHeadersMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "catalog.api.middleware.RequestContextMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "frontend.middleware.SessionsMiddleware",
]
SESSION_MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "frontend.localisation.LocalisationMiddleware",
]
# CSRF is among those: the check looks at MIDDLEWARE alone
SILENCED_SYSTEM_CHECKS = ["security.W003"]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
SLUICE_LDAP = ldap()
SLUICE_OIDC = oidc()
SLUICE_IDLE_DAYS = read(
    "IDLE_DAYS",
    "who must be asked for at sign-in only is suspended after so many days "
    "without one; 0 = never",
    at_least(0),
    default="30",
)
SLUICE_AUDIT_DAYS = read(
    "AUDIT_DAYS",
    "lines of the audit are deleted after so many days; 0 = never",
    at_least(0),
    default="0",
)
SLUICE_TOKEN_DAYS = read(
    "TOKEN_DAYS",
    "the longest life of a token in days, of those there are, too; 0 = any",
    at_least(0),
    default="0",
)
SLUICE_PUBLIC_URL = public_url()
SLUICE_TRUSTED_PROXY = trusted_proxy()


def _mailbox(text: str) -> str:
    if "@" not in text or not text.isprintable() or "<" in text:
        raise ValueError("expected a plain address: sluice@example.com")
    return text


SLUICE_SMTP = read(
    "SMTP_URL",
    "mail server of alerts: smtp://user:password@host:587 (STARTTLS), "
    "smtps://…, smtp://host:25?tls=off",
    parse_smtp,
    is_secret=True,
)
SLUICE_SMTP_FROM = read(
    "SMTP_FROM", "sender of alerts", _mailbox, default="sluice@localhost"
)
SLUICE_ALERT_NETWORKS_ALLOWED = read(
    "ALERT_NETWORKS_ALLOWED",
    "private networks that webhooks of alerts may point to, as 10.0.0.0/8",
    lambda text: [str(ip_network(word)) for word in words(text)],
)
# by these the machine's own looks name it: quickstart's, a container's health check
ALLOWED_HOSTS += ["127.0.0.1", reached_at(SLUICE_BIND)]
if SLUICE_PUBLIC_URL:
    ALLOWED_HOSTS.append(urlsplit(SLUICE_PUBLIC_URL).hostname or "")
CSRF_TRUSTED_ORIGINS = [SLUICE_PUBLIC_URL] if SLUICE_PUBLIC_URL else []
# of a body; Django refuses more of one that REST still takes
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 2**20
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SLUICE_PUBLIC_URL.startswith("https:")
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_CODE = read(
    "LANGUAGE",
    "language of messages, and of pages where neither the user nor the browser"
    " says one: en or zh-hans",
    one_of(*(code for code, _ in LANGUAGES)),
    default="en",
)
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = SLUICE_HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "frontend.static_files.HashedFiles"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_AUTOREFRESH = DEBUG
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = ["catalog.access.password_hash.PasswordHash"]
AUTHENTICATION_BACKENDS = ["catalog.access.backend.SluiceBackend"]
# the looks of their callouts
MESSAGE_TAGS = {constants.SUCCESS: "ok", constants.ERROR: "bad"}
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "catalog.api.authentication.BearerTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "catalog.api.openapi.SluiceSchema",
    "EXCEPTION_HANDLER": "catalog.api.problems.problem_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Sluice",
    "DESCRIPTION": "Operational databases in the lakehouse.",
    "VERSION": "1.0.0",
    "SERVE_INCLUDE_SCHEMA": False,
    # 3.0 cannot say of what has members that it may be null
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "catalog.api.openapi.let_anything_be_null",
    ],
}

SLUICE_LOG_LEVEL = read(
    "LOG_LEVEL", "least level that is logged", str.upper, default="INFO"
)
CELERY_BROKER_URL = SLUICE_REDIS_URL
LOGGING_CONFIG = None  # config.logs sets JSON logging up at start
