"""The fast verifiers as an engine calls them: on the tensors that it has, as they lie.

vLLM and SGLang keep the drafted tokens of a batch one after another, requests of different lengths
in a row, and so the rows. None of them is copied: temperature, top-k and top-p are applied as a
row is read, and where the draft is certain of its tokens it needs no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch, Rows, Softmax, uniforms
from draftproof.adapters.fast.inputs import InvalidRequest, Lying, from_flat, lying
from draftproof.adapters.fast.sampling import Sampling, softmax
from draftproof.adapters.fast.texts import FORMS, TEXTS, Text, name_of, verified
from draftproof.conformance.adapter import Result


@dataclass(frozen=True)
class Verified:
    """What B requests emit, and what an engine must know to go on."""

    token_ids: Tensor
    """[B, max_spec_len + 1] int32: the accepted tokens, the next token, then -1."""
    accepted: Tensor
    """[B] int64: how many tokens were accepted; the cache stays valid for as many positions."""
    path: Tensor
    """[B] int64: which of the K paths they are on."""
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
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    generators: torch.Generator | list[torch.Generator | None] | None = None,
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
      All rows have one V: where one model's are padded, pass its `[..., :V]`. Any strides do, and
      rows of one path are never copied.
    * `temperature`, `top_k` and `top_p` [B], see `Sampling`, are applied to logits, the target's
      and the draft's; None where they were already. Probabilities are taken as they are. A
      temperature that is negative or NaN counts as 0, a top-p that is NaN as 1: looking for them
      would wait for the device.
    * `generators` is one for all requests, or one for each, where None is the default one.
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
    request, used or not. Sums may round otherwise in a batch of another size, which moves a token
    once in a million draws.

    Raises `InvalidRequest` for shapes that do not fit together, and unknown names.
    """
    text = _text(name, form)
    tokens = draft_token_ids[:, None] if draft_token_ids.dim() == 1 else draft_token_ids
    ends = cu_num_draft_tokens.long()
    _check(text, form, tokens, ends, generators, temperature, top_k, top_p)
    positions, drafts = tokens.shape
    p = _rows("target", target_logits, target_probs, (positions + len(ends), drafts))
    q = _rows("draft", draft_logits, draft_probs, (positions, drafts))
    if p is None:
        raise InvalidRequest("target_logits or target_probs must be given")
    if q is None and drafts > 1:
        raise InvalidRequest(
            f"draft_logits or draft_probs must be given: a draft that is certain of its tokens has "
            f"one path, draft_token_ids has {drafts}"
        )
    _check_vocabulary(p, q)
    sampling = Sampling(temperature, top_k, top_p)
    target = _laid(p, sampling if target_logits is not None else None, ends, more=1)
    # An index needs something to point to, though nothing of it is used.
    draft = target
    if q is not None and positions > 0:
        draft = _laid(q, sampling if draft_logits is not None else None, ends, more=0)
    batch = from_flat(
        tokens, ends, draft, target, longest=max_spec_len, branching=branching, state=state
    )
    if q is None:
        batch = replace(batch, q=_certain(batch))
    noise = uniforms(len(ends), text.noise(drafts, max_spec_len), generators, tokens.device)
    return _emitted(batch, verified(text, form, batch, noise))


def _text(name: str, form: str) -> Text:
    if name not in TEXTS:
        raise InvalidRequest(f"there is no verifier {name!r}; there are {', '.join(TEXTS)}")
    if form not in FORMS:
        raise InvalidRequest(f"there is no form {form!r}; there are {', '.join(FORMS)}")
    return TEXTS[name]


def _check(
    text: Text,
    form: str,
    tokens: Tensor,
    ends: Tensor,
    generators: torch.Generator | list[torch.Generator | None] | None,
    *parameters: Tensor | None,
) -> None:
    if tokens.dim() != 2 or tokens.shape[1] not in range(1, text.most_drafts + 1):
        raise InvalidRequest(
            f"draft_token_ids must be [n] or [n, K], with K at most {text.most_drafts} for "
            f"{name_of(text, form)}, got {list(tokens.shape)}"
        )
    if ends.dim() != 1:
        raise InvalidRequest(f"cu_num_draft_tokens must be [B], got {list(ends.shape)}")
    for name, given in zip(("temperature", "top_k", "top_p"), parameters, strict=True):
        if given is not None and given.shape != ends.shape:
            raise InvalidRequest(f"{name} must be [{len(ends)}], got {list(given.shape)}")
    if isinstance(generators, list) and len(generators) != len(ends):
        raise InvalidRequest(
            f"generators must be one, or one for each of the {len(ends)} requests, got "
            f"{len(generators)}"
        )


def _rows(
    name: str, logits: Tensor | None, probs: Tensor | None, shape: tuple[int, int]
) -> Tensor | None:
    """Return the rows of a model, [N, K, V] with N and K as in `shape`, None where none are given.

    Raises `InvalidRequest`.
    """
    if logits is not None and probs is not None:
        raise InvalidRequest(f"{name}_logits and {name}_probs are both given, one must be None")
    rows = probs if logits is None else logits
    if rows is None:
        return None
    wide = rows[:, None] if rows.dim() == 2 else rows
    if wide.dim() != 3 or wide.shape[:2] != shape:
        what = f"{name}_{'probs' if logits is None else 'logits'}"
        wanted = [f"[{shape[0]}, V]"] * (shape[1] == 1) + [f"[{shape[0]}, {shape[1]}, V]"]
        raise InvalidRequest(f"{what} must be {' or '.join(wanted)}, got {list(rows.shape)}")
    return wide


def _check_vocabulary(p: Tensor, q: Tensor | None) -> None:
    """Check that rows [N, K, V] of both models are of the same tokens, one at least."""
    sizes = p.shape[-1], p.shape[-1] if q is None else q.shape[-1]
    if min(sizes) == 0:
        raise InvalidRequest("rows must have a token at least, V is 0")
    if sizes[0] != sizes[1]:
        smaller, larger = ("draft", "target") if sizes[1] < sizes[0] else ("target", "draft")
        raise InvalidRequest(
            f"the target's rows have {sizes[0]} tokens, the draft's {sizes[1]}: both must be of "
            f"one vocabulary. If what the {larger}'s have more is padding, pass "
            f"[..., :{min(sizes)}] of them; if the {smaller} cannot say these tokens, give it rows "
            f"of {max(sizes)} with a probability of 0, or a logit of -inf, there"
        )


def _laid(rows: Tensor, sampling: Sampling | None, ends: Tensor, *, more: int) -> Lying:
    """Return rows [n, K, V] as they lie: logits where there is a `sampling` by request.

    Each request has as many rows as it drafts tokens, and `more`.
    """
    laid = lying(rows)
    if sampling is None:
        return laid
    if sampling.is_plain:
        return replace(laid, softmax=Softmax())
    count, drafts, _ = rows.shape
    position = torch.arange(count, device=ends.device)[:, None]
    # Rows behind all ends are nobody's, and have the last one's parameters.
    behind = ends.long().cummax(0)[0] + more * torch.arange(1, len(ends) + 1, device=ends.device)
    request = torch.searchsorted(behind, position[:, 0], right=True).clamp_(max=len(ends) - 1)
    number = laid.number(position, torch.arange(drafts, device=ends.device))
    own = request.new_zeros(len(laid.values))
    own[number] = request[:, None].expand_as(number)
    return replace(laid, softmax=softmax(laid.values, sampling.of(own)))


def _certain(batch: Batch) -> Rows:
    """Return the rows of a draft that is certain of its tokens.

    A one among zeros is seen through windows of V numbers, so no row is written.
    """
    vocabulary = batch.p.values.shape[1]
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
        state=result.state,
    )
