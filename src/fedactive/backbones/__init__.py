"""Backbones: trained networks that turn images into features. `kinds/` has a file for each.

Nothing that is imported here loads PyTorch: an experiment asks for its backbone's size and content only.
"""

from fedactive.backbones.backbone import Backbone
from fedactive.options import option
from fedactive.registry import BACKBONES

register = BACKBONES.register

__all__ = ["BACKBONES", "Backbone", "option", "register"]
