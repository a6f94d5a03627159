"""KCFU, the training of KAFAL: balanced softmax, and the server's knowledge of what the client lacks.

    ℓ = CE(z + log n, y) + D
    D = mean of (β·w_ŷ(x) + (1 - β)·w_ŷ(x'))·(1/C)·KL(p_g(x~) ‖ p(x~))        0 in the first FL round
    w_c = (1/n_c) / Σ_i 1/n_i  for n_c > 0, else 0

x~ = β·x + (1 - β)·x' mixes two images of the pool; ŷ is the server's prediction. So a client forgets its rare
classes less: there the server's answer counts most. In the first FL round the server knows nothing yet.

β is drawn for each pair; x' is drawn like x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.objective import Labelled, Mixed, Objective, register
from fedactive.federated.objectives.balanced_softmax import adjusted
from fedactive.federated.objectives.distillation import divergence


@final
@register
@dataclass(frozen=True)
class KCFU(Objective):
    name = "kcfu"
    summary = "balanced softmax, and the server's answers on mixed pool images of the client's rare classes"
    paper = "Cao et al., ICCV 2023"

    needs_mixed = True

    def losses(self, known: Labelled) -> Tensor:
        return F.cross_entropy(adjusted(known.logits, known.counts), known.labels, reduction="none")

    def mixed_losses(self, known: Mixed) -> Tensor:
        w, beta = rarity(known.counts), known.share
        weight = beta * w[known.first] + (1 - beta) * w[known.second]
        classes = known.logits.shape[-1]
        return (known.fl_round > 0) * weight / classes * divergence(known.global_logits, known.logits)


def rarity(counts: Tensor) -> Tensor:
    """Return w: the rarer a class, the larger; 0 for one without labels; their sum is 1."""
    inverse = (counts > 0) / counts.clamp_min(1)
    return inverse / inverse.sum()
