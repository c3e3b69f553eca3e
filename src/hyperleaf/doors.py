"""What lower rooms offer of higher ones, as a convenience: put here by the front door, which knows the whole house.

`Study.report` writes a page and `Study.plot` draws, which is done in rooms above studies. A room that wants to offer itself below
adds a function here, and the front door fills it in when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

opened: dict[str, Callable[[], Any]] = {}  # by name: what gives the function behind the door


def rivals() -> Any:
    """The surrogates of other packages that the bench compares with, by name: a table like that of `surrogates.kinds`."""
    return opened["rivals"]()


def rival_classes() -> Any:
    """What their saved files are made of, by tag."""
    return opened["rival classes"]()


def report(snapshot: Any, path: str | Path) -> Path:
    """Write the page about a snapshot of a study."""
    return opened["report"]()(snapshot, path)


def plot(model: Any, **options: Any) -> Any:
    """Draw what was learned."""
    return opened["plot"]()(model, **options)


USES = ("export", "sensitivity", "optimum", "level_set", "propagate", "derivatives")  # public functions of what was learned


def method(name: str) -> Callable[..., Any]:
    """The function of that name as a method of whatever has learned something."""

    def call(self: Any, *args: Any, **options: Any) -> Any:
        return opened[name]()(self, *args, **options)

    call.__name__, call.__doc__ = name, f"What was learned, put to use: see `hyperleaf.{name}`."
    return call


def connect(url: str, name: str | None = None, **options: Any) -> Any:
    """The study of that name at a `hyperleaf serve`, or its only one: the same interface, without its store."""
    return opened["connect"]()(url, name, **options)


def live(study: Any, **options: Any) -> Any:
    """Figures in a notebook that follow the study while it runs; a line in a terminal. See `hyperleaf.server.notebook`."""
    return opened["live"]()(study, **options)
