"""Each objective against its formula, written out sample by sample and class by class in plain Python."""

import math

import pytest
import torch
from scipy.special import digamma, gammaln

from fedactive.federated.objective import Labelled, Mixed, make_objective
from fedactive.options import options_of
from fedactive.registry import OBJECTIVES

Z = [[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-0.5, 2.0, 1.5], [0.0, 0.0, 0.0]]
G = [[0.5, 1.0, -1.0], [2.0, 2.0, 0.0], [-3.0, 1.0, 0.0], [1.0, 0.0, 4.0]]
Y = [0, 2, 2, 0]
N = [6.0, 0.0, 1.0]  # of class 1 there are none
BETA, FIRST, SECOND = [0.3, 0.9, 0.5, 0.75], [0, 1, 2, 2], [2, 0, 2, 1]


def labelled(fl_round=0):
    return Labelled(
        torch.tensor(Z), torch.tensor(Y), torch.tensor(N), torch.tensor(float(fl_round)), torch.tensor(G)
    )


def mixed(fl_round):
    drawn = (torch.tensor(BETA), torch.tensor(FIRST), torch.tensor(SECOND))
    return Mixed(torch.tensor(Z), torch.tensor(G), *drawn, torch.tensor(N), torch.tensor(float(fl_round)))


@pytest.mark.parametrize(
    ("objective", "name", "default", "low", "high"),
    [
        ("distillation", "temperature", 4.0, 0.1, 100),
        ("distillation", "share", 0.1, 0, 1),
        ("evidential", "weight", 0.01, 0, 10),
    ],
)
def test_options_have_the_defaults_and_bounds_that_runs_rely_on(objective, name, default, low, high):
    found = {option.name: option for option in options_of(OBJECTIVES[objective])}[name]
    assert (found.default, found.low, found.high) == (default, low, high)


def softmax(z):
    total = sum(math.exp(v) for v in z)
    return [math.exp(v) / total for v in z]


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def test_cross_entropy():
    found = make_objective("cross_entropy").losses(labelled())
    assert found.tolist() == pytest.approx([-math.log(softmax(z)[y]) for z, y in zip(Z, Y, strict=True)])


def balanced(z, y):
    there = {c: N[c] * math.exp(z[c]) for c in range(3) if N[c]}  # exp(z + log n)
    return -math.log(there[y] / sum(there.values()))


@pytest.mark.parametrize("name", ["balanced_softmax", "kcfu"])
def test_balanced_softmax(name):
    found = make_objective(name).losses(labelled())
    assert found.tolist() == pytest.approx([balanced(z, y) for z, y in zip(Z, Y, strict=True)])


def test_balanced_softmax_does_not_see_a_class_without_labels():
    known = labelled()
    other = known._replace(logits=known.logits + torch.tensor([0.0, 30.0, 0.0]))
    objective = make_objective("balanced_softmax")
    assert torch.equal(objective.losses(known), objective.losses(other))


@pytest.mark.parametrize(
    ("options", "temperature", "share"), [("", 4, 0.1), ("temperature=2,share=0.5", 2, 0.5)]
)
def test_distillation(options, temperature, share):
    found = make_objective("distillation", options).losses(labelled())
    expected = []
    for z, g, y in zip(Z, G, Y, strict=True):
        soft = [softmax([v / temperature for v in values]) for values in (g, z)]
        expected.append(-share * math.log(softmax(z)[y]) + (1 - share) * temperature**2 * kl(*soft))
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_the_numbers_of_ifal_are_the_default():
    assert make_objective("distillation") == make_objective("distillation", "temperature=4,share=0.1")


@pytest.mark.parametrize("fl_round", [0, 1, 30])
def test_kcfu_on_mixed_images(fl_round):
    total = sum(N)
    raw = [total / n if n else 0.0 for n in N]
    w = [value / sum(raw) for value in raw]
    expected = [
        (b * w[i] + (1 - b) * w[j]) / 3 * kl(softmax(g), softmax(z)) if fl_round else 0.0
        for b, i, j, g, z in zip(BETA, FIRST, SECOND, G, Z, strict=True)
    ]
    found = make_objective("kcfu").mixed_losses(mixed(fl_round))
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("fl_round", [0, 4, 10, 99])
def test_evidential(fl_round):
    expected = []
    for z, y in zip(Z, Y, strict=True):
        a = [max(v, 0) + 1 for v in z]
        s = sum(a)
        wrong = [1 if c == y else a[c] for c in range(3)]
        t = sum(wrong)
        to_uniform = gammaln(t) - sum(map(gammaln, wrong)) - gammaln(3)
        to_uniform += sum((v - 1) * (digamma(v) - digamma(t)) for v in wrong)
        terms = min(1, fl_round / 10) * to_uniform - 3 / s * z[y]
        expected.append((2 - N[y] / sum(N)) * (digamma(s) - digamma(a[y])) + 0.01 * terms)
    found = make_objective("evidential").losses(labelled(fl_round))
    assert found.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_last_evidential_term_moves_only_the_right_class():
    """S is a constant there, so an image without any evidence still learns."""
    z = torch.full((1, 3), -1.0, requires_grad=True)
    known = Labelled(z, torch.tensor([2]), torch.ones(3), torch.tensor(0.0), None)
    (slope,) = torch.autograd.grad(make_objective("evidential").losses(known).sum(), z)
    assert slope.tolist() == [[0.0, 0.0, pytest.approx(-0.01 * 3 / 3)]]
