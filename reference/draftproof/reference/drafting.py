"""Draft laws: how the K paths that a verifier is given were drawn."""

from __future__ import annotations

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path

Drafts = tuple[Path, ...]


def draft_paths(instance: Instance, chance: Chance) -> Drafts:
    """Draw the K paths of length L that `instance.scheme` prescribes.

    Law: under "iid" the paths are independent, each with probability draft.joint(path).
    Raises `Unsupported` for a scheme that is not known.
    """
    if instance.scheme != "iid":
        raise Unsupported(f"unknown drafting scheme {instance.scheme!r}; known: iid")
    return tuple(independent_path(instance, chance) for _ in range(instance.drafts))


def independent_path(instance: Instance, chance: Chance) -> Path:
    """Draw one path of length L, each token from the draft's row at the path so far."""
    path: Path = ()
    while len(path) < instance.length:
        path = (*path, chance.draw(instance.draft(path)))
    return path


def draft_law(instance: Instance) -> Law[Drafts]:
    """Return the exact joint law of the K paths."""
    return enumerate_law(lambda chance: draft_paths(instance, chance))
