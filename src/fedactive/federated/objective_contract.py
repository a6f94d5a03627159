"""The contract that every objective keeps, as a check for the tests of your own.

from fedactive.federated.objective_contract import check_objective
check_objective(MyObjective())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from fedactive.federated.contract import call_purely
from fedactive.federated.objective import Labelled, Mixed, Objective, require_sound

SAMPLES, CLASSES = 8, 4
COUNTS = (5.0, 0.0, 40.0, 1.0)  # of one class the client has no label


def check_objective(objective: Objective) -> None:
    """Compute an objective's losses in many situations; AssertionError says what it breaks."""
    require_sound(objective)
    check_function(objective.losses, [known_of_labelled(objective, t) for t in (0, 1, 50)])
    if objective.needs_mixed:
        check_function(objective.mixed_losses, [known_of_mixed(t) for t in (0, 1, 50)])


def check_function(losses: Callable[[Any], Tensor], situations: list[Any]) -> None:
    what, learns = losses.__name__, False
    apart = []
    for known in situations:
        found = call_purely(losses, known)
        assert found.shape == (SAMPLES,), f"{what} have the shape {tuple(found.shape)}, not ({SAMPLES},)"
        assert found.dtype == torch.float32, f"{what} are {found.dtype}, not torch.float32"
        gradient = gradient_of(losses, known)
        for name, values in (("not finite", found), ("not finite in their gradient", gradient)):
            assert bool(torch.isfinite(values).all()), f"{what} are {name}: {values.tolist()}"
        learns = learns or bool(gradient.any())
        for rows, part in parts_of(known):
            near = torch.allclose(losses(part), found[rows], rtol=1e-4, atol=1e-5)
            assert near, f"{what} of a sample depend on the others: empty places of a batch would count"
        apart.append(found)
    assert learns, f"{what} never depend on the logits"
    try:
        together = vmap(losses, in_dims=(axes_of(situations[0]),))(stack(situations))
    except RuntimeError as error:  # it decides by a value, or draws
        raise AssertionError(f"{what} cannot be computed for many clients at once: {error}") from error
    near = torch.allclose(together, torch.stack(apart), rtol=1e-4, atol=1e-5)
    assert near, f"{what} of clients differ when they are computed together"


def gradient_of(losses: Callable[[Any], Tensor], known: Any) -> Tensor:
    logits = known.logits.clone().requires_grad_()
    found = losses(known._replace(logits=logits)).sum()
    (gradient,) = torch.autograd.grad(found, logits, allow_unused=True) if found.requires_grad else (None,)
    return torch.zeros_like(logits) if gradient is None else gradient


def parts_of(known: Any) -> Iterator[tuple[Tensor, Any]]:
    """Yield some rows of the batch alone, in another order."""
    for rows in (torch.tensor([3]), torch.arange(SAMPLES).flip(0)):
        of_client = ("counts", "fl_round")
        changed = {
            name: value[rows]
            for name, value in known._asdict().items()
            if value is not None and name not in of_client
        }
        yield rows, known._replace(**changed)


def axes_of(known: Any) -> Any:
    """Say which tensors differ from client to client: all that there are."""
    return type(known)(*(None if value is None else 0 for value in known))


def stack(situations: list[Any]) -> Any:
    """Put what several clients know side by side."""
    columns = zip(*situations, strict=True)
    return type(situations[0])(*(None if c[0] is None else torch.stack(c) for c in columns))


def known_of_labelled(objective: Objective, fl_round: int) -> Labelled:
    """Make a batch with every class, also the one that only empty places have, and with large logits."""
    rng = torch.Generator().manual_seed(fl_round)
    labels = torch.arange(SAMPLES) % CLASSES
    taught = logits(rng) if objective.needs_global else None
    return Labelled(logits(rng), labels, torch.tensor(COUNTS), torch.tensor(float(fl_round)), taught)


def known_of_mixed(fl_round: int) -> Mixed:
    rng = torch.Generator().manual_seed(fl_round)
    first, second = torch.arange(SAMPLES) % CLASSES, torch.arange(SAMPLES) // 2 % CLASSES
    share = torch.rand(SAMPLES, generator=rng)
    t = torch.tensor(float(fl_round))
    return Mixed(logits(rng), logits(rng), share, first, second, torch.tensor(COUNTS), t)


def logits(rng: torch.Generator) -> Tensor:
    """Draw logits of undecided and of very sure models."""
    scale = torch.logspace(-1, 1.5, SAMPLES)[:, None]
    return scale * torch.randn(SAMPLES, CLASSES, generator=rng)
