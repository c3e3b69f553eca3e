"""From the records of a study to what its surrogates have learned: a fold over epochs.

Epoch 1 is fitted, each later one moves the posteriors on, and the randomness of epoch k comes from the seed and k. So the same
records give the same posteriors, in whatever process and after whatever crash. What has been learned is kept in the store from
time to time, to the last bit, so that a restart need not go through all epochs again. It carries a digest of the data it was
learned from: when these are put right, all is learned again, as if they had been right from the start.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperleaf.config import Definition
from hyperleaf.domain import Domain
from hyperleaf.errors import DataError
from hyperleaf.machine.threefry import folded, seeded
from hyperleaf.simulators.base import LARGEST as LARGEST_OUTPUT
from hyperleaf.storage.base import Observation, Record, Storage
from hyperleaf.study.limits import first_scale
from hyperleaf.surrogates.archives import read_archive
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate
from hyperleaf.surrogates.robust import Robust

log = logging.getLogger(__name__)
ARTIFACT = "learned"
MARK = b"hyperleaf cache 1\n"  # before a digest and the content
KEEP_AFTER = 10.0  # seconds of learning that a crash may cost again
LARGEST = 2**28  # bytes; what is larger is learned again instead


@dataclass(frozen=True)
class Knowledge:
    """What was learned from the observations of `ids` (in the order they were taken in), up to and with `epoch`. `digest` is of
    what these were. No models: too little has been told so far."""

    epoch: int = 0
    ids: tuple[int, ...] = ()
    models: Mapping[str, Learned] = field(default_factory=dict)
    digest: str = ""


class Learner:
    """Keeps what was last learned, and moves on from there when it can."""

    def __init__(self, definition: Definition, domain: Domain, storage: Storage) -> None:
        self._definition, self._domain, self.storage = definition, domain, storage
        self._known: Knowledge | None = None
        self._ahead: Knowledge | None = None
        self._unsaved = 0.0
        self.seconds = 0.0
        surrogate, outputs = definition.surrogate, definition.outputs.values()
        self.surrogates = [
            make_surrogate(surrogate.kind, domain.widths, noise=output.noise_kind, **surrogate.options) for output in outputs
        ]
        self.least = max(one.least_observations for one in self.surrogates)

    def learn(self, record: Record, settled: Callable[[Knowledge], None] | None = None, *, afresh: bool = False) -> Knowledge:
        """Everything that was told, observations without an epoch taken in as if they were the next one. `settled` is called
        with what was known after each epoch that is gone through; with `afresh` these are all."""
        known = self._settled(record, settled, afresh)
        if _group(record, None):
            self._ahead = self._next(known, record, None)
            return self._ahead
        return known

    def settle(self, known: Knowledge) -> None:
        """Take note that the store now has the epoch with which `known` ends."""
        self._known = known

    def save_if_due(self) -> None:
        """`save`, if losing what was learned would cost more than `KEEP_AFTER` seconds."""
        if self._unsaved > KEEP_AFTER:
            self.save()

    def save(self) -> None:
        """Keep in the store what has been learned from the epochs that are settled."""
        if self._known is None or not self._known.models or self._unsaved == 0.0:
            return
        payload = pack(self._known)
        if payload is not None:
            self.storage.put_artifact(self._definition.study.name, ARTIFACT, payload)
        self._unsaved = 0.0

    def _settled(self, record: Record, settled: Callable[[Knowledge], None] | None, afresh: bool) -> Knowledge:
        """The fold over all epochs of the record."""
        known = Knowledge() if afresh else self._known
        if known is None or known.epoch > record.epoch or not _agrees(known, record):
            known = self._load(record) or Knowledge()
        while known.epoch < record.epoch:
            known = self._next(known, record, known.epoch + 1)
            if settled is not None and known.models:
                settled(known)
        self._known = known
        return known

    def _load(self, record: Record) -> Knowledge | None:
        payload = self.storage.artifact(record.name, ARTIFACT)
        known = None if payload is None else unpack(payload, record.definition)
        log.debug("what was learned: %s", "nothing kept" if known is None else f"kept up to epoch {known.epoch}")
        return known if known is not None and known.epoch <= record.epoch and _agrees(known, record) else None

    def _next(self, known: Knowledge, record: Record, epoch: int | None) -> Knowledge:
        """What is known with the observations of an epoch taken in; of some or all of them nothing may be left, if they were
        voided. Before there is enough to begin with, they are put by for the epoch in which there is."""
        group = _group(record, epoch)
        if not known.models:
            earlier = [one for k in range(1, known.epoch + 1) for one in _group(record, k)]
            group = earlier + group
            if len(group) < self.least:
                return Knowledge(known.epoch + 1)
        ids = known.ids + tuple(one.query_id for one in group)
        digest = digest_of(ids, record)
        ahead = self._ahead
        if ahead is not None and (ahead.epoch, ahead.ids, ahead.digest) == (known.epoch + 1, ids, digest):
            return ahead
        models = self._absorb(known, group, record) if group else known.models
        return Knowledge(known.epoch + 1, ids, models, digest)

    def _absorb(self, known: Knowledge, group: list[Observation], record: Record) -> dict[str, Learned]:
        started = time.perf_counter()
        places = record.places()
        unit = self._domain.to_unit([dict(places[one.query_id]) for one in group])
        key = seeded(self._definition.study.seed % 2**63, known.epoch + 1)
        models = {}
        for i, (name, output) in enumerate(self._definition.outputs.items()):
            y = np.array([one.outputs[name] for one in group], dtype=np.float64)
            for one in group:  # told before such outputs were refused
                if abs(one.outputs[name]) > LARGEST_OUTPUT:
                    raise DataError(
                        f"an output must be of a size up to {LARGEST_OUTPUT:g}, since it is squared; query {one.query_id} gave "
                        f"{name} = {one.outputs[name]:g}. Begin a study with another unit, and add the runs of this one."
                    )
            noise = np.full(len(y), output.noise**2) if isinstance(output.noise, float) else None
            own = folded(key, i)
            if name in known.models:
                models[name] = known.models[name].update(unit, y, noise, key=own)
            else:
                scale = first_scale(self._definition, name, y)
                kind = Robust if output.noise == "robust" else Learned
                models[name] = kind.fit(self.surrogates[i], unit, y, noise, scale=scale, key=own)
        spent = time.perf_counter() - started
        self.seconds += spent
        self._unsaved += spent
        log.info("learned epoch %d from %d more observations in %.2f s", known.epoch + 1, len(group), spent)
        return models


def _group(record: Record, epoch: int | None) -> list[Observation]:
    """The observations of an epoch, ordered by query: in which order they were told makes no difference."""
    return sorted((one for one in record.observations if one.epoch == epoch), key=lambda one: one.query_id)


def counts_of(record: Record, least: int) -> set[int]:
    """How many observations were known after each epoch in which there were enough to learn."""
    counts, num = set(), 0
    for epoch in range(1, record.epoch + 1):
        num += len(_group(record, epoch))
        counts |= {num} if num >= least else set()
    return counts


def digest_of(ids: Sequence[int], record: Record) -> str:
    """Of the observations of these queries: where they were made and what they gave, to the last bit."""
    told, places = {one.query_id: one.outputs for one in record.observations}, record.places()
    values = [[i, sorted(places[i].items()), sorted(told[i].items())] for i in ids]
    return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


def _agrees(known: Knowledge, record: Record) -> bool:
    """Whether `known` was learned from the first epochs of this very record, as it is now."""
    if not known.models:
        return known.epoch == 0
    taken = ((one.epoch, one.query_id) for one in record.observations if one.epoch is not None and one.epoch <= known.epoch)
    expected = [number for _, number in sorted(taken)]
    if list(known.ids) != expected:
        return False
    # an older version kept no digest; what it had learned from has not changed if nothing was put right
    return known.digest == digest_of(expected, record) if known.digest else not record.changes


def pack(known: Knowledge) -> bytes | None:
    """As bytes: a digest and an NPZ of arrays with a JSON header. None if it is too large to be worth keeping."""
    from hyperleaf.surrogates.files import posterior_to_arrays  # loads every kind of surrogate, which a query does not need

    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {"epoch": known.epoch, "ids": list(known.ids), "digest": known.digest, "models": {}}
    for i, (name, model) in enumerate(known.models.items()):
        own, meta = posterior_to_arrays(model)
        arrays |= {f"{i}/{key}": value for key, value in own.items()}
        header["models"][name] = [i, meta]
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        return None
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    content = buffer.getvalue()
    return MARK + hashlib.sha256(content).digest() + content


def unpack(payload: bytes, definition: Mapping[str, Any]) -> Knowledge | None:
    """None for what is damaged, or what another version of hyperleaf wrote and this one cannot read: then it is learned again."""
    from hyperleaf.surrogates.files import posterior_from_arrays

    content = payload
    if payload.startswith(MARK):
        start = len(MARK) + hashlib.sha256().digest_size
        content = payload[start:]
        if payload[len(MARK) : start] != hashlib.sha256(content).digest():  # zip's own checks leave out its directory
            return None
    elif not payload.startswith(b"PK"):  # the first versions wrote no digest
        return None
    try:
        arrays = dict(read_archive(io.BytesIO(content)))
        header = json.loads(arrays.pop("header").tobytes().decode())
        models = {}
        for name, (i, meta) in header["models"].items():
            own = {key.split("/", 1)[1]: value for key, value in arrays.items() if key.split("/", 1)[0] == str(i)}
            models[name] = posterior_from_arrays(own, meta)
        known = Knowledge(int(header["epoch"]), tuple(header["ids"]), models, str(header.get("digest", "")))
    except Exception:  # of whatever kind: this is a cache, and the record it was learned from is there
        return None
    return known if set(models) == set(definition["outputs"]) else None
