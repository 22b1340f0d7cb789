"""The TLS settings of a connection to ZooKeeper, with files in PEM."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from offsetlog.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How the servers and this client authenticate each other.

    Attributes:
        truststore: a file with the CA certificates that sign those of the servers; None for the CAs of the system.
        keystore: a file with the private key and the certificate chain of this client, or None.
        keystore_password: the password of the private key if it is encrypted, or None.
        checks_hostname: whether the certificate of a server must match the server's name in the list of hosts.
    """

    truststore: str | None = None
    keystore: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    checks_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Reads the files, and returns the TLS context for connections.

        Raises:
            ConfigError: a file cannot be read or has wrong content; the message names the file.
        """
        try:
            context = ssl.create_default_context(cafile=self.truststore)
        except (OSError, ValueError) as failure:  # for example for a path with a zero byte
            text = f"cannot read certificates in PEM from the truststore {self.truststore!r}: {failure}"
            raise ConfigError(text) from failure
        if self.keystore is not None:
            try:
                # A password is passed even if none is set: otherwise OpenSSL would ask for it on the terminal.
                context.load_cert_chain(self.keystore, password=self.keystore_password or "")
            except UnicodeEncodeError:
                # Raised without its cause, which contains the password.
                raise ConfigError(f"the password of the keystore {self.keystore!r} is not UTF-8") from None
            except (OSError, ValueError) as failure:
                text = (
                    f"cannot read a private key and a certificate in PEM from the keystore {self.keystore!r}; "
                    f"check the file and its password: {failure}"
                )
                raise ConfigError(text) from failure
        context.check_hostname = self.checks_hostname
        return context
