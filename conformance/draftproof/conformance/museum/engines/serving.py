"""A server on this machine that serves one of the museum's engines, as engines of the world do.

It answers `/v1/models` and `/v1/completions`, whole or as a stream of events. Requests that arrive
together run together. Its defaults can be set, as those of a server can that nobody configured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from typing import Any

from draftproof.conformance.checkpoint.rows import Rows
from draftproof.conformance.lanes.engine.asking import Answer, Generation, Sampling
from draftproof.conformance.museum.engines.engine import Engine

_TOGETHER = 0.01
"""So many seconds are waited for requests that run together."""


@contextmanager
def served(
    engine: Engine,
    rows: Rows,
    *,
    defaults: Mapping[str, Any] | None = None,
    speculation: bool = True,
    refuses: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Serve an engine within the block, at the address that is yielded.

    `defaults` override the settings of every request, as filters do that a server does not let a
    request switch off. Fields that it `refuses` are answered with 422.
    """
    queue: Queue[tuple[Generation, Future[Answer]]] = Queue()
    handler = _handler(rows, queue, dict(defaults or {}), refuses, speculation=speculation)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    worker = Thread(target=_work, args=(engine, queue), daemon=True)
    listener = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    worker.start()
    listener.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        listener.join()
        server.server_close()
        queue.put((_LAST, Future()))
        worker.join()


_LAST = Generation((), 0)
"""Ends the work."""


def _work(engine: Engine, queue: Queue[tuple[Generation, Future[Answer]]]) -> None:
    """Run what has arrived, until the last request has."""
    while True:
        batch = [queue.get()]
        while True:
            try:
                batch.append(queue.get(timeout=_TOGETHER))
            except Empty:
                break
        if any(asked is _LAST for asked, _ in batch):
            return
        try:
            answers = engine.generate([asked for asked, _ in batch])
        except Exception as error:
            for _, waiting in batch:
                waiting.set_exception(error)
        else:
            for (_, waiting), answer in zip(batch, answers, strict=True):
                waiting.set_result(answer)


def _handler(
    rows: Rows,
    queue: Queue[tuple[Generation, Future[Answer]]],
    defaults: Mapping[str, Any],
    refuses: frozenset[str],
    *,
    speculation: bool,
) -> type[BaseHTTPRequestHandler]:
    def answered(body: Mapping[str, Any]) -> str:
        asked = _asked({**body, **defaults}, rows, speculation=speculation)
        waiting: Future[Answer] = Future()
        queue.put((asked, waiting))
        return "".join(rows.texts[token] for token in waiting.result().tokens)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Answer which models there are."""
            if self.path == "/v1/models":
                self._answer(200, {"object": "list", "data": [{"id": "target"}]})
            else:
                self._answer(404, {"error": f"there is no {self.path}"})

        def do_POST(self) -> None:
            """Answer a completion."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if unknown := sorted(refuses & body.keys()):
                self._answer(422, {"error": f"unknown field {unknown[0]}"})
                return
            if self.path != "/v1/completions":
                self._answer(404, {"error": f"there is no {self.path}"})
                return
            try:
                text = answered(body)
            except Exception as error:
                self._answer(500, {"error": str(error)})
                return
            if body.get("stream"):
                self._stream(text)
            else:
                self._answer(200, {"choices": [{"text": text, "finish_reason": "length"}]})

        def _stream(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for each in text:
                self._event(json.dumps({"choices": [{"text": each}]}))
            self._event("[DONE]")

        def _event(self, text: str) -> None:
            self.wfile.write(f"data: {text}\n\n".encode())

        def _answer(self, status: int, document: Mapping[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _asked(body: Mapping[str, Any], rows: Rows, *, speculation: bool) -> Generation:
    """Return the request in the body of a completion."""
    top_k = body.get("top_k")
    sampling = Sampling(
        temperature=body.get("temperature", 1.0),
        top_k=top_k if top_k and top_k < len(rows.words) else None,
        top_p=body["top_p"] if body.get("top_p", 1.0) < 1 else None,
        min_p=body.get("min_p") or None,
        logit_bias={int(k): v for k, v in body.get("logit_bias", {}).items()},
    )
    prompt = tuple(rows.id_of[each] for each in body["prompt"])
    seed = body.get("seed")
    return Generation(prompt, body["max_tokens"], sampling, seed, speculation=speculation)
