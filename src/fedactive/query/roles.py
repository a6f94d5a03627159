"""The models that a strategy can ask a pool for; `needs` of a strategy names those that it does ask for."""

from __future__ import annotations

# One model: `pool.unlabelled(name)`, `pool.labelled(name)`, `pool.head(name)`.
MODEL_ROLES = {
    "global": "the federated model",
    "local": "trained on the client's own labels only, from scratch",
    "finetuned": "the global model, trained further on the client's own labels",
    "local_last": "the client's own weights after its last local update of the last AL round",
    "distilled": "trained from scratch on the client's own labels, towards them and the global model",
}
# Several models, one after another: `pool.each(name)`.
COMMITTEES = {
    "committee": "the global model and the client's own of every second FL round, the latest 20 of each",
    "epochs": "the client's own weights after each epoch of its last local update",
    "dropout": "the global model with dropout, 20 times",
}
# Those that clients keep from training. One that has not trained since asks the global model in their place.
REMEMBERED = frozenset({"local_last", "committee", "epochs"})
