"""Where studies live: `open_storage` gives the store at an address. The contract is in `base`."""

from __future__ import annotations

from hyperleaf.errors import InputError
from hyperleaf.storage.addresses import masked
from hyperleaf.storage.base import (
    AlreadyToldError as AlreadyToldError,
    Amendment as Amendment,
    Change as Change,
    Conflict as Conflict,
    Kind as Kind,
    LostStoreError as LostStoreError,
    NewQuery as NewQuery,
    NoStoreError as NoStoreError,
    Observation as Observation,
    Query as Query,
    Record as Record,
    State as State,
    Storage as Storage,
    StorageError as StorageError,
    StudyExistsError as StudyExistsError,
    StudyNotFoundError as StudyNotFoundError,
    UnknownQueryError as UnknownQueryError,
    UnreachableError as UnreachableError,
)

_ADDRESSES = "memory://, sqlite:///FILE.db, sqlite:////FOLDER/FILE.db or postgresql://USER@HOST/DATABASE"


def open_storage(url: str | Storage | None, *, create: bool = True) -> Storage:
    """The store at `url`: made if it is not there yet (unless `create` is False), brought up to date if an older version made it.

    `memory://`, or None, is a new store in memory, gone with the object. A store is given back as it is.
    """
    if url is None or url == "memory://":
        from hyperleaf.storage.memory import MemoryStorage

        return MemoryStorage()
    if not isinstance(url, str):
        if all(hasattr(url, method) for method in ("read", "append", "tell", "claim")):
            return url
        raise InputError(f"A store is named by an address: {_ADDRESSES}; got {url!r}")
    scheme, separator, _ = url.partition("://")
    if separator and scheme in ("sqlite", "postgresql", "postgres", "postgresql+psycopg"):
        from hyperleaf.storage.sql import SqlStorage

        return SqlStorage(url, create=create)
    shown = f"one that begins with {scheme}://" if separator else repr(masked(url))
    hint = "" if separator or "@" in url else f" For a file: sqlite:///{url}"
    raise InputError(f"The address of a store is {_ADDRESSES}; got {shown}.{hint}")
