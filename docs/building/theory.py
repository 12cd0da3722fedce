"""Pages of the theory: the programs and theorems in their checked form, with folded proofs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from textwrap import indent

from theory.checking import files
from theory.correspondence import modules_of
from theory.evaluation import PROGRAMS
from theory.sentences import LOCAL, Sentence, header, premises, programs, results, sentences

from building.markdown import fenced, flat, table
from building.pages import HOUSE, Page

_FOLDER = "spec/theory"
_REFERENCE = "reference/draftproof/reference"
_SHOWN = LOCAL | {"Definition", "Fixpoint", "Record", "Inductive", "Notation", "Section", "End"}
_SETTINGS = {"From", "Require", "Import", "Set", "Unset", "Open", "Arguments", "Declare", "Delimit"}
_RUN = {"laws", "emission", *(file for each in PROGRAMS.values() for file in each.files)}
_COMPLETE = ("perm_eq vocabulary (enum T)", "perm_eq tokens (enum T)")
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def written() -> list[Page]:
    """Return the page of all theorems, and a page for each file of the theory.

    Links to a file of the theory, or to their folder, lead to these pages.
    """
    texts = files()
    return [
        Page("spec/theory.md", _overview(texts), _FOLDER),
        *(
            Page(f"spec/theory/{name}.md", _of_file(name, text), f"{_FOLDER}/{name}.v")
            for name, text in texts.items()
        ),
    ]


def theorems(*names: str) -> str:
    """Return the theorems of some files of the theory, as a table. Raises `LookupError`.

    The table omits the premise that the vocabulary lists every token once.
    """
    texts = files()
    if unknown := [name for name in names if name not in texts]:
        raise LookupError(f"the theory has no file {unknown[0]!r}; known: {', '.join(texts)}")
    stated = {
        (name, each): [given for given in supposed[each.name] if given not in _COMPLETE]
        for name in names
        for supposed in [premises(texts[name])]
        for each in results(texts[name])
        if each.head == "Theorem"
    }
    rows = [
        [
            f"[`{each.name}`](#{_anchor(name, each.name)})",
            _prose(each.said) + (f" *Given* {_listed(given)}." if given else ""),
        ]
        for (name, each), given in stated.items()
    ]
    return table(["theorem", "statement"], rows)


def _listed(given: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in given)


def _overview(texts: dict[str, str]) -> str:
    rows = [
        [
            f"[`{name}.v`](theory/{name}.v)",
            _prose(header(text).split("\n\n")[0]),
            str(_theorems_of(text)),
            ", ".join(_linked(module) for module in modules_of(name)),
        ]
        for name, text in texts.items()
    ]
    count = sum(map(_theorems_of, texts.values()))
    parts = [
        "# Theorems for every V, L and K",
        f"{count} theorems about verification, for every vocabulary, every length, every number of "
        "drafts and all models, in weights from any ordered field. Coq has checked them: `make "
        "theory` compiles the files, prints the assumptions of each theorem, and fails if a "
        "theorem uses an axiom.",
        '!!! warning "Proved and tested"\n\n'
        "    Coq proves theorems about the programs on these pages. **Tests, not a proof**, show "
        "that a program is the algorithm of the reference: Coq runs the verifiers on its "
        "rationals, and their laws on the [test vectors](vectors/README.md) equal the reference's "
        "exactly. We compared each program with the reference's source by reading, and a test "
        "fails if either has changed since. The theorems do not cover floating-point numbers, "
        "implementations, or drafts whose length is decided while drafting. Siblings are drawn on "
        "demand, which has the same law as drawing a whole tree beforehand "
        "([`whole_tree.v`](theory/whole_tree.v)). You can certify the programs, extracted to "
        "OCaml, like any [harness](repo:docs/pages/how-to/other-languages.md).",
        table(["file", "subject", "theorems", "compared with"], rows, align="llrl"),
    ]
    return "\n\n".join(parts) + "\n"


def _theorems_of(text: str) -> int:
    return sum(each.head == "Theorem" for each in results(text))


def _of_file(name: str, text: str) -> str:
    head = programs(text)
    code = _code(each for each in head if each.head not in _SETTINGS)
    parts = [f"# `{name}.v`", _prose(header(text)), "[All theorems](.)"]
    if code:
        parts += ["## Programs", fenced(code, "coq", options=f'title="{_FOLDER}/{name}.v"')]
    parts += _beside(name, modules_of(name))
    rest = sentences(text)[len(head) :]
    if any(each.is_statement for each in rest):
        parts += ["## Theorems", *_theorems(name, rest)]
    return "\n\n".join(parts) + "\n"


def _beside(file: str, modules: Collection[str]) -> Iterator[str]:
    """Yield links to the modules that a file was compared with, and the text of the verifiers."""
    if modules:
        told = (
            "Tests on the vectors, not a proof, show that both have the same laws."
            if file in _RUN
            else "The vectors do not test this file."
        )
        yield "## The reference"
        yield f"Read beside this file: {', '.join(map(_linked, modules))}. {told}"
    for module in modules:
        if module.startswith("verifiers/"):
            source = (HOUSE / _REFERENCE / module).read_text(encoding="utf-8")
            named = module.removesuffix(".py").replace("/", ".")
            yield fenced(source, "python", options=f'title="draftproof.reference.{named}"')


def _theorems(file: str, rest: Iterable[Sentence]) -> Iterator[str]:
    """Yield definitions and statements in their order; everything between them is folded."""
    for kind, group in groupby(rest, _kind):
        some = list(group)
        code = _code(some)
        if not code:
            continue
        if kind == "folded":
            if any(each.head not in _SETTINGS for each in some):
                yield f'??? note "{_folded(some)}"\n\n' + indent(fenced(code, "coq"), "    ")
        else:
            if kind != "shown":
                yield f"### `{kind}` {{ #{_anchor(file, kind)} }}"
            yield fenced(code, "coq")


def _anchor(file: str, name: str) -> str:
    return f"theorem.{file}.{name}".replace("'", "-")


def _kind(sentence: Sentence) -> str:
    """Return "shown", "folded", or the name of the theorem that the sentence states."""
    if sentence.is_result:
        return sentence.name
    is_defined = sentence.head == "Let" and ":=" in sentence.code
    is_local = sentence.code.startswith("Local ")
    if not sentence.is_proof and not is_local and (sentence.head in _SHOWN or is_defined):
        return "shown"
    return "folded"


def _folded(some: list[Sentence]) -> str:
    """Return a title for folded sentences."""
    lemmas = [each.name for each in some if each.is_statement]
    is_proof = some[0].is_proof
    if not lemmas:
        return "Proof" if is_proof else "Notation"
    told = f"{len(lemmas)} lemmas" if len(lemmas) > 1 else f"The lemma {lemmas[0]}"
    return f"Proof, and {told[0].lower()}{told[1:]}" if is_proof else told


def _code(some: Iterable[Sentence]) -> str:
    """Return sentences unchanged from their file, without its header."""
    code = "".join(each.source for each in some)
    if code.startswith("(*"):
        code = re.sub(r"^\(\*.*?\*\)", "", code, count=1, flags=re.S)
    return "\n".join(line.rstrip() for line in code.strip("\n").splitlines())


def _linked(module: str) -> str:
    return f"[`{module}`](repo:{_REFERENCE}/{module})"


def _prose(text: str) -> str:
    """Return a comment as Markdown, with its marks escaped and articles linked."""
    shown = "\n\n".join(flat(part) for part in text.split("\n\n"))
    shown = re.sub(r"[\\`*_<>\[\]$|#^~&]", lambda mark: f"&#{ord(mark[0])};", shown)
    return _ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", shown)
