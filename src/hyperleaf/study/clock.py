"""Where the time of a campaign goes."""

from __future__ import annotations

import time


class Clock:
    """Adds the seconds spent in a `with` to an entry of a dict."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._name] += time.perf_counter() - self._start
