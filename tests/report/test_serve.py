"""`karat view`: this computer only, the page's files only, fresh while the run goes on."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from karat.kernel.errors import BadInput
from karat.report.serve import HOST, Pages, _Server, served
from karat.results.store import Store
from tests.report.chromium import Browser
from tests.report.runs import make_run


def _get(address: str, path: str, host: str | None = None, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(HOST, where.port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host or where.netloc})
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:  # type: ignore[misc]
    run = make_run(tmp_path_factory.mktemp("view") / "run", n=6)
    with served([run], port=0) as (address, _):
        yield address


def test_the_page_and_its_files_are_served(page: str) -> None:
    status, body, heads = _get(page, "/")
    assert status == 200
    assert b'<html lang="en" data-live="1"' in body
    assert heads["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in heads["content-security-policy"]
    assert _get(page, "/assets/style.css")[2]["content-type"].startswith("text/css")
    assert _get(page, "/data/items.js")[0] == 200


@pytest.mark.parametrize("path", [
    "/../run/manifest.json", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../page-2", "//etc/passwd", "/assets", "/nothing",
    "/data/%00.js",
])  # fmt: skip
def test_nothing_else_is(page: str, path: str) -> None:
    assert _get(page, path)[0] == 404


def test_other_names_and_other_methods_are_refused(page: str) -> None:
    assert _get(page, "/", host="evil.example")[0] == 421
    assert _get(page, "/", host=f"evil.example:{urlsplit(page).port}")[0] == 421
    assert _get(page, "/", host=f"localhost:{urlsplit(page).port}")[0] == 200
    assert _get(page, "/", method="POST")[0] == 501


def test_it_listens_on_this_computer_only(page: str) -> None:
    assert urlsplit(page).hostname == "127.0.0.1"
    for family, _, _, _, place in socket.getaddrinfo(
        socket.gethostname(), urlsplit(page).port, type=socket.SOCK_STREAM
    ):
        if place[0] != HOST and not str(place[0]).startswith(("127.", "::1")):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.settimeout(2)
                assert probe.connect_ex(place) != 0


def test_new_rows_make_a_new_page_and_old_rows_do_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=8, shard_size=4, unfinished=True)
    with served([run], port=0) as (address, pages):
        first = json.loads(_get(address, "/live.json")[1])
        assert first == {"page": 1, "done": 18, "wanted": 24}
        assert pages.refresh() is False
        make_run(tmp_path / "run", n=8, shard_size=4)
        assert pages.refresh() is True
        assert json.loads(_get(address, "/live.json")[1]) == {"page": 2, "done": 24, "wanted": 24}
        assert b'data-live="2"' in _get(address, "/")[1]


@pytest.mark.browser
def test_an_open_page_shows_itself_anew_where_it_is(browser: Browser, tmp_path: Path) -> None:
    """Same place, new rows, and the policy that the server sends stops nothing that the page needs."""
    run = make_run(tmp_path / "run", n=8, shard_size=4, unfinished=True)
    with served([run], port=0) as (address, pages):
        browser.open(address, "samples?layout=one&model=twin.pure", "document.querySelectorAll('.card').length > 3")
        browser.until("document.querySelector('.live').textContent === 'Running: 18 of 24 cells'")
        browser.run("window.mine = true")
        make_run(tmp_path / "run", n=8, shard_size=4)
        pages.refresh()
        browser.until("window.mine === undefined && document.querySelector('.live')?.textContent === 'Complete'", 30)
        assert browser.run("location.hash").startswith("#samples?layout=one&model=twin.pure")
        browser.until("document.querySelectorAll('.card').length > 3")
        browser.call("Page.navigate", url="about:blank")  # or it would ask a server that has gone


def test_a_reader_who_leaves_early_is_no_error(page: str, capfd: pytest.CaptureFixture[str]) -> None:
    where = urlsplit(page)
    for path in ("/data/items.js", "/nothing"):
        for _ in range(20):
            with socket.create_connection((HOST, where.port or 0)) as reader:
                reader.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
    assert _get(page, "/")[0] == 200
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_an_error_on_the_way_is_quiet_only_if_the_reader_left(capfd: pytest.CaptureFixture[str]) -> None:
    server = _Server((HOST, 0), BaseHTTPRequestHandler)
    for error in (BrokenPipeError(), ConnectionResetError(), ZeroDivisionError()):
        try:
            raise error
        except Exception:
            server.handle_error(None, (HOST, 1))
    server.server_close()
    said = capfd.readouterr().err
    assert "ZeroDivisionError" in said
    assert "BrokenPipe" not in said
    assert "ConnectionReset" not in said


def test_a_page_removed_while_it_is_asked_for_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", n=4)
    with served([run], port=0) as (address, pages):
        monkeypatch.setattr(pages, "file", lambda address: tmp_path / "gone.html")
        assert _get(address, "/")[0] == 404
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_that_cannot_be_read_for_a_moment_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=4)
    with served([run], port=0) as (address, pages):
        sound = (run / "manifest.json").read_bytes()
        (run / "manifest.json").write_bytes(sound[:100])
        assert pages.refresh() is False
        (run / "manifest.json").write_bytes(sound)
        assert b'data-live="1"' in _get(address, "/")[1]


def test_a_run_without_a_cell_waits(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=4, models=("twin.pure",), unfinished=True)
    with served([run], port=0) as (address, pages):
        assert b"waits for the first" in _get(address, "/")[1]
        make_run(tmp_path / "run", n=4, models=("twin.pure",))
        assert pages.refresh() is True
        assert b"data-live" in _get(address, "/")[1]


def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a run directory"), served([tmp_path], port=0):
        pass
    run = make_run(tmp_path / "run", n=4)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(BadInput, match="Choose another --port"), served([run], port=taken.getsockname()[1]):
            pass


def test_a_refresh_reads_new_shards_alone_and_keeps_the_chunks_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", n=80, models=("twin.pure",), shard_size=40, unfinished=True)
    opened: list[str] = []
    read = Store.read_shard
    monkeypatch.setattr(Store, "read_shard", lambda store, name: (opened.append(name), read(store, name))[1])
    pages = Pages([run], tmp_path / "pages")
    assert pages.refresh()
    first = set(opened)
    assert len(first) == 2  # the scores of one shard, and its maps
    make_run(tmp_path / "run", n=80, models=("twin.pure",), shard_size=40)
    opened.clear()
    assert pages.refresh()
    assert len(opened) == 2
    assert not first & set(opened)
