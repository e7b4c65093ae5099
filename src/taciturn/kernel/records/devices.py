"""The devices among which agents are divided, on one machine or several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from taciturn.errors import InputError
from taciturn.kernel.records.memory import placed
from taciturn.kernel.records.shards import Shards
from taciturn.typing import Array, HostArray

_AXIS = "agents"


@dataclass(frozen=True)
class Devices:
    """Devices, each of which holds the records of equally many consecutive agents, in order.

    Devices of one process are contiguous, as in `jax.devices()`.
    """

    devices: Sequence[jax.Device] = field(default_factory=lambda: tuple(jax.devices()))

    def __post_init__(self) -> None:
        given = tuple(self.devices)
        object.__setattr__(self, "devices", given)
        if not given or len(set(given)) != len(given):
            raise InputError("devices are none, or one is repeated; give jax.devices(), or some")
        here = self._here
        if not here or here != list(range(here[0], here[0] + len(here))):
            raise InputError(
                "this process holds none of these devices, or those it holds are not contiguous; "
                "give jax.devices(), which lists those of all processes in order"
            )

    @property
    def _here(self) -> list[int]:
        here = jax.process_index()
        return [n for n, device in enumerate(self.devices) if device.process_index == here]

    @property
    def processes(self) -> int:
        """How many processes hold these devices."""
        return len({device.process_index for device in self.devices})

    @cached_property
    def on_agents(self) -> NamedSharding:
        """The sharding of arrays whose first axis is that of agents."""
        return NamedSharding(self._mesh, PartitionSpec(_AXIS))  # type: ignore[no-untyped-call]

    @cached_property
    def everywhere(self) -> NamedSharding:
        """The sharding of arrays that every device holds whole."""
        return NamedSharding(self._mesh, PartitionSpec())  # type: ignore[no-untyped-call]

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), (_AXIS,))

    def array(self, local: HostArray, agents: int, *, axis: int = 0) -> Array:
        """Return an array of all agents along an axis, of which `local` is held here."""
        parts = PartitionSpec(*(None,) * axis, _AXIS)  # type: ignore[no-untyped-call]
        return placed(local, NamedSharding(self._mesh, parts), agents, axis)

    def local(self, agents: int) -> range:
        """Return the agents whose records this process holds, equally many on each device."""
        each, left = divmod(agents, len(self.devices))
        if left or not each:
            fits = [str(n) for n in range(1, agents + 1) if agents % n == 0]
            raise InputError(
                f"{agents} agents cannot be divided evenly among {len(self.devices)} devices or "
                f"processes; take {', '.join(fits)}"
            )
        here = self._here
        return range(here[0] * each, (here[-1] + 1) * each)


def spread(shards: Shards, devices: Devices) -> Shards:
    """Return the shards, each agent's on its device; those of other processes are dropped.

    Records that are spread over these devices already (`shards_of_process`) are returned unchanged.
    """
    mask = shards.stacked.mask
    if len(devices.devices) > 1 and mask.sharding.is_equivalent_to(devices.on_agents, mask.ndim):
        return shards
    if not mask.is_fully_addressable:
        raise InputError(
            "the records were spread over other devices than these, or in another order, so an "
            "agent's would move to another process; give shards_of_process and the run the same "
            "devices"
        )
    local = devices.local(shards.agents)
    return _placed_on(devices, shards, slice(local.start, local.stop))


def digest_of_all(shards: Shards) -> str | None:
    """Return the SHA-256 of all agents' records; None if this process holds only some of them."""
    leaves = jax.tree.leaves(shards.stacked)
    if not all(leaf.is_fully_addressable for leaf in leaves):
        return None
    content = hashlib.sha256()
    for leaf in leaves:
        content.update(np.ascontiguousarray(leaf).data)
    return content.hexdigest()


def shards_of_process(local: Shards, counts: tuple[int, ...], devices: Devices) -> Shards:
    """Return shards of all agents, of which this process holds only the records of `local`.

    `local` are those of this process (`Devices.local`), in blocks as long as the largest of the
    `counts` m_i of all agents, which are public.

    **Guarantee.** No record leaves this process. A run computes answers where the records are,
    agent by agent, and exchanges messages, functions of noised answers. The caller must ensure that
    all processes divide the records in the same way: a record packed by two of them is in two
    answers, and the counts do not reveal that.
    """
    held = devices.local(len(counts))
    if local.counts != counts[held.start : held.stop]:
        raise InputError(
            f"this process packed the records of other agents than {held.start}..{held.stop - 1}, "
            "which it holds; pack these"
        )
    return _placed_on(devices, Shards(local.stacked, counts, local.record_norm, local.origin))


def _placed_on(devices: Devices, shards: Shards, local: slice = slice(None)) -> Shards:
    def on(leaf: Array) -> Array:
        return devices.array(np.asarray(leaf)[local], shards.agents)

    stacked = jax.tree.map(on, shards.stacked)
    return Shards(stacked, shards.counts, shards.record_norm, shards.origin)
