"""Converts Spark's Hadoop settings for `s3a://` and `abfss://` to the arguments of pyarrow's file systems.

This module opens nothing, and does not read the environment.  If a setting changes what is read and pyarrow does not
support it, the setting is refused.  A log is therefore never read differently than Spark would read it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from offsetlog.errors import ConfigError

#: The prefixes of all settings that may be used.
PREFIXES = ("fs.s3a.", "fs.azure.")

_S3_NAMES = frozenset({
    "access.key", "assumed.role.arn", "assumed.role.externalid", "assumed.role.session.name",
    "aws.credentials.provider", "connection.ssl.enabled", "encryption.algorithm", "endpoint", "endpoint.region",
    "path.style.access", "proxy.host", "proxy.password", "proxy.port", "proxy.ssl.enabled", "proxy.username",
    "secret.key", "server-side-encryption-algorithm", "session.token",
})  # fmt: skip
_AZURE_NAMES = (
    "fs.azure.abfs.endpoint", "fs.azure.account.auth.type", "fs.azure.account.key", "fs.azure.account.oauth",
    "fs.azure.sas.",
)  # fmt: skip

#: The class names of credential providers.  They are grouped by the way in which pyarrow gets the same credentials.
_KEYS = frozenset({"SimpleAWSCredentialsProvider", "BasicAWSCredentialsProvider"})
_KEYS_OF_A_SESSION = frozenset({"TemporaryAWSCredentialsProvider"})
_NO_KEYS = frozenset({"AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"})
_ROLE = frozenset({"AssumedRoleCredentialProvider"})
_OF_THE_MACHINE = frozenset({
    "ContainerCredentialsProvider", "DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper", "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider", "InstanceProfileCredentialsProvider",
    "ProfileCredentialsProvider", "ProfileAWSCredentialsProvider",
    "WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider",
})  # fmt: skip
_PROVIDERS = _KEYS | _KEYS_OF_A_SESSION | _NO_KEYS | _ROLE | _OF_THE_MACHINE

_AWS_HOST = re.compile(r"(?:https?://)?s3(?:[.-](?:dualstack\.)?([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?/?")
_ABFS = re.compile(r"abfss?://[^/@:]+@[^/@]+(?:/|$)")


class HadoopSettings(dict[str, str]):
    """Hadoop's settings, by lower-case name.  Its repr shows only the names, since values may be secrets.

    The settings do not change after creation, so any thread may use them.
    """

    def __repr__(self) -> str:
        return f"HadoopSettings({', '.join(sorted(self))})"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> HadoopSettings:
        """Returns those of the given settings that this module uses."""
        lower = {name.lower(): value for name, value in settings.items()}
        return cls({name: value for name, value in lower.items() if _counts(name)})


def is_setting(name: str) -> bool:
    """Returns whether the name of an option, in upper or lower case, is that of a file system's setting."""
    return name.lower().startswith(PREFIXES)


def _counts(name: str) -> bool:
    if name.startswith("fs.s3a.bucket."):
        return any(name.endswith(f".{each}") for each in _S3_NAMES)
    if name.startswith("fs.s3a."):
        return name.removeprefix("fs.s3a.") in _S3_NAMES
    return name.startswith(_AZURE_NAMES)


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The object store of a URI, as the arguments of one of pyarrow's file systems.

    Attributes:
        kind: "S3FileSystem" or "AzureFileSystem", of pyarrow.fs.
        container: the bucket or the container.
        path: the path on the file system, which begins with the container.
        arguments: the arguments of the file system; they may hold secrets and are not shown.
    """

    kind: str
    container: str
    path: str
    arguments: dict[str, Any] = field(repr=False)


def is_mapped(uri: str) -> bool:
    """Returns whether Hadoop's settings apply to a URI."""
    return uri.lower().startswith("s3a://") or _ABFS.match(uri.lower()) is not None


def object_store_of(uri: str, settings: Mapping[str, str]) -> ObjectStore:
    """Returns the store of a URI (see `is_mapped`) according to Hadoop's settings.

    Args:
        uri: `s3a://BUCKET/PATH`, or `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`.
        settings: Hadoop settings by lower-case name, as in `HadoopSettings`.

    Raises:
        ConfigError: the URI is malformed, a setting is invalid, or pyarrow does not support it.  The text contains no
            value that may be a secret.
    """
    parts = urlsplit(uri)
    if parts.scheme.lower() == "s3a":
        return _s3_location(parts, settings)
    return _azure_location(parts, settings)


# ------------------------------------------------------------------------------------------------------------------- S3


def _s3_location(parts: SplitResult, settings: Mapping[str, str]) -> ObjectStore:
    if "@" in parts.netloc:
        raise ConfigError(
            "an s3a:// URI must not contain credentials; give fs.s3a.access.key and fs.s3a.secret.key instead"
        )
    bucket = parts.netloc
    if not bucket:
        raise ConfigError(f"the URI {parts.geturl()!r} names no bucket; write it as s3a://BUCKET/PATH")
    of_bucket = _S3Settings(settings, bucket)
    _refuse_encryption(of_bucket)
    arguments = {**_s3_endpoint(of_bucket), **_s3_credentials(of_bucket), **_s3_proxy(of_bucket)}
    return ObjectStore("S3FileSystem", bucket, f"{bucket}{parts.path}".rstrip("/"), arguments)


class _S3Settings:
    """The settings for one bucket.  A setting for this bucket overrides the same setting for all buckets."""

    def __init__(self, settings: Mapping[str, str], bucket: str) -> None:
        self._settings = settings
        self._prefixes = (f"fs.s3a.bucket.{bucket.lower()}.", "fs.s3a.")

    def text(self, name: str) -> str:
        """Returns the value of a setting; "" if it is not set."""
        return self._settings.get(self.full_name(name), "").strip()

    def full_name(self, name: str) -> str:
        """Returns the full name under which a setting was given, for a message."""
        names = [prefix + name for prefix in self._prefixes]
        return next((each for each in names if self._settings.get(each, "").strip()), names[-1])

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name).lower()
        if value not in ("", "true", "false"):
            raise ConfigError(f"{self.full_name(name)} must be true or false, not {value!r}")
        return default if value == "" else value == "true"


def _refuse_encryption(settings: _S3Settings) -> None:
    for name in ("encryption.algorithm", "server-side-encryption-algorithm"):
        algorithm = settings.text(name).upper()
        if algorithm.startswith("CSE") or algorithm == "SSE-C":
            raise ConfigError(
                f"{settings.full_name(name)}={algorithm!r}: pyarrow cannot decrypt with client-side keys; copy the "
                "log to a place without this encryption"
            )


def _s3_endpoint(settings: _S3Settings) -> dict[str, Any]:
    endpoint, region = settings.text("endpoint"), settings.text("endpoint.region")
    found: dict[str, Any] = {"region": region} if region else {}
    amazons = _AWS_HOST.fullmatch(endpoint.lower())
    if amazons is not None and amazons[1]:
        found.setdefault("region", amazons[1])
    is_secure = settings.flag("connection.ssl.enabled", default=True)
    is_in_path = settings.flag("path.style.access", default=False)
    if not endpoint or amazons is not None:
        return found if is_secure else {**found, "scheme": "http"}
    scheme, _, host = endpoint.rpartition("://")
    host = host.rstrip("/")
    if scheme not in ("", "http", "https") or not host or "/" in host or "@" in host:
        raise ConfigError(f"{settings.full_name('endpoint')} must be HOST:PORT or http(s)://HOST:PORT")
    found |= {"endpoint_override": host, "scheme": scheme or ("https" if is_secure else "http")}
    if not is_in_path and not _is_address(host):
        found["force_virtual_addressing"] = True
    return found


def _is_address(host: str) -> bool:
    """Returns whether a host is an IP address, which cannot have the name of a bucket as a subdomain."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _s3_credentials(settings: _S3Settings) -> dict[str, Any]:
    providers = _providers(settings)
    key, secret, token = (settings.text(name) for name in ("access.key", "secret.key", "session.token"))
    takes_keys = not providers or bool(providers & (_KEYS | _KEYS_OF_A_SESSION))
    takes_token = not providers or bool(providers & _KEYS_OF_A_SESSION)
    if providers & _ROLE:
        return _role(settings)
    if takes_keys and bool(key) != bool(secret):
        missing = "secret.key" if key else "access.key"
        raise ConfigError(f"fs.s3a.{missing} is not set: fs.s3a.access.key and fs.s3a.secret.key must be set together")
    if takes_keys and key:
        return {"access_key": key, "secret_key": secret, **({"session_token": token} if token and takes_token else {})}
    if providers & _NO_KEYS and not providers & _OF_THE_MACHINE:
        return {"anonymous": True}
    return {}  # pyarrow asks the environment, the profile and the machine


def _providers(settings: _S3Settings) -> frozenset[str]:
    """Returns the class names of the credential providers, without packages; empty for Hadoop's default."""
    named = [each for each in re.split(r"[,\s]+", settings.text("aws.credentials.provider")) if each]
    found = {each.rpartition(".")[2] for each in named}
    unknown = sorted(each for each in named if each.rpartition(".")[2] not in _PROVIDERS)
    if unknown:
        raise ConfigError(
            f"{settings.full_name('aws.credentials.provider')} names {unknown[0]}, a Java class that offsetlog "
            "cannot use; give fs.s3a.access.key and fs.s3a.secret.key, or name one of " + ", ".join(sorted(_PROVIDERS))
        )
    return frozenset(found)


def _role(settings: _S3Settings) -> dict[str, Any]:
    arn = settings.text("assumed.role.arn")
    if not arn:
        raise ConfigError(f"{settings.full_name('assumed.role.arn')} (the role to assume) is not set")
    if settings.text("access.key"):
        raise ConfigError(
            f"{settings.full_name('assumed.role.arn')} cannot be used with fs.s3a.access.key: pyarrow assumes a role "
            "only with the credentials of the environment; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY there"
        )
    optional = {"session_name": "assumed.role.session.name", "external_id": "assumed.role.externalid"}
    given = {argument: settings.text(name) for argument, name in optional.items()}
    return {"role_arn": arn, **{argument: value for argument, value in given.items() if value}}


def _s3_proxy(settings: _S3Settings) -> dict[str, Any]:
    host = settings.text("proxy.host")
    if not host:
        return {}
    is_secure = settings.flag("proxy.ssl.enabled", default=False)
    port = settings.text("proxy.port") or ("443" if is_secure else "80")
    if not re.fullmatch(r"\d{1,5}", port):
        raise ConfigError(f"{settings.full_name('proxy.port')}={port!r} is not a port")
    proxy: dict[str, Any] = {"scheme": "https" if is_secure else "http", "host": host, "port": int(port)}
    for argument in ("username", "password"):
        if settings.text(f"proxy.{argument}"):
            proxy[argument] = settings.text(f"proxy.{argument}")
    return {"proxy_options": proxy}


# ---------------------------------------------------------------------------------------------------------------- Azure


def _azure_location(parts: SplitResult, settings: Mapping[str, str]) -> ObjectStore:
    container, _, host = parts.netloc.partition("@")
    account, _, domain = host.lower().partition(".")
    kind, _, zone = domain.partition(".")
    if kind not in ("dfs", "blob") or not zone or not account:
        raise ConfigError(f"{parts.geturl()!r} is not of the form abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH")
    arguments = {
        "account_name": account,
        **_azure_endpoint(settings, zone, is_secure=parts.scheme.lower() == "abfss"),
        **_azure_credentials(settings, container.lower(), host.lower()),
    }
    return ObjectStore("AzureFileSystem", container, f"{container}{parts.path}".rstrip("/"), arguments)


def _azure_endpoint(settings: Mapping[str, str], zone: str, *, is_secure: bool) -> dict[str, Any]:
    services = ("blob", "dfs")
    found: dict[str, Any] = {} if is_secure else {f"{service}_storage_scheme": "http" for service in services}
    # An emulator: one address for both services, as in Hadoop.
    endpoint = settings.get("fs.azure.abfs.endpoint", "").strip()
    if endpoint:
        return {**found, **{f"{service}_storage_authority": endpoint for service in services}}
    if zone != "core.windows.net":
        return {**found, **{f"{service}_storage_authority": f".{service}.{zone}" for service in services}}
    return found


def _azure_credentials(settings: Mapping[str, str], container: str, host: str) -> dict[str, Any]:
    def text(name: str, *of: str) -> str:
        names = (f"fs.azure.{name}.{container}.{host}", *(f"fs.azure.{name}.{each}" for each in of), f"fs.azure.{name}")
        return next((settings[each].strip() for each in names if settings.get(each, "").strip()), "")

    key = text("account.key", host)
    token = text("sas.fixed.token", host)
    chosen = text("account.auth.type", host).lower() or ("sharedkey" if key else "sas" if token else "")
    if chosen == "sharedkey":
        if not key:
            raise ConfigError(f"fs.azure.account.key.{host} (the account key) is not set")
        return {"account_key": key}
    if chosen == "sas":
        if not token:
            raise ConfigError(
                f"fs.azure.sas.fixed.token.{host} is not set; offsetlog needs this fixed token, because it cannot "
                "call a token provider, which is Java code"
            )
        # pyarrow appends the token to the URL unchanged.
        return {"sas_token": f"?{token.removeprefix('?')}"}
    if chosen == "oauth":
        names = ("provider.type", "client.id", "client.secret", "client.endpoint")
        oauth = {name: text(f"account.oauth{'' if name == 'provider.type' else '2'}.{name}", host) for name in names}
        return _azure_oauth(oauth, host)
    if chosen:
        raise ConfigError("fs.azure.account.auth.type must be SharedKey, SAS or OAuth, the types that pyarrow supports")
    return {}  # pyarrow asks the environment and the machine


def _azure_oauth(oauth: Mapping[str, str], host: str) -> dict[str, Any]:
    provider = oauth["provider.type"].rpartition(".")[2]
    if provider == "MsiTokenProvider":
        return {"client_id": oauth["client.id"]} if oauth["client.id"] else {}
    if provider == "WorkloadIdentityTokenProvider":
        return {}
    if provider != "ClientCredsTokenProvider":
        raise ConfigError(
            "fs.azure.account.oauth.provider.type must be ClientCredsTokenProvider, MsiTokenProvider or "
            "WorkloadIdentityTokenProvider, the providers that pyarrow supports"
        )
    tenant = re.fullmatch(r"https://[^/]+/([^/]+)/oauth2(?:/v2\.0)?/token/?", oauth["client.endpoint"])
    if tenant is None:
        raise ConfigError(f"fs.azure.account.oauth2.client.endpoint.{host} must be https://HOST/TENANT/oauth2/token")
    for name in ("client.id", "client.secret"):
        if not oauth[name]:
            raise ConfigError(f"fs.azure.account.oauth2.{name}.{host} is not set")
    return {"tenant_id": tenant[1], "client_id": oauth["client.id"], "client_secret": oauth["client.secret"]}
