"""Every error that hyperleaf raises on purpose: what it means, what to do, and its messages, read from the sources."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hyperleaf
from reference.markup import paragraphs, plain

SOURCES = Path(hyperleaf.__file__).parent
ROOT_CLASS = "HyperleafError"
REMEDIES: dict[str, str] = {
    "HyperleafError": "Catch it to catch all of them. Its message says the rule, the value that broke it and the remedy.",
    "InputError": "Change the value that the message names; it says what may stand there.",
    "ConfigError": "`hyperleaf check` names every mistake of a study file with its line; `hyperleaf new` writes a right one.",
    "DataError": "Correct the row or the column that the message names, or leave it out.",
    "DomainError": "Correct the point or the bounds that the message names. A domain cannot change once something was asked.",
    "ExhaustedError": "There is nothing left to ask: stop, or begin a study with a larger pool or a wider domain.",
    "InadmissibleError": "Measure one of the points in `safest` if you dare, or set a lower confidence or a wider limit.",
    "InferenceError": "The data are kept. Look for wild values; other priors or another method of inference may succeed.",
    "NotFittedYetError": "Call `fit`, or tell a few runs, first.",
    "NotFitted": "Call `fit` first. It is scikit-learn's NotFittedError too.",
    "StorageError": "The message names the store. `hyperleaf doctor` looks at it; what was told before is kept.",
    "UnreachableError": "Start the server, free the disk or repair the path that the message names; then the same command.",
    "LostStoreError": "Put the database file back in its place; what it held was saved beside it.",
    "NoStoreError": "Name the store that is meant; paths are relative to the study file. Begin with `hyperleaf run` or `ask`.",
    "StudyNotFoundError": "Name one of the studies that the message lists.",
    "StudyExistsError": "Load it, or give the new study another name.",
    "UnknownQueryError": "Use a number that `hyperleaf status` or the sheet shows.",
    "AlreadyToldError": "What was told stays. If it was wrong: `hyperleaf correct`, or `study.correct`.",
    "Conflict": "Somebody else was quicker. Inside hyperleaf it is tried again; a store of your own raises it.",
    "WorkerError": "A process or machine that made a run is gone. The run is offered again; look at its memory and its log.",
    "ServerError": "The message says what the server answered: its address, its token, or that it is not running.",
    "TooManyPointsError": "Ask for fewer points at a time.",
    "BusyError": "Another process works in the same folder of results: wait for it, or name another folder.",
}

INTRODUCTION = """# Errors

Every error that hyperleaf raises on purpose, with what to do. Each message says the rule, the value that broke it and the remedy;
`…` stands for what it fills in. Anything else that is raised is a mistake of ours: please report it with its traceback.
"""


def errors_page() -> str:
    classes, messages = found()
    parts = [INTRODUCTION]
    for name, (module, docstring, bases) in sorted(classes.items(), key=lambda item: (item[0] != ROOT_CLASS, item[0])):
        parts.append(f"## {name}\n\n`{module}.{name}`, a {' and a '.join(f'`{base}`' for base in bases)}.\n")
        parts.append(f"{paragraphs(docstring)}\n\n**What to do:** {plain(REMEDIES[name])}\n")
        said = sorted(messages[name])
        if said:
            listed = "\n".join(f"- {plain(one)}" for one in said)
            parts.append(f'??? note "{len(said)} message{"s" if len(said) > 1 else ""}"\n\n' + _indented(listed) + "\n")
    return "\n".join(parts)


def found() -> tuple[dict[str, tuple[str, str, list[str]]], dict[str, set[str]]]:
    """The classes, each with its module, docstring and bases; and the messages of each."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.rglob("*.py"))}
    every = {
        node.name: (_module(path), inspect.cleandoc(ast.get_docstring(node) or ""), [ast.unparse(base) for base in node.bases])
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    classes = {ROOT_CLASS: every[ROOT_CLASS]}
    while more := {name: one for name, one in every.items() if name not in classes and {*one[2]} & {*classes}}:
        classes |= more
    messages = defaultdict[str, set[str]](set)
    for tree in trees.values():
        for name, text in _raised(tree):
            if name in classes:
                messages[name].add(text)
    return classes, messages


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of classes that are called with a text, and the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            text = _text(node.args[0])
            if len(text.replace("…", "").strip(" .:")) > 5:
                yield node.func.id, text


def _text(node: ast.expr) -> str:
    """A literal with … where something is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "…"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
