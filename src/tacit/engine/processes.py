"""What the processes of one run tell each other beside its compiled program.

Everything here goes through the store of JAX's distributed runtime, which the coordinator in
process 0 keeps. It is public facts and errors, digests of records under a key, and, encrypted, that
key and the one of the division; never a record. Nobody is authenticated: the machines belong to one
trusted holder.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from threading import Event
from typing import Any

import jax
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jax._src import distributed  # whose store has no public name

from tacit import __version__
from tacit.errors import InputError, ProcessLostError, TacitError, what_was_released
from tacit.problems import Draw

_ROOM, _FAILED = "tacit/said", "tacit/failed"
_KEY = 32  # bytes
_PAUSE, _LINGER = 0.05, 1.0  # seconds between two looks, and for the others to look once more
_TOLD = 40  # characters of a fact that a message repeats; digests are longer, and tell nobody more
# how errors of a lost connection read in XLA and gRPC
_LOST = ("gloo", "coordination", "heartbeat", "deadline_exceeded", "unavailable", "peer")


@dataclass(frozen=True)
class Processes:
    """The processes of one run, of which this is number `index`.

    Attributes
    ----------
    index, count
        From 0; how many there are.
    """

    index: int
    count: int
    _store: Any = field(repr=False)
    # how often something was said under a name: what is said again stands beside it
    _said: Counter[str] = field(default_factory=Counter, repr=False)
    _released: Event = field(default_factory=Event, repr=False)
    _key: list[bytes] = field(default_factory=list, repr=False)  # of digests, once there is one

    @property
    def first(self) -> bool:
        """Whether this one speaks for all: it charges, prints and writes."""
        return self.index == 0

    def mark_released(self) -> None:
        """Note, in the first process, that what the run released has been written."""
        self._released.set()

    def gathered(self, what: str, text: str) -> list[str]:
        """Return what every process says under this name, once all have.

        Raises
        ------
        ProcessLostError
            If one of them says that it failed, or the coordinator cannot be reached.
        """
        with self._reached():
            self._said[what] += 1
            place = f"{_ROOM}/{what}/{self._said[what]}"
            self._store.key_value_set(f"{place}/{self.index:06d}", text)
            while True:
                said = self._store.key_value_dir_get(f"{place}/")
                if len(said) == self.count:
                    return [text for _, text in sorted(said)]
                self._check()
                time.sleep(_PAUSE)

    def word_of_first(self, what: str, work: Callable[[], str]) -> str:
        """Return `work()` of the first process, for which the others wait; none of them calls it.

        Raises
        ------
        ProcessLostError
            In the others, if it failed in the first.
        """
        return self.gathered(what, work() if self.first else "")[0]

    def divided(self, what: str, pieces: Sequence[Callable[[], bytes]]) -> list[bytes]:
        """Return what every piece of work returns, each of them done by one of the processes.

        They are taken in order, each by the next process that is free, and all wait for the last.
        So a piece must return the same whoever does it: it may depend on what all processes know,
        such as settings and seeds, and on nothing else.

        Raises
        ------
        ProcessLostError
            As `gathered`; what the lost process had begun is done by nobody then.
        """
        with self._reached():
            self._said[what] += 1
            place = f"{_ROOM}/{what}/{self._said[what]}"
            while (mine := self._store.key_value_increment(f"{place}/taken", 1) - 1) < len(pieces):
                self._check()
                self._store.key_value_set_bytes(f"{place}/result/{mine:06d}", pieces[mine]())
                self._store.key_value_set(f"{place}/done/{mine:06d}", "")
            while len(self._store.key_value_dir_get(f"{place}/done/")) < len(pieces):
                self._check()
                time.sleep(_PAUSE)
            names = (f"{place}/result/{number:06d}" for number in range(len(pieces)))
            return [self._store.key_value_try_get_bytes(name) for name in names]

    def agree(self, what: str, facts: Mapping[str, Any]) -> None:
        """Wait for all, and raise in each unless all say the same.

        Raises
        ------
        InputError
            If they do not. The message names the first fact in which they differ, and what each
            says of it unless it is long, as a digest is.
        """
        said = self.gathered(what, json.dumps(facts, default=str))
        first = json.loads(said[0])
        for number, text in enumerate(map(json.loads, said)):
            for name in {**first, **text}:
                if first.get(name) != text.get(name):
                    raise InputError(
                        f"processes 0 and {number} of this run differ in {name}"
                        f"{_both(first.get(name), text.get(name))}; no record was answered: give "
                        "all the same options, files and versions"
                    )

    def handed(self, what: str, content: bytes) -> bytes:
        """Return what the first process hands to all under this name.

        **Guarantee.** It is encrypted for each process: X25519 between a fresh key of the first and
        a fresh one of the other, HKDF-SHA256, ChaCha20-Poly1305. So whoever only listens on the way
        to the store learns its length. Nobody is authenticated here, as nowhere between the
        processes of one holder.
        """
        mine = X25519PrivateKey.generate()
        public = mine.public_key().public_bytes_raw().hex()
        others = [
            X25519PublicKey.from_public_bytes(bytes.fromhex(text))
            for text in self.gathered(what, public)
        ]

        def cipher(other: X25519PublicKey) -> ChaCha20Poly1305:
            kdf = HKDF(SHA256(), 32, salt=None, info=f"tacit {what}".encode())
            return ChaCha20Poly1305(kdf.derive(mine.exchange(other)))

        def encrypted() -> str:
            parts = [cipher(other).encrypt(bytes(12), content, None) for other in others[1:]]
            return json.dumps([part.hex() for part in parts])

        parts = json.loads(self.word_of_first(f"{what} key", encrypted))
        if self.first:
            return content
        return cipher(others[0]).decrypt(bytes(12), bytes.fromhex(parts[self.index - 1]), None)

    def blinded(self, digests: Sequence[str | None]) -> list[str | None]:
        """Return digests of records as these processes compare them, under a key of their own.

        **Guarantee.** To others they say nothing: who knows all records but one would find by a
        plain digest which one it is, and by one of dealt records whose each is. All call it.
        """
        if not self._key:
            self._key.append(self.handed("digests", secrets.token_bytes(_KEY)))
        (key,) = self._key
        return [
            None if one is None else hmac.digest(key, one.encode(), "sha256").hex()
            for one in digests
        ]

    def failed(self, why: str) -> None:
        """Tell the others that this one stops, as far as they can be reached."""
        with _quietly():
            self._store.key_value_set(f"{_FAILED}/{self.index:06d}", why)

    def _check(self) -> None:
        for name, why in sorted(self._store.key_value_dir_get(f"{_FAILED}/")):
            if not name.endswith(f"{self.index:06d}"):
                raise ProcessLostError(f"process {int(name[-6:])} of this run stopped: {why}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise `ProcessLostError` for errors that say that a connection was lost.

        Only the first process knows then whether a model was released: it may have had word that
        all are done before it was lost to this one.
        """
        try:
            yield
            return
        except TacitError:
            raise
        except (RuntimeError, ValueError, OSError) as error:
            if not any(word in str(error).lower() for word in _LOST):
                raise
        released = what_was_released(written=self._released.is_set())
        if not self.first:
            released = "whether a model was released the first process tells"
        raise ProcessLostError(
            f"another process of this run ended or cannot be reached; {released}, and what was "
            "charged stays charged"
        )

    @contextmanager
    def together(self) -> Iterator[None]:
        """Tell the others of any error in the body; tell of theirs in place of what it causes."""
        try:
            with self._reached():
                yield
        except ProcessLostError:
            with _quietly():
                self._check()
            raise
        except BaseException as error:
            self.failed(str(error) if isinstance(error, TacitError) else type(error).__name__)
            if self.first:  # the store ends with this process: let the others read it
                time.sleep(_LINGER)
            raise


def _both(first: Any, other: Any) -> str:
    texts = str(first), str(other)
    return "" if max(map(len, texts)) > _TOLD else " ({} and {})".format(*texts)


def connected() -> Processes | None:
    """Return those that `jax.distributed.initialize` has connected; None if there is one."""
    client = distributed.global_state.client
    return None if client is None or jax.process_count() == 1 else _of(client)


@cache
def _of(client: Any) -> Processes:
    """Return the processes that a client is connected to; kept, for they count what was said."""
    return Processes(jax.process_index(), jax.process_count(), client)


@dataclass(frozen=True)
class Meeting:
    """Where the processes of a run wait for each other; one alone waits for nobody."""

    processes: Processes | None

    def agree(self, what: str, facts: Mapping[str, Any]) -> None:
        """Wait for all, and raise `InputError` in each unless all say the same."""
        if self.processes is not None:
            self.processes.agree(what, facts)

    def agree_on_records(self, digest: Callable[[], str | None]) -> None:
        """Wait for all in the same way, and compare a digest that others learn nothing from."""
        if self.processes is not None:
            self.agree("records", {"records": self.processes.blinded([digest()])})


@contextmanager
def side_by_side(several: bool, account: object) -> Iterator[Meeting]:
    """Yield where the processes of a run meet; an error in the body of one ends all.

    Parameters
    ----------
    several
        Whether there are several.
    account
        What this one charges, which only the first may.

    Raises
    ------
    InputError
        If there are several and they are not connected, or another one than the first is to charge.
    """
    if not several:
        yield Meeting(None)
        return
    processes = connected()
    if processes is None:
        raise InputError(
            "the devices belong to several processes that jax.distributed.initialize did not "
            "connect; call it before anything else, or give devices of this process"
        )
    with processes.together():
        if account is not None and not processes.first:
            raise InputError(
                "a run is charged once, by the first process; give no account to the others"
            )
        yield Meeting(processes)


def shared_draw(draw: Draw, processes: Processes | None) -> Draw:
    """Return the first process's draw, in all of them; separate ones put a record at two agents.

    **Guarantee.** A secret key travels under encryption (`Processes.handed`).
    """
    if processes is None or draw.key is None:
        return draw
    return Draw(key=processes.handed("division", draw.key))


def versions() -> dict[str, str]:
    """Return the versions on which it rests that all processes compute the same."""
    rests = ("jax", "jaxlib", "numpy")  # numpy deals out which agent has a record
    return {"tacit": __version__, **{name: version(name) for name in rests}}


@contextmanager
def _quietly() -> Iterator[None]:
    """Pass over what fails because nobody is there any more."""
    try:
        yield
    except TacitError:
        raise
    except (RuntimeError, ValueError, OSError):
        return
