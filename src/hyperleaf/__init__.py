"""hyperleaf: accurate surrogates of expensive, nonstationary systems from as few runs as possible.

Every public name is a line in `__init__.pyi`, and imported from the module named there on first use, so that `import hyperleaf`
loads neither JAX nor a plotting library.
"""

from functools import partial
from importlib import import_module
from typing import Any

from hyperleaf import doors


def _homes(stub: str) -> dict[str, str]:
    """The module of each name, from lines such as "from module import Name as Name". By hand: `ast` takes longer to load than all
    else here."""
    found, module = {}, ""
    for line in stub.splitlines():
        start, is_import, names = line.partition(" import ")
        module = start.removeprefix("from ") if is_import else module
        for one in (names if is_import else line).strip(" (),").split(","):
            name, is_exported, _ = one.strip().partition(" as ")
            if is_exported:
                found[name] = module
    return found


_HOME = _homes(__spec__.loader.get_data(f"{__file__}i").decode())  # __init__.pyi, beside this file
__all__ = sorted(_HOME)

doors.opened["report"] = lambda: import_module("hyperleaf.report").write_report
doors.opened["plot"] = lambda: import_module("hyperleaf.plots").posterior_maps
doors.opened["connect"] = lambda: import_module("hyperleaf.server.client").connect
doors.opened["live"] = lambda: import_module("hyperleaf.server.notebook").live
doors.opened["rivals"] = lambda: import_module("hyperleaf.bench.rivals").RIVALS
doors.opened["rival classes"] = lambda: import_module("hyperleaf.bench.rivals.base").CLASSES


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("hyperleaf")
    elif name in _HOME:
        home = _HOME[name]
        value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    else:
        raise AttributeError(f"module 'hyperleaf' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here again
    return value


doors.opened |= {name: partial(__getattr__, name) for name in doors.USES}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
