"""Models that clients train. `architectures/` has one file for each."""

from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.models.spec import ModelSpec, register
from fedactive.options import option
from fedactive.registry import MODELS

__all__ = ["MODELS", "BatchNorm", "Classifier", "ModelSpec", "option", "register"]
