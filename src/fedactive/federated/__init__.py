"""How clients train, and how updates become the next global model.

`algorithms/` has one file per algorithm, `objectives/` one for each loss that clients train with.
"""

from fedactive.federated.aggregation import average, shares
from fedactive.federated.algorithm import (
    Algorithm,
    Server,
    State,
    Terms,
    Trajectory,
    Update,
    make_algorithm,
    register,
)
from fedactive.federated.closed_form import ClosedForm
from fedactive.federated.weights import Weights, weighted_mean, zeros_like
from fedactive.options import option
from fedactive.registry import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "ClosedForm",
    "Server",
    "State",
    "Terms",
    "Trajectory",
    "Update",
    "Weights",
    "average",
    "make_algorithm",
    "option",
    "register",
    "shares",
    "weighted_mean",
    "zeros_like",
]
