"""Elements of tensors that are random numbers, for operators to read and to set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.lanes._signature import tensors_in
from draftproof.conformance.lanes.exact._choice import Choice, Winner
from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._noise import SPENT, Noise
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.reference.rational import Rational


@dataclass
class Elements:
    """Elements of a program's tensors, and what is known about the random ones.

    `settle` turns the choices in a tensor into ordinary numbers. `slacks` has the error of the law
    of each inexact ranking. Memory of random numbers that the program has not looked at has the
    placeholder, if given, and 1 for choices; otherwise it has whatever operators leave there. No
    run may depend on it.
    """

    identities: Identities
    settle: Callable[[Tensor], None]
    placeholder: int | None
    slacks: dict[Ranking, Rational] = field(default_factory=dict)
    rankings: dict[object, tuple[Ranking, Rational]] = field(default_factory=dict)
    _places: dict[tuple[Ranking, int], Choice] = field(default_factory=dict)

    def ids(self, moved: Any) -> Any:
        """Return the ids that move in place of the elements of a moved argument."""
        if isinstance(moved, Tensor):
            ids = self.identities.of(moved)
            if ids is None:
                return torch.zeros(moved.shape, dtype=torch.int64, device=moved.device)
            return ids.clone()
        if isinstance(moved, (list, tuple)):
            return [self.ids(each) for each in moved]
        return 0

    def attach(self, tensor: Tensor, ids: Tensor) -> None:
        """Declare the ids of the tensor's elements; settle them if others can see its memory."""
        self.identities.attach(tensor, ids)
        if self.placeholder is not None and ids.any():
            # Choices are 0 in other runs.
            shown = self.placeholder if self.identities.has_noise(tensor) else 1
            with torch.inference_mode():
                tensor.detach().masked_fill_(ids != 0, shown)
        if self.identities.is_exposed(tensor):
            self.require_ordinary([tensor])

    def place(self, ranked: Ranking, place: int) -> Choice:
        """Return the choice of the contender at a place, the same object at each call."""
        if (ranked, place) not in self._places:
            self._places[ranked, place] = (
                Choice(lambda world: ranked.at(place, world), among=ranked.within)
                if place
                else Choice.of(Winner(ranked))
            )
        return self._places[ranked, place]

    def spent(self) -> int:
        """Return the id of noise that must not be read: the value of a race's winner."""
        return self.identities.id_of(Noise(SPENT))

    def settle_all(self, values: Iterable[Any]) -> None:
        """Settle all tensors among the values."""
        for tensor in tensors_in(values):
            self.settle(tensor)

    def require_ordinary(self, values: Iterable[Any]) -> None:
        """Settle all tensors among the values, and refuse noise in them."""
        for tensor in tensors_in(values):
            self.settle(tensor)
            self.refuse_noise(tensor)

    def refuse_noise(self, tensor: Tensor) -> None:
        """Raise `NotUnderstood` if an element is continuous noise."""
        if self.identities.has_noise(tensor):
            raise NotUnderstood("looks at continuous noise in a way that is not understood")

    def any_noise(self, values: Iterable[Any]) -> bool:
        """Return whether an element of the tensors among the values is continuous noise."""
        return any(self.identities.has_noise(tensor) for tensor in tensors_in(values))


def imaged(ids: Tensor, image: Callable[[int, int], int]) -> Tensor:
    """Return the ids after `image(place, id)` at every random element."""
    flat = ids.flatten().tolist()
    new = [image(place, identity) if identity else 0 for place, identity in enumerate(flat)]
    return torch.tensor(new, dtype=torch.int64).view(ids.shape)


def write(out: Tensor, constants: dict[int, float]) -> None:
    """Write numbers into elements of a tensor, counted in row-major order, from first to last."""
    if constants:
        where = torch.zeros(out.numel(), dtype=torch.bool)
        where[[*constants]] = True
        numbers = torch.tensor([*constants.values()], dtype=torch.float64)
        out.masked_scatter_(where.view(out.shape), numbers.to(out))
