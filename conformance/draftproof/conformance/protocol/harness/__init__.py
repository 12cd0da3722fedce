"""Any language: a verifier that is another program, asked in lines of JSON (spec, chapter 13).

A *harness* is a program that reads one message a line from its standard input, and answers each
with one line on its standard output. `started` runs it, and returns an adapter that asks it:

    start    what it is, and what it takes     declaration
    verify   rows, and noise or a seed         result or error
    stop                                       it ends

Only an error is an outcome of verification. A program that ends, hangs, floods or breaks the
protocol in any other way has no law: it is killed, with all that it started, and `AdapterLost` says
why. POSIX only.
"""

from __future__ import annotations

from draftproof.conformance.protocol.harness.adapter import HarnessAdapter, HarnessError, started
from draftproof.conformance.protocol.harness.messages import PROTOCOL
from draftproof.conformance.protocol.harness.process import TIMEOUT

__all__ = ["PROTOCOL", "TIMEOUT", "HarnessAdapter", "HarnessError", "started"]
