"""Serve a Python verifier, in an environment of its own, to draftproof over stdin and stdout.

    draftproof certify --harness '/engine/bin/python serve.py verifier.py Verifier'

/engine/bin/python is the interpreter of an environment that has PyTorch and the engine, and need
not have draftproof. verifier.py defines a class with the attributes of a declaration (chapter 13 of
the specification; `name`, `version` and `algorithm` at least) and a method

    verify(request) -> accepted_length, next_token            # or accepted_length, path, next_token

of tensors [B], integers. `request` has the tensors of chapter 13 as attributes: draft_tokens
[B, K, L], draft_probs [B, K, L, V], target_probs [B, K, L + 1, V] and the rest. A class that
declares `noise` finds it in `request.noise`, by name, and the probe lane can decide its law. Any
other class draws from `request.generator`, or from torch's global generator, which both have the
seed of the request; it can only be sampled.

Further arguments may name more files of the verifier, whose digests the certificate has then.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

DECLARED = (
    *("name", "version", "algorithm", "dtype", "dtypes", "max_drafts", "scheme", "batch"),
    *("ragged", "logits", "trees", "noise", "undefined"),
)


def loaded(file: str, name: str) -> Any:
    """Return a verifier: an instance of the class `name` of a file."""
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        sys.exit(f"{file} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        sys.exit(f"{file} defines no {name}")
    return getattr(module, name)()


def declaration(verifier: Any) -> dict[str, Any]:
    """Return what the verifier says of itself, as chapter 13 has it."""
    own = {name: getattr(verifier, name) for name in DECLARED if hasattr(verifier, name)}
    return {"protocol": 1, "tensors": "base64", **own}


def tensor(sent: dict[str, Any]) -> torch.Tensor:
    """Return a tensor of a request: `dtype`, `shape`, and `data` in base64."""
    data = bytearray(base64.b64decode(sent["data"]))
    dtype = getattr(torch, sent["dtype"])
    if not data:
        return torch.empty(sent["shape"], dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(sent["shape"])


def requested(sent: dict[str, Any]) -> SimpleNamespace:
    """Return a request with its tensors, and with a generator if it has a seed."""
    request = SimpleNamespace(lengths=None, branching=None, noise=None, generator=None)
    for name, value in sent.items():
        if name == "noise":
            request.noise = {each: tensor(own) for each, own in value.items()}
        elif isinstance(value, dict):
            setattr(request, name, tensor(value))
        else:
            setattr(request, name, value)
    if "seed" in sent:
        torch.manual_seed(sent["seed"])
        request.generator = torch.Generator().manual_seed(sent["seed"])
    return request


def answered(verifier: Any, sent: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request: a result, or the error that the verifier raised."""
    try:
        accepted, *path, token = verifier.verify(requested(sent))
        first = torch.zeros(sent["rows"], dtype=torch.int64)
        columns = [
            torch.as_tensor(column).reshape(-1).tolist()
            for column in (accepted, *(path or [first]), token)
        ]
    except Exception as error:  # The suite judges what is refused.
        message = f"{type(error).__name__}: {error}"
        return {"error": {"sequence": sent["sequence"], "message": message}}
    names = ("accepted_length", "path", "next_token")
    return {"result": {"sequence": sent["sequence"], **dict(zip(names, columns, strict=True))}}


def main() -> None:
    """Serve the class that the arguments name, until the end of the input."""
    if len(sys.argv) < 3:
        sys.exit("usage: serve.py FILE NAME [FILE...]; NAME is a class that FILE defines")
    # What an engine prints when it is imported, or later, must not reach the protocol.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    verifier = loaded(*sys.argv[1:3])
    for line in sys.stdin:
        ((kind, sent),) = json.loads(line).items()
        if kind == "stop":
            break
        said = {"declaration": declaration(verifier)} if kind == "start" else None
        print(json.dumps(said or answered(verifier, sent)), file=answers, flush=True)


if __name__ == "__main__":
    main()
