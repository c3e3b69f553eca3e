"""What a study is made of, and what of it may change: checked before a store sees it, and changed there in one step.

While a study goes on its simulator, stop rules, handling of failures and acquisition may change; anything else would make its
past and its future two different studies.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperleaf.config import ConfigError, Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.storage.addresses import REMEDY, has_password, masked
from hyperleaf.storage.base import Storage
from hyperleaf.study import tables

CHANGEABLE = ("simulator", "stop", "failures", "acquisition")  # sections that may change while a study goes on
POOL, TEST = "pool", "test"


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The sections in which two definitions, as stores keep them, differ: all of them, and those that must not."""
    one, other = _comparable(known), _comparable(wanted)
    changed = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
    return changed, [key for key in changed if key not in CHANGEABLE]


def check_address(definition: Definition) -> None:
    """Refuse a password in a study file, which is copied, shared and kept under version control."""
    address = definition.study.storage
    if address is not None and has_password(address):
        raise ConfigError(f"study.storage must be an address without a password; got {masked(address)!r}. {REMEDY}.")


def kept(definition: Definition) -> dict[str, Any]:
    """What a store keeps: without its own address, which would be wrong as soon as the store is moved."""
    values = definition.to_json()
    values["study"].pop("storage", None)
    return values


def prepare(definition: Definition, store: Storage, pool: Any, test: Any) -> dict[str, bytes]:
    """The pool and the test table as a store keeps them; an InputError if anything of the study cannot be used."""
    from hyperleaf.study.learning import Learner

    domain = definition.make_domain()
    Learner(definition, domain, store)  # refuses options that the surrogate does not have
    check_acquisition(definition)
    artifacts = {}
    if pool is not None:
        artifacts[POOL] = tables.pool_to_bytes(pool if isinstance(pool, Pool) else _read_pool(pool, domain))
    if test is not None:
        artifacts[TEST] = tables.runs_to_bytes(tables.read_runs(test, domain, tuple(definition.outputs)))
    return artifacts


def check_acquisition(definition: Definition) -> None:
    from hyperleaf.acquisition import as_acquisition
    from hyperleaf.optimize import check_optimizer

    as_acquisition(definition.acquisition.kind)
    check_optimizer(definition.acquisition.optimizer)


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what may be said in several ways, or says nothing about the study itself."""
    plain = Definition.from_json(values).to_json()
    for key in ("storage", "description", "constraints"):  # constraints are those of the domain
        plain["study"].pop(key, None)
    return plain


def _read_pool(pool: Any, domain: Domain) -> Pool:
    if isinstance(pool, str | Path):
        from hyperleaf.simulators.table import read_csv_table

        return Pool(read_csv_table(pool, domain, ())[0], domain)
    return Pool(pool, domain)
