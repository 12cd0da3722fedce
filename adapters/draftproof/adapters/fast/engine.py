"""The fast verifiers as an engine calls them: on the tensors that it has, as they lie.

vLLM and SGLang keep the drafted tokens of a batch one after another, requests of different lengths
in a row, and so the rows. None of them is copied: temperature, top-k and top-p are applied as a
row is read, and where the draft is certain of its tokens it needs no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_compiling

from draftproof.adapters.fast import counters
from draftproof.adapters.fast.batch import Batch, Rows, Softmax, uniforms
from draftproof.adapters.fast.inputs import (
    DTYPES,
    EngineBatch,
    InvalidRequest,
    Lying,
    from_flat,
    indexed,
    lying,
)
from draftproof.adapters.fast.operator import operator
from draftproof.adapters.fast.sampling import Sampling, softmax
from draftproof.adapters.fast.texts import (
    FORMS,
    TEXTS,
    Text,
    check_widths,
    function,
    name_of,
    verified,
)
from draftproof.conformance.adapter import Result

Randomness: TypeAlias = tuple[
    torch.Generator | list[torch.Generator | None] | None,
    Tensor | None,
    Tensor | None,
    Tensor | None,
]
"""Generators, or noise, or seeds and positions, of which all others are None."""


@dataclass(frozen=True)
class Verified:
    """What B requests emit, and what an engine must know to go on."""

    token_ids: Tensor
    """[B, max_spec_len + 1] int32: the accepted tokens, the next token, then -1."""
    accepted: Tensor
    """[B] int64: how many tokens were accepted; the cache stays valid for as many positions."""
    path: Tensor
    """[B] int64: which of the K paths they are on."""
    num_sampled: Tensor
    """[B] int32: how many tokens are emitted, `accepted` and the next one."""
    state: Mapping[str, Tensor] | None = None
    """[B, ...] each: what the next call is to be told of each request, by stateful verifiers."""


def verify(
    name: str,
    *,
    draft_token_ids: Tensor,
    cu_num_draft_tokens: Tensor,
    max_spec_len: int,
    target_logits: Tensor | None = None,
    target_probs: Tensor | None = None,
    draft_logits: Tensor | None = None,
    draft_probs: Tensor | None = None,
    target_rows: Tensor | None = None,
    draft_rows: Tensor | None = None,
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    generators: torch.Generator | list[torch.Generator | None] | None = None,
    noise: Tensor | None = None,
    seeds: Tensor | None = None,
    positions: Tensor | None = None,
    branching: tuple[int, ...] | None = None,
    state: Mapping[str, Tensor] | None = None,
    form: str = "torch",
) -> Verified:
    """Verify the drafts of B requests, which have n positions together, by the verifier `name`.

    * `draft_token_ids` [n], or [n, K] for K drafts, integer: those of all requests, one after
      another. A request's draft ends before its first token that is none of 0..V-1, such as -1.
    * `cu_num_draft_tokens` [B], integer: where each request's end; it may have none. More than
      `max_spec_len` of them do not count.
    * The target's rows are [n + B, V], or [n + B, K, V]: for each request one at every drafted
      position, and one behind them. The draft's are [n, V], or [n, K, V]. Without any the draft is
      certain of its tokens, as an n-gram draft is, or one of most probable tokens; then K is 1.
      Any strides do, and rows of one path are never copied. A model that has fewer tokens than the
      other never says those behind its last; where rows are padded, pass their `[..., :V]`.
    * `target_rows` [n + B], or [n + B, K], and `draft_rows` [n], or [n, K], integer, tell which row
      each position has, where rows lie elsewhere: those of a model are [R, V] then, or [R, S, V],
      where row s of r has the number r S + s. So an engine that keeps rows by request and step, or
      by node of a tree, copies none.
    * `temperature`, `top_k` and `top_p` [B], see `Sampling`, are applied to logits, the target's
      and the draft's; None where they were already. Probabilities are taken as they are. A
      temperature that is negative or NaN counts as 0, a top-p that is NaN as 1: looking for them
      would wait for the device.
    * `generators` is one for all requests, or one for each, where None is the default one.
    * `noise` [B, W] in [0, 1), instead of a generator: a coin for each position, that of the column
      `TEXTS[name].columns(K, max_spec_len)` says, and the mark of the next token.
    * `seeds` and `positions` [B], integer, instead of a generator: numbers by counter, see
      `counters`. A request's position is that of its first drafted token in its text, and is never
      told twice with one seed.
    * `branching` and `state` are those of `Request`, `form` is one of `FORMS`.

    The law of what is emitted is that of the text `name` of `draftproof.reference.verifiers`, for
    each request by itself; so it is the target's, if the caller sees to it that

    * the tokens were drawn from the draft's rows that are given, after the same temperature, top-k
      and top-p, by the scheme of the verifier, `TEXTS[name].scheme`. A drafter that processes its
      rows in another way gives the probabilities that it drew from;
    * no number that drew a draft is used again: a generator is another one, or has gone on;
    * rows are laws, without NaN. Nothing is checked that waits for the device;
    * a stateful verifier gets the state of each request back, in the order of the requests now, and
      the target's own rows; and a request whose `left` is not 0 drafts a token at least.

    A request with a generator of its own emits the same tokens whatever else is in the batch, as
    long as `max_spec_len` is a constant of the engine: it sets how many numbers are drawn for each
    request, used or not. One with a seed emits them whatever that is. Sums may round otherwise in a
    batch of another size, which moves a token once in a million draws.

    Raises `InvalidRequest` for shapes that do not fit together, and unknown names.
    """
    text, ends = _text(name, form), cu_num_draft_tokens
    tokens = draft_token_ids[:, None] if draft_token_ids.dim() == 1 else draft_token_ids
    parameters = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    _check(
        text, form, tokens, ends, max_spec_len, (generators, noise, seeds, positions), parameters
    )
    _check_widths(branching, tokens.shape[1], max_spec_len)
    count, drafts = tokens.shape
    if form == "triton" and is_compiling():
        if noise is None and seeds is None:
            width = text.noise(drafts, max_spec_len)
            noise = uniforms(len(ends), width, generators, tokens.device)
        told, left = _as_operator(
            name, draft_token_ids=draft_token_ids, cu_num_draft_tokens=cu_num_draft_tokens,
            max_spec_len=max_spec_len, target_logits=target_logits, target_probs=target_probs,
            draft_logits=draft_logits, draft_probs=draft_probs, target_rows=target_rows,
            draft_rows=draft_rows, noise=noise, seeds=seeds, positions=positions,
            branching=branching, state=state, is_stateful=text.is_stateful, **parameters,
        )  # fmt: skip
        token_ids, accepted, path, num_sampled = told
        return Verified(token_ids, accepted, path, num_sampled, left)
    where, behind = tokens.device, (count + len(ends), drafts)
    p = _rows("target", target_logits, target_probs, target_rows, behind, where)
    q = _rows("draft", draft_logits, draft_probs, draft_rows, (count, drafts), where)
    if p is None:
        raise InvalidRequest("target_logits or target_probs must be given")
    if q is None and drafts > 1:
        raise InvalidRequest(
            f"draft_logits or draft_probs must be given: a draft that is certain of its tokens has "
            f"one path, draft_token_ids has {drafts}"
        )
    sampling = Sampling(temperature, top_k, top_p)
    if target_logits is not None:
        p = _processed(p, sampling, ends, drafts, more=1)
    if q is not None and draft_logits is not None:
        q = _processed(q, sampling, ends, drafts, more=0)
    drawn: Tensor | tuple[Tensor, Tensor]
    if seeds is not None and positions is not None:
        drawn = seeds, positions
    elif noise is not None:
        drawn = noise.double().contiguous()
    else:
        drawn = uniforms(len(ends), text.noise(drafts, max_spec_len), generators, tokens.device)
    flat = EngineBatch(
        tokens=tokens,
        ends=ends,
        p=p,
        q=q if count > 0 else None,
        longest=max_spec_len,
        noise=drawn,
        p_temperature=temperature,
        q_temperature=temperature,
        branching=branching,
        state=state,
    )
    return emitted(text, form, flat)


_as_operator = operator(verify)


def emitted(text: Text, form: str, flat: EngineBatch) -> Verified:
    """Return what a batch emits. Raises `InvalidRequest` for more siblings than `text` takes."""
    check_widths(text, flat.widths)
    if form == "triton":
        return Verified(*function(text, form)(flat))
    return _by_operators(text, flat)


def _text(name: str, form: str) -> Text:
    if name not in TEXTS:
        raise InvalidRequest(f"there is no verifier {name!r}; there are {', '.join(TEXTS)}")
    if form not in FORMS:
        raise InvalidRequest(f"there is no form {form!r}; there are {', '.join(FORMS)}")
    if form not in TEXTS[name].forms:
        raise InvalidRequest(f"{name} has no form {form!r}, only {', '.join(TEXTS[name].forms)}")
    return TEXTS[name]


def _check(
    text: Text,
    form: str,
    tokens: Tensor,
    ends: Tensor,
    longest: int,
    randomness: Randomness,
    parameters: Mapping[str, Tensor | None],
) -> None:
    if tokens.dim() != 2 or tokens.shape[1] not in range(1, text.most_drafts + 1):
        raise InvalidRequest(
            f"draft_token_ids must be [n] or [n, K], with K at most {text.most_drafts} for "
            f"{name_of(text, form)}, got {list(tokens.shape)}"
        )
    if ends.dim() != 1:
        raise InvalidRequest(f"cu_num_draft_tokens must be [B], got {list(ends.shape)}")
    _check_integers(tokens.device, draft_token_ids=tokens, cu_num_draft_tokens=ends)
    if longest < 0:
        raise InvalidRequest(f"max_spec_len must be 0 or more, got {longest}")
    for name, given in parameters.items():
        if given is None:
            continue
        if given.shape != ends.shape:
            raise InvalidRequest(f"{name} must be [{len(ends)}], got {list(given.shape)}")
        _check_device(name, given, tokens.device)
    if parameters["top_k"] is not None:
        _check_integers(tokens.device, top_k=parameters["top_k"])
    _check_randomness(randomness, len(ends), text.noise(tokens.shape[1], longest), tokens.device)


def _check_integers(device: torch.device, **told: Tensor) -> None:
    for name, given in told.items():
        if given.dtype not in _INTEGERS:
            raise InvalidRequest(f"{name} must be integers, got {given.dtype}")
        _check_device(name, given, device)


def _check_device(name: str, given: Tensor, device: torch.device) -> None:
    if given.device != device:
        raise InvalidRequest(
            f"{name} must be where draft_token_ids are, on {device}, got {given.device}"
        )


def _check_widths(branching: tuple[int, ...] | None, drafts: int, longest: int) -> None:
    if branching is None:
        return
    # Siblings that differ are fewer where there are not as many tokens.
    if len(branching) < longest or min(branching, default=1) < 1 or prod(branching) < drafts:
        raise InvalidRequest(
            f"branching must have a number of siblings for each of max_spec_len = {longest} "
            f"depths, whose product is at least K = {drafts}, got {branching}"
        )


_INTEGERS = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}


def _check_randomness(given: Randomness, requests: int, width: int, device: torch.device) -> None:
    generators, noise, seeds, positions = given
    told = [("generators", generators), ("noise", noise), ("seeds", seeds)]
    named = [name for name, each in told if each is not None]
    if len(named) > 1:
        raise InvalidRequest(f"{named[0]} and {named[1]} are both given, one must be None")
    if (seeds is None) != (positions is None):
        given_one, other = ("seeds", "positions") if positions is None else ("positions", "seeds")
        raise InvalidRequest(f"{given_one} are given without {other}: numbers by counter need both")
    if not (generators is None or isinstance(generators, (list, torch.Generator))):
        raise InvalidRequest(
            f"generators must be a torch.Generator or a list of them, got "
            f"{type(generators).__name__}"
        )
    if isinstance(generators, list) and len(generators) != requests:
        raise InvalidRequest(
            f"generators must be one, or one for each of the {requests} requests, got "
            f"{len(generators)}"
        )
    if noise is not None and (noise.shape != (requests, width) or not noise.is_floating_point()):
        raise InvalidRequest(
            f"noise must be real numbers [{requests}, {width}], got {noise.dtype} "
            f"{list(noise.shape)}"
        )
    if noise is not None:
        _check_device("noise", noise, device)
    for name, each in (("seeds", seeds), ("positions", positions)):
        if each is not None and (each.shape != (requests,) or each.dtype not in _INTEGERS):
            raise InvalidRequest(
                f"{name} must be integers [{requests}], got {each.dtype} {list(each.shape)}"
            )
        if each is not None:
            _check_device(name, each, device)


def _rows(
    name: str,
    logits: Tensor | None,
    probs: Tensor | None,
    index: Tensor | None,
    shape: tuple[int, int],
    device: torch.device,
) -> Lying | None:
    """Return the rows of a model at N positions of K drafts, `shape`, None where none are given.

    Raises `InvalidRequest`.
    """
    if logits is not None and probs is not None:
        raise InvalidRequest(f"{name}_logits and {name}_probs are both given, one must be None")
    what = f"{name}_{'probs' if logits is None else 'logits'}"
    rows = probs if logits is None else logits
    if rows is None:
        if index is not None:
            raise InvalidRequest(f"{name}_rows are given without the rows that they tell of")
        return None
    if rows.dim() not in (2, 3) or rows.shape[-1] == 0:
        raise InvalidRequest(
            f"{what} must be rows [.., V] with a token at least, got {list(rows.shape)}"
        )
    if str(rows.dtype).removeprefix("torch.") not in DTYPES:
        raise InvalidRequest(f"{what} must be of {', '.join(DTYPES)}, got {rows.dtype}")
    _check_device(what, rows, device)
    if index is not None:
        _check_device(f"{name}_rows", index, device)
        _check_index(name, rows, index, shape)
        return indexed(rows, index)
    wide = rows[:, None] if rows.dim() == 2 else rows
    if wide.shape[:2] != shape:
        wanted = [f"[{shape[0]}, V]"] * (shape[1] == 1) + [f"[{shape[0]}, {shape[1]}, V]"]
        raise InvalidRequest(f"{what} must be {' or '.join(wanted)}, got {list(rows.shape)}")
    return lying(wide)


def _check_index(name: str, rows: Tensor, index: Tensor, shape: tuple[int, int]) -> None:
    if index.shape not in (shape[:1], shape) or index.dtype not in _INTEGERS:
        raise InvalidRequest(
            f"{name}_rows must be integers [{shape[0]}] or [{shape[0]}, {shape[1]}], got "
            f"{index.dtype} {list(index.shape)}"
        )
    if rows.shape[:-1].numel() == 0 and index.numel() > 0:
        raise InvalidRequest(f"{name}_rows tell of rows, and there are none: {list(rows.shape)}")


def _processed(laid: Lying, sampling: Sampling, ends: Tensor, drafts: int, *, more: int) -> Lying:
    """Return rows of logits with what cuts them; heat alone is applied as they are read.

    Each request has as many positions as it drafts tokens, and `more`.
    """
    if sampling.top_k is None and sampling.top_p is None:
        return replace(laid, softmax=Softmax())
    return replace(laid, softmax=_softmax(laid, sampling, ends, drafts, more=more))


def _softmax(laid: Lying, sampling: Sampling, ends: Tensor, drafts: int, *, more: int) -> Softmax:
    position, ends = torch.arange(laid.positions, device=ends.device)[:, None], ends.long()
    # Rows behind all ends are nobody's, and have the last one's parameters.
    behind = ends.cummax(0)[0] + more * torch.arange(1, len(ends) + 1, device=ends.device)
    request = torch.searchsorted(behind, position[:, 0], right=True).clamp_(max=len(ends) - 1)
    number = laid.number(position, torch.arange(drafts, device=ends.device))
    values = laid.own
    own = request.new_zeros(len(values))
    own[number] = request[:, None].expand_as(number)
    return softmax(values, sampling.of(own))


def _heated(
    laid: Lying, temperature: Tensor | None, ends: Tensor, drafts: int, *, more: int
) -> Lying:
    """Return rows with the heat of their requests, where it is not in what cuts them."""
    if temperature is None or laid.softmax is None or laid.softmax.least is not None:
        return laid
    soft = _softmax(laid, Sampling(temperature), ends, drafts, more=more)
    return replace(laid, softmax=soft)


def _by_operators(text: Text, flat: EngineBatch) -> Verified:
    """Verify by operators of torch, of rows that belong to padded positions."""
    ends, drafts = flat.ends.long(), flat.tokens.shape[1]
    p = q = _heated(flat.p, flat.p_temperature, ends, drafts, more=1)
    # An index needs something to point to, though nothing of it is used.
    if flat.q is not None:
        q = _heated(flat.q, flat.q_temperature, ends, drafts, more=0)
    batch = from_flat(
        flat.tokens,
        ends,
        q,
        p,
        longest=flat.longest,
        branching=flat.branching,
        state=flat.state,
    )
    if flat.q is None:
        batch = replace(batch, q=_certain(batch))
    noise = flat.noise
    if isinstance(noise, tuple):
        noise = counters.numbers(*noise, text.columns(batch.drafts, batch.length))
    return _emitted(batch, verified(text, "torch", batch, noise))


def _certain(batch: Batch) -> Rows:
    """Return the rows of a draft that is certain of its tokens.

    A one among zeros is seen through windows of V numbers, so no row is written.
    """
    vocabulary = batch.vocabulary
    line = torch.arange(1 - vocabulary, vocabulary, device=batch.tokens.device) == 0
    windows = line.to(batch.p.dtype).unfold(0, vocabulary, 1)
    return Rows(windows, vocabulary - 1 - batch.tokens)


def _emitted(batch: Batch, result: Result) -> Verified:
    """Return what is emitted as an engine reads it."""
    accepted, next_token = result.accepted_length[:, None], result.next_token[:, None]
    every = torch.arange(len(accepted), device=accepted.device)
    tokens = torch.cat([batch.tokens[every, result.path], next_token], 1)
    depth = torch.arange(batch.length + 1, device=accepted.device)
    behind = torch.where(depth == accepted, next_token, -1)
    return Verified(
        token_ids=torch.where(depth < accepted, tokens, behind).int(),
        accepted=result.accepted_length,
        path=result.path,
        num_sampled=(result.accepted_length + 1).int(),
        state=result.state,
    )
