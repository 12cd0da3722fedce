"""Command line. With --json, every command prints JSON that follows a schema."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from typing import NoReturn

import click

from draftproof.conformance.cli.documents import echo
from draftproof.conformance.protocol.supervision import supervised

EXIT_CODES = {
    0: "every adapter conforms, or fails only what --known-failures lists",
    1: "an adapter does not conform, a mutant survives, a claim or theorem fails",
    2: "usage: an unknown name; a missing, unwritable or invalid file",
    3: "an adapter could not run or could not be judged",
    4: "inconclusive: no requirement fails, and some could not be decided",
    5: "malformed evidence: a file breaks its schema or was changed",
    6: "passes some cases: no requirement fails, and not all cases were judged",
    70: "a bug in draftproof",
    130: "interrupted",
    141: "output pipe closed",
}
"""Meaning of each exit code. Of several adapters, the most severe counts: 3, then 1, 4 and 6."""


GROUPS = {
    "Certify a verifier": {
        "init": ("starting", "Write an adapter, its test and a workflow"),
        "certify": ("judging", "Judge adapters and certify them"),
        "explain": ("explaining", "Explain a failure, write a script"),
        "list": ("listing", "List algorithms, adapters and cases"),
    },
    "Engines and servers": {
        "checkpoint": ("checkpoint", "Write a model with a known distribution"),
        "engine": ("engine", "Judge an engine or server by its output"),
        "audit": ("audit", "Judge a log of tokens and probabilities"),
        "matrix": ("matrix", "Judge the verifiers of released engines"),
    },
    "Exact reference": {
        "law": ("exact", "Print an algorithm's exact distribution"),
        "optimum": ("exact", "Print the certified optima"),
        "compare": ("exact", "Compare all algorithms with the optima"),
        "prove": ("theorems", "Prove or refute a claim for all p and q"),
        "claims": ("theorems", "Print the ledger of claims"),
    },
    "Evidence": {
        "report": ("reporting", "Show certificates in any format"),
        "diff": ("differing", "Compare certificates before and after"),
        "check-certificate": ("checking", "Check certificates against their evidence"),
        "sign": ("signing", "Sign certificates"),
        "mutants": ("mutants", "Judge verifiers with known faults"),
        "vectors": ("vectors", "Write, check and format test vectors"),
    },
}
"""Commands by group, each with its module in this package and its one-line description."""

COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}


class Commands(click.Group):
    """Command group that imports a command only to run it, so that help prints without delay."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's
        cmd_name: str,
    ) -> click.Command | None:
        """Return the command of this name, or None if no command has it."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{COMMANDS[cmd_name][0]}")
        return next(
            each
            for each in vars(module).values()
            if isinstance(each, click.Command) and each.name == cmd_name
        )

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's
        formatter: click.HelpFormatter,
    ) -> None:
        """Write each group of commands, one command per line."""
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                # All groups have the same columns.
                formatter.write_dl(
                    [(name.ljust(widest), text) for name, (_, text) in group.items()]
                )

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the exit codes as a table."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in EXIT_CODES.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(version("draftproof"), prog_name="draftproof")
def cli() -> None:
    """Certify that a speculative-decoding verifier is lossless and as fast as it claims."""


def main() -> NoReturn:
    """Run the command line under a supervisor, and exit with a code of `EXIT_CODES`."""
    sys.exit(supervised(exit_code))


def exit_code() -> int:
    """Run the command line in this process, and return a code of `EXIT_CODES`."""
    try:
        cli(standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.Abort:
        echo("Interrupted.", err=True)
        return 130
    except click.ClickException as error:
        # Click prints what was typed and what a file is called as they are.
        shown = StringIO()
        error.show(shown)
        echo(shown.getvalue().rstrip("\n"), err=True)
        return 2
    except BrokenPipeError:
        # Python must not complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        echo(f"Error: cannot write the output: {error.strerror}", err=True)
        return 2
    except Exception:
        echo(traceback.format_exc().rstrip("\n"), err=True)
        echo("This is a bug in draftproof; please report it.", err=True)
        return 70
    return 0
