"""Which updates are dropped, for every model."""

from __future__ import annotations

import pytest
import torch

from fedactive.federated.algorithm import Server
from fedactive.models import MODELS, ModelSpec
from fedactive.sites.checks import BadReplyError, check_update
from fedactive.sites.messages import Reply

ABSURD = {
    "running_mean": (3e38, "sent statistics .* away from the model's"),
    "running_var": (3e38, "sent statistics .* away from the model's"),
    "num_batches_tracked": (2**50, "sent no sound count"),
}


def weights_of(model):
    return ModelSpec(model, (1, 32, 32), 10).initial_weights(torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("statistic", "value", "reason"), [(k, *v) for k, v in ABSURD.items()], ids=list(ABSURD)
)
@pytest.mark.parametrize("model", sorted(MODELS))
def test_absurd_statistics_are_dropped(model, statistic, value, reason):
    weights = weights_of(model)
    name = next(name for name in weights if name.endswith(statistic))
    for absurd in (value, -value):
        spoiled = weights | {name: torch.full_like(weights[name], absurd)}
        with pytest.raises(BadReplyError, match="variance" if absurd < 0 and "var" in name else reason):
            check_update(Reply({"samples": 5}, spoiled), Server(weights), largest_step=10)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_statistics_may_follow_images_of_any_scale(model):
    """Images whose pixels reach 100 instead of 1, and a rule about steps that is strict."""
    weights = weights_of(model)
    statistics = {name: w + 100 for name, w in weights.items() if name.endswith("running_mean")}
    statistics |= {name: w * 100**2 for name, w in weights.items() if name.endswith("running_var")}
    statistics |= {name: w + 500 for name, w in weights.items() if name.endswith("num_batches_tracked")}
    assert len(statistics) >= 12
    check_update(Reply({"samples": 5}, weights | statistics), Server(weights), largest_step=0.01)
