"""What a lane says when it cannot see how a program uses randomness."""

from __future__ import annotations


class OpaqueRandomness(RuntimeError):
    """The program used randomness in a way that the exact lane cannot see through.

    `operator` names the operator or the generator, `source` the program's own line, as
    "file:line: text", or says that it was not seen.
    """

    def __init__(
        self, operator: str, reason: str, source: str = "a line that was not seen"
    ) -> None:
        super().__init__(operator, reason, source)
        self.operator = operator
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        return f"{self.operator} {self.reason}\n  at {self.source}"
