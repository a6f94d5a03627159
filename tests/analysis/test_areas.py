import pandas as pd

from fedactive.analysis.areas import standing
from fedactive.analysis.areas import test_areas as compare_areas
from fedactive.analysis.areas import test_each_setting as compare_in_each_setting


def areas(**leads):
    rows = [
        (setting, name, seed, 60 + lead + 0.1 * seed * (lead > 0))
        for setting in ("x", "y")
        for name, lead in leads.items()
        for seed in (1, 2, 3, 4)
    ]
    return pd.DataFrame(rows, columns=["setting", "strategy", "seed", "area"])


def test_pairs_are_tested_over_seeds_and_settings():
    tests = compare_areas(areas(a=3, b=0))
    assert tests["n"].tolist() == [8]
    assert tests["significant"].all()
    assert standing(tests, "a", ["a", "b"]) == (["b"], [], [])
    assert standing(tests, "b", ["a", "b"]) == ([], ["a"], [])


def test_a_setting_by_itself_has_only_its_seeds():
    tests = compare_in_each_setting(areas(a=3, b=0, c=0))
    assert tests.groupby("setting")["n"].unique().map(list).to_dict() == {"x": [4], "y": [4]}
    here = tests[tests["setting"] == "x"]
    assert standing(here, "b", ["a", "b", "c"]) == ([], ["a"], ["c"])
