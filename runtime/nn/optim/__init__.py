"""Optimizers: Cells that update Parameters by their gradients."""

from __future__ import annotations

from .ada_grad import Adagrad
from .adadelta import Adadelta
from .adam import Adam, AdamWeightDecay
from .adamax import AdaMax
from .asgd import ASGD
from .ftrl import FTRL
from .lamb import Lamb
from .lazyadam import LazyAdam
from .momentum import Momentum
from .optimizer import Optimizer
from .proximal_ada_grad import ProximalAdagrad
from .rmsprop import RMSProp
from .rprop import Rprop
from .sgd import SGD

__all__ = [
    "ASGD",
    "FTRL",
    "SGD",
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamWeightDecay",
    "Lamb",
    "LazyAdam",
    "Momentum",
    "Optimizer",
    "ProximalAdagrad",
    "RMSProp",
    "Rprop",
]
