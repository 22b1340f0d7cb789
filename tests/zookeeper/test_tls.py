"""Connections through TLS with a real server that believes only clients with a certificate."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.manager.zookeeper.broker import register_broker
from offsetlog.manager.zookeeper.manager import create
from offsetlog.manager.zookeeper.settings import from_properties
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.kazoo_handler import ClientHandler
from offsetlog.zookeeper.tls import TlsSettings

from . import certificates, ensemble
from .certificates import PASSWORD, Certificates
from .ensemble import Ensemble, free_ports
from .managers import PATIENCE
from .silent_server import SilentServer
from .threads import Threads, in_patience

KEY = TopicPartition("orders", 0)
#: Longer than a test has patience.
FOR_EVER = 3600.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    if not (certificates.is_possible() and ensemble.is_possible()):
        if os.environ.get("OFFSETLOG_REQUIRE_PACKAGES"):
            pytest.fail("no openssl, or no java")
        pytest.skip("no openssl, or no java")
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def signed(folder) -> dict[str, str]:
    """Files by what they are of."""
    authority, stranger = Certificates(folder), Certificates(folder, "stranger")
    return {
        "authority": str(authority.authority),
        "server": str(authority.signed("server", "IP:127.0.0.1")),
        "client": str(authority.signed("client", "DNS:client", PASSWORD)),
        "another authority": str(stranger.authority),
        "another client": str(stranger.signed("another", "DNS:client")),
    }


@pytest.fixture(scope="module")
def secure(signed, tmp_path_factory) -> Iterator[str]:
    """The hosts of a server; the name of one is not in its certificate."""
    (port,) = free_ports(1)
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": signed["server"],
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": signed["authority"],
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
        "ssl.hostnameVerification": "false",
    }
    with Ensemble(tmp_path_factory.mktemp("secure"), size=1, settings=settings):
        yield f"127.0.0.1:{port}"


@pytest.fixture
def properties(secure, signed) -> dict[str, str]:
    return {
        "zookeeper.connect": secure,
        "zookeeper.connection.timeout.ms": "20000",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": signed["authority"],
        "zookeeper.ssl.truststore.type": "PEM",
        "zookeeper.ssl.keystore.location": signed["client"],
        "zookeeper.ssl.keystore.password": PASSWORD,
    }


def test_a_manager_and_a_broker_go_through_tls(properties):
    with create({**properties, "offsets.topic.num.partitions": 1}) as manager:
        manager.become_leader(0, 1)
        pending = [manager.commit_async(f"g-{number}", {KEY: number}) for number in range(100)]
        for each in pending:
            each.result(PATIENCE)
        assert manager.fetch("g-99")[KEY].offset == 99
        assert len(manager.groups()) == 100
        with register_broker({**properties, "broker.id": 1, "listeners": "PLAINTEXT://k:9092"}) as broker:
            assert broker.cluster.broker_ids() == [1]


def test_a_server_that_is_not_believed_is_not_spoken_to(properties, signed):
    given = {**properties, "zookeeper.connection.timeout.ms": 3000}
    given["zookeeper.ssl.truststore.location"] = signed["another authority"]
    with pytest.raises(errors.ZooKeeperUnavailableError, match=r"the last connection failed: .*CERTIFICATE_VERIFY"):
        create(given).start()


def test_a_server_must_have_the_name_by_which_it_is_reached(properties):
    given = {**properties, "zookeeper.connection.timeout.ms": 3000}
    given["zookeeper.connect"] = properties["zookeeper.connect"].replace("127.0.0.1", "localhost")
    with pytest.raises(errors.ZooKeeperUnavailableError, match=r"certificate is not valid for 'localhost'"):
        create(given).start()
    given |= {"zookeeper.ssl.endpoint.identification.algorithm": "", "zookeeper.connection.timeout.ms": 20_000}
    with create(given) as manager:
        assert manager.groups() is not None


@pytest.mark.parametrize("other", [None, "another client"])
def test_a_client_that_the_server_does_not_believe_has_no_session(properties, signed, other):
    given = {**properties, "zookeeper.connection.timeout.ms": 3000}
    del given["zookeeper.ssl.keystore.location"]
    if other is not None:
        given["zookeeper.ssl.keystore.location"] = signed[other]
    with pytest.raises(errors.ZooKeeperUnavailableError):
        create(given).start()


@pytest.mark.parametrize(("keystore", "said"), [(None, "CERTIFICATE_REQUIRED"), ("another client", "UNKNOWN_CA")])
def test_a_start_says_that_the_server_refuses_the_certificate_of_the_client(signed, monkeypatch, keystore, said):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=signed["authority"])
    context.load_cert_chain(signed["server"])
    context.verify_mode, context.minimum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    with contextlib.suppress(ssl.SSLError):
                        context.wrap_socket(client.dup(), server_side=True)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(1 << 16):
                        continue

    note, noted = ClientHandler._refused, threading.Event()

    def note_and_say(handler: ClientHandler, failure: ssl.SSLError) -> None:
        note(handler, failure)
        noted.set()

    # Its time is over once the server has refused it.
    monkeypatch.setattr(ClientHandler, "_refused", note_and_say)
    monkeypatch.setattr(ZooKeeperConnection, "_is_let_in", lambda *_: not noted.wait(PATIENCE))
    refusing = threading.Thread(target=refuse)
    refusing.start()
    try:
        tls = TlsSettings(truststore=signed["authority"], keystore=keystore and signed[keystore])
        hosts = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = ConnectionSettings(hosts=hosts, tls=tls)
        with pytest.raises(errors.ZooKeeperUnavailableError, match=rf"the last connection failed: .*{said}"):
            ZooKeeperConnection(settings).start()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        refusing.join(PATIENCE)
        listener.close()


def test_a_start_at_a_server_that_is_silent_within_tls_ends_in_its_time():
    with SilentServer() as server:
        threads = Threads()
        settings = ConnectionSettings(
            hosts=server.hosts, session_timeout=FOR_EVER, connection_timeout=0.2, tls=TlsSettings()
        )
        failure = in_patience(ZooKeeperConnection(settings).start)
        assert isinstance(failure, errors.ZooKeeperUnavailableError)
        threads.wait_until_ended()


def test_answers_that_came_in_one_record_are_all_read(signed):
    """A second one that was deciphered with the first is seen, though nothing of it is left in the system."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(signed["server"])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with server.wrap_socket(listener.accept()[0], server_side=True) as served:
                served.sendall(b"onetwo")
                served.recv(1)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        handler = ClientHandler(PATIENCE, TlsSettings(truststore=signed["authority"]).context(), print)
        with handler.create_connection(listener.getsockname(), hostname="127.0.0.1") as connection:
            assert connection.recv(3) == b"one"
            bell, _ = handler.create_socket_pair()
            assert handler.select([connection, bell], [], [], 0) == ([connection], [], [])
            bell.send(b"\0")
            assert handler.select([connection, bell], [], [], 0) == ([connection, bell], [], [])
            assert connection.recv(3) == b"two"
            assert handler.select([connection, bell], [], [], 0) == ([bell], [], [])
            bell.close()
        serving.join(PATIENCE)


# ---------------------------------------------------------------------------------------------------------- properties


def test_tls_is_read_by_the_names_that_kafka_has():
    given = {
        "zookeeper.connect": "h",
        "zookeeper.ssl.client.enable": True,
        "zookeeper.ssl.truststore.location": "/etc/trusted.pem",
        "zookeeper.ssl.keystore.location": "/etc/own",
        "zookeeper.ssl.keystore.type": "pem",
        "zookeeper.ssl.keystore.password": "secret",
        "zookeeper.ssl.endpoint.identification.algorithm": "https",
    }
    reached = from_properties(given).connection
    assert reached.tls == TlsSettings(
        truststore="/etc/trusted.pem", keystore="/etc/own", keystore_password="secret", checks_hostname=True
    )
    assert "secret" not in repr(reached)
    assert from_properties({**given, "zookeeper.ssl.client.enable": "false"}).connection.tls is None
    assert from_properties({"zookeeper.connect": "h"}).connection.tls is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client.enable", "x"),
        ("truststore.location", "/etc/trusted.jks"),
        ("truststore.location", ""),
        ("truststore.type", "JKS"),
        ("keystore.location", "/etc/own.p12"),
        ("keystore.type", "PKCS12"),
        ("endpoint.identification.algorithm", "none"),
        ("crl.enable", "true"),
        ("ocsp.enable", "true"),
    ],
)
def test_what_tls_has_no_place_for_is_named(name, value):
    store = {"zookeeper.ssl.truststore.location": "/etc/a.pem", "zookeeper.ssl.keystore.location": "/etc/b.pem"}
    given = {"zookeeper.connect": "h", "zookeeper.ssl.client.enable": "true", **store}
    with pytest.raises(errors.ConfigError, match=re.escape(f"zookeeper.ssl.{name}")):
        from_properties({**given, f"zookeeper.ssl.{name}": value})


def test_files_that_are_no_pem_are_named_without_a_password(signed, tmp_path, properties):
    (tmp_path / "empty.pem").write_text("")
    for store, wrong in [
        ("truststore", "/nowhere.pem"),
        ("truststore", str(tmp_path / "empty.pem")),
        ("keystore", "/nowhere.pem"),
        ("keystore", signed["authority"]),
    ]:
        with pytest.raises(errors.ConfigError, match=rf"the {store} '.*{Path(wrong).name}'"):
            create({**properties, f"zookeeper.ssl.{store}.location": wrong})
    for password in ("secret-of-nobody", None):
        given = dict(properties)
        del given["zookeeper.ssl.keystore.password"]
        with pytest.raises(errors.ConfigError, match="check the file and its password") as caught:
            create(given if password is None else {**given, "zookeeper.ssl.keystore.password": password})
        assert "secret-of-nobody" not in str(caught.value)


def test_paths_and_passwords_that_no_file_can_have_are_named(signed):
    given = {"truststore": signed["authority"], "keystore": signed["client"], "keystore_password": PASSWORD}
    for store in ("truststore", "keystore"):
        with pytest.raises(errors.ConfigError, match=f"the {store} '.*null byte"):
            TlsSettings(**{**given, store: "a\0b"}).context()
    with pytest.raises(errors.ConfigError, match=r"the password of the keystore '.*' is not UTF-8") as caught:
        TlsSettings(**{**given, "keystore_password": "secret\udc80"}).context()
    assert caught.value.__cause__ is None
    assert "secret" not in str(caught.value)
