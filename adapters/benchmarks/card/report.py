"""What a run has found so far, written after each step, and how much time it has left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click
from benchmarks.measuring import document, figure, written

Figures = Mapping[str, Any]


class Ended(Exception):
    """A step has ended otherwise than passed; the message says why, `figures` what it has found."""

    outcome = "failed"

    def __init__(self, message: str, figures: Figures | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class Failed(Ended):
    """It has found what must not be."""


class Cut(Ended):
    """It was not run, or not to its end."""

    outcome = "cut"


class Budget:
    """Minutes that a run may take, from when it is made."""

    def __init__(self, minutes: float, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._end = now() + 60 * minutes
        self.seconds = 60 * minutes

    @property
    def left(self) -> float:
        """Seconds, 0 at least."""
        return max(self._end - self._now(), 0.0)

    def part(self, share: float) -> Budget:
        """Return a budget of a share of the whole, as far as that is left."""
        return Budget(min(share * self.seconds, self.left) / 60, self._now)


class Report:
    """The document of a run, and the folder that it is written to."""

    def __init__(
        self, folder: Path, budget: Budget, *, seed: int, sizes: Mapping[str, Any]
    ) -> None:
        self.folder, self.budget = folder, budget
        self.found = document("gpu", seed=seed, sizes=sizes) | {
            "rows": [],
            "skipped": [],
            "steps": [],
            "goals": [],
        }

    def step(self, name: str, run: Callable[[], Figures]) -> None:
        """Run a step and write what it has found, failed or not."""
        start = monotonic()
        click.echo(f"{name} ({self.budget.left / 60:.1f} minutes left)")
        outcome, told, figures = "passed", "", dict[str, Any]()
        try:
            figures |= run()
        except Ended as error:
            outcome, told, figures = error.outcome, str(error), dict(error.figures)
        # A step that breaks takes none of the others with it.
        except Exception as error:
            outcome, told = "failed", f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            self._noted(name, start, ("cut", "interrupted", {}))
            raise
        self._noted(name, start, (outcome, told, figures))

    def skip(self, what: str, reason: str) -> None:
        """Note once what was to be measured and was not."""
        each = {"what": what, "reason": reason}
        if each not in self.found["skipped"]:
            self.found["skipped"].append(each)
            click.echo(f"  not measured: {what}: {reason}")

    def write(self) -> None:
        """Write what there is."""
        written(self.found, self.folder)

    @property
    def failed(self) -> list[str]:
        """The names of the steps that have failed."""
        return [each["name"] for each in self.found["steps"] if each["outcome"] == "failed"]

    def _noted(self, name: str, start: float, ended: tuple[str, str, Figures]) -> None:
        outcome, told, figures = ended
        seconds = figure(monotonic() - start)
        self.found["steps"].append(
            {"name": name, "outcome": outcome, "told": told, "seconds": seconds, "figures": figures}
        )
        click.echo(f"  {outcome} after {seconds:.1f} s{f': {told}' if told else ''}")
        self.write()
