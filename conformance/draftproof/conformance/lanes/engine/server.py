"""Engines behind an OpenAI-compatible server.

Every request goes to the given address: Draftproof follows no redirects, and uses no proxy. It
sends every filter that a server may have by default explicitly, switched off. It leaves out a field
that the server refuses from then on, and names it in `refused`.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from secrets import randbits
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.lanes.engine.asking import Answer, Generation, SamplingParams, Tokens

MOST_BYTES = 2**22
"""Maximum number of bytes of one answer."""

SECONDS = 120.0
"""Maximum duration of one answer, in seconds."""

MOST_MISSING = 2**20
"""Maximum number of tokens that a server may report."""

UNKNOWN = -1
"""Stand-in for a text that is not a token of the checkpoint."""


class EngineFailed(RuntimeError):
    """Error of an engine whose answer cannot be judged; the message quotes the answer."""


class InvalidUrl(ValueError):
    """Error of an address that no server can have."""


@dataclass
class Server:
    """Engine behind an address such as http://127.0.0.1:8000, with the checkpoint's rows."""

    url: str
    rows: KnownRows
    model: str | None = None
    """The name of the model, None for the only model that the server lists."""
    key: str | None = None
    """The key to send, None for no key."""
    seconds: float = SECONDS
    name: str = "server"
    version: str = "unknown"
    switchable: bool = False
    """False: a server either drafts or does not; the control is a second server."""
    settings: tuple[str, ...] = ("temperature", "top_k", "top_p", "min_p", "logit_bias")
    refused: list[str] = field(default_factory=list)
    """Fields of requests that the server refuses."""
    repeats: bool = False
    """True if it repeats its output, so that every request gets a seed."""

    def __post_init__(self) -> None:
        example = "a server has an address such as http://127.0.0.1:8000"
        try:
            parts = urlsplit(self.url)
            _ = parts.port, (parts.hostname or "").encode("idna")
        except ValueError as error:
            raise InvalidUrl(f"{example}, got {self.url!r}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidUrl(f"{example}, got {self.url!r}")
        if parts.username is not None:
            raise InvalidUrl(
                f"the certificate has the address, so it has no credentials: give a key in "
                f"OPENAI_API_KEY; {example}"
            )
        if not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise InvalidUrl(f"{example}, in ASCII and without spaces, got {self.url!r}")
        if parts.query or parts.fragment:
            raise InvalidUrl(f"an address has no query and no fragment, got {self.url!r}")
        path = parts.path.rstrip("/")
        self._path = path if path.endswith("/v1") else f"{path}/v1"
        self._parts, self._host = parts, parts.hostname
        self._root = f"{parts.scheme}://{parts.netloc}{self._path}"

    def begin(self) -> None:
        """Ask for the name of the server's model, unless it is known. Raises `EngineFailed`."""
        self.name = f"server {self._parts.netloc}"
        if self.model is not None:
            return
        try:
            said = self._sent("GET", "/models", None)
        except _FieldRefused as error:
            raise EngineFailed(f"{self._root}/models: {error.told}; name the model") from None
        listed = said.get("data")
        names = [
            each["id"]
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, dict) and isinstance(each.get("id"), str)
        ]
        if len(names) != 1:
            raise EngineFailed(
                f"{self._root}/models lists {len(names)} models ({', '.join(names[:5])}): name one"
            )
        self.model = names[0]

    def probe(self) -> None:
        """Ask for a few tokens, to learn which fields the server takes, and whether it repeats."""
        first = self.rows.words[0]
        prompt = (first,) * self.rows.memory
        neutral = SamplingParams(logit_bias={first: 0.0})
        self.generate([Generation(prompt, 1, neutral, seed=0)])
        # The same text twice is no chance: then the server has a seed of its own for all requests.
        twice = [self.generate([Generation(prompt, 64)]) for _ in range(2)]
        self.repeats = twice[0] == twice[1]
        self.settings = tuple(each for each in self.settings if each not in self.refused)

    def generate(self, requests: Sequence[Generation]) -> list[Answer]:
        """Return the answer to each request; all of them are sent at the same time."""
        if self.model is None:
            self.begin()
        if len(requests) == 1:
            return [self._answer(requests[0])]
        with ThreadPoolExecutor(len(requests)) as pool:
            return [*pool.map(self._answer, requests)]

    def _answer(self, asked: Generation) -> Answer:
        while True:
            body = {k: v for k, v in self._body(asked).items() if k not in self.refused}
            try:
                text, written = self._text(body)
            except _FieldRefused as error:
                told = error.told
                name = next((each for each in _OPTIONAL if each in body and each in told), None)
                if name is None or name in asked.sampling.filters:
                    raise EngineFailed(f"{self.url}: {told}") from None
                if name not in self.refused:
                    self.refused.append(name)
                continue
            return Answer(self._tokens(text, written))

    def _text(self, body: Mapping[str, Any]) -> tuple[str, int | None]:
        """Return the text of a completion, and its number of tokens as reported by the server."""
        if body.get("stream"):
            return "".join(self._streamed(body)), None
        said = self._sent("POST", "/completions", body)
        usage = said.get("usage")
        written = usage.get("completion_tokens") if isinstance(usage, dict) else None
        return _text_of(said, self.url), written if type(written) is int else None

    def _body(self, asked: Generation) -> dict[str, Any]:
        sampling, seed = asked.sampling, asked.seed
        if seed is None and self.repeats:
            seed = randbits(31)
        return {
            "model": self.model,
            "prompt": "".join(self.rows.texts[token] for token in asked.prompt),
            "max_tokens": asked.max_tokens,
            "temperature": sampling.temperature,
            "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
            # Servers switch the filter off by 0, by -1 or not at all: all tokens is the same.
            "top_k": sampling.top_k or self.rows.vocabulary,
            "min_p": sampling.min_p or 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "repeat_penalty": 1.0,
            "typical_p": 1.0,
            "ignore_eos": True,
            # A special token has probability zero: one that is written must be seen.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "stream": asked.stream,
            **({"seed": seed} if seed is not None else {}),
            **(
                {"logit_bias": {str(k): v for k, v in sampling.logit_bias.items()}}
                if sampling.logit_bias
                else {}
            ),
        }

    def _tokens(self, text: str, written: int | None) -> Tokens:
        """Return the tokens of a text; written tokens missing from it are `UNKNOWN`."""
        known = {**self.rows.id_of, **self.rows.special}
        special = "|".join(map(re.escape, self.rows.special))
        found = re.findall(f"{special}|." if special else ".", text, re.DOTALL)
        missing = 0 if written is None else min(written, MOST_MISSING) - len(found)
        return (UNKNOWN,) * missing + tuple(known.get(each, UNKNOWN) for each in found)

    def _sent(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        with self._response(method, path, body) as parts:
            content = b"".join(_at_most(parts, MOST_BYTES))
        if len(content) > MOST_BYTES:
            raise EngineFailed(
                f"{self._root}{path}: it answers with more than {MOST_BYTES:,} bytes"
            )
        return _document(content, f"{self._root}{path}")

    def _streamed(self, body: Mapping[str, Any]) -> Iterator[str]:
        """Yield the texts of a stream of events."""
        with self._response("POST", "/completions", body) as parts:
            for line in _lines(_at_most(parts, 16 * MOST_BYTES)):
                told = line.strip()
                if not told.startswith(b"data:"):
                    continue
                told = told.removeprefix(b"data:").strip()
                if told == b"[DONE]":
                    return
                yield _text_of(_document(told, self.url), self.url, is_part=True)

    @contextmanager
    def _response(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Iterator[Iterator[bytes]]:
        """Send a request, and yield the answer in parts. Any error raises `EngineFailed`."""
        make = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = make(self._host, self._parts.port, timeout=self.seconds)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.connect()
            # The connection lets go of its socket before the answer is read.
            opened, ends = connection.sock, monotonic() + self.seconds
            connection.request(method, self._path + path, content, headers)
            with connection.getresponse() as response:
                parts = _parts(response, opened, ends)
                if response.status == 200:
                    yield parts
                    return
                told = b"".join(_at_most(parts, 2000))[:2000].decode("utf-8", "replace").strip()
                told = "".join(each if each.isprintable() else " " for each in told)[:300]
                if response.status in (400, 422):
                    raise _FieldRefused(f"{response.status} {told}")
                status = f"{response.status} {response.reason}"
                is_error = response.status >= 400
                hint = "; name the model" if path == "/models" and is_error else ""
                raise EngineFailed(f"{self._root}{path}: {status}: {told}{hint}")
        except TimeoutError:
            raise EngineFailed(f"{self.url}: no answer in {self.seconds:g} s") from None
        except (OSError, HTTPException) as error:
            told = str(error) or type(error).__name__
            raise EngineFailed(f"{self.url}: {told}; is the server running there?") from None
        finally:
            connection.close()


def _parts(response: HTTPResponse, opened: socket.socket, ends: float) -> Iterator[bytes]:
    """Yield the parts of an answer, until a time limit. Raises `TimeoutError`."""
    while True:
        left = ends - monotonic()
        if left <= 0:
            raise TimeoutError
        opened.settimeout(left)
        part = response.read1(2**16)
        if not part:
            return
        yield part


def _at_most(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield parts until there are more than this many bytes."""
    read = 0
    for part in parts:
        yield part
        read += len(part)
        if read > most:
            return


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream."""
    held = b""
    for part in parts:
        *whole, held = (held + part).split(b"\n")
        yield from whole
    if held:
        yield held


class _FieldRefused(Exception):
    """Error of a request that the server refuses, with the server's reason."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


_OPTIONAL = (
    *("typical_p", "repeat_penalty", "repetition_penalty", "min_p", "top_k", "ignore_eos"),
    *("spaces_between_special_tokens", "skip_special_tokens"),
    *("presence_penalty", "frequency_penalty", "logit_bias", "seed"),
)
"""Fields that a server may refuse: the rest of a request has the same meaning without them."""


def _document(content: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise EngineFailed(f"{where}: it does not answer with JSON: {content[:200]!r}") from None
    if not isinstance(document, dict):
        raise EngineFailed(f"{where}: it does not answer with an object: {content[:200]!r}")
    return document


def _text_of(document: Mapping[str, Any], where: str, *, is_part: bool = False) -> str:
    """Return the text of a completion, or of a part of one, which may be empty."""
    choices = document.get("choices")
    if is_part and choices == []:
        return ""
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise EngineFailed(f"{where}: its answer has not one choice: {str(document)[:200]}")
    text = choices[0].get("text")
    if text is None and is_part:
        return ""
    if not isinstance(text, str):
        raise EngineFailed(f"{where}: its answer has no text: {str(document)[:200]}")
    return text
