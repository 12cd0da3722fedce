"""Envelopes: certificates with signatures, as in-toto attestations in DSSE.

An envelope contains the certificate unchanged, byte for byte, and Ed25519 signatures of it. If you
trust a key, you trust that its owner, such as a workflow, judged the verifier and found this.
Source: https://github.com/secure-systems-lab/dsse, protocol.md.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from draftproof.conformance.evidence.records import EditedEvidence, MalformedEvidence, bytes_of
from draftproof.reference.extras import installation
from draftproof.spec import MalformedDocument, parsed, validate

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PAYLOAD = "application/vnd.in-toto+json"
"""Media type of the signed content."""


class InvalidKey(ValueError):
    """Error of a file without an Ed25519 key of the needed kind, or of a system without support."""


@dataclass(frozen=True)
class Envelope:
    """Unchanged certificate and its signatures, each with its hint about the key."""

    content: bytes
    signatures: Sequence[tuple[str, bytes]]
    """The id of a key is a hint: it may be empty, or written by another tool."""

    def signed_by(self, keys: Sequence[Path]) -> tuple[str | None, ...]:
        """Return, for each signature, the id of the public key that verifies it, or None.

        Raises `InvalidKey`, and `EditedEvidence` if a signature that names one of these keys is
        invalid.
        """
        known = {key_id(key): key for key in map(_public, keys)}
        found = []
        for hint, signature in self.signatures:
            holds = (one for one, key in known.items() if _holds(key, signature, self.content))
            who = next(holds, None)
            if who is None and hint in known:
                raise EditedEvidence(
                    f"the signature by key {hint[:16]} does not hold: the certificate, or the "
                    f"signature, is not what was signed"
                )
            found.append(who)
        return tuple(found)


def _holds(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _encoded(content))
    except InvalidSignature:
        return False
    return True


def is_envelope(content: bytes) -> bool:
    """Return True if a file has the form of an envelope."""
    return b'"payloadType"' in content[:4096] or b'"signatures"' in content[-4096:]


def signed(content: bytes, key: Path) -> dict[str, Any]:
    """Return an envelope around a certificate, signed with a private key in a PEM file.

    Raises `InvalidKey`.
    """
    private = _private(key)
    signature = private.sign(_encoded(content))
    document = {
        "payloadType": PAYLOAD,
        "payload": b64encode(content).decode(),
        "signatures": [
            {"keyid": key_id(private.public_key()), "sig": b64encode(signature).decode()}
        ],
    }
    validate(document, "envelope")
    return document


def read_envelope(path: Path) -> Envelope:
    """Return the content of an envelope. Raises `EvidenceError` for any other file."""
    try:
        document = parsed(bytes_of(path))
        validate(document, "envelope")
        content = b64decode(document["payload"], validate=True)
        each = document["signatures"]
        signatures = [(one.get("keyid", ""), b64decode(one["sig"], validate=True)) for one in each]
    except (MalformedDocument, ValueError) as error:
        raise MalformedEvidence(f"{path} is no DSSE envelope of a certificate: {error}") from None
    return Envelope(content, signatures)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a public key: the SHA-256 of its 32 bytes, in hex."""
    return sha256(key.public_bytes_raw()).hexdigest()


def _encoded(content: bytes) -> bytes:
    """Return the signed bytes: the type and the content, each after its length."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(content), content)


def _private(path: Path) -> Ed25519PrivateKey:
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError) as error:
        raise InvalidKey(f"{path} has no private key in PEM without a password: {error}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidKey(f"{path} has a key of another kind: openssl genpkey -algorithm ed25519")
    return cast("Ed25519PrivateKey", key)


def _public(path: Path) -> Ed25519PublicKey:
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidKey(f"{path} has no public key in PEM: {error}") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise InvalidKey(f"{path} has a key of another kind: openssl pkey -in KEY -pubout")
    return cast("Ed25519PublicKey", key)


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise InvalidKey(f"signatures need cryptography: {installation('sign')}") from None
    return serialization, ed25519
