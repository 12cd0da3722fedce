"""Files of Coq as sentences: what is stated, what is proved, and what is only assumed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STATEMENTS = frozenset(
    {"Theorem", "Lemma", "Corollary", "Proposition", "Fact", "Remark", "Example", "Property"}
)
"""The words that begin a statement with a proof."""

RESULTS = frozenset({"Theorem", "Corollary", "Proposition", "Example"})
"""The statements that a file is written for; the others serve their proofs."""

LOCAL = frozenset({"Variable", "Variables", "Hypothesis", "Hypotheses", "Context"})
"""The words for assumptions of a section, which are premises of its theorems after it."""

_ENDS = frozenset({"Qed", "Defined", "Admitted", "Abort", "Save"})
_BEFORE = re.compile(
    r"(?:[-+*{}\s]+|#\[[^\]]*\]\s*"
    r"|(?:Local|Global|Program|Polymorphic|Monomorphic|Private|Time|Fail|Succeed|Timeout \d+)\s+)*"
)
_REQUIRED = re.compile(r"From Draftproof Require (?:(?:Import|Export) )?([\w\s]+)\.")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a file, with the comments and the space before it as they stand there.

    `code` is the sentence alone, on one line and without comments. `sections` are the sections and
    modules around it, the outermost first; those of modules start with "Module ". `is_proof` says
    whether the sentence is a part of a proof.
    """

    source: str
    code: str
    line: int
    sections: tuple[str, ...]
    is_proof: bool

    @property
    def head(self) -> str:
        """The word that says what the sentence does, such as "Theorem"."""
        found = re.match(r"\w*", self._stripped)
        return found[0] if found else ""

    @property
    def name(self) -> str:
        """The name that the sentence defines or states, or nothing."""
        found = re.match(r"\w+\s+([\w']+)", self._stripped)
        return found[1] if found else ""

    @property
    def said(self) -> str:
        """The comment right before the sentence, as prose; nothing where there is none."""
        found = re.search(r"\(\*((?:(?!\*\)).)*)\*\)\s*$", self._before, re.S)
        return " ".join(found[1].split()) if found else ""

    @property
    def is_result(self) -> bool:
        """True of a statement that its file is written for."""
        return self.head in RESULTS and not self.is_proof

    @property
    def is_statement(self) -> bool:
        """True of a statement that has a proof."""
        return self.head in STATEMENTS and not self.is_proof

    @property
    def in_section(self) -> bool:
        """True in a section, where an assumption becomes a premise."""
        return any(not each.startswith("Module ") for each in self.sections)

    @property
    def qualified(self) -> str:
        """The name with the modules around it, by which other files know it."""
        modules = [each.split()[1] for each in self.sections if each.startswith("Module ")]
        return ".".join([*modules, self.name])

    @property
    def _before(self) -> str:
        """All that stands before the code of the sentence, if no comment is within the code."""
        place = self.source.find(self.head, self.source.rfind("*)") + 1)
        return self.source[:place]

    @property
    def _stripped(self) -> str:
        return _BEFORE.sub("", self.code, count=1)


def sentences(text: str) -> list[Sentence]:
    """Return the sentences of a file; their sources together are the file but for its end."""
    found: list[Sentence] = []
    open_sections: list[str] = []
    is_proof = False
    start = 0
    for end, code in _ended(text):
        source = text[start:end]
        here = Sentence(source, code, text.count("\n", 0, end) + 1, tuple(open_sections), is_proof)
        if here.head == "Proof" and not is_proof:
            # A proof that is a term is this sentence and no more.
            is_proof = re.fullmatch(r"Proof( (using|with)\b.*)?\.", here.code) is not None
            here = Sentence(source, code, here.line, here.sections, is_proof=True)
        elif is_proof:
            is_proof = here.head not in _ENDS
        elif here.head in ("Section", "Module") and ":=" not in code:
            open_sections.append(here.name if here.head == "Section" else f"Module {here.name}")
        elif here.head == "End" and open_sections:
            open_sections.pop()
            here = Sentence(source, code, here.line, tuple(open_sections), is_proof=False)
        found.append(here)
        start = end
    return found


def required(text: str) -> list[str]:
    """Return the files of the theory that a file needs."""
    return [
        name
        for sentence in sentences(text)
        if (asked := _REQUIRED.fullmatch(sentence.code))
        for name in asked[1].split()
    ]


def results(text: str) -> list[Sentence]:
    """Return the statements that a file is written for."""
    return [sentence for sentence in sentences(text) if sentence.is_result]


def premises(text: str) -> dict[str, list[str]]:
    """Return what each result of a file supposes: the hypotheses of its sections, then its own."""
    found: dict[str, list[str]] = {}
    supposed: list[Sentence] = []
    for sentence in sentences(text):
        depth = len(sentence.sections)
        supposed = [
            each
            for each in supposed
            if each.sections == sentence.sections[: len(each.sections)]
            and len(each.sections) <= depth
        ]
        if sentence.head in ("Hypothesis", "Hypotheses") and not sentence.is_proof:
            supposed.append(sentence)
        if sentence.is_result:
            around = [one for each in supposed for one in _hypotheses(each.code)]
            found[sentence.name] = [*around, *_premises(sentence.code)]
    return found


def _hypotheses(code: str) -> list[str]:
    """Return the statements of a sentence such as "Hypotheses (a : A) (b c : B)."."""
    said = code.split(" ", 1)[1].removesuffix(".").strip()
    groups = _groups(said) if said.startswith("(") else [said]
    return [group.split(":", 1)[1].strip() for group in groups]


def _groups(said: str) -> list[str]:
    """Return what stands in each pair of outer brackets."""
    groups, depth, start = [], 0, 0
    for place, letter in enumerate(said):
        if letter == "(":
            depth += 1
            start = place + 1 if depth == 1 else start
        elif letter == ")":
            depth -= 1
            if depth == 0:
                groups.append(said[start:place])
    return groups


def _premises(code: str) -> list[str]:
    """Return what a statement has before its arrows, whatever it abbreviates in between."""
    parts: list[str] = []
    said = re.sub(r"\blet \S+(?: [^:]*?)? := .*? in\b", "", code.removesuffix("."))
    depth, start = 0, 0
    for place, letter in enumerate(said):
        depth += (letter in "([{") - (letter in ")]}")
        if depth:
            continue
        if letter == ":" and not start:
            start = place + 1
        elif said.startswith(" -> ", place) and start:
            part = said[start:place].strip()
            parts.append(part[1:-1] if _groups(part) == [part[1:-1]] else part)
            start = place + 4
    return parts


def header(text: str) -> str:
    """Return the comment at the head of a file, as prose; nothing where there is none."""
    found = re.match(r"\s*\(\*(.*?)\*\)", text, re.S)
    return re.sub(r"^ {3}", "", found[1], flags=re.M).strip() if found else ""


def programs(text: str) -> list[Sentence]:
    """Return the sentences before the first statement, and before the section that it is in."""
    all_of_it = sentences(text)
    first = next((each for each in all_of_it if each.is_statement), None)
    if first is None:
        return all_of_it
    place = all_of_it.index(first)
    if first.sections:
        place = max(
            number
            for number, each in enumerate(all_of_it[:place])
            if not each.sections and each.head in ("Section", "Module")
        )
    return all_of_it[:place]


def _ended(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each sentence ends, and its code."""
    code: list[str] = []
    place, depth = 0, 0
    while place < len(text):
        if text.startswith("(*", place):
            depth, place = depth + 1, place + 2
        elif depth and text.startswith("*)", place):
            depth, place = depth - 1, place + 2
            code.append(" ")
        elif text[place] == '"':
            closed = text.find('"', place + 1)
            closed = len(text) if closed < 0 else closed + 1
            if not depth:
                code.append(text[place:closed])
            place = closed
        else:
            if not depth:
                code.append(text[place])
            place += 1
            if not depth and _is_end(text, place - 1):
                yield place, " ".join("".join(code).split())
                code = []


def _is_end(text: str, place: int) -> bool:
    """Return whether a full stop ends a sentence: space follows it, and no second one is there."""
    return (
        text[place] == "."
        and (place + 1 == len(text) or text[place + 1].isspace())
        and not (text[place - 1 : place] == "." and text[place - 2 : place] != "..")
    )
