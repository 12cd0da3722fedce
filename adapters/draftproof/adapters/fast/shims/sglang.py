"""SGLang's sampling of a chain and of a tree of drafts, as it calls them: outputs are written.

    from draftproof.adapters.fast.shims.sglang import chain, tree

Node 0 of a request is the token that it has; the others are drafted. Outputs are told by where a
node's token stands in the flat batch, `retrive_index` (SGLang spells it so): the token that follows
node i is written into `predicts` there. Signatures are those of SGLang 0.5.23.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.engine import emitted
from draftproof.adapters.fast.excess import draw
from draftproof.adapters.fast.inputs import EngineBatch, Lying
from draftproof.adapters.fast.shims import NotOurs
from draftproof.adapters.fast.shims.checks import (
    AtLeast,
    check_form,
    check_integers,
    check_reals,
    check_some,
)
from draftproof.adapters.fast.texts import TEXTS


def chain(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
    *,
    block_verification: bool = False,
    form: str = "triton",
) -> None:
    """Verify chains as `chain_speculative_sampling_triton` does, token for token.

    `candidates` [B, S] of S - 1 drafted tokens; `target_probs` [B, S, V], `draft_probs` [B, S - 1,
    V] or longer; coins [B, S - 1] or longer, and those of the next tokens [B]. Written are
    `predicts` [N], of at least B S, `accept_index` [B, S] and `accept_token_num` [B]. A drafted
    token of which the draft's probability is 0 is kept where the target's is not; SGLang refuses
    it. Raises `NotOurs` for thresholds other than 1, `InvalidRequest` for tensors that do not fit
    together.
    """
    _refuse_thresholds(threshold_single, threshold_acc)
    device = candidates.device
    check_form(form)
    check_integers(device, candidates=(candidates, ("B", "S")))
    check_some("slot", "candidates", candidates)
    requests, nodes = candidates.shape
    length = nodes - 1
    check_integers(
        device,
        predicts=(predicts, (AtLeast(requests * nodes),)),
        accept_index=(accept_index, (requests, nodes)),
        accept_token_num=(accept_token_num, (requests,)),
        retrive_index=(retrive_index, (requests, nodes)),
    )
    check_reals(
        device,
        uniform_samples=(uniform_samples, (requests, AtLeast(length))),
        uniform_samples_for_final_sampling=(uniform_samples_for_final_sampling, (requests,)),
        target_probs=(target_probs, (requests, nodes, "V")),
    )
    check_some("token", "target_probs", target_probs)
    vocabulary = target_probs.shape[-1]
    check_reals(device, draft_probs=(draft_probs, (requests, AtLeast(length), vocabulary)))
    row = torch.arange(requests, device=device)[:, None]
    index = row * draft_probs.shape[1] + torch.arange(length, device=device)
    coins = uniform_samples[:, :length], uniform_samples_for_final_sampling.view(-1, 1)
    flat = EngineBatch(
        tokens=candidates[:, 1:].reshape(-1, 1),
        ends=torch.arange(1, requests + 1, device=device) * length,
        p=Lying(target_probs.flatten(0, 1), 1, 0, requests * nodes),
        q=None
        if length == 0
        else Lying(draft_probs.flatten(0, 1), 1, 0, requests * length, index=index.flatten()),
        longest=length,
        noise=torch.cat(coins, 1).double(),
    )
    verified = emitted(TEXTS["block" if block_verification else "token"], form, flat)
    path = torch.arange(nodes, device=device).expand(requests, -1)
    kept = verified.accepted
    _written(predicts, accept_index, retrive_index, path, kept, verified.token_ids)
    accept_token_num.copy_(kept)


def tree(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Verify trees as `tree_speculative_sampling_target_only` does, as many tokens of each.

    A node's children, its first in `retrive_next_token` [B, S] and then siblings, share one coin:
    that of the node. The target's own token is followed as long as it is one of them, so that what
    is emitted has its law whatever the tree is: `draft_probs`, which SGLang gives as 0, are neither
    read nor written. A token that is twice among siblings is followed to the first of them, and one
    that is none of 0..V-1 never. `accept_index` is [B, D] for D - 1 accepted tokens at most,
    `predicts` [N] of at least B S. Raises `NotOurs` for thresholds other than 1, `InvalidRequest`
    for tensors that do not fit together.
    """
    _refuse_thresholds(threshold_single, threshold_acc)
    device = candidates.device
    check_integers(
        device, candidates=(candidates, ("B", "S")), accept_index=(accept_index, ("B", "D"))
    )
    check_some("slot", "candidates", candidates)
    check_some("slot", "accept_index", accept_index)
    requests, nodes = candidates.shape
    deepest = accept_index.shape[1] - 1
    check_integers(
        device,
        predicts=(predicts, (AtLeast(requests * nodes),)),
        accept_index=(accept_index, (requests, "D")),
        accept_token_num=(accept_token_num, (requests,)),
        retrive_index=(retrive_index, (requests, nodes)),
        retrive_next_token=(retrive_next_token, (requests, nodes)),
        retrive_next_sibling=(retrive_next_sibling, (requests, nodes)),
    )
    check_reals(
        device,
        uniform_samples=(uniform_samples, (requests, nodes)),
        uniform_samples_for_final_sampling=(uniform_samples_for_final_sampling, (requests,)),
        target_probs=(target_probs, (requests, nodes, "V")),
    )
    check_some("token", "target_probs", target_probs)
    vocabulary = target_probs.shape[-1]
    every = torch.arange(requests, device=device)
    node = torch.zeros(requests, dtype=torch.int64, device=device)
    child = retrive_next_token[:, 0].long()
    passed = torch.zeros_like(target_probs[:, 0, 0])
    kept, path = torch.zeros_like(node), node[:, None].repeat(1, deepest + 1)
    gone = torch.full((requests, nodes), -1, dtype=torch.int64, device=device)
    for visit in range(nodes - 1):
        is_there = (child >= 0) & (child < nodes) & (kept < deepest)
        here = child.clamp(0, nodes - 1)
        token = candidates[every, here].long()
        token = torch.where((token >= 0) & (token < vocabulary), token, -1)
        # What is none is gone from the start.
        is_new = is_there & (gone != token[:, None]).all(-1)
        passed = passed + target_probs[every, node, token.clamp(min=0)] * is_new
        # Strictly below: a coin of exactly 0 must not accept what the target never says.
        follows = is_new & (uniform_samples[every, node] < passed)
        refused = is_there & ~follows
        gone[:, visit] = torch.where(refused, token, -1)
        gone = torch.where(follows[:, None], -1, gone)
        kept = kept + follows
        path = torch.where(
            (torch.arange(deepest + 1, device=device) == kept[:, None]) & follows[:, None],
            here[:, None],
            path,
        )
        node, passed = torch.where(follows, here, node), torch.where(follows, 0, passed)
        after = retrive_next_token[every, here].long()
        beside = retrive_next_sibling[every, here].long()
        child = torch.where(follows, after, torch.where(refused, beside, child))
    owed = target_probs[every, node]
    # Behind the vocabulary stands a token for those that are none.
    is_gone = torch.zeros_like(owed[:, :1], dtype=torch.bool).repeat(1, vocabulary + 1)
    is_gone.scatter_(1, torch.where(gone >= 0, gone, vocabulary), value=1)
    owed = owed.masked_fill(is_gone[:, :vocabulary], 0)
    last = draw(owed, uniform_samples_for_final_sampling.double())
    tokens = candidates.gather(1, path[:, 1:]).long()
    tokens = torch.cat([tokens, last[:, None]], 1).scatter_(1, kept[:, None], last[:, None])
    _written(predicts, accept_index, retrive_index, path, kept, tokens)
    accept_token_num.copy_(kept)


def _refuse_thresholds(single: float, acc: float) -> None:
    for name, value in (("threshold_single", single), ("threshold_acc", acc)):
        if value != 1:
            raise NotOurs(
                f"{name} is {value}: tokens are kept more or less often than the target says them, "
                f"so what is emitted would not have the target's law; leave both thresholds at 1"
            )


def _written(
    predicts: Tensor,
    accept_index: Tensor,
    retrive_index: Tensor,
    path: Tensor,
    kept: Tensor,
    tokens: Tensor,
) -> None:
    """Write what follows each kept node of a `path` [B, D], and where these nodes are."""
    is_kept = torch.arange(path.shape[1], device=path.device) <= kept[:, None]
    where = retrive_index.gather(1, path)
    # What is behind them is written as node 0 is, which is always kept: twice the same.
    place = torch.where(is_kept, where, where[:, :1]).long()
    told = torch.where(is_kept, tokens, tokens[:, :1]).to(predicts.dtype)
    predicts[place.flatten()] = told.flatten()
    accept_index.copy_(torch.where(is_kept, where.to(accept_index.dtype), accept_index))
