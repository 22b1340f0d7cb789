"""Hadoop's settings as arguments of pyarrow's file systems, and no secret in anything that is shown."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

from offsetlog import errors
from offsetlog._native.arrow_files import failure_text
from offsetlog.spark.location import shown
from offsetlog.spark.scan.files import Files, resolve
from offsetlog.spark.scan.hadoop_settings import HadoopSettings, is_mapped, object_store_of
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.uri_files import file_system_of, open_uri
from offsetlog.spark.sink.options import checked_options

KEYS = {"fs.s3a.access.key": "AKEY", "fs.s3a.secret.key": "S3CRET"}
BOTH = {"access_key": "AKEY", "secret_key": "S3CRET"}
NAMED = "org.apache.hadoop.fs.s3a."
PROVIDER = "fs.s3a.aws.credentials.provider"
#: As core-default.xml of Hadoop 3.5 has it.
BY_DEFAULT = ", ".join(
    NAMED + each
    for each in (
        "TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider",
        "auth.EnvironmentVariableCredentialsProvider", "auth.IAMInstanceCredentialsProvider",
    )
)  # fmt: skip

S3: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (KEYS, BOTH),
    ({**KEYS, "fs.s3a.session.token": "T0KEN"}, {**BOTH, "session_token": "T0KEN"}),
    ({**KEYS, PROVIDER: BY_DEFAULT}, BOTH),
    ({PROVIDER: BY_DEFAULT}, {}),
    (
        {**KEYS, "fs.s3a.session.token": "T", PROVIDER: f"{NAMED}SimpleAWSCredentialsProvider"},
        BOTH,
    ),
    (
        {**KEYS, PROVIDER: "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"},
        {},
    ),
    ({PROVIDER: f"{NAMED}AnonymousAWSCredentialsProvider"}, {"anonymous": True}),
    (
        {PROVIDER: f"{NAMED}auth.AssumedRoleCredentialProvider", "fs.s3a.assumed.role.arn": "R",
         "fs.s3a.assumed.role.session.name": "N"},
        {"role_arn": "R", "session_name": "N"},
    ),
    # Where it is.
    (
        {"fs.s3a.endpoint": "http://127.0.0.1:9000"},
        {"endpoint_override": "127.0.0.1:9000", "scheme": "http"},
    ),
    (
        {"fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false"},
        {"endpoint_override": "127.0.0.1:9000", "scheme": "http"},
    ),
    (
        {"fs.s3a.endpoint": "https://store.example:9000/", "fs.s3a.path.style.access": "TRUE"},
        {"endpoint_override": "store.example:9000", "scheme": "https"},
    ),
    (
        {"fs.s3a.endpoint": "store.example", "fs.s3a.endpoint.region": "here"},
        {"endpoint_override": "store.example", "scheme": "https", "force_virtual_addressing": True, "region": "here"},
    ),
    ({"fs.s3a.endpoint": "[::1]:9000"}, {"endpoint_override": "[::1]:9000", "scheme": "https"}),
    ({"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}, {"region": "eu-west-1"}),
    ({"fs.s3a.endpoint": "https://s3.cn-north-1.amazonaws.com.cn"}, {"region": "cn-north-1"}),
    ({"fs.s3a.endpoint": "s3.amazonaws.com", "fs.s3a.endpoint.region": "eu-west-2"}, {"region": "eu-west-2"}),
    ({"fs.s3a.connection.ssl.enabled": "false"}, {"scheme": "http"}),
    (
        {"fs.s3a.proxy.host": "proxy", "fs.s3a.proxy.port": "3128", "fs.s3a.proxy.username": "U",
         "fs.s3a.proxy.password": "P"},
        {"proxy_options": {"scheme": "http", "host": "proxy", "port": 3128, "username": "U", "password": "P"}},
    ),
    # One bucket's own settings, before those of all.
    (
        {**KEYS, "fs.s3a.bucket.logs.access.key": "OWN", "fs.s3a.bucket.others.secret.key": "X"},
        {"access_key": "OWN", "secret_key": "S3CRET"},
    ),
    ({"fs.s3a.endpoint": "a", "fs.s3a.bucket.logs.endpoint": "http://127.0.0.1:1"},
     {"endpoint_override": "127.0.0.1:1", "scheme": "http"}),
    ({"fs.s3a.bucket.logs.endpoint": " ", "fs.s3a.endpoint": "http://127.0.0.1:1"},
     {"endpoint_override": "127.0.0.1:1", "scheme": "http"}),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "arguments"), S3)
def test_s3a(settings: dict[str, str], arguments: dict[str, Any]) -> None:
    found = object_store_of("s3a://logs/a/b/", HadoopSettings.of(settings))
    assert (found.kind, found.container, found.path) == ("S3FileSystem", "logs", "logs/a/b")
    assert found.arguments == arguments


HOST = "lake.dfs.core.windows.net"
AUTH = "fs.azure.account.auth.type"
CLIENT = {
    f"fs.azure.account.auth.type.{HOST}": "OAuth",
    f"fs.azure.account.oauth.provider.type.{HOST}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    f"fs.azure.account.oauth2.client.id.{HOST}": "ID",
    f"fs.azure.account.oauth2.client.secret.{HOST}": "S3CRET",
    f"fs.azure.account.oauth2.client.endpoint.{HOST}": "https://login.microsoftonline.com/tenant-1/oauth2/token",
}
AZURE: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    (HOST, {}, {}),
    (HOST, {f"fs.azure.account.key.{HOST}": "S3CRET=="}, {"account_key": "S3CRET=="}),
    (HOST, {"fs.azure.account.key": "S3CRET=="}, {"account_key": "S3CRET=="}),
    (HOST, {"fs.azure.account.key.other.dfs.core.windows.net": "S3CRET=="}, {}),
    (HOST, {f"fs.azure.sas.fixed.token.{HOST}": "sv=1&sig=S3CRET"}, {"sas_token": "?sv=1&sig=S3CRET"}),
    (HOST, {f"fs.azure.sas.fixed.token.logs.{HOST}": "?sig=A", f"fs.azure.sas.fixed.token.{HOST}": "sig=B"},
     {"sas_token": "?sig=A"}),
    (HOST, {AUTH: "SAS", "fs.azure.account.key": "K", "fs.azure.sas.fixed.token": "sig=A"},
     {"sas_token": "?sig=A"}),
    (HOST, CLIENT, {"tenant_id": "tenant-1", "client_id": "ID", "client_secret": "S3CRET"}),
    (HOST, {**CLIENT, f"fs.azure.account.oauth.provider.type.{HOST}": "x.MsiTokenProvider"}, {"client_id": "ID"}),
    ("lake.dfs.core.chinacloudapi.cn", {},
     {"blob_storage_authority": ".blob.core.chinacloudapi.cn", "dfs_storage_authority": ".dfs.core.chinacloudapi.cn"}),
    (HOST, {"fs.azure.abfs.endpoint": "127.0.0.1:10000"},
     {"blob_storage_authority": "127.0.0.1:10000", "dfs_storage_authority": "127.0.0.1:10000"}),
]  # fmt: skip


@pytest.mark.parametrize(("host", "settings", "arguments"), AZURE)
def test_abfss(host: str, settings: dict[str, str], arguments: dict[str, Any]) -> None:
    found = object_store_of(f"abfss://Logs@{host}/a/b", HadoopSettings.of(settings))
    assert (found.kind, found.container, found.path) == ("AzureFileSystem", "Logs", "Logs/a/b")
    assert found.arguments == {"account_name": "lake", **arguments}


def test_abfs_is_not_encrypted() -> None:
    found = object_store_of(f"abfs://logs@{HOST}/a", {})
    assert found.arguments == {"account_name": "lake", "blob_storage_scheme": "http", "dfs_storage_scheme": "http"}


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("s3a://AKEY:S3CRET@logs/a", {}, "must not contain credentials"),
    ("s3a:///a", {}, "names no bucket"),
    ("s3a://logs/a", {"fs.s3a.access.key": "S3CRET"}, "fs.s3a.secret.key is not set"),
    ("s3a://logs/a", {"fs.s3a.secret.key": "S3CRET"}, "fs.s3a.access.key is not set"),
    ("s3a://logs/a", {"fs.s3a.endpoint": "ftp://user:S3CRET@host"}, r"fs\.s3a\.endpoint must be HOST:PORT"),
    ("s3a://logs/a", {"fs.s3a.endpoint": "http://host/S3CRET"}, r"fs\.s3a\.endpoint must be HOST:PORT"),
    ("s3a://logs/a", {"fs.s3a.bucket.logs.path.style.access": "yes"}, "path.style.access must be true"),
    ("s3a://logs/a", {PROVIDER: "com.acme.Vault"}, r"com\.acme\.Vault, a Java class that offsetlog cannot use"),
    ("s3a://logs/a", {"fs.s3a.encryption.algorithm": "CSE-KMS"}, "cannot decrypt"),
    ("s3a://logs/a", {"fs.s3a.server-side-encryption-algorithm": "SSE-C"}, "cannot decrypt"),
    ("s3a://logs/a", {"fs.s3a.proxy.host": "p", "fs.s3a.proxy.port": "http"}, "is not a port"),
    ("s3a://logs/a", {**KEYS, PROVIDER: "AssumedRoleCredentialProvider",
                      "fs.s3a.assumed.role.arn": "R"}, "only with the credentials of the environment"),
    ("abfss://logs@lake/a", {}, "is not of the form abfss://CONTAINER@ACCOUNT"),
    (f"abfss://logs@{HOST}/a", {AUTH: "SAS", "fs.azure.account.key": "S3CRET"}, "sas.fixed.token"),
    (f"abfss://logs@{HOST}/a", {AUTH: "Custom", "fs.azure.account.key": "S3CRET"}, "must be SharedKey"),
    (f"abfss://logs@{HOST}/a", {**CLIENT, f"fs.azure.account.oauth2.client.endpoint.{HOST}": "S3CRET"}, "TENANT"),
    (f"abfss://logs@{HOST}/a", {**CLIENT, f"fs.azure.account.oauth2.client.id.{HOST}": ""}, "client.id"),
    ("hdfs://127.0.0.1:1/a", {}, "JAVA_HOME.*CLASSPATH.*ARROW_LIBHDFS_DIR"),
    ("s3://AKEY:S3CRET@logs/a?scheme=nonsense&x=y", {}, r"\*\*\*@logs"),
    ("nonsense://a/b", {}, "nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "settings", "said"), REFUSED)
def test_what_cannot_be_followed(
    uri: str, settings: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JAVA_HOME", "ARROW_LIBHDFS_DIR", "HADOOP_HOME"):
        monkeypatch.setenv(name, "/nowhere")
    for call in (resolve, open_uri, file_system_of):
        with pytest.raises(errors.ConfigError, match=said) as caught:
            call(uri, HadoopSettings.of(settings))
        assert "S3CRET" not in "".join(traceback.format_exception(caught.value)), "in what a traceback shows"


def test_uris_that_pyarrow_knows_by_itself_are_left_to_it() -> None:
    for uri in ("s3://logs/a", "gs://logs/a", "hdfs://name/a", "abfs://lake.blob.core.windows.net/logs", "file:///a"):
        assert not is_mapped(uri)


# -------------------------------------------------------------------------------------------------------------- secrets

ALL = {
    **KEYS,
    "fs.s3a.session.token": "S3CRET-token",
    "fs.azure.account.key": "S3CRET==",
    "fs.s3a.encryption.key": "not for us",
    "fs.s3a.bucket.logs.secret.key": "S3CRET-own",
    "fs.s3a.bucket.logs.threads.max": "3",
}


def test_only_what_counts_travels_and_nothing_of_it_is_shown() -> None:
    settings = HadoopSettings.of({**ALL, "fs.defaultFS": "x", "FS.S3A.Endpoint": "http://127.0.0.1:1"})
    assert set(settings) == {*ALL, "fs.s3a.endpoint"} - {"fs.s3a.encryption.key", "fs.s3a.bucket.logs.threads.max"}
    for text in (repr(settings), str(settings), f"{settings}"):
        assert "S3CRET" not in text
        assert "fs.s3a.secret.key" in text
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "S3CRET" not in repr(object_store_of("s3a://logs/a", settings))


def test_options_of_a_read_and_of_a_write_hold_them_and_do_not_show_them() -> None:
    read = parse({"path": "s3a://logs/a", "FS.S3A.Secret.Key": "S3CRET", "fs.s3a.access.key": "AKEY"})
    assert read.hadoop == KEYS
    wrote = checked_options({"path": "/a", "stagingLocation": "s3a://logs/a", **ALL}, stream=False, overwrite=False)
    assert wrote.hadoop == HadoopSettings.of(ALL)
    for each in (read, wrote, wrote.place("job"), wrote.place(None)):
        assert "S3CRET" not in repr(each)
    assert wrote.place(None).hadoop == wrote.hadoop


def test_a_uri_with_keys_is_shown_without_them() -> None:
    assert shown("s3://AKEY:S3C/RET@logs/a") == "s3://***@logs/a"
    assert shown(f"abfss://logs@{HOST}/a") == f"abfss://logs@{HOST}/a"
    assert shown("hdfs://name:8020/a@b") == "hdfs://name:8020/a@b"
    assert shown("/a:b@c") == "/a:b@c"
    assert Files(None, "s3://AKEY:S3CRET@logs").uri == "s3://***@logs"


def test_the_signature_of_a_url_is_not_shown() -> None:
    signed = OSError("GET https://lake.blob.core.windows.net/logs?sig=S3CRET%3D&sv=1 failed: 403")
    assert failure_text(signed) == "GET https://lake.blob.core.windows.net/logs?sig=***&sv=1 failed: 403"
    assert failure_text(ValueError()) == "ValueError"
    lines = OSError("Azure Error: 403\r\nTime: now\n\nRequest ID: 5")
    assert failure_text(lines) == "Azure Error: 403 Time: now Request ID: 5"
