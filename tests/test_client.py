"""A client: what it holds, what is labelled, and that it does alone what it does in company."""

import pytest
import torch

from fedactive.client import Client, query_together, train_together
from fedactive.engines import EngineShelf
from fedactive.federated import make_algorithm
from fedactive.laboratory.split import split


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
    values = {"pool": torch.arange(10), "first": torch.tensor([3, 1]), "budget": 2} | changes
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
        assert len(query.samples) == client.budget


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


def test_randomness_comes_from_the_clients_number(federation):
    clients, engine, server = federation(strategy="random")
    first = clients[0].train(engine, server, 1, 0)
    clients[0].number = 5
    other = clients[0].train(engine, server, 1, 0)
    assert not torch.equal(first.weights["head.weight"], other.weights["head.weight"])
