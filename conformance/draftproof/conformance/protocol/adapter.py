"""The adapter protocol: the requests that an implementation gets, and the results that it returns.

An adapter is any object with a `name`, a `version`, an `algorithm` and a `verify`; an adapter needs
no import from Draftproof. These names are public and stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from draftproof.reference.drafting import SCHEMES
from draftproof.reference.verifiers import ALGORITHMS

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Request:
    """B rows to verify, each with K drafted paths of L tokens over V tokens."""

    draft_tokens: Tensor
    """[B, K, L] int64: the drafted paths."""
    draft_probs: Tensor
    """[B, K, L, V]: the draft's row at each node along each path."""
    target_probs: Tensor
    """[B, K, L+1, V]: the target's rows, the last one for the bonus."""
    generator: torch.Generator | None = None
    """The generator to draw from, None for the global one."""
    lengths: Tensor | None = None
    """[B] int64: the number of tokens that each row really drafts, None if all L; given to ragged
    adapters. The entries beyond are padding: tokens are -1, rows are NaN. The bonus row is row
    `lengths`."""
    draft_logits: Tensor | None = None
    """[B, K, L, V]: the draft's rows as logits; given to adapters that take logits."""
    target_logits: Tensor | None = None
    """[B, K, L+1, V]: the target's rows as logits; given to adapters that take logits."""
    noise: Mapping[str, Tensor] | None = None
    """The random numbers to use, by the names that the adapter declares in `noise`."""
    branching: tuple[int, ...] | None = None
    """The number of tokens drawn after every context, by its depth, None if the K paths branch only
    at the root; given to adapters that take trees. Paths come in the order of the leaves."""
    state: Mapping[str, Tensor] | None = None
    """[B, ...] each: the `Result.state` that the previous iteration left for each row, None in the
    first iteration; given to adapters that leave a state. The target's rows are unmodified."""
    generators: tuple[torch.Generator, ...] | None = None
    """The generator of each of the B rows, in place of `generator`, which is then None; given to
    adapters that take a generator per row."""


@dataclass(frozen=True)
class Result:
    """The emission of each of the B rows."""

    accepted_length: Tensor
    """[B]: 0..L, the next token not counted."""
    path: Tensor
    """[B]: the index, among the K paths, of the path with the accepted prefix."""
    next_token: Tensor
    """[B]: the correction or the bonus."""
    state: Mapping[str, Tensor] | None = None
    """[B, ...] each: the state of each row that a stateful verifier gets in the next iteration."""


@dataclass(frozen=True)
class DraftRequest:
    """B rows for which K paths of L tokens are to be drafted from one draft model."""

    next_probs: Callable[[Tensor], Tensor]
    """The draft model: contexts [N, D] int64, D in 0..L-1, to its raw rows [N, V]."""
    rows: int
    drafts: int
    length: int
    vocabulary: int
    temperature: float = 1.0
    """Rows are raised to 1 / temperature; 0 takes the most probable token for certain."""
    top_k: int = 0
    """Only the `top_k` most probable tokens are drafted, 0 for all."""
    top_p: float = 1.0
    """Only the most probable tokens that together reach `top_p` are drafted, 1 for all."""
    branching: tuple[int, ...] | None = None
    """The number of tokens to draw after every context, by depth; None to branch only at the
    root."""
    generator: torch.Generator | None = None


@dataclass(frozen=True)
class DraftResult:
    """Drafted paths, and the draft law that the drafter declares to the verifier."""

    draft_tokens: Tensor
    """[B, K, L] int64: the drafted paths."""
    draft_probs: Tensor
    """[B, K, L, V]: the law from which each token was drawn, as declared to the verifier."""


@dataclass(frozen=True)
class TextRequest:
    """Text for the pipeline around the verifier to write, with its own toy models.

    The logits of the models are at most 2.8 in absolute value, and equal for equal texts, however a
    text is processed. The adapter can make the models in the first call for a vocabulary, and keep
    them.
    """

    vocabulary: int
    """The V of the models."""
    horizon: int
    """The number of tokens to write after any prompt; no token ends the text early."""
    assisted: bool = True
    """True to verify drafts; False to sample the text from the target alone."""
    temperature: float = 1.0
    """Logits are divided by `temperature`, which is positive."""
    top_k: int = 0
    """Only the `top_k` most probable tokens are written, 0 for all."""
    top_p: float = 1.0
    """Only the most probable tokens that together reach `top_p` are written, 1 for all."""
    generator: torch.Generator | None = None
    """The generator to draw from, if the pipeline takes a generator."""


@runtime_checkable
class Adapter(Protocol):
    """A verifier under test.

    Optional attributes:

    * `dtype` (default float32): the dtype of the rows that it is given, and of the arithmetic that
      it owes; a torch dtype or its name;
    * `device` (default "cpu");
    * `dtypes` (default `dtype` alone): all dtypes of rows that it takes;
    * `arithmetic` (default: that of its rows): the dtype in which it computes rows of a shorter
      dtype; the suite then allows only the rounding of `arithmetic`;
    * `max_drafts` (default 1): the largest K that it takes;
    * `scheme` (default "iid"): how the siblings of several drafts are drawn together;
    * `batch` (default True): False if it takes one row at a time, B = 1;
    * `at_once` (default 1): how many rows of a batch cost it about as much as one;
    * `ragged` (default False): True if it takes `Request.lengths`;
    * `logits` (default False): True if it takes logits: the request's, or its rows' logarithms;
    * `layouts` (default: all): the layouts of `LAYOUTS` that its tensors may have, by name; any
      other it must refuse by an error;
    * `generators` (default False): True if it takes `Request.generators`;
    * `trees` (default False): True if it takes drafts that branch below the root;
    * `noise` (default none): the random numbers that it takes from `Request.noise`, by name, each
      as its law ("uniform" or "exponential") and its shape behind B, in the letters K, L, V and
      in numbers: `{"coins": ("uniform", "L"), "race": ("exponential", "V")}`;
    * `same_as` (default none): another adapter, or its name, with which it agrees row by row on the
      same noise, or on the same seed where neither takes noise. The probe lane searches the noise
      of a faster adapter, and confirms its findings on this one;
    * `draft(request: DraftRequest) -> DraftResult`: the drafter that goes with the verifier;
    * `generate(request: TextRequest) -> Tensor`: the pipeline around the verifier, which drafts,
      verifies and goes on; the tokens that it writes, [horizon] int64;
    * `undefined` (default none): the kinds of invalid input on which its behaviour is undefined
      ("nan", "negative", "unnormalised", "shape", "token"), each with the reason;
    * `files` (default: the file that defines it): the paths of the files that make it up, for the
      certificate's digest.
    """

    name: str
    version: str

    @property
    def algorithm(self) -> str | None:
        """The name of a reference algorithm.

        None for the adapter's own algorithm, which only the requirements without a reference judge.
        """

    def verify(self, request: Request) -> Result:
        """Verify B rows of drafts."""


class AdapterLost(BaseException):
    """Error of an adapter that can no longer answer: its process ended, hangs or broke the rules.

    The message gives the reason. It is not an `Exception`, so that no lane mistakes it for an
    outcome.
    """


class Unfetched(RuntimeError):
    """Error for an adapter module to raise if its program could not be fetched, with the reason."""


class UnknownAdapter(LookupError):
    """Error of a name that does not lead to an adapter: a usage error."""


class AdapterFailed(RuntimeError):
    """Error of an existing adapter that could not be made ready to run."""


class FailsEverywhere(AdapterFailed):
    """Error of an adapter that runs, but returns an emission on no case."""


class InvalidAdapter(TypeError):
    """Error of an object that does not follow the adapter protocol; the message says where."""


CONTIGUOUS = "contiguous"
"""Layout that every adapter takes."""

LAYOUTS = (*(CONTIGUOUS, "transposed", "sliced", "offset", "stepped", "interleaved", "expanded"),)
"""Layouts of tensors: row-major from the start of its memory; the same with its sides in reverse
order; the first part of longer rows; from a later offset; with a gap after every entry; between the
entries of other requests; with equal entries along a side stored once (stride 0)."""

STORED = (CONTIGUOUS, "offset", "strided", "expanded")
"""The forms in memory of a request: that of its tensor that is farthest from the plain one."""

GENERATED = ("given", "own", "none")
"""Sources of a request's random numbers: one generator, one generator per row, the global
generator."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of an adapter, with defaults filled in."""

    name: str
    version: str
    algorithm: str
    dtype: str
    dtypes: tuple[str, ...]
    device: str
    max_drafts: int
    scheme: str
    batch: bool
    at_once: int
    ragged: bool
    logits: bool
    trees: bool
    drafts: bool
    """True if the adapter has a method `draft`."""
    noise: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict, hash=False)
    undefined: Mapping[str, str] = field(default_factory=dict, hash=False)
    generates: bool = False
    """True if the adapter has a method `generate`."""
    arithmetic: str | None = None
    """The dtype in which the adapter computes shorter rows, None for the rows' own dtype."""
    layouts: tuple[str, ...] = LAYOUTS
    generators: bool = False


INVALID_INPUTS = ("nan", "negative", "unnormalised", "shape", "token")
"""Kinds of invalid input, in the order of the trials."""

NOISE_LAWS = ("uniform", "exponential")
"""Laws of the noise that an adapter can request."""

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""Dtypes in which rows can be given."""


def declaration(adapter: Any) -> Declaration:
    """Return the adapter's declaration. Raises `InvalidAdapter`."""
    for attribute in ("name", "version"):
        value = getattr(adapter, attribute, None)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise InvalidAdapter(
                f"an adapter needs {attribute!r}, a non-empty printable string; "
                f"{type(adapter).__name__}.{attribute} is {value!r}"
            )
    if not callable(getattr(adapter, "verify", None)):
        raise InvalidAdapter(
            f"an adapter needs a method verify(request); {type(adapter).__name__} has none"
        )
    declared = Declaration(
        name=adapter.name,
        version=adapter.version,
        algorithm=_algorithm(adapter),
        dtype=_dtype(getattr(adapter, "dtype", "float32")),
        dtypes=_dtypes(adapter),
        device=str(getattr(adapter, "device", "cpu")),
        max_drafts=getattr(adapter, "max_drafts", 1),
        scheme=getattr(adapter, "scheme", "iid"),
        batch=getattr(adapter, "batch", True),
        at_once=getattr(adapter, "at_once", 1),
        ragged=getattr(adapter, "ragged", False),
        logits=getattr(adapter, "logits", False),
        trees=getattr(adapter, "trees", False),
        drafts=callable(getattr(adapter, "draft", None)),
        noise=_noise(adapter),
        undefined=_undefined(adapter),
        generates=callable(getattr(adapter, "generate", None)),
        arithmetic=_arithmetic(adapter),
        layouts=_layouts(adapter),
        generators=getattr(adapter, "generators", False),
    )
    if not declared.device.isprintable():
        raise InvalidAdapter(f"'device' must be printable, got {declared.device!r}")
    for attribute in ("max_drafts", "at_once"):
        count = getattr(declared, attribute)
        if type(count) is not int or count < 1:
            raise InvalidAdapter(f"{attribute!r} must be a positive int, got {count!r}")
    if declared.scheme not in SCHEMES:
        raise InvalidAdapter(
            f"'scheme' must be one of {', '.join(SCHEMES)}, got {declared.scheme!r}"
        )
    for attribute in ("batch", "ragged", "logits", "trees", "generators"):
        if type(getattr(declared, attribute)) is not bool:
            raise InvalidAdapter(f"{attribute!r} must be True or False")
    return declared


@dataclass(frozen=True, eq=False)
class Program:
    """Verifier under test: an adapter, and its declaration from the time of loading."""

    adapter: Adapter
    declared: Declaration


def program_of(adapter: Any) -> Program:
    """Return an adapter with its declaration. Raises `InvalidAdapter`."""
    return Program(adapter, declaration(adapter))


OWN = "own"
"""Name of an unnamed algorithm that the reference does not have."""


def _algorithm(adapter: Any) -> str:
    """Return the name of the adapter's algorithm, which must not resemble another algorithm's."""
    if not hasattr(adapter, "algorithm"):
        raise InvalidAdapter(
            f"an adapter needs 'algorithm', the name of one that `draftproof list` has, or None "
            f"for one of its own; {type(adapter).__name__} has none"
        )
    name = adapter.algorithm
    if name is None:
        return OWN
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidAdapter(
            f"'algorithm' must be a non-empty printable string, or None for one of its own; "
            f"{type(adapter).__name__}.algorithm is {name!r}"
        )
    written = name.strip().lower().replace("-", "_").replace(" ", "_")
    near = get_close_matches(written, ALGORITHMS, n=1, cutoff=0.8)
    if near and name not in ALGORITHMS:
        raise InvalidAdapter(
            f"'algorithm' is {name!r}, which the reference does not know: did you mean "
            f"{near[0]!r}? One of its own is declared as None"
        )
    return name


def _dtype(given: Any, attribute: str = "dtype") -> str:
    name = str(given).removeprefix("torch.")
    if name not in DTYPES:
        raise InvalidAdapter(f"{attribute!r} must be one of {', '.join(DTYPES)}, got {name!r}")
    return name


def _arithmetic(adapter: Any) -> str | None:
    given = getattr(adapter, "arithmetic", None)
    return None if given is None else _dtype(given, "arithmetic")


def _dtypes(adapter: Any) -> tuple[str, ...]:
    """Return all dtypes that the adapter takes, its own first."""
    own = _dtype(getattr(adapter, "dtype", "float32"))
    given = getattr(adapter, "dtypes", ())
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidAdapter(f"'dtypes' must be several dtypes, got {given!r}")
    return tuple(dict.fromkeys((own, *map(_dtype, given))))


def _layouts(adapter: Any) -> tuple[str, ...]:
    """Return the layouts that the adapter takes, in the order of `LAYOUTS`."""
    given = getattr(adapter, "layouts", LAYOUTS)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidAdapter(f"'layouts' must be several layouts, got {given!r}")
    taken = tuple(given)
    for layout in taken:
        if layout not in LAYOUTS:
            raise InvalidAdapter(f"'layouts' must be among {', '.join(LAYOUTS)}, got {layout!r}")
    if CONTIGUOUS not in taken:
        raise InvalidAdapter(f"'layouts' must include {CONTIGUOUS!r}, got {list(taken)}")
    return tuple(layout for layout in LAYOUTS if layout in taken)


def _noise(adapter: Any) -> Mapping[str, tuple[str | int, ...]]:
    declared = getattr(adapter, "noise", {})
    if not isinstance(declared, Mapping):
        raise InvalidAdapter(f"'noise' must map names to a law and a shape, got {declared!r}")
    for name, form in declared.items():
        if not _is_noise(form):
            raise InvalidAdapter(
                f"noise {name!r} must be one of {', '.join(NOISE_LAWS)}, then sides K, L, V or "
                f"positive ints, got {form!r}"
            )
        if not isinstance(name, str) or not name.isprintable():
            raise InvalidAdapter(f"the name of a noise must be a printable string, got {name!r}")
    return declared


def _is_noise(form: Any) -> bool:
    return (
        isinstance(form, (tuple, list))
        and len(form) > 0
        and form[0] in NOISE_LAWS
        and all(side in ("K", "L", "V") or (type(side) is int and side > 0) for side in form[1:])
    )


def _undefined(adapter: Any) -> Mapping[str, str]:
    declared = getattr(adapter, "undefined", {})
    if not isinstance(declared, Mapping) or set(declared) - set(INVALID_INPUTS):
        raise InvalidAdapter(
            f"'undefined' must map kinds of invalid input ({', '.join(INVALID_INPUTS)}) to "
            f"reasons, got {declared!r}"
        )
    for kind, reason in declared.items():
        if not isinstance(reason, str) or not reason.isprintable():
            raise InvalidAdapter(
                f"the reason why {kind!r} is undefined must be a printable string, got {reason!r}"
            )
    return declared
