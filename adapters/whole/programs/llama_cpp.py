"""Answer requests on stdin with llama.cpp: `llama_cpp.py FOLDER SPECULATION [OPTION ...]`.

SPECULATION is `none`, `draft` (llama-server with the draft model), the name of another of
llama-server's --spec-type, `simple` (llama-speculative-simple), `chain` (llama-speculative, one
draft), `chain-fixed` (the same with a line replaced) or `tree` (llama-speculative, four drafts).
The options go to llama.cpp's program as they are. The programs are in the folders `bin` and `fixed`
of the environment that the variable ENGINE names.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ENGINE = Path(os.environ["ENGINE"])
FILTERS = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""The filters that a request may ask for, in the order of their use, and what turns each off."""
OFF = {"typical_p": 1.0, "xtc_probability": 0.0, "dynatemp_range": 0.0, "mirostat": 0}
OFF |= {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
OFF |= {"dry_multiplier": 0.0, "top_n_sigma": -1.0, "n_probs": 0}
"""Other settings of llama-server that change a distribution, turned off."""
EXAMPLES = {"simple": "-simple", "chain": "", "chain-fixed": "", "tree": ""}
LOST = 64, 512, 4096
"""How many tokens an example may not print: it ends without flushing its log, a queue of 512."""
LOCAL = ["-ctk", "f32", "-ctv", "f32", "--ctx-size", "65536", "--threads", "1", "--fit", "off"]
DRAFT = ["-ctkd", "f32", "-ctvd", "f32", "--threads-draft", "1", "--model-draft"]


class Local(HTTPConnection):
    """A connection to a server at a Unix socket, the path of which stands for the host."""

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


def settings(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request's samplers and their settings, with a seed, by llama-server's names."""
    asked = {name: request.get(name) for name in FILTERS}
    made = {name: off if asked[name] is None else asked[name] for name, off in FILTERS.items()}
    made["samplers"] = ["temperature", *(name for name in FILTERS if asked[name] is not None)]
    seed = request.get("seed")
    return made | {
        "temperature": request.get("temperature", 1.0),
        "seed": secrets.randbelow(2**32 - 1) if seed is None else seed % (2**32 - 1),
    }


def post(path: str, request: dict[str, Any]) -> list[int]:
    """Return the answer of the llama-server at a socket to a request."""
    bias = [[int(token), value] for token, value in (request.get("logit_bias") or {}).items()]
    body = {"prompt": request["prompt"], "n_predict": request["max_tokens"], "logit_bias": bias}
    body |= {"return_tokens": True, "ignore_eos": True} | OFF | settings(request)
    connection = Local(path)
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "text/json"})
    answer = json.load(connection.getresponse())
    connection.close()
    if "tokens" not in answer:
        raise RuntimeError(f"llama-server: {answer}")
    return list(answer["tokens"])


def start(path: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Start llama-server at a socket and wait until it is ready."""
    server = subprocess.Popen([*command, "--host", path], stdout=sys.stderr)
    while server.poll() is None:
        try:
            connection = Local(path)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return server
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"llama-server ended with {server.returncode}")


def run(command: list[str], texts: dict[int, str], request: dict[str, Any]) -> list[int]:
    """Return the answer of one of llama.cpp's examples, which print text, to a request.

    Where more was lost than usual, the same text is written again, with the same seed and longer.
    """
    made = settings(request)
    # They refuse a prompt of one token, and where rows depend on one token, two are the same to it.
    asked = request["prompt"] if len(request["prompt"]) > 1 else request["prompt"] * 2
    prompt = "".join(texts[token] for token in asked)
    flags = ["--prompt", prompt, "--ignore-eos", "--no-escape"]
    flags += ["--seed", str(made["seed"]), "--temp", str(made["temperature"])]
    flags += ["--samplers", ";".join(made["samplers"])]
    for name in FILTERS:
        flags += ["--" + name.replace("_", "-"), str(made[name])]
    for token, value in (request.get("logit_bias") or {}).items():
        flags += ["--logit-bias", f"{token}{float(value):+}"]
    words = {text: token for token, text in texts.items()}
    split = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) + "|.")
    for lost in LOST:
        length = ["--predict", str(request["max_tokens"] + lost)]
        done = subprocess.run(
            [*command, *flags, *length], capture_output=True, text=True, check=False
        )
        sys.stderr.write(done.stderr)
        if done.returncode:
            break
        said = done.stdout.lstrip("\n")
        if said.startswith(prompt):
            tokens = [words[text] for text in split.findall(said[len(prompt) :].strip("\n"))]
            if len(tokens) >= request["max_tokens"]:
                return tokens[: request["max_tokens"]]
    name = Path(command[0]).name
    raise RuntimeError(f"{name} ended with {done.returncode}: {done.stdout}")


def main(folder: Path, speculation: str, *options: str) -> None:
    """Answer the lines of stdin until it ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = json.loads((folder / "rows.json").read_text())
    texts = {token: text for text, token in rows["special"].items()}
    texts |= {word["id"]: word["text"] for word in rows["words"]}
    examples = {name: f"llama-speculative{end}" for name, end in EXAMPLES.items()}
    name = examples.get(speculation, "llama-server")
    binaries = ENGINE / ("fixed" if speculation.endswith("-fixed") else "bin")
    os.environ["LD_LIBRARY_PATH"] = str(binaries)
    command = [str(binaries / name), "--model", str(folder / "target.gguf"), *LOCAL]
    if speculation in ("draft", *examples):
        command += [*DRAFT, str(folder / "draft.gguf")]
    if speculation in ("draft", "simple"):
        command += ["--spec-type", "draft-simple"]
    elif speculation not in ("none", *examples):
        command += ["--spec-type", speculation]
    command += [
        "--parallel",
        {"tree": "4", "chain": "1", "chain-fixed": "1", "simple": "1"}.get(speculation, "8"),
    ]
    told = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"version: (.+)", told.stdout + told.stderr)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(64) as pool:
        path, server = f"{place}/llama.sock", None
        if name == "llama-server":
            server = start(path, [*command, "--no-ui", *options])
        try:
            print(json.dumps({"version": version[1] if version else "unknown"}), flush=True)
            for line in sys.stdin:
                asked = json.loads(line)["requests"]
                if server:
                    answers = pool.map(lambda request: post(path, request), asked)
                else:
                    answers = pool.map(partial(run, [*command, *options], texts), asked)
                print(json.dumps({"answers": list(answers)}), flush=True)
        finally:
            if server:
                server.kill()  # it may hang where it is terminated while it answers
                server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
