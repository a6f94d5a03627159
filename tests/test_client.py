"""A client: what it holds, what is labelled, and that it does alone what it does in company."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedactive.client import Client, before_training, first_labels, query_together, train_together
from fedactive.engines import EngineShelf
from fedactive.errors import UserError
from fedactive.federated import make_algorithm
from fedactive.federated.objective import make_objective
from fedactive.federation import average
from fedactive.laboratory.run import run
from fedactive.laboratory.split import split
from fedactive.memory import Memory
from fedactive.models import MODELS
from fedactive.pools import distilled_job, make_pools, require_dropout, shown_to_strategy
from fedactive.query import STRATEGIES


@pytest.fixture
def federation(small, digits):
    """Three clients with some labels, an engine, the server's state."""

    def make(**settings):
        experiment = small(**settings)
        clients = split(experiment, digits.train_labels, 10).clients(experiment)
        for client in clients:
            client.label(client.first, digits.train_labels[client.first])
        shelf = EngineShelf()
        engine = shelf.get(experiment, digits)
        algorithm = make_algorithm(experiment.algorithm)
        start = engine.spec.initial_weights(torch.Generator().manual_seed(1))
        server = algorithm.start_server(start, [name for name, _ in engine.model.named_parameters()])
        for client in clients:
            client.own = algorithm.client_start(server)
        return clients, engine, server

    return make


def lone_client(small, **changes):
    values = {"pool": torch.arange(10), "first": torch.tensor([3, 1]), "budgets": (2,)} | changes
    return Client(small(), 0, **values)


def test_what_is_labelled_or_withdrawn_is_not_asked_for_again(small):
    client = lone_client(small)
    assert client.unlabelled.tolist() == list(range(10))
    client.label(torch.tensor([3, 1]), torch.tensor([7, 5]))
    client.label(torch.tensor([0]), torch.tensor([2]))
    assert client.labelled.tolist() == [3, 1, 0]
    assert client.labels.tolist() == [7, 5, 2]
    assert client.unlabelled.tolist() == [2, 4, 5, 6, 7, 8, 9]
    client.recall({9: 1, 4: 0}, withdrawn=[2, 3], own={"control": {"w": torch.ones(1)}})
    assert client.labelled.tolist() == [9, 4]
    assert client.labels.tolist() == [1, 0]
    assert client.unlabelled.tolist() == [0, 1, 5, 6, 7, 8]
    assert client.own["control"]["w"].item() == 1
    client.recall({}, [], {})
    assert client.unlabelled.tolist() == list(range(10))


def test_clients_share_no_lists(small):
    one, other = lone_client(small), lone_client(small)
    one.label(torch.tensor([3]), torch.tensor([7]))
    assert other.labelled.tolist() == []


def test_before_there_is_a_model_the_first_samples_are_asked_for(small):
    (query,) = lone_client(small).query(None, 1, None).queries
    assert query.samples.tolist() == [3, 1]
    assert query.scores.tolist() == [0, 0]


@pytest.mark.parametrize("strategy", ["logo", "badge"])
def test_a_client_asks_alone_for_what_it_asks_for_in_company(federation, strategy):
    clients, engine, server = federation(strategy=strategy)
    together = query_together(clients, engine, 2, server.weights)
    alone = [client.query(engine, 2, server.weights) for client in clients]
    for client, query, phase in zip(clients, together.queries, alone, strict=True):
        assert query.samples.tolist() == phase.queries[0].samples.tolist()
        assert set(query.samples.tolist()) <= set(client.unlabelled.tolist())
        assert len(query.samples) == client.budgets[0]


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_a_client_trains_alone_as_it_trains_in_company(federation, algorithm):
    clients, engine, server = federation(algorithm=algorithm, strategy="random")
    company, engine2, _ = federation(algorithm=algorithm, strategy="random")
    together = train_together(company, engine2, server, 1, 0)
    for client, other, update in zip(clients, company, together, strict=True):
        mine = client.train(engine, server, 1, 0)
        assert mine.samples == update.samples == len(client.labelled)
        assert all(torch.equal(value, update.weights[name]) for name, value in mine.weights.items())
        for group, tensors in client.own.items():
            assert all(torch.equal(value, other.own[group][name]) for name, value in tensors.items())


def test_a_client_is_taught_by_the_model_it_was_sent_with_images_of_its_own_pool(federation):
    (client, *_), _, server = federation(objective="kcfu")
    job = client.federated_job(make_algorithm("fedavg"), server, al_round=2, fl_round=5)
    assert (job.objective, job.fl_round) == (make_objective("kcfu"), 5)
    assert job.teacher is server.weights
    assert torch.equal(job.pool, client.unlabelled)
    alone = client.local_only_job(2, server.weights)
    assert (alone.objective, alone.teacher) == (make_objective("cross_entropy"), None)


def test_a_client_is_given_nothing_that_its_objective_does_not_need(federation):
    (client, *_), _, server = federation(objective="distillation", objective_options="share=0.3")
    job = client.federated_job(make_algorithm("fedavg"), server, 1, 0)
    assert (job.objective.share, job.teacher is server.weights, len(job.pool)) == (0.3, True, 0)
    (client, *_), _, server = federation(objective="evidential")
    job = client.federated_job(make_algorithm("fedavg"), server, 1, 0)
    assert (job.teacher, len(job.pool)) == (None, 0)


@pytest.mark.parametrize(("strategy", "each"), [("chase", True), ("random", False)])
def test_a_client_keeps_each_epoch_if_its_strategy_asks_for_them(federation, strategy, each):
    (client, *_), _, server = federation(strategy=strategy)
    assert client.federated_job(make_algorithm("fedavg"), server, 1, 0).each_epoch is each


def test_randomness_comes_from_the_clients_number(federation):
    clients, engine, server = federation(strategy="random")
    first = clients[0].train(engine, server, 1, 0)
    clients[0].number = 5
    other = clients[0].train(engine, server, 1, 0)
    assert not torch.equal(first.weights["head.weight"], other.weights["head.weight"])


def test_at_rest_a_client_is_the_same_with_tensors_on_the_cpu(small):
    client = lone_client(small)
    client.own = {"control": {"w": torch.ones(1)}}
    copy = client.at_rest()
    assert (copy.number, copy.pool, copy.own) == (client.number, client.pool, client.own)
    assert copy is not client


def test_the_first_labels_are_different_samples_of_the_pool(small):
    pool = np.arange(100, 120)
    for budget in (1, 19, 20, 50):
        first = first_labels(small(), 3, pool, (budget,)).tolist()
        assert len(first) == len(set(first)) == min(budget, 20)
        assert set(first) <= set(pool.tolist())
    assert first_labels(small(), 3, pool, (9,)).tolist() != first_labels(small(), 4, pool, (9,)).tolist()


def test_nobody_trains_nobody(small):
    assert train_together([], None, None, 1, 0) == []


def test_what_a_strategy_chose_is_checked_for_each_client(federation, monkeypatch):
    checked = []
    monkeypatch.setattr("fedactive.client.require_contract", lambda *given: checked.append(given[2:]))
    clients, engine, server = federation(strategy="random")
    query_together(clients, engine, 2, server.weights)
    assert checked == [(len(client.unlabelled), client.budgets[0]) for client in clients]


def test_the_finetuned_model_is_trained_from_the_global_one(federation, monkeypatch):
    clients, engine, server = federation(strategy="finetune")
    starts = []
    train = engine.train
    monkeypatch.setattr(engine, "train", lambda jobs: starts.extend(j.start for j in jobs) or train(jobs))
    clients[0].query(engine, 2, server.weights)
    assert starts == [server.weights]
    starts.clear()
    clients[0].experiment = replace(clients[0].experiment, strategy="entropy", selector="global")
    clients[0].query(engine, 2, server.weights)
    assert starts == []


class Echo:
    """An engine whose models give back their own number and the images they are shown."""

    dataset = SimpleNamespace(train_inputs=torch.arange(10)[:, None])
    spec = SimpleNamespace(classes=4)
    device = torch.device("cpu")

    def infer(self, weights, images):
        return images + weights["number"], images


def test_a_strategy_sees_each_clients_samples_through_each_model(small):
    one = lone_client(small, pool=torch.tensor([0, 1, 2]))
    two = lone_client(small, pool=torch.tensor([5, 6, 7, 8]))
    one.label(torch.tensor([1]), torch.tensor([3]))
    two.label(torch.tensor([8, 6]), torch.tensor([2, 0]))
    models = {
        "global": [{"number": 100}] * 2,
        "local": [{"number": n, "head.weight": n, "head.bias": -n} for n in (200, 300)],
    }
    strategy = SimpleNamespace(name="mine", needs=frozenset({"global", "local"}))
    pools = make_pools([one, two], Echo(), models, strategy, 1)
    assert [len(pool) for pool in pools] == [2, 2]
    assert [pool.classes for pool in pools] == [4, 4]
    assert [pool.labels.tolist() for pool in pools] == [[3], [2, 0]]
    for model, numbers in (("global", (100, 100)), ("local", (200, 300))):
        for pool, number, rest, known in zip(pools, numbers, ([0, 2], [5, 7]), ([1], [8, 6]), strict=True):
            assert pool.unlabelled(model).embeddings.flatten().tolist() == rest
            assert pool.unlabelled(model).logits.flatten().tolist() == [number + i for i in rest]
            assert pool.labelled(model).embeddings.flatten().tolist() == known
            assert pool.labelled(model).logits.flatten().tolist() == [number + i for i in known]
    assert [pool.head("local") for pool in pools] == [(200, -200), (300, -300)]
    with pytest.raises(UserError, match="mine asked for the model 'finetuned', but there is only global and"):
        pools[0].unlabelled("finetuned")


def test_a_strategy_may_look_at_its_samples_and_show_models_others(small):
    one = lone_client(small, pool=torch.tensor([5, 6, 7, 8]))
    one.label(torch.tensor([6]), torch.tensor([0]))
    models = {"global": [{"number": 100}], "local": [{"number": 200}]}
    strategy = SimpleNamespace(name="mine", needs=frozenset({"global", "local"}))
    (pool,) = make_pools([one], Echo(), models, strategy, 1)
    seen = pool.inputs(torch.tensor([2, 0]))
    assert seen.tolist() == [[8], [5]]
    assert pool.infer("local", -seen).logits.tolist() == [[192], [195]]
    seen.zero_()  # a copy: the data stay as they are
    assert Echo.dataset.train_inputs[8].tolist() == [8]
    with pytest.raises(UserError, match="mine asked for the model 'finetuned'"):
        pool.infer("finetuned", seen)


# --- AL round 1


@pytest.mark.parametrize("name", ["maxherding", "medoids", "probcover", "typiclust"])
def test_before_there_is_a_model_a_strategy_sees_the_samples_themselves(federation, small, digits, name):
    """Odd numbers of pixels as features, whatever the model is; other strategies begin with the same labels."""
    clients, engine, _ = federation(first=name, strategy="logo", budget="7/client")
    for client in clients:
        client.recall({}, [], {})
    assert before_training(engine) == {}
    phase = query_together(clients, engine, 1, None)
    normal = engine.normalise(digits.train_inputs).flatten(1)
    for client, query in zip(clients, phase.queries, strict=True):
        rng = client.randomness.torch("strategy", 1, client.number)
        x = torch.nn.functional.normalize(normal[client.pool])
        chosen = STRATEGIES[name]().choose_of(x, x[:0], 10, 7, rng)
        assert query.samples.tolist() == client.pool[chosen.indices].tolist()
        assert len(set(query.samples.tolist())) == 7
    assert "selection" in phase.seconds


def test_strategies_that_agree_through_the_server_may_be_first_too(federation):
    clients, engine, _ = federation(first="fedtypiclust", budget="7/client", model="linear")
    for client in clients:
        client.recall({}, [], {})
    phase = query_together(clients, engine, 1, None)
    assert [len(set(query.samples.tolist())) for query in phase.queries] == [7, 7, 7]


def test_runs_share_a_first_round_that_a_strategy_chose(small):
    """And others begin otherwise."""
    settings = {"first": "medoids", "rounds": 2, "fl_rounds": 1, "budget": "5/client"}
    first = {}
    for strategy in ("random", "entropy"):
        chosen = run(small(strategy=strategy, **settings)).selections
        first[strategy] = chosen[chosen["al_round"] == 1]
        assert chosen.groupby(["al_round", "client"]).size().tolist() == [5] * 6
    assert first["random"].equals(first["entropy"])
    drawn = run(small(strategy="random", **settings | {"first": "random"})).selections
    assert not drawn[drawn["al_round"] == 1].equals(first["random"])


# --- committees, and a number of each client


def test_a_strategy_goes_through_the_models_that_a_client_remembers(small):
    one = lone_client(small, pool=torch.tensor([0, 1, 2]))
    two = lone_client(small, pool=torch.tensor([5, 6]))
    one.memory = Memory(1, {}, ({"number": 7}, {"number": 8}), {1: ({"number": 20}, {"number": 21})})
    models = {"global": [{"number": 100}] * 2}
    needs = frozenset({"global", "epochs", "committee"})
    pools = make_pools([one, two], Echo(), models, SimpleNamespace(name="mine", needs=needs), 1)
    seen = [
        [[o.logits.flatten().tolist() for o in pool.each(role)] for pool in pools]
        for role in sorted(needs)[:2]
    ]
    assert seen[0] == [
        [[20, 21, 22], [21, 22, 23]],
        [[105, 106]],
    ]  # who has not trained asks the global model
    assert seen[1] == [[[7, 8, 9], [8, 9, 10]], [[105, 106]]]
    with pytest.raises(UserError, match="asked for the model 'dropout', but there is only global"):
        next(pools[0].each("dropout"))
    pools = make_pools([one], Echo(), models, SimpleNamespace(name="mine", needs=frozenset({"global"})), 1)
    with pytest.raises(UserError, match="asked for the model 'committee'"):
        next(pools[0].each("committee"))


def test_dropout_is_drawn_by_the_seed_and_leaves_batch_norm_alone(small, digits):
    class Dropping(MODELS["cnn4"]):
        name = "dropping"

        def embed(self, images):
            return torch.nn.functional.dropout(super().embed(images), 0.5, self.training)

    MODELS.classes["dropping"] = Dropping
    experiment = small(model="dropping", strategy="bald", strategy_options="samples=dropout", rounds=2)
    clients = split(experiment, digits.train_labels, 10).clients(experiment)
    engine = EngineShelf().get(experiment, digits)
    weights = engine.spec.initial_weights(torch.Generator().manual_seed(1))
    strategy = clients[0].strategy
    require_dropout(strategy, engine.spec)

    def passes(al_round):
        (pool,) = make_pools(clients[:1], engine, {"global": [weights]}, strategy, al_round)
        return [o.logits for o in pool.each("dropout")]

    first, again, other = passes(2), passes(2), passes(3)
    assert len(first) == 20
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    plain, _ = engine.infer(weights, digits.train_inputs[clients[0].unlabelled])
    torch.testing.assert_close(torch.stack(first).mean(0), plain, atol=0.5, rtol=0.5)
    after = engine.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in weights.items())


def test_the_distilled_model_is_trained_from_scratch_towards_the_global_one(federation, monkeypatch):
    clients, engine, server = federation(strategy="ifal", lr=0.05)
    assert distilled_job(clients[0], 2, {}, server.weights).epochs == 500
    monkeypatch.setattr("fedactive.pools.DISTILLATION_EPOCHS", 3)
    done = []
    train = engine.train
    monkeypatch.setattr(engine, "train", lambda jobs: done.extend(jobs) or train(jobs))
    together = query_together(clients, engine, 2, server.weights)
    assert [job.teacher is server.weights for job in done] == [True] * 3
    assert {rate for job in done for rate in job.rates} == {0.005}
    assert {job.patience for job in done} == {5}
    assert {(job.objective.name, job.objective.temperature, job.objective.share) for job in done} == {
        ("distillation", 4.0, 0.1)
    }
    assert all(not torch.equal(job.start["head.weight"], server.weights["head.weight"]) for job in done)
    assert all(torch.equal(job.start["head.weight"], done[0].start["head.weight"]) for job in done)
    alone = [client.query(engine, 2, server.weights).queries[0] for client in clients]
    for query, other in zip(together.queries, alone, strict=True):
        assert query.samples.tolist() == other.samples.tolist()


def test_clients_agree_on_a_mean_once(federation, monkeypatch):
    clients, engine, server = federation(strategy="fairfal")
    told = [client.summarise(engine, 2, server.weights) for client in clients]
    assert all(0 < number < 1 for (number,) in told)
    seen = []
    choose = STRATEGIES["fairfal"].choose

    def look(self, pools, counts, rngs):
        seen.extend(pool.agreed.item() for pool in pools)
        return choose(self, pools, counts, rngs)

    monkeypatch.setattr(STRATEGIES["fairfal"], "choose", look)
    phase = query_together(clients, engine, 2, server.weights)
    assert phase.agreed == pytest.approx([sum(number for (number,) in told) / 3])
    assert seen == phase.agreed * 3
    assert query_together(clients, engine, 3, server.weights, [0.25]).agreed == [0.25]
    assert seen[3:] == [0.25] * 3
    one = clients[0].query(engine, 2, server.weights, phase.agreed).queries[0]
    assert one.samples.tolist() == phase.queries[0].samples.tolist()


def test_clients_may_agree_anew_in_each_round_and_before_there_is_a_model(federation, monkeypatch):
    clients, engine, server = federation(strategy="auto", first="auto")
    seen = []
    choose = STRATEGIES["auto"].choose

    def look(self, pools, counts, rngs):
        seen.append([pool.agreed.tolist() for pool in pools])
        return choose(self, pools, counts, rngs)

    monkeypatch.setattr(STRATEGIES["auto"], "choose", look)
    for al_round, weights in ((1, None), (2, server.weights)):
        told = [client.summarise(engine, al_round, weights) for client in clients]
        assert query_together(clients, engine, al_round, weights).agreed is None  # nothing to keep
        assert seen[-1] == [pytest.approx(average(told))] * 3
    assert seen[0][0] != seen[1][0]


def test_a_client_alone_agrees_with_itself_and_one_of_several_with_nobody(federation):
    """Who is not told a mean must not take its own for that of all."""
    clients, engine, server = federation(strategy="fairfal")
    alone = replace(clients[0], clients=1)
    assert Client(alone.experiment, 0, alone.pool, alone.first, alone.budgets).clients == 1
    own = alone.summarise(engine, 2, server.weights)
    assert alone.query(engine, 2, server.weights).agreed == own
    assert clients[0].query(engine, 2, server.weights).agreed is None


def test_who_has_nothing_to_say_does_not_count():
    assert average([[1.0, 2.0], None, [3.0, 6.0]]) == [2.0, 4.0]
    assert average([None, None]) is None


def test_strategies_may_see_other_images_of_the_same_class(federation, digits):
    """As in the released code's long tails: one image is scored, another trained on, the label is the same."""

    def seen(**settings):
        clients, engine, server = federation(rho=5.0, **settings)
        strategy = STRATEGIES["entropy"](selector="global")
        pool = make_pools(clients, engine, {"global": [server.weights] * len(clients)}, strategy, 1)[0]
        shown = shown_to_strategy(clients[0], clients[0].unlabelled, engine)
        return clients[0].unlabelled, shown, pool.unlabelled("global").embeddings

    own, same, embeddings = seen()
    assert torch.equal(own, same)
    again, others, other_embeddings = seen(scored_images="other_of_class")
    assert torch.equal(again, own)
    assert (others != own).float().mean() > 0.8
    assert torch.equal(digits.train_labels[others], digits.train_labels[own])
    assert not torch.equal(other_embeddings, embeddings)
    assert torch.equal(seen(scored_images="other_of_class")[1], others)  # the same in every AL round
