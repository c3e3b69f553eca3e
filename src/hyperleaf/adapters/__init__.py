"""hyperleaf's kernel and posteriors where people already work: one file per framework, imported by name and only when used.

`hyperleaf.adapters.sklearn`, `.tinygp`, `.gpjax`, `.gpytorch`, `.botorch` and `.gpflow` take a kernel, or a draw of a fitted
posterior, and give it back; `.gest` runs a study behind the generator standard of Xopt, libEnsemble and optimas. What they share
is `parts`: a kernel in plain numbers.
"""

from hyperleaf.errors import InputError


def missing(package: str, extra: str) -> InputError:
    """What an adapter says whose framework is not installed."""
    return InputError(f"this adapter needs {package}, which is not installed. Run: pip install 'hyperleaf[{extra}]'")
