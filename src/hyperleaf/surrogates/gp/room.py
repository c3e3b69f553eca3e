"""Many observations: whether the factors of all draws fit in memory, said before anything is computed; and what they cost.

A GP is learned exactly. Each draw holds the factor of its covariance, n² numbers, and a gradient takes time with the cube of n.
Without these checks a study of some thousand runs would be ended by the system, with no word about why.
"""

from __future__ import annotations

import logging
from pathlib import Path

from hyperleaf.errors import InferenceError
from hyperleaf.linalg import padded_size

MANY = 1000  # observations from which it is said that exact inference is slow
CGROUP = Path("/sys/fs/cgroup")
log = logging.getLogger(__name__)
_said: set[int] = set()


def check_room(num: int, draws: int, size: int = 0) -> None:
    """Refuse `num` observations (padded to `size` at least) if the factors of so many draws do not fit in what memory is free."""
    needed = draws * max(padded_size(num), size) ** 2 * 8
    free = free_memory()
    if free is not None and needed > free:
        fitting = max(int(draws * free / needed), 1)
        raise InferenceError(
            f"the covariances of {num} observations under {draws} draws must fit in memory; they need {_gib(needed)}, and "
            f'{_gib(free)} are free. The data are kept; take at most {fitting} draws ("particles" of SMC), or inference "map".'
        )
    if num > MANY and not _said:
        _said.add(num)
        log.warning("%s", cost_of(num))


def cost_of(num: int) -> str:
    """What to know about so many observations; nothing if they are few."""
    if num <= MANY:
        return ""
    return (
        f"{num} observations are learned from exactly, in a time that grows with their cube; there is no approximation for more "
        f'than {MANY}. Fewer particles or inference "map" take less.'
    )


def free_memory() -> int | None:
    """Bytes that this process may still take, by the system and by its container; None where neither tells."""
    found = [left for left in (_of_system(), _of_container()) if left is not None]
    return min(found) if found else None


def _of_system() -> int | None:
    kilobytes = _numbers(Path("/proc/meminfo")).get("MemAvailable:")
    return None if kilobytes is None else kilobytes * 1024


def _of_container() -> int | None:
    """The limit of the control group less what is in use; files that are only remembered are given back when needed."""
    try:
        limit, used = ((CGROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    if not (limit.isdecimal() and used.isdecimal()):
        return None
    return max(int(limit) - int(used) + _numbers(CGROUP / "memory.stat").get("file", 0), 0)


def _numbers(path: Path) -> dict[str, int]:
    """The numbers of a file with lines such as "file 123"."""
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
