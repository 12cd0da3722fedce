"""Server on this machine for one of the museum's engines, similar to servers of real engines.

It answers `/v1/models` and `/v1/completions`, whole or as a stream of events. Requests that arrive
together run together. Its defaults can be set, to act like a server with unknown defaults.
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

from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.lanes.engine.asking import Answer, Generation, SamplingParams
from draftproof.conformance.museum.engines.engine import MuseumEngine

_TOGETHER = 0.01
"""Seconds to wait for requests that run together."""


@contextmanager
def served(
    engine: MuseumEngine,
    rows: KnownRows,
    *,
    defaults: Mapping[str, Any] | None = None,
    speculation: bool = True,
    refuses: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Serve an engine within the block, at the address that is yielded.

    `defaults` override the settings of every request, like filters that a request cannot switch
    off. Fields that it `refuses` are answered with 422.
    """
    server = _Server(rows, dict(defaults or {}), refuses, speculation=speculation)
    worker = Thread(target=server.work, args=(engine,), daemon=True)
    listener = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    worker.start()
    listener.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        listener.join()
        server.server_close()
        server.queue.put((_LAST, Future()))
        worker.join()


_LAST = Generation((), 0)
"""Marker that ends the work."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Requests arrive faster than threads start: with five, a system resets a connection now and
    # then.
    request_queue_size = 128

    def __init__(
        self,
        rows: KnownRows,
        defaults: Mapping[str, Any],
        refuses: frozenset[str],
        *,
        speculation: bool,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rows, self.defaults, self.refuses = rows, defaults, refuses
        self.speculation = speculation
        self.queue: Queue[tuple[Generation, Future[Answer]]] = Queue()

    def text(self, body: Mapping[str, Any]) -> str:
        """Return the output for a request, once it has run."""
        waiting: Future[Answer] = Future()
        self.queue.put((self._asked({**body, **self.defaults}), waiting))
        return "".join(self.rows.texts[token] for token in waiting.result().tokens)

    def work(self, engine: MuseumEngine) -> None:
        """Run requests as they arrive, until the marker `_LAST` arrives."""
        while True:
            batch = self._batch()
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

    def _batch(self) -> list[tuple[Generation, Future[Answer]]]:
        batch = [self.queue.get()]
        while True:
            try:
                batch.append(self.queue.get(timeout=_TOGETHER))
            except Empty:
                return batch

    def _asked(self, body: Mapping[str, Any]) -> Generation:
        top_k = body.get("top_k")
        sampling = SamplingParams(
            temperature=body.get("temperature", 1.0),
            top_k=top_k if top_k and top_k < len(self.rows.words) else None,
            top_p=body["top_p"] if body.get("top_p", 1.0) < 1 else None,
            min_p=body.get("min_p") or None,
            logit_bias={int(k): v for k, v in body.get("logit_bias", {}).items()},
        )
        prompt = tuple(self.rows.id_of[each] for each in body["prompt"])
        seed = body.get("seed")
        return Generation(prompt, body["max_tokens"], sampling, seed, speculation=self.speculation)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer with the list of models."""
        if self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": [{"id": "target"}]})
        else:
            self._answer(404, {"error": f"there is no {self.path}"})

    def do_POST(self) -> None:
        """Answer a completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if unknown := sorted(self.server.refuses & body.keys()):
            self._answer(422, {"error": f"unknown field {unknown[0]}"})
        elif self.path != "/v1/completions":
            self._answer(404, {"error": f"there is no {self.path}"})
        else:
            self._complete(body)

    def _complete(self, body: Mapping[str, Any]) -> None:
        try:
            text = self.server.text(body)
        except Exception as error:
            self._answer(500, {"error": str(error)})
            return
        if not body.get("stream"):
            self._answer(200, {"choices": [{"text": text, "finish_reason": "length"}]})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        events = [json.dumps({"choices": [{"text": each}]}) for each in text]
        for event in (*events, "[DONE]"):
            self.wfile.write(f"data: {event}\n\n".encode())

    def _answer(self, status: int, document: Mapping[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
