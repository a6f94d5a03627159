"""The contract that every registered strategy keeps, with all its options."""

from itertools import product

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedactive.errors import UserError
from fedactive.options import options_of
from fedactive.query import STRATEGIES, Selection, Strategy, make_strategy
from fedactive.query.contract import check_contract, check_round, check_selection, make_pool
from fedactive.query.roles import MODEL_ROLES
from fedactive.query.strategies import gcnal


@pytest.fixture
def short_training(monkeypatch):
    """GCNAL trains a network for each selection. Whether that is a selection shows in few steps."""
    monkeypatch.setattr(gcnal, "STEPS", 5)


def every_variant():
    """Each strategy with each selector and each value of its options."""
    for name, strategy in sorted(STRATEGIES.items()):
        options = [[f"{o.name}={value}" for value in o.choices or (o.default,)] for o in options_of(strategy)]
        for selector, chosen in product(strategy.selectors, product(*options)):
            yield pytest.param(name, selector, ",".join(chosen), id="-".join((name, selector, *chosen)))


@pytest.mark.parametrize(("name", "selector", "options"), list(every_variant()))
class TestEveryStrategy:
    @pytest.mark.usefixtures("short_training")
    def test_keeps_the_contract(self, name, selector, options):
        check_contract(make_strategy(name, selector, options))

    @pytest.mark.usefixtures("short_training")
    @settings(
        max_examples=12,
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.function_scoped_fixture],
    )
    @given(
        n=st.integers(1, 300),
        budget=st.integers(0, 40) | st.integers(200, 400),
        classes=st.integers(1, 12),
        labelled=st.integers(0, 20),
        seed=st.integers(0, 5),
    )
    def test_selects_exactly(self, name, selector, options, n, budget, classes, labelled, seed):
        pool = make_pool(n, classes, labelled=labelled, seed=seed)
        check_selection(make_strategy(name, selector, options), pool, budget, seed)

    @pytest.mark.usefixtures("as_on_a_gpu")
    def test_with_batched_kernels_a_client_has_the_same_answer_alone_and_in_company(
        self, name, selector, options
    ):
        strategy = make_strategy(name, selector, options)
        check_round(strategy, sizes=(40, 1, 0, 25, 90), budget=10)
        check_round(strategy, sizes=(30, 3, 60), budget=25)

    @pytest.mark.usefixtures("as_on_a_gpu", "short_training")
    @settings(
        max_examples=5,
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.function_scoped_fixture],
    )
    @given(n=st.integers(1, 120), budget=st.integers(0, 30) | st.integers(100, 150), seed=st.integers(0, 5))
    def test_with_batched_kernels_it_selects_exactly_too(self, name, selector, options, n, budget, seed):
        pool = make_pool(n, 4, labelled=seed, seed=seed)
        check_selection(make_strategy(name, selector, options), pool, budget, seed)


class Breaks(Strategy):
    """A strategy that breaks the contract in a chosen way."""

    def __init__(self, how):
        self.how = how

    @property
    def needs(self):
        return frozenset()

    def select_all(self, pools, budget, rngs):
        match self.how:
            case "a client forgotten":
                pools, rngs = pools[1:], rngs[1:]
            case "clients mixed up":
                rngs = rngs[::-1]
            case "nobody without a budget" if not budget:
                return []
        return super().select_all(pools, budget, rngs)

    def select(self, pool, budget, rng):
        chosen = torch.randperm(len(pool), generator=rng)[:budget]
        match self.how:
            case "fewer":
                chosen = chosen[:-1]
            case "twice" if len(chosen) > 1:
                chosen[0] = chosen[1]
            case "outside":
                chosen = chosen + 1
            case "global generator":
                torch.randperm(3)
            case "same for all seeds":
                chosen = torch.arange(min(budget, len(pool)))
            case "undeclared":
                pool.unlabelled("local")
            case "undeclared committee":
                list(pool.each("committee"))
            case "undeclared inference" if len(pool):
                pool.infer("local", pool.inputs(torch.arange(1)))
            case "committee in place":
                next(pool.each("epochs")).logits.add_(1)
            case "in place":
                pool.unlabelled("global").logits.add_(1)
        return Selection(chosen, torch.full((len(chosen),), torch.nan if self.how == "nan" else 0.0))


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("fewer", "0 chosen, budget 1"),
        ("twice", "chosen twice"),
        ("outside", "outside the pool"),
        ("nan", "not finite"),
        ("same for all seeds", "not broken by the seed"),
        ("undeclared", r"asked for \['local'\], declared \[\]"),
        ("undeclared committee", r"asked for \['committee'\], declared \[\]"),
        ("undeclared inference", r"asked for \['local'\], declared \[\]"),
        ("committee in place", "logits or embeddings were changed"),
        ("in place", "logits or embeddings were changed"),
        ("a client forgotten", "4 selections for 5 clients"),
        ("clients mixed up", "another client changed the answer"),
        ("nobody without a budget", "0 selections for 2 clients"),
    ],
)
def test_a_broken_strategy_is_found_out(how, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_contract(Breaks(how))


class Tells(Breaks):
    """A strategy whose clients say something of themselves."""

    name = "tells"
    numbers = 2

    def summarise(self, pool):
        match self.how:
            case "another each time":
                self.calls = getattr(self, "calls", 0) + 1
                return torch.full((2,), float(self.calls))
            case "more than declared":
                return torch.zeros(3)
            case "infinite":
                return torch.tensor([0.0, torch.inf])
            case "of an undeclared model":
                return pool.labelled("local").logits.sum() * torch.ones(2)
        return torch.tensor([0.5, 1.0]) if len(pool.labels) else None


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("another each time", "summarised in another way"),
        ("more than declared", "it declares numbers = 2"),
        ("infinite", "each must be finite"),
        ("of an undeclared model", r"asked for \['local'\], declared \[\]"),
    ],
)
def test_a_summary_that_breaks_the_contract_is_found_out(how, complaint):
    with pytest.raises((AssertionError, UserError), match=complaint):
        check_contract(Tells(how))


def test_a_summary_is_few_numbers():
    check_contract(Tells("not at all"))
    many = Tells("not at all")
    many.numbers = 17
    with pytest.raises(AssertionError, match="17 numbers of a client, not a few"):
        check_contract(many)


def test_what_a_client_tells_is_what_all_agree_on():
    """There is only the one client."""
    for labelled, agreed in ((5, [0.5, 1.0]), (0, None)):
        pool = make_pool(6, 3, labelled=labelled)
        check_selection(Tells("not at all"), pool, 2)
        assert (pool.agreed if agreed is None else pool.agreed.tolist()) == agreed


def test_clients_that_agree_on_a_choice_may_choose_otherwise_alone():
    mixed = Breaks("clients mixed up")
    mixed.coordinated = True
    check_contract(mixed)


def test_a_pool_made_for_a_test_shows_images_to_models_of_its_form():
    pool = make_pool(12, 3, dimensions=5)
    images = pool.inputs(torch.tensor([3, 0]))
    assert not torch.equal(images[0], images[1])
    for model in MODEL_ROLES:
        seen = pool.infer(model, images)
        assert (seen.logits.shape, seen.embeddings.shape) == ((2, 3), (2, 5))
        assert 0 < seen.logits.abs().max() < 50  # pixels from 0 to 1, not to 255
        assert [part.shape for part in pool.head(model)] == [(3, 5), (3,)]
    alike = make_pool(12, 3, embeddings=torch.ones(12, 4)).inputs(torch.arange(12))
    assert equal(alike)


SITUATIONS = {
    "one sample": lambda pool, budget: len(pool) == budget == 1,
    "one sample, a larger budget": lambda pool, budget: len(pool) == 1 < budget,
    "nothing to choose": lambda pool, budget: len(pool) and not budget,
    "nothing to choose from": lambda pool, budget: not len(pool),
    "a part of the pool": lambda pool, budget: 1 < budget < len(pool),
    "the whole pool": lambda pool, budget: 1 < budget == len(pool),
    "more than the whole pool": lambda pool, budget: 1 < len(pool) < budget,
    "a large pool": lambda pool, budget: len(pool) >= 200,
    "one class": lambda pool, budget: pool.classes == 1,
    "two classes": lambda pool, budget: pool.classes == 2,
    "ten classes": lambda pool, budget: pool.classes == 10,
    "nothing is labelled": lambda pool, budget: len(pool) and not len(pool.labels),
    "more labels than samples": lambda pool, budget: 0 < len(pool) < len(pool.labels),
    "equal embeddings": lambda pool, budget: (
        len(pool) > 1 and equal(embeddings(pool)) and embeddings(pool).any() and not equal(logits(pool))
    ),
    "embeddings of 0": lambda pool, budget: len(pool) > 1 and not embeddings(pool).any(),
    "certain": lambda pool, budget: len(pool) and 1e3 < logits(pool).max() < 1e6,
    "very certain": lambda pool, budget: len(pool) and logits(pool).max() > 1e20,
}


def logits(pool):
    return pool.unlabelled("global").logits


def embeddings(pool):
    return pool.unlabelled("global").embeddings


def equal(rows):
    return bool((rows == rows[0]).all())


class FailsWhere(Strategy):
    """A strategy that is sound but for one situation."""

    def __init__(self, situation):
        self.situation = situation

    @property
    def needs(self):
        return frozenset({"global"})

    def select(self, pool, budget, rng):
        assert not self.situation(pool, budget), "in this situation"
        return Breaks("not at all").select(pool, budget, rng)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_strategy_is_tried_in_every_situation(situation):
    with pytest.raises(AssertionError, match="in this situation"):
        check_contract(FailsWhere(SITUATIONS[situation]))


def test_use_of_the_global_generator_is_found_out():
    before = torch.random.get_rng_state()
    with pytest.raises(AssertionError, match="global generator"):
        check_contract(Breaks("global generator"))
    torch.random.set_rng_state(before)


def test_a_sound_strategy_passes():
    check_contract(Breaks("not at all"))
