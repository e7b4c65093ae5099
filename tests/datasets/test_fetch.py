"""Files are verified wherever they come from; a failed download leaves nothing behind."""

import hashlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from taciturn.datasets import fetch
from taciturn.datasets.fetch import RemoteFile, contents, located
from taciturn.errors import DataError

ORIGINAL = b"the original file\n" * 40


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(ORIGINAL)))
        self.end_headers()
        self.wfile.write(ORIGINAL[:100] if self.path == "/cut" else ORIGINAL)

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def site() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACITURN_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


def pinned(url: str) -> RemoteFile:
    return RemoteFile("toy", "toy.gz", url, hashlib.sha256(ORIGINAL).hexdigest())


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def files_under(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def refusal(file: RemoteFile, cache: Path) -> str:
    with pytest.raises(DataError) as caught:
        contents(file, cache=cache)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_download_is_kept_and_found_again_without_the_site(
    site: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert contents(pinned(site + "/toy"), cache=tmp_path) == ORIGINAL
    assert files_under(tmp_path) == [tmp_path / "toy" / "toy.gz"]
    gone = pinned(f"http://127.0.0.1:{closed_port()}/toy")
    assert contents(gone, cache=tmp_path) == ORIGINAL
    assert capfd.readouterr() == ("", "")


def test_an_unreachable_site_fails_soon_and_says_where_to_put_the_file(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/toy"
    start = time.monotonic()
    message = refusal(pinned(url), tmp_path)
    assert time.monotonic() - start < 20
    for part in (url, "TACITURN_DATA_DIR", "<dir>/toy/toy.gz", "ConnectionError"):
        assert part in message
    assert files_under(tmp_path) == []


def test_a_silent_site_times_out_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(fetch.TIMEOUT) < 20
    monkeypatch.setattr(fetch, "TIMEOUT", (0.2, 0.2))
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        message = refusal(pinned(f"http://127.0.0.1:{mute.getsockname()[1]}/toy"), tmp_path)
    assert "Timeout" in message
    assert files_under(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "part"), [("/absent", "HTTPError"), ("/cut", "could not be downloaded")]
)
def test_a_missing_page_or_a_cut_transfer_leaves_nothing(
    site: str, tmp_path: Path, page: str, part: str
) -> None:
    assert part in refusal(pinned(site + page), tmp_path)
    assert files_under(tmp_path) == []


def test_a_download_that_differs_from_the_pin_is_refused_and_not_kept(
    site: str, tmp_path: Path
) -> None:
    file = replace(pinned(site + "/toy"), sha256="0" * 64)
    message = refusal(file, tmp_path)
    assert "0" * 12 in message
    assert hashlib.sha256(ORIGINAL).hexdigest()[:12] in message
    assert files_under(tmp_path) == []


@pytest.mark.parametrize("damage", [ORIGINAL[:-1], b"", ORIGINAL.replace(b"t", b"T", 1)])
@pytest.mark.parametrize("by_variable", [True, False])
def test_a_truncated_or_altered_file_is_refused_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes, by_variable: bool
) -> None:
    root, cache = (tmp_path / "data", tmp_path / "cache")
    if by_variable:
        monkeypatch.setenv("TACITURN_DATA_DIR", str(root))
    path = (root if by_variable else cache) / "toy" / "toy.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    file = pinned("http://127.0.0.1:1/toy")
    message = refusal(file, cache)
    digests = (file.sha256[:12], hashlib.sha256(damage).hexdigest()[:12])
    for part in (str(path), *digests, "delete it or put the original", f"{len(damage)} bytes"):
        assert part in message
    assert path.read_bytes() == damage


def test_the_folder_named_by_the_variable_comes_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pinned("http://127.0.0.1:1/toy")
    assert located(file, cache=tmp_path / "cache") is None
    for root in ("cache", "data"):
        (tmp_path / root / "toy").mkdir(parents=True)
        (tmp_path / root / "toy" / "toy.gz").write_bytes(ORIGINAL)
    assert located(file, cache=tmp_path / "cache") == tmp_path / "cache" / "toy" / "toy.gz"
    monkeypatch.setenv("TACITURN_DATA_DIR", str(tmp_path / "data"))
    assert located(file, cache=tmp_path / "cache") == tmp_path / "data" / "toy" / "toy.gz"
    (tmp_path / "data" / "toy" / "toy.gz").unlink()
    assert located(file, cache=tmp_path / "cache") == tmp_path / "cache" / "toy" / "toy.gz"


def test_a_cache_that_cannot_be_written_is_named(site: str, tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"a file where the folder should be")
    assert "cannot be written" in refusal(pinned(site + "/toy"), tmp_path)
