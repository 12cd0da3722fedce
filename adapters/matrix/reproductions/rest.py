"""REST: the text at a temperature, as its evaluations and its chat ask for it, exactly.

    python rest.py

fetches two files of FasterDecoding/REST at one commit, and enumerates one iteration: every way in
which the draws of its `torch.multinomial` may fall. Nothing is sampled, and the fractions are
exact. `chat` is the released `RestModel.rest_generate`; `evaluations` makes the calls of
`human_eval/rest_test.py` and `llm_judge/gen_model_answer_rest.py`. A table stands for the model,
and drafts that never change stand for what is retrieved. Needs torch and numpy; ends with 1 if the
law of a text is not the target's.

DRAFTPROOF_SOURCES may name a folder with the files, as OWNER/NAME/COMMIT/path, if there is no
network.

The controls are temperature 0, and the same code with each fix and with both.
"""

import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.request import urlopen

import torch

COMMIT = "FasterDecoding/REST/50a5fc197382ed8df5b3e946dad2f8337511b541"
FILES = {
    "rest/model/utils.py": "4b149fe61f9b729d304b381c954bb645544c51acc864a6e96d85b2d1b2170af1",
    "rest/model/rest_model.py": "1941097496b1b05189f234a89fd16a0cd769006d0a1def68fc54af187192ce88",
}

# By section of the report: the file, how often a text is in it, the text, and what replaces its
# last occurrence.
FIXES = {
    1: (
        (
            "rest/model/utils.py",
            1,
            "    sampled_tokens = sampled_tokens.view(n_samples, n_tokens)\n",
            """\
    sampled_tokens = sampled_tokens.view(n_samples, n_tokens)
    # Paths that begin with the same tokens share one draw.
    is_same = (candidates[:, None, :-1] == candidates[None, :, :-1]).int().cumprod(dim=2)
    sampled_tokens = sampled_tokens.gather(0, is_same.argmax(dim=1))
""",
        ),
        (
            "rest/model/utils.py",
            1,
            "    return posterior_mask\n",
            "    return posterior_mask, sampled_tokens\n",
        ),
        (
            "rest/model/utils.py",
            1,
            "        posterior_mask = get_nucleus",
            "        posterior_mask, sampled_tokens = get_nucleus",
        ),
        (
            "rest/model/utils.py",
            2,
            "        return best_candidate, accept_length\n",
            """\
        if accept_length < sampled_tokens.shape[1]:
            # The next token is drawn from this row: leave only the token drawn already.
            drawn = sampled_tokens[best_candidate, accept_length]
            logits[best_candidate, accept_length] = float("-inf")
            logits[best_candidate, accept_length, drawn] = 0
        return best_candidate, accept_length
""",
        ),
    ),
    2: (
        (
            "rest/model/rest_model.py",
            1,
            """\
                self.token_spans,
                device=self.base_model.device
            )
            self.base_model""",
            """\
                self.token_spans,
                top_p=top_p if temperature > 0 else 0.0,
                temperature=temperature,
                device=self.base_model.device
            )
            self.base_model""",
        ),
    ),
}

# The defaults of the chat. This top-p cuts none of the rows below.
TEMPERATURE, TOP_P = 0.7, 0.8
PROMPT, ROOM = 2, 16

# The retrieved paths, and the target's rows after token 0, after token 1, and after the prompt.
EVEN = (("1/2", "1/2"), ("1/2", "1/2"), ("1", "0"))
STEEP = (("3/4", "1/4"), ("3/4", "1/4"), ("3/4", "1/4"))
MIXED = (("3/4", "1/4"), ("1/3", "2/3"), ("1", "0"))
Paths = tuple[tuple[int, ...], ...]
ONE: tuple[Paths, tuple] = ((0,),), EVEN
SHARED: tuple[Paths, tuple] = ((0, 0), (0, 1)), EVEN
SIBLINGS: tuple[Paths, tuple] = ((0,), (1,)), EVEN
TREE: tuple[Paths, tuple] = ((0, 0), (0, 1), (1, 0)), MIXED
LIKELY: tuple[Paths, tuple] = ((0,),), STEEP


class Drawn(Exception):
    """The iteration is over; the message is the text, the next token included."""


class Noise:
    """Torch, whose draws fall as they are told, then on the first token that may come."""

    def __init__(self, told: tuple[int, ...]) -> None:
        self.fallen: list[int] = []
        self.others: list[list[int]] = []
        self.weight = Fraction(1)
        self._told = told

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)

    def multinomial(self, rows: torch.Tensor, num_samples: int) -> torch.Tensor:
        assert num_samples == 1
        return torch.tensor([[self._draw(row)] for row in rows])

    def _draw(self, row: torch.Tensor) -> int:
        may = [token for token, chance in enumerate(row.tolist()) if chance > 0]
        told = self._told[len(self.fallen) :]
        token = told[0] if told else may[0]
        self.fallen.append(token)
        self.others.append([each for each in may if each > token])
        # The fraction that a float64 stands for, which is off by some 1e-16.
        self.weight *= Fraction(row[token].item()).limit_denominator(10**6)
        return token


class Datastore:
    """Stand-in for the retrieval: the same paths, until the iteration is over."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._searched = 0

    def search(self, text: list[int], **_: int) -> tuple[list, ...]:
        """Return the paths and the buffers of their tree."""
        self._searched += 1
        if self._searched > 1:
            raise Drawn(*text[1:])
        columns = [list(dict.fromkeys(column)) for column in zip(*self._paths, strict=True)]
        width = max(map(len, columns))
        nodes: list[tuple[int, ...]] = sorted(
            {path[:depth] for path in self._paths for depth in range(len(path) + 1)},
            key=lambda node: (len(node), node),
        )
        places = [
            1 + width * (len(node) - 1) + columns[len(node) - 1].index(node[-1]) if node else 0
            for node in nodes
        ]
        behind = [
            [nodes.index(path[:depth]) for depth in range(len(path) + 1)] for path in self._paths
        ]
        depths = [len(node) for node in nodes]
        mask = [[1.0] * len(nodes)] * len(nodes)  # the model looks at the last token alone
        return [list(path) for path in self._paths], mask, places, depths, behind


@cache
def imported(*fixes: int) -> tuple[ModuleType, ModuleType]:
    """Return the modules utils and rest_model, with some fixes."""
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    for name in ("draftretriever", "transformers", "rest", "rest.model"):
        sys.modules[name] = MagicMock()
    for name in ("rest.model.modeling_llama_kv", "rest.model.kv_cache"):
        sys.modules[name] = MagicMock()
    modules = []
    for path, digest in FILES.items():
        with urlopen(f"{host}/{COMMIT}/{path}", timeout=60) as answer:
            content = answer.read()
        assert sha256(content).hexdigest() == digest, path
        source = content.decode()
        for fix in fixes:
            for where, count, stands, better in FIXES[fix]:
                if where == path:
                    assert source.count(stands) == count, stands
                    head, tail = source.rsplit(stands, 1)
                    source = head + better + tail
        name = path.removesuffix(".py").replace("/", ".")
        module = sys.modules[name] = ModuleType(name)
        vars(module)["__package__"] = "rest.model"
        exec(compile(source, path, "exec"), vars(module))
        modules.append(module)
    return modules[0], modules[1]


def engine(module: ModuleType, rows: tuple) -> torch.nn.Module:
    """Return a `RestModel` whose base model looks at the last token alone."""
    table = torch.tensor([[float(Fraction(each)) for each in row] for row in rows]).double().log()
    model = module.RestModel.__new__(module.RestModel)
    torch.nn.Module.__init__(model)
    model.base_model = SimpleNamespace(
        model=lambda input_ids, **_: (input_ids,),
        lm_head=lambda last: TEMPERATURE * table[last],
        device="cpu",
    )
    model.past_key_values = None
    model.past_key_values_data = torch.zeros(1, ROOM, 1)
    model.current_length_data = torch.zeros(1, dtype=torch.long)
    model.tokenizer = SimpleNamespace(decode=lambda *_, **__: "", eos_token_id=-1)
    model.token_spans = [ROOM]
    return model


def chat(_: ModuleType, model: Any, datastore: Datastore, temperature: float) -> Iterator[object]:
    """Generate as `rest/inference/cli.py` does."""
    return model.rest_generate(
        torch.tensor([[PROMPT]]), datastore, temperature=temperature, top_p=TOP_P
    )


def evaluations(
    utils: ModuleType, model: Any, datastore: Datastore, temperature: float
) -> Iterator[object]:
    """Generate by the calls of `run_eval` and of `rest_forward`."""
    top_p = TOP_P if temperature > 0 else 0
    input_ids, new_token = torch.tensor([[PROMPT]]), 0
    with torch.inference_mode():
        logits = utils.initialize_logits(input_ids, model, model.past_key_values)
        while True:
            candidates, tree_candidates, buffers = utils.generate_candidates_and_draft_buffer(
                logits,
                input_ids,
                datastore,
                model.token_spans,
                top_p,
                temperature,
                max_num_draft=64,
                device=model.base_model.device,
            )
            logits, outputs = utils.tree_decoding(
                model,
                tree_candidates,
                model.past_key_values,
                buffers["draft_position_ids"],
                input_ids,
                buffers["retrieve_indices"],
            )
            best_candidate, accept_length = utils.evaluate_posterior(
                logits, candidates, temperature=temperature, top_p=top_p
            )
            input_ids, logits, new_token = utils.update_inference_inputs(
                input_ids,
                candidates,
                best_candidate,
                accept_length,
                buffers["retrieve_indices"],
                outputs,
                logits,
                new_token,
                model.past_key_values_data,
                model.current_length_data,
            )
            yield None


def law(
    caller: Callable, fixes: tuple[int, ...], case: tuple, temperature: float
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the text, as long as the draft and two more, continued by the target."""
    utils, rest_model = imported(*fixes)
    paths, rows = case
    found: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    untried: list[tuple[int, ...]] = [()]
    while untried:
        told = untried.pop()
        noise = vars(utils)["torch"] = Noise(told)
        text: tuple[int, ...] = ()
        try:
            for _ in caller(utils, engine(rest_model, rows), Datastore(paths), temperature):
                pass
        except Drawn as over:
            text = over.args
        assert text
        # A draw that was not told falls on each other token in another run.
        untried += [
            (*noise.fallen[:at], other)
            for at in range(len(told), len(noise.fallen))
            for other in noise.others[at]
        ]
        for more in itertools.product(range(2), repeat=len(paths[0]) + 2 - len(text)):
            whole = (*text, *more)
            found[whole] += noise.weight * chance(rows, whole, start=len(text))
    assert sum(found.values()) == 1
    return found


def chance(rows: tuple, text: tuple[int, ...], start: int = 0) -> Fraction:
    """Return the target's probability of the tokens of a text from a place on."""
    before = (PROMPT, *text)
    return prod(
        (Fraction(rows[before[at]][text[at]]) for at in range(start, len(text))), start=Fraction(1)
    )


def judged(caller: Callable, fixes: tuple[int, ...], case: tuple) -> bool:
    """Print the laws of two tokens and the text's distances; return whether it is lossless."""
    found = law(caller, fixes, case, TEMPERATURE)
    paths, rows = case
    drafted = ", ".join(" ".join(map(str, path)) for path in paths)
    fixed = f"fix {' and '.join(map(str, fixes))}" if fixes else "as released"
    print(f"  {fixed}, paths {drafted}")
    length = len(paths[0]) + 2
    texts = list(itertools.product(range(2), repeat=length))
    target = {text: chance(rows, text) for text in texts}
    for at in (0, 1):
        seen, owed = (
            [
                sum((each[text] for text in texts if text[at] == token), Fraction(0))
                for token in (0, 1)
            ]
            for each in (found, target)
        )
        if seen != owed or 1 not in owed:
            print(f"    token {at + 1}: ({said(seen)}), must be ({said(owed)})")
    distances = []
    for end in range(1, length + 1):
        off: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for text in texts:
            off[text[:end]] += found[text] - target[text]
        distances.append(sum(map(abs, off.values()), Fraction(0)) / 2)
    print(f"    total variation distance in texts of 1 to {length} tokens: {said(distances)}")
    return not any(distances)


def said(numbers: list[Fraction]) -> str:
    return ", ".join(map(str, numbers))


def main() -> int:
    print(f"evaluations, temperature {TEMPERATURE}, top-p {TOP_P}")
    cases = (ONE, SIBLINGS, SHARED, TREE)
    lossless = [judged(evaluations, (), case) for case in cases]
    for case in cases:
        assert judged(evaluations, (1,), case)
    print(f"chat, temperature {TEMPERATURE}, top-p {TOP_P}")
    lossless.append(judged(chat, (), LIKELY))
    assert not judged(chat, (2,), LIKELY)
    for case in (LIKELY, TREE):
        assert judged(chat, (1, 2), case)
    print("temperature 0")
    for caller, fixes in itertools.product((evaluations, chat), ((), (1, 2))):
        for case in (LIKELY, TREE):
            # After the prompt and after token 0, the most probable token is 0.
            text = (0,) * (len(case[0][0]) + 2)
            assert law(caller, fixes, case, 0) == {text: 1}
        print(f"  {caller.__name__}, {'fix 1 and 2' if fixes else 'as released'}: greedy")
    return int(not all(lossless))


if __name__ == "__main__":
    sys.exit(main())
