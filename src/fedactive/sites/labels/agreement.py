"""Several people answer about one image: which answer counts, and how well they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

Action = Literal["label", "skip", "flag"]
Outcome = Literal["label", "skip", "flag", "split", "none"]


def verdict(answers: Iterable[tuple[Action, int | None]]) -> tuple[Outcome, int | None]:
    """Return the common answer and its class. Skips do not count; of the rest, more than half must be equal.

    Otherwise it is "split", and somebody has to decide. All skipped is "skip", no answer at all "none".
    """
    given = list(answers)
    votes = Counter(answer for answer in given if answer[0] != "skip")
    if not votes:
        return ("skip" if given else "none"), None
    (action, label), most = votes.most_common(1)[0]
    return (action, label) if 2 * most > votes.total() else ("split", None)


def cohen_kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    """Return the agreement of two people beyond chance: 1 is perfect, 0 is chance, None is not defined.

    kappa = (p - q) / (1 - q). p is the share of equal labels, q the share expected of two people who draw
    independently from the same two histograms (Cohen, 1960). If both always gave the same class, q is 1.
    """
    n = len(first)
    if n == 0:
        return None
    equal = sum(a == b for a, b in zip(first, second, strict=True)) / n
    counts = Counter(first), Counter(second)
    chance = sum(counts[0][label] * counts[1][label] for label in counts[0]) / n**2
    return None if chance == 1 else (equal - chance) / (1 - chance)
