"""Strategies look the same everywhere, and can be told apart."""

import pytest

from fedactive.analysis.palette import LOOKS, style_of
from fedactive.paper.settings import COMPARED
from fedactive.registry import STRATEGIES


def test_every_strategy_of_ours_has_a_look_of_its_own():
    assert set(STRATEGIES.ours) <= LOOKS.keys()
    methods = {"kafal"}  # looks as its strategy
    looks = [look for name, look in LOOKS.items() if name not in methods]
    assert len(set(looks)) == len(looks)


def test_strategies_that_are_compared_have_different_colours():
    few_labels = ("random", "auto", "badge", "logo", "margin", "maxherding", "probcover", "typiclust")
    for together in (COMPARED, few_labels):
        assert len({style_of(name).colour for name in together}) == len(together)


def test_variants_have_the_colour_of_their_strategy_and_other_lines():
    whole = style_of("entropy")
    assert style_of("entropy (global)") == whole
    variants = [style_of(f"entropy ({what})") for what in ("local", "temperature=2", "local, temperature=2")]
    assert {look.colour for look in variants} == {whole.colour}
    assert all(look.dash and look != whole for look in variants)
    assert len(set(variants)) == 3


def test_a_strategy_of_ones_own_looks_the_same_in_every_picture():
    assert style_of("mine") == style_of("mine (global)")
    assert style_of("mine").colour != style_of("logo").colour


@pytest.mark.parametrize("colour", sorted({colour for colour, _ in LOOKS.values()}))
def test_colours_can_be_read_on_white_and_on_a_dark_page(colour):
    def luminance(code):
        shares = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    on_white = 1.05 / (luminance(colour) + 0.05)
    on_dark = (luminance(colour) + 0.05) / (luminance("#15181b") + 0.05)
    assert min(on_white, on_dark) >= 2.9
