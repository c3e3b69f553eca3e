"""How draws come about: `base` (the contract), `smc` (its start in `annealing`, its updates in `online`), `hmc`, `map`, and how
far to trust them, `diagnostics`. A new method is a file with a class and a line in `METHODS`, which is free of JAX."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

# By the name in study.toml: the module here, and the class or function in it that takes the settings.
METHODS: dict[str, str] = {
    "smc": "smc:SMC",
    "nuts": "hmc:NUTS",
    "hmc": "hmc:HMC",
    "map": "map:Map",
    "ml": "map:maximum_likelihood",
}


def method(name: str) -> Callable[..., Any]:
    """What makes an `Inference` of that name from its settings; imported now."""
    module, _, maker = METHODS[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), maker)
