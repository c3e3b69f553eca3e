"""How commands find their study: the options that most of them share, and the study behind the file they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hyperleaf.cli import output
from hyperleaf.errors import HyperleafError

StudyArgument = Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file; ./study.toml by default.")]
StudyOption = Annotated[
    Path | None, typer.Option("--study", "-s", metavar="STUDY.toml", help="The study file; ./study.toml by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]


def path_of(argument: Path | None, option: Path | None) -> Path:
    if argument is not None and option is not None:
        raise typer.BadParameter("name the study file once, by itself or with --study.")
    return argument or option or Path("study.toml")


def open_study(path: Path, *, begins: bool = True, learns: bool = False, simulates: bool = False) -> Any:
    """The study of a file; made if it is new, or with `begins=False` refused. `learns` says that JAX will be used in earnest.

    `simulates` says that a simulator is needed; without one nothing is begun, for the file is not finished yet.
    """
    from hyperleaf.config import ConfigError, read_toml

    definition = read_toml(path)
    if simulates and definition.simulator is None:
        raise ConfigError(
            f"a run needs a simulator; {path} has none. Write a section [simulator], or answer by hand: hyperleaf ask"
        )
    storage = storage_of(definition, path)
    from hyperleaf.storage import NoStoreError, StudyNotFoundError
    from hyperleaf.study import Study
    from hyperleaf.study.defining import check_address

    check_address(definition)
    if learns:
        keep_compiled()
    if begins:
        return Study.define(definition, storage=storage, folder=path.parent)
    unknown = f"the study {definition.study.name!r} has not begun. Begin with: hyperleaf run, or hyperleaf ask"
    try:
        return Study.load(definition.study.name, storage, folder=path.parent)
    except StudyNotFoundError as error:
        raise ConfigError(unknown) from error
    except NoStoreError as error:
        file = storage.removeprefix("sqlite:///")
        raise ConfigError(f"{unknown}. If it has, its store was moved or deleted: there is no {file}") from error


def storage_of(definition: Any, path: Path) -> str:
    """Where the study of a file is kept: what it says, or a database beside it with its name."""
    from hyperleaf.config import ConfigError

    storage = definition.study.storage or f"sqlite:///{path.stem}.db"
    if storage.startswith("memory:"):
        raise ConfigError(
            'study.storage must be a file or a server here, since memory is gone when the command ends; got "memory://". '
            f'Write "sqlite:///{path.stem}.db".'
        )
    return storage


def keep_compiled() -> None:
    """Compiled code is kept for the next command; where that is impossible, it is said and all goes on."""
    from hyperleaf.compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except HyperleafError as error:
        output.complain(f"note: {error}")
