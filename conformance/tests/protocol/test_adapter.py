from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from draftproof.conformance.protocol.adapter import LAYOUTS, InvalidAdapter, declaration


def adapter(**changes: Any) -> Any:
    parts = {"name": "mine", "version": "1", "algorithm": "token", "verify": lambda request: None}
    return SimpleNamespace(**{**parts, **changes})


def test_defaults_are_filled_in() -> None:
    declared = declaration(adapter())
    assert (declared.dtype, declared.device) == ("float32", "cpu")
    assert (declared.max_drafts, declared.batch, declared.logits) == (1, True, False)
    assert (declared.dtypes, declared.scheme) == (("float32",), "iid")
    assert (declared.ragged, declared.drafts, declared.generates) == (False, False, False)
    assert (declared.noise, declared.undefined) == ({}, {})


def test_all_dtypes_are_named_the_adapters_own_first() -> None:
    declared = declaration(adapter(dtype="float16", dtypes=[torch.float32, "float16"]))
    assert declared.dtypes == ("float16", "float32")


def test_all_layouts_are_taken_unless_some_are_named() -> None:
    assert declaration(adapter()).layouts == LAYOUTS
    declared = declaration(adapter(layouts=["sliced", "contiguous"]))
    assert declared.layouts == ("contiguous", "sliced")
    assert not declaration(adapter()).generators


def test_a_drafter_is_noticed() -> None:
    assert declaration(adapter(draft=lambda request: None)).drafts
    assert declaration(adapter(generate=lambda request: None)).generates


def test_noise_is_asked_for_by_name_law_and_shape() -> None:
    noise = {"coins": ("uniform", "L"), "race": ("exponential", "K", "V"), "last": ("uniform",)}
    assert declaration(adapter(noise=noise)).noise == noise


@pytest.mark.parametrize("dtype", [torch.float64, "float64", "torch.float64"])
def test_a_dtype_may_be_an_object_or_a_name(dtype: object) -> None:
    assert declaration(adapter(dtype=dtype)).dtype == "float64"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"name": ""},
            "an adapter needs 'name', a non-empty printable string; SimpleNamespace.name is ''",
        ),
        ({"name": "a\nb"}, r"an adapter needs 'name', .* is 'a\\nb'"),
        ({"version": 3}, "an adapter needs 'version', a non-empty printable string; .* is 3"),
        ({"algorithm": ""}, "'algorithm' must be a non-empty printable string"),
        ({"algorithm": "tokn"}, r"did you mean 'token'\? One of its own is declared as None"),
        ({"algorithm": "Greedy-Block"}, r"did you mean 'greedy_block'\?"),
        ({"verify": "no"}, r"an adapter needs a method verify\(request\)"),
        (
            {"dtype": "int8"},
            "'dtype' must be one of float64, float32, float16, bfloat16, got 'int8'",
        ),
        ({"arithmetic": "int8"}, "'arithmetic' must be one of .*, got 'int8'"),
        ({"max_drafts": 0}, "'max_drafts' must be a positive int, got 0"),
        ({"batch": 1}, "'batch' must be True or False"),
        ({"ragged": None}, "'ragged' must be True or False"),
        (
            {"dtypes": "float16"},
            "'dtypes' must be several dtypes, got 'float16'",
        ),
        ({"dtypes": ["int8"]}, "'dtype' must be one of .*, got 'int8'"),
        (
            {"scheme": "beam"},
            "'scheme' must be one of iid, without_replacement, hub, greedy, got 'beam'",
        ),
        ({"layouts": "sliced"}, "'layouts' must be several layouts, got 'sliced'"),
        (
            {"layouts": ("contiguous", "diagonal")},
            "'layouts' must be among contiguous, transposed, .*, expanded, got 'diagonal'",
        ),
        ({"layouts": ["offset"]}, r"'layouts' must include 'contiguous', got \['offset'\]"),
        ({"generators": 2}, "'generators' must be True or False"),
        ({"noise": ["uniform"]}, "'noise' must map names to a law and a shape"),
        (
            {"noise": {"coins": ("normal", "L")}},
            r"noise 'coins' must be one of uniform, exponential, .*, got \('normal', 'L'\)",
        ),
        ({"noise": {"coins": ("uniform", 0)}}, "then sides K, L, V or positive ints"),
        ({"noise": {"coins": ()}}, r"noise 'coins' must be .*, got \(\)"),
        ({"logits": "yes"}, "'logits' must be True or False"),
        ({"trees": (2, 2)}, "'trees' must be True or False"),
        ({"undefined": {"colour": "?"}}, r"'undefined' must map kinds of invalid input \(nan, "),
        ({"undefined": ["nan"]}, "'undefined' must map kinds"),
    ],
)
def test_what_breaks_the_protocol_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAdapter, match=message):
        declaration(adapter(**changes))
