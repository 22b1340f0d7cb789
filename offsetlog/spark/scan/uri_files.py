"""Opens the file system of a URI, for reading a log or a checkpoint, or for staging rows.

Hadoop's settings are used for a URI of `s3a://` or `abfss://` (`hadoop_settings`).  For any other URI, pyarrow takes
the settings from the URI and from the environment.  The messages of this module contain no secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs

from offsetlog._native.arrow_files import failure_text
from offsetlog.errors import ConfigError, StorageError
from offsetlog.spark.location import AnyPath, Location, shown
from offsetlog.spark.scan.hadoop_settings import HadoopSettings, ObjectStore, is_mapped, object_store_of

NO_SETTINGS = HadoopSettings()

#: Environment variables; the first one that is set counts.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_HDFS = re.compile(r"(?:hdfs|viewfs)://", re.IGNORECASE)

_SET_HDFS = (
    "pyarrow reads HDFS through Hadoop's libhdfs: set JAVA_HOME to a JDK, CLASSPATH to what `hadoop classpath --glob` "
    "prints and ARROW_LIBHDFS_DIR to the directory of libhdfs.so, for the driver and for every executor"
)
_SET_S3 = (
    "fs.s3a.endpoint, fs.s3a.endpoint.region, fs.s3a.access.key, fs.s3a.secret.key and fs.s3a.path.style.access set "
    "the address and the credentials"
)
_SET_AZURE = "fs.azure.account.key.HOST, fs.azure.sas.fixed.token.HOST or fs.azure.account.oauth2.* set the credentials"
_WHERE = (
    "give these settings as spark.hadoop.*, which offsetlog.spark.register(spark) and the jobs read, or as options of "
    "the read or write. You can also set the environment variables {} for the driver and every executor"
)


def what_to_set(uri: str) -> str:
    """Returns the end of a message, which names the settings that a URI needs; "" if it needs none."""
    lower = uri.lower()
    if lower.startswith("s3a://"):
        return f"{_SET_S3}; {_WHERE.format('AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')}"
    if is_mapped(uri):
        return f"{_SET_AZURE}; {_WHERE.format('AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET')}"
    return _SET_HDFS if _HDFS.match(uri) else ""


def file_system_of(given: AnyPath, settings: Mapping[str, str] = NO_SETTINGS) -> tuple[Any, str]:
    """Returns pyarrow's file system for a path or URI, and the path on it, without a trailing slash.

    Args:
        given: the path or URI.
        settings: Hadoop's settings by lower-case name; they are used for `s3a://` and `abfss://`.

    Raises:
        ArgumentTypeError, ConfigError: raised by `Location.of`.
        ConfigError, StorageError: raised by `open_uri`.
    """
    location = Location.of(given)
    return (pyarrow.fs.LocalFileSystem(), location.path) if location.path else open_uri(location.text, settings)


def open_uri(uri: str, settings: Mapping[str, str] = NO_SETTINGS) -> tuple[Any, str]:
    """Returns pyarrow's file system for a URI, and the path on it, without a trailing slash.

    Args:
        uri: the URI of a directory or file.
        settings: Hadoop's settings by lower-case name; they are used for `s3a://` and `abfss://`.

    Raises:
        ConfigError: pyarrow has no file system for the scheme, a setting is invalid, or the URI is malformed.
        StorageError: the file system cannot be reached.
    """
    try:
        if is_mapped(uri):
            store = object_store_of(uri, settings)
            return _opened(store), store.path
        found, path = pyarrow.fs.FileSystem.from_uri(_encoded(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError) as failure:
        why = f"pyarrow cannot open it: {_text(failure, uri)}"
        raise ConfigError(f"path={shown(uri)!r}: {why}") from None
    except OSError as failure:
        if _HDFS.match(uri):
            raise ConfigError(f"path={uri!r}: {_text(failure, uri)}; {_SET_HDFS}") from None
        raise StorageError(storage_text(failure, uri), errno=failure.errno, path=shown(uri)) from None
    return found, path.rstrip("/")


def storage_text(failure: OSError, uri: str, done: str = "read") -> str:
    """Returns the message for a file that cannot be read (or written), with the settings that its file system needs."""
    ending = what_to_set(uri)
    return f"it cannot be {done}: {_text(failure, uri)}{f'; {ending}' if ending else ''}"


def _text(failure: Exception, uri: str) -> str:
    return failure_text(failure).replace(uri, shown(uri))


def _encoded(uri: str) -> str:
    """Encodes the path of a URI, since pyarrow decodes it.  The part after "?", pyarrow's settings, is kept."""
    place, mark, settings = uri.partition("?")
    scheme, _, rest = place.partition(":/")
    authority, slash, path = rest[1:].partition("/") if rest.startswith("/") else ("", "", rest)
    return f"{scheme}:/{'/' if rest.startswith('/') else ''}{authority}{slash}{quote(path)}{mark}{settings}"


def _opened(store: ObjectStore) -> Any:
    kind = getattr(pyarrow.fs, store.kind, None)
    if kind is None:
        raise ConfigError(f"pyarrow {pa.__version__} was built without {store.kind}; install a build that has it")
    arguments = dict(store.arguments)
    if store.kind == "S3FileSystem" and not {"endpoint_override", "region"} & set(arguments):
        arguments |= _of_environment() or _of_amazon(store.container)
    return kind(**arguments)


def _of_environment() -> dict[str, Any]:
    """Returns the address of the object store from the environment variables of Amazon's own libraries."""
    url = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    scheme, _, host = url.rpartition("://")
    return {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"} if host else {}


def _of_amazon(bucket: str) -> dict[str, Any]:
    """Returns the region of a bucket of Amazon.  If the environment does not name it, Amazon is asked."""
    if any(os.environ.get(name) for name in _REGIONS):
        return {}
    return {"region": pyarrow.fs.resolve_s3_region(bucket)}
