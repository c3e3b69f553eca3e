"""What a study is made of, and what of it may change: checked before a store sees it, and changed there in one step.

While a study goes on its simulator, stop rules, handling of failures, acquisition and safety may change; anything else would
make its past and its future two different studies.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hyperleaf.config import ConfigError, Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.storage.addresses import REMEDY, has_password, masked
from hyperleaf.storage.base import Conflict, Storage, StudyExistsError, StudyNotFoundError
from hyperleaf.study import intact, tables
from hyperleaf.study.turns import attempts

CHANGEABLE = ("simulator", "stop", "failures", "acquisition", "safety")  # sections that may change while a study goes on
POOL, TEST = "pool", "test"


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The sections in which two definitions, as stores keep them, differ: all of them, and those that must not."""
    one, other = _comparable(known), _comparable(wanted)
    changed = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
    return changed, [key for key in changed if key not in CHANGEABLE]


def differs(section: str, name: str, queries: int) -> ConfigError:
    """What to say of a section that must stay as it is."""
    return ConfigError(
        f"[{'inputs' if section == 'domain' else section}] of the study {name!r} differs from the one in the store, which has "
        f"{queries} queries already. Undo the change, or give the study another name."
    )


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
    from hyperleaf.study.admitting import check_limits
    from hyperleaf.study.learning import Learner

    domain = definition.make_domain()
    learner = Learner(definition, domain, store)  # refuses options that the surrogate does not have
    check_acquisition(definition)
    artifacts = {}
    candidates = None
    if pool is not None:
        candidates = candidates_of(pool, domain)
        artifacts[POOL] = tables.pool_to_bytes(candidates)
    check_limits(definition, domain, candidates, learner.surrogates)
    if test is not None:
        artifacts[TEST] = tables.runs_to_bytes(tables.read_runs(test, domain, tuple(definition.outputs), definition.units))
    return artifacts


def check_acquisition(definition: Definition) -> None:
    from hyperleaf.optimize import check_optimizer

    check_criterion(definition)
    check_optimizer(definition.acquisition.optimizer)


def check_criterion(definition: Definition) -> None:
    from hyperleaf.acquisition import as_goal

    as_goal(definition.acquisition.kind, definition.acquisition.level, definition.acquisition.minimize)


def check_safety(definition: Definition, store: Storage) -> None:
    """Of a study that is in the store already, whose surrogate was checked when it was made."""
    from hyperleaf.study.admitting import check_limits

    domain = definition.make_domain()
    check_limits(definition, domain, intact.pool_of(store.artifact(definition.study.name, POOL), domain), ())


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what may be said in several ways, or says nothing about the study itself."""
    plain = Definition.from_json(values).to_json()
    for key in ("storage", "description", "constraints"):  # constraints are those of the domain
        plain["study"].pop(key, None)
    return plain


def candidates_of(pool: Any, domain: Domain) -> Pool:
    """The pool that somebody names: one, a table, or the path of a CSV file."""
    if isinstance(pool, Pool):
        return pool
    if isinstance(pool, str | Path):
        from hyperleaf.simulators.table import read_csv_table

        return Pool(read_csv_table(pool, domain, ())[0], domain)
    return Pool(pool, domain)


def values_of(
    name: str, domain: Domain, outputs: Any, surrogate: Any, acquisition: Any, design: Any, **study: Any
) -> dict[str, Any]:
    """The sections of a study, from the arguments of `Study.create`."""
    if not isinstance(domain, Domain):
        raise InputError(f"domain must be a Domain; got {type(domain).__name__}. Write Domain(x=Real(0, 1), …).")
    names = [outputs] if isinstance(outputs, str) else outputs
    named = names if isinstance(names, Mapping) else {key: {} for key in names}
    return {
        "study": {"name": name, **study},
        "domain": domain.to_dict(),
        "outputs": {key: dict(value) if isinstance(value, Mapping) else value for key, value in named.items()},
        "surrogate": _section(surrogate, "kind"),
        "acquisition": _section(acquisition, "kind"),
        "design": _section(design, "size"),
    }


def make(definition: Definition, store: Storage, pool: Any, test: Any) -> None:
    """Put a new study into a store."""
    artifacts = prepare(definition, store, pool, test)
    store.create_study(definition.study.name, kept(definition), now=store.now(), artifacts=artifacts)


def make_or_change(definition: Definition, store: Storage, folder: Path) -> None:
    """Put the study of a config into a store, or what has changed of it since."""
    pool = None if definition.pool is None else folder / definition.pool.table
    test = None if definition.test is None else folder / definition.test.table
    name = definition.study.name
    if name not in store.study_names():
        with suppress(StudyExistsError):  # another process was quicker
            return make(definition, store, pool, test)
    with closing(attempts(store, name, "the study could not be changed")) as tries:
        for _ in tries:
            with suppress(Conflict):  # somebody asked or told since: look again
                return _change(definition, store, pool, test)


def _change(definition: Definition, store: Storage, pool: Any, test: Any) -> None:
    """What differs from the study as it is in the store; Conflict if somebody writes to it at that moment."""
    name = definition.study.name
    record = store.read(name)
    changed, fixed = differences(record.definition, definition.to_json())
    if fixed and record.queries:
        raise differs(fixed[0], name, len(record.queries))
    artifacts = None  # stay as they are
    if fixed:  # nothing has been asked yet: it is as good as new
        artifacts = prepare(definition, store, pool, test)
    elif changed:
        check_acquisition(definition)
        check_safety(definition, store)
    if changed:
        store.redefine(name, kept(definition), version=record.version, artifacts=artifacts)


def only_name(store: Storage) -> str:
    """Of the one study in a store."""
    names = store.study_names()
    if len(names) != 1:
        found = ", ".join(repr(one) for one in names) or "none"
        raise StudyNotFoundError(f"a name is needed unless the store holds exactly one study; it holds {found}.")
    return names[0]


def _section(value: Any, key: str) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {key: value}


def resolved(storage: str | Storage | None, folder: Path) -> str | Storage | None:
    """Relative SQLite files are meant relative to the folder of the study."""
    if isinstance(storage, str) and storage.startswith("sqlite:///") and not storage.startswith("sqlite:////"):
        path = storage.removeprefix("sqlite:///")
        if path and path != ":memory:" and folder != Path("."):
            return f"sqlite:///{(folder / path).resolve()}"
    return storage
