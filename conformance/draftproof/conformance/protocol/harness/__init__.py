"""The protocol for programs in any language, which speak lines of JSON (spec, chapter 13).

A *harness* is a program that reads one message a line from its standard input, and answers each
with one line on its standard output. `started` runs it, and returns an adapter that asks it:

    start    its name and its limits           declaration
    verify   rows, and noise or a seed         result or error
    stop                                       (the program ends)

An error is an outcome of verification. A program that ends, hangs, floods or breaks the protocol in
any other way has no law: Draftproof kills it, with all processes that it started, and raises
`AdapterLost` with the reason. POSIX only.
"""

from __future__ import annotations

from draftproof.conformance.protocol.harness.adapter import HarnessAdapter, HarnessError, started
from draftproof.conformance.protocol.harness.messages import PROTOCOL
from draftproof.conformance.protocol.harness.process import TIMEOUT

__all__ = ["PROTOCOL", "TIMEOUT", "HarnessAdapter", "HarnessError", "started"]
