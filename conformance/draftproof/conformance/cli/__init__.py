"""The command line. Every command takes --json, and prints JSON that follows a schema."""

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
    0: "every adapter conforms, or fails only in what is known to",
    1: "an adapter does not conform, a mutant survives, or a claim or a theorem does not hold",
    2: "usage: an unknown name, an unreadable, unwritable or invalid file",
    3: "an adapter could not run or could not be judged",
    4: "inconclusive: no adapter fails, but not everything could be decided",
    5: "malformed evidence: a certificate, proof or vector breaks its schema or does not check",
    6: "passes in part: nothing fails, and not all cases were asked",
    70: "a defect of draftproof itself",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""The meaning of exit codes. Of several adapters the gravest counts: 3, then 1, then 4, then 6."""


COMMANDS = {
    "audit": ("audit", "Judge a log of tokens and rows"),
    "certify": ("judging", "Judge adapters and certify them"),
    "check-certificate": ("checking", "Check certificates against their evidence"),
    "checkpoint": ("checkpoint", "Write a model whose distribution is known"),
    "claims": ("theorems", "Print the ledger of claims"),
    "compare": ("exact", "Compare all algorithms with the optima"),
    "diff": ("differing", "Compare certificates before and after"),
    "engine": ("engine", "Judge a whole engine by its output"),
    "explain": ("explaining", "Explain what a certificate found"),
    "init": ("starting", "Write an adapter, its test and a workflow"),
    "law": ("exact", "Print the exact law of an algorithm"),
    "list": ("listing", "List algorithms, adapters, requirements"),
    "matrix": ("matrix", "Judge the verifiers of released engines"),
    "mutants": ("mutants", "Judge verifiers that are wrong on purpose"),
    "optimum": ("exact", "Print the certified optima"),
    "prove": ("theorems", "Prove or refute a claim for all p and q"),
    "report": ("reporting", "Show certificates, judge nothing"),
    "sign": ("signing", "Sign certificates"),
    "vectors": ("vectors", "Write, check and format test vectors"),
}
"""The module beside this one that has each command, and the command in a line."""


class Commands(click.Group):
    """Group whose commands are imported when they are run, so that help is printed at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's
        cmd_name: str,
    ) -> click.Command | None:
        """Return a command by its name, None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{COMMANDS[cmd_name][0]}")
        return next(
            each
            for each in vars(module).values()
            if isinstance(each, click.Command) and each.name == cmd_name
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command and its line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + ".",
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
        echo("This is a defect of draftproof itself; please report it.", err=True)
        return 70
    return 0
