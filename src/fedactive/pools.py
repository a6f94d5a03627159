"""What a strategy sees of clients that share an engine: outputs of their models, computed when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedactive.data.imbalance import others_of_class
from fedactive.engines.engine import Engine
from fedactive.errors import ConfigurationError, UserError
from fedactive.federated.batches import steps_per_epoch
from fedactive.federated.inference import chunks
from fedactive.federated.local_sgd import LocalJob
from fedactive.federated.objective import make_objective
from fedactive.federated.weights import Weights
from fedactive.models import ModelSpec
from fedactive.models.contract import draws_in_training
from fedactive.query.pool import Outputs, Pool
from fedactive.query.roles import COMMITTEES
from fedactive.query.strategy import Strategy

if TYPE_CHECKING:
    from fedactive.client import Client

DROPOUT_PASSES = 20
DISTILLATION_EPOCHS, DISTILLATION_PATIENCE = 500, 5


def require_dropout(strategy: Strategy, spec: ModelSpec) -> None:
    """Refuse a strategy that asks for dropout where the model has none, before any work."""
    if "dropout" in strategy.needs and not draws_in_training(spec.build(), spec.input_shape):
        allowed = f"options without dropout with model {spec.name}, which has none"
        raise ConfigurationError("strategy_options", "samples=dropout", allowed)


def train_models(
    clients: Sequence[Client], engine: Engine, strategy: Strategy, al_round: int, weights: Weights
) -> dict[str, list[Weights]]:
    """Return the clients' weights by the name of the model, of all that the strategy asks for; train some."""
    models = {"global": [weights] * len(clients)}

    def train(jobs: Sequence[LocalJob]) -> list[Weights]:
        return [result.weights for result in engine.train(jobs)]

    def fresh(name: str) -> Weights:
        """Draw one initialisation for all clients, new in each AL round."""
        rng = clients[0].randomness.torch(f"{name} weights", al_round)
        return engine.spec.initial_weights(rng)

    if "local" in strategy.needs:
        start = fresh("local-only")
        models["local"] = train([client.local_only_job(al_round, start) for client in clients])
    if "finetuned" in strategy.needs:
        models["finetuned"] = train([client.local_only_job(al_round, weights) for client in clients])
    if "local_last" in strategy.needs:
        models["local_last"] = [client.memory.last or weights for client in clients]
    if "distilled" in strategy.needs:
        start = fresh("distilled")
        models["distilled"] = train([distilled_job(client, al_round, start, weights) for client in clients])
    return models


def distilled_job(client: Client, al_round: int, start: Weights, teacher: Weights) -> LocalJob:
    """Make the job that trains IFAL's d: from scratch, on the client's labels, towards the global model.

    It minimises 0.1·CE + 0.9·T²·KL at T = 4, with a tenth of the learning rate, until 5 epochs in a row have
    not lowered the loss on the client's own samples; for 500 epochs at most.
    """
    e = client.experiment
    steps = DISTILLATION_EPOCHS * steps_per_epoch(len(client.labelled), e.batch_size)
    return LocalJob(
        start=start,
        samples=client.labelled,
        labels=client.labels,
        epochs=DISTILLATION_EPOCHS,
        rates=(e.lr / 10,) * steps,
        shuffle=client.randomness.integer("distillation batches", al_round, client.number),
        patience=DISTILLATION_PATIENCE,
        objective=make_objective("distillation", "temperature=4,share=0.1"),
        teacher=teacher,
    )


def infer_samples(engine: Engine, weights: Weights, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Compute logits and embeddings of training samples, of which all may not fit in memory at once."""
    images = engine.dataset.train_inputs
    parts = [engine.infer(weights, images[part]) for part in chunks(images, samples)]
    logits, embeddings = zip(*parts, strict=True)
    return torch.cat(logits), torch.cat(embeddings)


def as_they_are(inputs: Tensor, engine: Engine) -> tuple[Tensor, Tensor]:
    """Return features, or pixels, as the embeddings of samples while there is no model, with equal logits."""
    embeddings = engine.normalise(inputs).flatten(1)
    return embeddings.new_zeros(len(inputs), engine.spec.classes), embeddings


def shown_to_strategy(client: Client, samples: Tensor, engine: Engine) -> Tensor:
    """Return whose images a strategy sees for these samples: their own, but for `scored_images`."""
    if client.experiment.scored_images == "own":
        return samples
    pool = client.pool.cpu().numpy()
    rng = client.randomness.numpy("scored images", client.number)
    shown = torch.from_numpy(others_of_class(engine.dataset.train_labels.cpu().numpy(), pool, rng))
    return shown.to(samples.device)[torch.searchsorted(client.pool.to(samples.device), samples)]


def make_pools(
    clients: Sequence[Client],
    engine: Engine,
    models: Mapping[str, list[Weights]],
    strategy: Strategy,
    al_round: int,
    agreed: Sequence[float] | None = None,
) -> list[Pool]:
    """Make what the strategy sees of each client; `models` has the clients' weights by the model's name.

    Committees are what the clients remember themselves.
    """
    images = engine.dataset.train_inputs
    unlabelled = [shown_to_strategy(client, client.unlabelled, engine) for client in clients]
    labelled = [shown_to_strategy(client, client.labelled, engine) for client in clients]

    def weights_of(model: str) -> list[Weights]:
        if model not in models:
            raise UserError(
                f"strategy {strategy.name} asked for the model {model!r}, but there is only "
                f"{' and '.join(models)}; its `needs` must name every model that it asks for"
            )
        return models[model]

    @cache  # each model runs on all clients' samples once, however often the strategy asks
    def outputs(model: str, known: bool) -> list[Outputs]:
        samples, weights = labelled if known else unlabelled, weights_of(model)
        if model == "global":  # one model for all clients: one pass over all their samples
            everyone = torch.cat(samples)
            here = infer_samples(engine, weights[0], everyone) if weights[0] else None
            logits, z = here or as_they_are(images[everyone], engine)
            sizes = [len(s) for s in samples]
            return [Outputs(y, e) for y, e in zip(logits.split(sizes), z.split(sizes), strict=True)]
        return [Outputs(*infer_samples(engine, w, s)) for w, s in zip(weights, samples, strict=True)]

    def each(k: int, role: str) -> Iterator[Outputs]:
        """Run one model after another; nothing of those before is kept."""
        if role not in strategy.needs or role not in COMMITTEES:
            weights_of(role)  # or it says what is wrong
        if role == "dropout":
            inputs = images[unlabelled[k]]
            for i in range(DROPOUT_PASSES):
                seed = clients[k].randomness.integer("dropout", al_round, clients[k].number, i)
                yield Outputs(*engine.infer_dropping(weights_of("global")[k], inputs, seed))
        else:
            for weights in clients[k].memory.models(role) or (weights_of("global")[k],):
                yield Outputs(*infer_samples(engine, weights, unlabelled[k]))

    def infer(k: int, model: str, inputs: Tensor) -> Outputs:
        weights = weights_of(model)[k]
        return Outputs(*(engine.infer(weights, inputs) if weights else as_they_are(inputs, engine)))

    def pool(k: int) -> Pool:
        return Pool(
            size=len(unlabelled[k]),
            classes=engine.spec.classes,
            labels=clients[k].labels.to(engine.device),
            unlabelled=lambda model: outputs(model, known=False)[k],
            labelled=lambda model: outputs(model, known=True)[k],
            head=lambda model: (weights_of(model)[k]["head.weight"], weights_of(model)[k]["head.bias"]),
            each=lambda role: each(k, role),
            agreed=None if agreed is None else torch.tensor(agreed, dtype=torch.float64),
            inputs=lambda positions: images[unlabelled[k][positions.to(unlabelled[k].device)]],
            infer=lambda model, inputs: infer(k, model, inputs),
            client=clients[k].number,
            clients=clients[k].clients,
        )

    for model in strategy.needs - COMMITTEES.keys():  # before the selection, whose time is its own
        outputs(model, known=False)
    return [pool(k) for k in range(len(clients))]
