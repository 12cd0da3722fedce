"""Envelopes: signatures over certificates, by keys of ours and as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftproof.conformance.evidence.envelope import Envelope, read_envelope, signed
from draftproof.conformance.evidence.records import EditedEvidence, MalformedEvidence

pytest.importorskip("cryptography")

CONTENT = b"what was found\n"


def key(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of a new private key and of its public key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(
        made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        made.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def envelope(folder: Path, private: Path, hint: str | None = "ours") -> Envelope:
    """Return the envelope of a certificate with the id of a key as another tool has it."""
    document = signed(CONTENT, private)
    (one,) = document["signatures"]
    if hint is None:
        del one["keyid"]
    elif hint != "ours":
        one["keyid"] = hint
    place = folder / "mine.dsse.json"
    place.write_text(json.dumps(document))
    return read_envelope(place)


@pytest.mark.parametrize("hint", ["ours", None, "", "SHA256:of-another-tool"])
def test_a_signature_holds_whatever_it_says_of_its_key(tmp_path: Path, hint: str | None) -> None:
    private, public = key(tmp_path, "one")
    _, other = key(tmp_path, "two")
    found = envelope(tmp_path, private, hint)
    assert found.content == CONTENT
    (who,) = found.signed_by([other, public])
    assert who is not None
    assert found.signed_by([other]) == (None,)
    assert found.signed_by([]) == (None,)


def test_a_signature_that_names_a_key_must_hold(tmp_path: Path) -> None:
    private, public = key(tmp_path, "one")
    found = envelope(tmp_path, private)
    with pytest.raises(EditedEvidence, match=r"the signature by key [0-9a-f]{16} does not hold"):
        Envelope(b"edited", found.signatures).signed_by([public])
    unnamed = [("", signature) for _, signature in found.signatures]
    assert Envelope(b"edited", unnamed).signed_by([public]) == (None,)


def test_what_is_no_envelope_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"payloadType": "x", "signatures": []}')
    with pytest.raises(MalformedEvidence, match=r"no DSSE envelope"):
        read_envelope(tmp_path / "mine.json")
