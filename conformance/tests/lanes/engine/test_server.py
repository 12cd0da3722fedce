from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.checkpoint.writing import rows_of
from draftproof.conformance.lanes.engine.asking import Generation, SamplingParams
from draftproof.conformance.lanes.engine.server import (
    MOST_BYTES,
    UNKNOWN,
    EngineFailed,
    InvalidUrl,
    Server,
)

pytest.importorskip("torch")

Reply = Callable[[str, dict[str, Any]], tuple[int, bytes]]


def rows() -> KnownRows:
    return rows_of(chain(), kind="memory-1", dtype="float32")


@contextmanager
def replying(
    reply: Reply, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """Serve what a function replies to path and body; yield the address and what was sent."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body: dict[str, Any]) -> None:
            seen.append((self.path, body, dict(self.headers)))
            status, content = reply(self.path, body)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def completing(text: str) -> Reply:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if path.endswith("/models"):
            return 200, b'{"data": [{"id": "tiny"}]}'
        return 200, json.dumps({"choices": [{"text": text}]}).encode()

    return reply


ASKED = Generation((3, 4), 2)


def test_every_filter_is_sent_switched_off() -> None:
    with replying(completing("ab")) as (url, seen):
        server = Server(url, rows())
        (answer,) = server.generate([ASKED])
    assert answer.tokens == (3, 4)
    path, body, _ = seen[-1]
    assert path == "/v1/completions"
    off = {"temperature": 1.0, "top_p": 1.0, "top_k": 16, "min_p": 0.0, "repetition_penalty": 1.0}
    off |= {"presence_penalty": 0.0, "frequency_penalty": 0.0, "ignore_eos": True}
    assert body.items() >= {**off, "model": "tiny", "prompt": "ab", "max_tokens": 2}.items()
    assert "seed" not in body


def test_settings_seed_and_key_are_sent() -> None:
    sampling = SamplingParams(temperature=0.5, top_k=3, logit_bias={3: 1.5})
    with replying(completing("ab")) as (url, seen):
        Server(url, rows(), key="secret").generate([Generation((3,), 2, sampling, seed=7)])
    _, body, headers = seen[-1]
    assert body.items() >= {"temperature": 0.5, "top_k": 3, "seed": 7}.items()
    assert body["logit_bias"] == {"3": 1.5}
    assert headers["Authorization"] == "Bearer secret"


def test_an_address_may_end_in_v1() -> None:
    with replying(completing("ab")) as (url, seen):
        Server(f"{url}/v1/", rows()).generate([ASKED])
    assert [path for path, _, _ in seen] == ["/v1/models", "/v1/completions"]


def test_a_text_of_other_tokens_is_no_token() -> None:
    with replying(completing("a?")) as (url, _):
        (answer,) = Server(url, rows()).generate([ASKED])
    assert answer.tokens == (3, UNKNOWN)


def test_a_server_that_writes_the_same_twice_is_sent_seeds() -> None:
    for text, repeats in (("a" * 64, True), (None, False)):
        count = iter("abc" * 9)

        def reply(
            path: str, body: dict[str, Any], text: str | None = text, count: Iterator[str] = count
        ) -> tuple[int, bytes]:
            return completing((text or next(count) * 64)[: body.get("max_tokens", 0)])(path, body)

        with replying(reply) as (url, seen):
            server = Server(url, rows())
            server.probe()
            server.generate([ASKED, ASKED])
        assert server.repeats is repeats
        assert [("seed" in body) for _, body, _ in seen[-2:]] == [repeats] * 2


def test_an_answer_that_drips_has_no_more_time_than_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            opened, _ = listening.accept()
            with opened, suppress(OSError):
                opened.recv(2**16)
                opened.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _ in range(100):
                    opened.sendall(b" ")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(EngineFailed, match=r"no answer in 0\.3 s"):
            Server(url, rows(), "tiny", seconds=0.3).generate([ASKED])
        thread.join()


def test_special_tokens_are_seen() -> None:
    with replying(completing("a</s>b")) as (url, seen):
        (answer,) = Server(url, rows()).generate([ASKED])
    assert answer.tokens == (3, 2, 4)
    assert seen[-1][1]["skip_special_tokens"] is False


def test_a_text_of_fewer_tokens_than_were_written_hides_some() -> None:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if not body:
            return completing("")(path, body)
        said = {"choices": [{"text": "ab"}], "usage": {"completion_tokens": 4}}
        return 200, json.dumps(said).encode()

    with replying(reply) as (url, _):
        (answer,) = Server(url, rows()).generate([ASKED])
    assert answer.tokens == (UNKNOWN, UNKNOWN, 3, 4)


def test_a_stream_is_read_event_by_event() -> None:
    events = [{"choices": [{"text": each}]} for each in "ab"] + [{"choices": []}]
    lines = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"

    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        assert body.get("stream", True)
        return (200, lines.encode()) if body else completing("")(path, body)

    with replying(reply) as (url, _):
        (answer,) = Server(url, rows()).generate([Generation((3,), 2, stream=True)])
    assert answer.tokens == (3, 4)


def test_a_field_that_is_refused_is_left_out_from_then_on() -> None:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        for name in ("typical_p", "top_k"):
            if name in body:
                return 422, f'{{"detail": "extra field {name}"}}'.encode()
        return completing("ab")(path, body)

    with replying(reply) as (url, seen):
        server = Server(url, rows())
        server.generate([ASKED])
        server.generate([ASKED])
    assert server.refused == ["typical_p", "top_k"]
    assert len(seen) == 1 + 3 + 1


def test_settings_that_are_refused_are_not_asked_for() -> None:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        refused = sorted({"min_p", "logit_bias"} & body.keys())
        if refused:
            return 422, f"unexpected {refused[0]}".encode()
        if body.get("top_k") == 3:
            return 400, b"top_k is too small"
        return completing("a" * body.get("max_tokens", 0))(path, body)

    with replying(reply) as (url, _):
        server = Server(url, rows())
        server.probe()
        assert server.settings == ("temperature", "top_k", "top_p")
        with pytest.raises(EngineFailed, match="400 top_k is too small"):
            server.generate([Generation((3,), 2, SamplingParams(top_k=3))])


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        (400, b"temperature must be below 1", "400 temperature must be below 1"),
        (500, b"out of memory", "500 Internal Server Error: out of memory"),
        (200, b"<html>", "does not answer with JSON: b'<html>'"),
        (200, b"[]", "does not answer with an object"),
        (200, b'{"choices": []}', "has not one choice"),
        (200, b'{"choices": [{"text": 3}]}', "has no text"),
        (200, b" " * (MOST_BYTES + 1), f"more than {MOST_BYTES:,} bytes"),
    ],
)
def test_an_answer_that_is_none_is_told(status: int, content: bytes, told: str) -> None:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        return (status, content) if body else completing("")(path, body)

    with replying(reply) as (url, _), pytest.raises(EngineFailed, match=told):
        Server(url, rows()).generate([ASKED])


def test_a_redirect_is_not_followed() -> None:
    with (
        replying(completing("ab")) as (other, seen),
        replying(lambda *_: (307, b""), {"Location": f"{other}/v1/models"}) as (url, _),
        pytest.raises(EngineFailed, match="307"),
    ):
        Server(url, rows()).begin()
    assert seen == []


def test_several_models_have_to_be_named() -> None:
    models = b'{"data": [{"id": "a"}, {"id": "b"}]}'
    with replying(lambda *_: (200, models)) as (url, _):
        with pytest.raises(EngineFailed, match=r"/v1/models lists 2 models \(a, b\): name one"):
            Server(url, rows()).begin()
        Server(url, rows(), "b").begin()


def test_a_named_model_needs_no_list() -> None:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        return (500, b"no cache") if path.endswith("/models") else completing("ab")(path, body)

    with replying(reply) as (url, _):
        with pytest.raises(EngineFailed, match=r"v1/models: 500 .*: no cache; name the model"):
            Server(url, rows()).begin()
        Server(url, rows(), "tiny").generate([ASKED])


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(EngineFailed, match="is the server running there"):
        Server("http://127.0.0.1:9", rows()).begin()


def test_a_server_that_does_not_answer_is_told() -> None:
    waiting = threading.Event()

    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        waiting.wait(5)
        return 200, b"{}"

    with replying(reply) as (url, _):
        with pytest.raises(EngineFailed, match=r"no answer in 0\.2 s"):
            Server(url, rows(), seconds=0.2).begin()
        waiting.set()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("127.0.0.1:8000", "an address such as http://127.0.0.1:8000, got '127.0.0.1:8000'"),
        ("ftp://host", "an address such as"),
        ("http://", "an address such as"),
        ("http://host/?a=b", "no query and no fragment"),
        ("http://127.0.0.1:99999", "an address such as .*Port out of range"),
        ("http://[zz]", "an address such as"),
        ("http://ex..ample:9", "an address such as"),
        ("http://a b:9", "in ASCII and without spaces"),
        ("http://127.0.0.1:9/\u00e4", "in ASCII and without spaces"),
        ("http://127.0.0.1:9/\nx", "an address such as|in ASCII"),
        ("http://me:secret@host", "it has no credentials: give a key in OPENAI_API_KEY"),
    ],
)
def test_what_is_no_address_is_told(url: str, told: str) -> None:
    with pytest.raises(InvalidUrl, match=told):
        Server(url, rows())
