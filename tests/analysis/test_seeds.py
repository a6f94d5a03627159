import pandas as pd

from fedactive.analysis.seeds import few_seeds, name_seeds, seeds_text


def curves(**seeds):
    rows = [("", name, seed) for name, own in seeds.items() for seed in own]
    return pd.DataFrame(rows, columns=["setting", "strategy", "seed"])


def test_seeds_are_named():
    assert name_seeds([2, 1, 3]) == "1 to 3"
    assert name_seeds([7, 1]) == "1, 7"
    assert seeds_text(curves(a=[5])) == "1 seed (5)"
    assert seeds_text(curves(a=[1, 2, 3], b=[1, 2, 4])) == "3 seeds (1 to 4)"
    assert seeds_text(curves(a=[1, 2, 3], b=[9])) == "1 to 3 seeds (1, 2, 3, 9)"


def test_four_seeds_are_enough():
    assert few_seeds(curves(a=range(4), b=range(3)))
    assert not few_seeds(curves(a=range(4)))
