"""Tokenizer whose text determines the ids: one printable character per token, and no merges."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain as chained
from itertools import islice
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from draftproof.conformance.checkpoint.chain import BEGIN, END, SPECIAL, UNKNOWN, MarkovChain

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""Chat template: a conversation is the concatenation of its texts."""


def texts(chain: MarkovChain) -> tuple[str, ...]:
    """Return the text of every token, by its id: words of the chain are letters."""
    characters = chained(ascii_letters, digits, _others())
    words = dict(zip(chain.words, islice(characters, len(chain.words)), strict=True))
    rest = range(len(SPECIAL), chain.vocabulary)
    own = (words[i] if i in words else next(characters) for i in rest)
    return (*SPECIAL, *own)


def tokenizer(texts: Sequence[str], *, longest: int) -> PreTrainedTokenizerFast:
    """Return the tokenizer of these texts, as transformers and what reads its files has it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    unknown = texts[UNKNOWN]
    inner = Tokenizer(models.WordLevel({text: i for i, text in enumerate(texts)}, unknown))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=unknown,
        pad_token=unknown,
        bos_token=texts[BEGIN],
        eos_token=texts[END],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=longest,
    )


_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


def _others() -> Iterator[str]:
    """Yield stable characters: printable ones, then those of private use.

    No character combines with the one before it, and no normalization changes it.
    """
    taken = {*ascii_letters, *digits, "<", ">"}
    for code in chained(range(0x21, 0xE000), range(0xF900, 0x110000)):
        character = chr(code)
        if (
            character.isprintable()
            and character not in taken
            and not unicodedata.category(character).startswith("M")
            and all(unicodedata.is_normalized(form, character) for form in ("NFC", "NFKC"))
        ):
            yield character
    yield from (chr(code) for codes in _PRIVATE for code in codes)
