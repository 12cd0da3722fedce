"""The plugin, in the way that a user meets it: pytest in a process and a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from math import fsum, isclose
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from draftproof.conformance.campaign import FALSE_ALARM
from draftproof.spec import requirements

# Other people's packages take seconds to import. They are imported once, by a process that runs
# pytest in forks of itself.
SERVER = """
import json, os, sys
import gmpy2, joblib, jsonschema, networkx, pytest, scipy.optimize, sympy, torch

for line in sys.stdin:
    folder, arguments = json.loads(line)
    if os.fork() == 0:
        os.chdir(folder)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, file in enumerate([os.open(os.devnull, os.O_RDONLY), output, output]):
            os.dup2(file, stream)
        sys.exit(pytest.main(arguments))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""

VERIFIERS = """
import warnings
from types import SimpleNamespace

import torch


class Wrong:
    name, version, algorithm = "wrong", "1.0", "token"

    def verify(self, request):
        warnings.warn("it is old", DeprecationWarning)
        path = request.draft_tokens[:, 0]
        q, p = request.draft_probs[:, 0], request.target_probs[:, 0]
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        # The bonus is drawn from the draft.
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), q[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return SimpleNamespace(
            accepted_length=accepted, path=torch.zeros_like(accepted), next_token=token
        )


class Nameless:
    version = "1.0"
"""

# Instead of judging, it notes what is asked for, and says what it is told to.
STUB = """
import json
import os
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from draftproof.conformance.decision import decisions
from draftproof.conformance.finding import Finding
from draftproof.conformance.loading import AdapterFailed
from draftproof.conformance.adapter import AdapterLost

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")


def certify(name, **terms):
    with open("asked.jsonl", "a") as file:
        print(json.dumps({"worker": WORKER, "name": name, **terms}), file=file)
    if "batch.invariant" in terms["only"]:
        raise AdapterLost("the harness was killed")
    if "batch.order" in terms["only"]:
        raise AdapterFailed("it fails on every case")
    found = [finding(each) for each in terms["only"]]
    decided = [each for each in decisions(found, {"batch": True}) if each.requirement.id in terms["only"]]
    return SimpleNamespace(decisions=decided, counterexample=None)


VERDICTS = {
    "law.lossless": ("fail", True),
    "law.reference": ("inconclusive", True),
    "law.support": ("skipped", True),
    "length.expected": ("error", True),
    "length.optimal": ("skipped", False),
    "random.one": ("fail", True),
}


def finding(requirement):
    verdict, applies = VERDICTS.get(requirement, ("pass", True))
    return Finding(requirement, "a-case", verdict, detail="told \\x1b so", applies=applies)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    from draftproof.conformance import pytest_plugin

    campaign = ModuleType("campaign")
    if WORKER == "main":
        from draftproof.conformance import campaign
    campaign.certify = certify
    import sys
    sys.modules["draftproof.conformance.campaign"] = campaign
"""
