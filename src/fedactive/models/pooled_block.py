"""Convolution, BatchNorm, 2x2 max-pooling and ReLU in one step, for training on a CPU.

Where γ > 0, BatchNorm keeps the order of values, so the largest can be found before it. Three values in four
are then never normalised, and the backward pass sums over the small map. With y = conv(x),

    out = relu(scale·maxpool(y) + shift)        scale = γ/√(variance + ε)       shift = β - mean·scale
    dy  = scale·(dz - mean(dz) - ŷ·mean(dz·ŷ))  dz: the gradient at the largest of each window, 0 elsewhere

So many images are processed at a time that their maps stay in the cache until the next operation. The
convolution's bias is left out, because BatchNorm subtracts it again; its gradient is 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import BatchNorm, column

VALUES = 2**20  # of a map at a time: 4 MB


def pooled_block(x: Tensor, convolution: nn.Conv2d, norm: BatchNorm) -> Tensor:
    out: Tensor = PooledBlock.apply(  # type: ignore[no-untyped-call]
        x, convolution.weight, convolution.bias, norm.weight, norm.bias, norm
    )
    return out


def use_pooled_block(x: Tensor, norm: BatchNorm) -> bool:
    """Return whether to use `pooled_block`; maps that fit into the cache anyway gain nothing."""
    return (
        len(x) * norm.num_features * x.shape[2] * x.shape[3] > VALUES
        and norm.training
        and not norm.fixed
        and norm.present is None
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and min(x.shape[2:]) > 1
        and bool((norm.weight > 0).all())
    )


class PooledBlock(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, norm: BatchNorm
    ) -> Tensor:
        maps: list[Tensor] = []
        statistics: list[tuple[Tensor, Tensor]] = []
        pooled: list[tuple[Tensor, Tensor]] = []
        at_a_time = max(1, VALUES // (len(weight) * x.shape[2] * x.shape[3]))
        for part in x.split(at_a_time):
            y = F.conv2d(part, weight, padding=1)
            maps.append(y)
            statistics.append(torch.batch_norm_update_stats(y, None, None, 0.0))
            pooled.append(F.max_pool2d(y, 2, return_indices=True))
        tops, places = zip(*pooled, strict=True)
        means, variances = (torch.stack(values) for values in zip(*statistics, strict=True))
        share = torch.tensor([len(y) / len(x) for y in maps])[:, None]
        mean = (share * means).sum(0)
        variance = (share * (variances + (means - mean).square())).sum(0)
        values = len(x) * x.shape[2] * x.shape[3]
        norm.running_mean.lerp_(mean + bias, norm.momentum)
        norm.running_var.lerp_(variance * (values / (values - 1)), norm.momentum)
        norm.num_batches_tracked.add_(1)

        inverse = (variance + norm.eps).rsqrt()
        scale = gamma * inverse
        top = torch.cat(tops)
        out = torch.addcmul(column(beta - mean * scale), top, column(scale)).relu_()
        ctx.save_for_backward(x, weight, mean, inverse, scale, top, out, *maps, *places)
        ctx.values = values
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, scale, top, out, *rest = ctx.saved_tensors
        maps, places = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        dz = torch.where(out > 0, gradient, 0.0)
        d_beta = dz.sum((0, 2, 3))
        d_gamma = ((top - column(mean)) * dz).sum((0, 2, 3)) * inverse
        slope = -scale * inverse * d_gamma / ctx.values
        offset = -scale * d_beta / ctx.values - slope * mean
        dz = dz * column(scale)
        wanted = [ctx.needs_input_grad[0], True, False]
        d_weight, d_x = torch.zeros_like(weight), []
        at_a_time = len(maps[0])
        for part, y, place, d in zip(x.split(at_a_time), maps, places, dz.split(at_a_time), strict=True):
            dy = torch.ops.aten.max_pool2d_with_indices_backward(
                d, y, [2, 2], [2, 2], [0, 0], [1, 1], False, place
            )
            dy.addcmul_(y, column(slope)).add_(column(offset))
            one_x, one_weight, _ = torch.ops.aten.convolution_backward(
                dy, part, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
            )
            d_x.append(one_x)
            d_weight += one_weight
        return (
            torch.cat(d_x) if wanted[0] else None,
            d_weight,
            torch.zeros_like(d_beta),
            d_gamma,
            d_beta,
            None,
        )
