"""A training on two machines: network namespaces with a cable between them."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.test_cluster import account, arguments, end, table

pytestmark = pytest.mark.slow


__all__ = ["account", "table"]  # fixtures


FIRST, SECOND = "192.0.2.1", "192.0.2.2"  # addresses for examples, of nobody


NAMED = """hostname {name}
mount --bind {file} /etc/hosts
exec "$@"
"""


class Hosts:
    """Two machines, by number.

    As on many systems the name of each may stand, first of all, for an address that the other one
    cannot reach.
    """

    def __init__(self, folder, *, reached=True):
        self.folder, self.names = folder, [f"taciturn{os.getpid()}{letter}" for letter in "ab"]
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            own = "" if reached else f"127.0.1.1 {name}\n"
            both = f"{FIRST} {self.names[0]}\n{SECOND} {self.names[1]}\n"
            (folder / f"{name}.hosts").write_text(f"127.0.0.1 localhost\n{own}{both}")
        one, other = self.names
        ip("link", "add", "eth0", "netns", one, "type", "veth", "peer", "eth0", "netns", other)
        for name, address in zip(self.names, (FIRST, SECOND), strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")

    def start(self, number, words):
        """Start a command on a machine."""
        name = self.names[number]
        called = NAMED.format(name=name, file=self.folder / f"{name}.hosts")
        inside = ["ip", "netns", "exec", name, "unshare", "--uts", "--mount"]
        return subprocess.Popen(
            [*inside, "sh", "-c", called, "sh", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder,
        )  # fmt: skip

    def train(self, *further):
        """Start the two processes of a training."""
        among = ("--cluster", f"{FIRST}:4000", "--processes", "2", "--process")
        return [self.start(n, arguments(self.folder, *further, *among, str(n))) for n in range(2)]

    def unplug(self):
        """Take the cable out: nothing arrives any more, and nobody is told."""
        ip("-n", self.names[0], "link", "set", "eth0", "down")

    def listening(self):
        """The addresses of both machines on which anything listens."""
        for name in self.names:
            tables = subprocess.run(
                ["ip", "netns", "exec", name, "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            for line in tables.stdout.splitlines():
                fields = line.split()
                if fields[3] == "0A":
                    yield fields[1].partition(":")[0][-8:]  # of an IPv4 address in IPv6, too

    def remove(self):
        """Take the machines down."""
        for name in self.names:
            ip("netns", "delete", name)


def ip(*words):
    """Call the command `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(params=[True])
def hosts(table, request):
    if shutil.which("ip") is None or shutil.which("unshare") is None or os.getuid():
        pytest.skip("namespaces need iproute2 and an administrator")
    try:
        two = Hosts(table, reached=request.param)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this system makes no network namespaces: {error.stderr!r}")
    yield two
    two.remove()


@pytest.mark.parametrize("hosts", [False], indirect=True)
def test_names_that_the_other_machine_cannot_reach_are_refused_before_the_charge(hosts, account):
    ended = end(hosts.train("--account", "ill", "--accounts", str(hosts.folder)))
    assert 2 in [code for *_, code in ended], ended
    assert all(code for *_, code in ended)  # JAX may end the other one
    assert any("must resolve to an address that the others reach" in str(each) for each in ended)
    assert account.state().runs == ()


def test_a_cable_that_is_pulled_ends_both_and_the_charge_stays(hosts, account):
    charged = ("--account", "ill", "--accounts", str(hosts.folder))
    processes = hosts.train("--rounds", "200000", *charged)
    until = time.monotonic() + 90
    while not account.state().charged:
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(3)
    # 192.0.2.1 and 192.0.2.2 in the order of the kernel's digits, and 127.0.0.0/8
    found = set(hosts.listening())
    assert found
    assert all(re.fullmatch(r"0[12]0200C0|[0-9A-F]{6}7F", place) for place in found), found
    hosts.unplug()
    began = time.monotonic()
    ended = end(processes)
    assert all(code for *_, code in ended)
    assert time.monotonic() - began < 60
    assert [run.status for run in account.state().charged] in (["opened"], ["failed"])
    assert not (Path(hosts.folder) / "out").exists()
