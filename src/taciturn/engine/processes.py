"""Several processes that compute one run: they connect, and compare their inputs.

A launcher (`mpirun`, `srun`) or a shell on every machine starts them, and
`jax.distributed.initialize` connects them. Besides the compiled program they exchange public facts,
digests of records under a secret key and, encrypted, that key and the key of the division; never a
record. Nobody is authenticated: the machines belong to one trusted holder.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jax.experimental.multihost_utils import process_allgather

from taciturn import __version__
from taciturn.errors import InputError, ProcessLostError, TaciturnError
from taciturn.kernel.records import Devices, Draw

_KEY = 32  # bytes
# timeouts, seconds; the last is long since the others wait while the first writes its report
_MEETING, _HEARTBEAT, _SHUTDOWN = 120, 20, 3600
_QUOTED = 40  # characters of a fact that an error quotes; digests are longer and are not shown
# words in errors of XLA, Gloo and gRPC that mean a lost connection
_LOST = ("gloo", "coordination", "heartbeat", "deadline_exceeded", "unavailable", "peer")


@dataclass(frozen=True)
class Processes:
    """The processes of a run, of which this is number `index`."""

    index: int = 0
    count: int = 1

    @staticmethod
    def of(devices: Devices | None) -> Processes:
        """Return the processes that hold these devices; this one alone for None.

        Raises `InputError` unless these are all connected processes.
        """
        if devices is None or devices.processes == 1:
            return Processes()
        if devices.processes != jax.process_count():
            raise InputError(
                f"the devices belong to {devices.processes} of {jax.process_count()} processes; "
                "give jax.devices(), which are those of all"
            )
        return Processes(jax.process_index(), jax.process_count())

    @property
    def first(self) -> bool:
        """Whether this process charges, prints and writes for all."""
        return self.index == 0

    def gather(self, content: bytes) -> list[bytes]:
        """Return the contents of all processes, in their order, once each has given its.

        Raises `ProcessLostError` if one of them ended or cannot be reached.
        """
        if self.count == 1:
            return [content]
        with report_loss():
            lengths = process_allgather(np.array(len(content), np.int32))
            padded = np.zeros(max(1, *map(int, lengths)), np.uint8)
            padded[: len(content)] = np.frombuffer(content, np.uint8)
            rows = process_allgather(padded)
        return [bytes(row[:length]) for row, length in zip(np.asarray(rows), lengths, strict=True)]

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Wait for all processes, and raise `InputError` in each unless all have the same facts.

        The message names the first fact that differs, with both values unless one is long.
        """
        given = [json.loads(text) for text in self.gather(json.dumps(facts, default=str).encode())]
        first = given[0]
        for number, other in enumerate(given):
            for name in {**first, **other}:
                texts = str(first.get(name)), str(other.get(name))
                if first.get(name) != other.get(name):
                    values = "" if max(map(len, texts)) > _QUOTED else " ({} and {})".format(*texts)
                    raise InputError(
                        f"processes 0 and {number} of this run differ in {name}{values}; no record "
                        "was answered: give all the same options, files and versions"
                    )

    def from_first(self, content: bytes) -> bytes:
        """Return the content of the first process, in all of them.

        **Guarantee.** It is encrypted for each process: X25519 between fresh keys of both,
        HKDF-SHA256, ChaCha20-Poly1305. An eavesdropper learns its length. Nobody is authenticated.
        """
        if self.count == 1:
            return content
        private = X25519PrivateKey.generate()
        public = [
            X25519PublicKey.from_public_bytes(each)
            for each in self.gather(private.public_key().public_bytes_raw())
        ]

        def cipher(other: X25519PublicKey) -> ChaCha20Poly1305:
            kdf = HKDF(SHA256(), _KEY, salt=None, info=b"taciturn from the first process")
            return ChaCha20Poly1305(kdf.derive(private.exchange(other)))

        sent = b""
        if self.first:  # every key encrypts once, so the nonce may be constant
            parts = [cipher(other).encrypt(bytes(12), content, None) for other in public[1:]]
            sent = json.dumps([part.hex() for part in parts]).encode()
        received = self.gather(sent)[0]
        if self.first:
            return content
        part = bytes.fromhex(json.loads(received)[self.index - 1])
        return cipher(public[0]).decrypt(bytes(12), part, None)

    def share_draw(self, draw: Draw) -> Draw:
        """Return the first process's draw, in all of them; separate draws would share records."""
        return draw if draw.key is None else Draw(key=self.from_first(draw.key))

    def agree_on_records(self, what: str, digests: Sequence[str | None]) -> None:
        """Raise `InputError` in every process unless all hold records with the same digests.

        **Guarantee.** Digests are keyed by a fresh secret of these processes. Plain digests would
        reveal an unknown record to anyone who knows all others, and the owner of each dealt record.
        """
        key = self.from_first(secrets.token_bytes(_KEY))
        keyed = [each and hmac.digest(key, each.encode(), "sha256").hex() for each in digests]
        self.agree({what: keyed})


def connect(address: str | None, count: int | None, index: int | None) -> Processes:
    """Connect this process with the others of its run, and return them.

    `address`: HOST:PORT where the first process listens; None takes address, count and index from
    the launcher, where JAX knows it (Open MPI, SLURM). `count`, `index`: the number of processes,
    and which of them this is, from 0. Raises `InputError` if they do not connect.
    """
    # with this service, a process would survive SIGTERM until its next checkpoint
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    try:
        if address is not None and index == 0:
            # try to listen there first, since JAX would crash where it cannot
            host, _, port = address.rpartition(":")
            family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
            socket.create_server((host.strip("[]"), int(port)), family=family).close()
        jax.distributed.initialize(
            address,
            count,
            index,
            coordinator_bind_address=address,
            initialization_timeout=_MEETING,
            heartbeat_timeout_seconds=_HEARTBEAT,
            shutdown_timeout_seconds=_SHUTDOWN,
        )
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        where = "at the launcher's address" if address is None else f"at {address}"
        raise InputError(
            f"the processes of this run did not connect {where} ({reason}); start all of them with "
            "one address that all can reach and where nothing else listens"
        ) from None
    processes = Processes(jax.process_index(), jax.process_count())
    try:
        processes.gather(b"")
    except ProcessLostError:
        raise InputError(
            "the processes of this run connected but cannot exchange numbers; the name of each "
            "machine must resolve to an address that the others reach (/etc/hosts: not 127.0.1.1)"
        ) from None
    return processes


def disconnect() -> None:
    """Disconnect from the other processes, once all have finished."""
    with report_loss():
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def report_loss() -> Iterator[None]:
    """Raise `ProcessLostError` for errors that mean a lost connection to a process."""
    try:
        yield
        return
    except TaciturnError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        if not any(word in str(error).lower() for word in _LOST):
            raise
    raise ProcessLostError(
        "another process of this run ended or cannot be reached, so this one stops; a charge stays "
        "charged, and only what the first process has written was released"
    )


def versions() -> dict[str, str]:
    """Return the versions that all processes must share to compute the same."""
    names = ("jax", "jaxlib", "numpy")  # numpy draws which agent gets a record
    return {"taciturn": __version__, **{name: version(name) for name in names}}
