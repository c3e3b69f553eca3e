"""What each key of study.toml means, in a sentence: what editors show, and what the reference says.

Kept apart from the models, which are read by every command. A setting without an entry here fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """`means` is the sentence; `left_out` says what holds without the key where that is no plain value; `schema` is what it may
    be, where the model alone does not tell, because it reads more than it keeps."""

    means: str
    left_out: str = ""
    schema: dict[str, Any] | None = None


POSITIVE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
DURATION: dict[str, Any] = {"anyOf": [POSITIVE, {"type": "string", "examples": ["90s", "1h30m", "2h"]}]}
TEXT: dict[str, Any] = {"type": "string"}

SECTIONS: dict[str, str] = {
    "study": "Name, store and seed.",
    "inputs": "What may vary: a table for each input, with low and high or with options.",
    "outputs": "What is measured: a table for each output, which may be empty.",
    "surrogate": "The model. Which further keys there are depends on kind.",
    "acquisition": "How the next query is chosen.",
    "design": "The first queries, before there is anything to learn from.",
    "pool": "The only points that can be run. Without it: anywhere in the domain.",
    "test": "Known runs that are not learned from, on which accuracy is measured.",
    "simulator": "What answers: exactly one of command, function and table. Without it a person does.",
    "stop": "When it is enough; the rule that is met first ends a run.",
    "failures": "What to do when a run fails.",
    "limits": "What outputs must keep to: a table for each output that has a limit.",
    "safety": "How limits are kept.",
}

KEYS: dict[str, Key] = {
    "study.name": Key("Any text; the study is known by it in the store."),
    "study.storage": Key(
        "Where the study is kept: sqlite:///FILE.db, or postgresql://USER@HOST/DATABASE without a password.",
        "a .db file beside the study file, with its name",
    ),
    "study.seed": Key("From which all chance comes: the same seed and the same outputs give the same queries."),
    "study.description": Key("A sentence for the report."),
    "study.constraints": Key(
        "Only points where all of these hold are asked, such as mach * alpha <= 60.",
        schema={"type": "array", "items": TEXT, "default": []},
    ),
    "inputs.*.low": Key("The smallest value, in the input's own units.", schema={"type": "number"}),
    "inputs.*.high": Key("The largest value; above low.", schema={"type": "number"}),
    "inputs.*.log": Key("Whether it varies by factors; low is then above 0.", schema={"type": "boolean", "default": False}),
    "inputs.*.unit": Key("What it is measured in, for people.", "none", TEXT),
    "inputs.*.integer": Key("Whether only whole numbers can be set.", schema={"type": "boolean", "default": False}),
    "inputs.*.options": Key(
        "What it may be, in place of low and high: texts, numbers or truth values without an order.",
        schema={"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": ["string", "number", "boolean"]}},
    ),
    "outputs.*.noise": Key(
        "learned; robust, if some values may be wild; none, if runs repeat exactly; or its standard deviation.",
        schema={
            "anyOf": [{"enum": ["learned", "robust", "none"]}, {"type": "number", "minimum": 0}],
            "default": "learned",
        },
    ),
    "outputs.*.range": Key(
        "Where values are expected, low then high; fixes the scale.",
        "the scale of the data",
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    ),
    "outputs.*.weight": Key("Its share in the choice of queries; 0 for an output that is only watched."),
    "outputs.*.unit": Key("What it is measured in, for people."),
    "surrogate.kind": Key("Which model."),
    "acquisition.kind": Key("What an observation is worth."),
    "acquisition.optimizer": Key("How the domain is searched for the best point; a pool is scored row by row."),
    "acquisition.level": Key('The limit that "contour" looks for, in the units of the output.', "needed by contour alone"),
    "acquisition.minimize": Key('Whether "optimum" looks for the smallest value.'),
    "design.kind": Key("How the first queries are spread."),
    "design.size": Key("How many they are."),
    "pool.table": Key("A CSV file with a column for each input, read once, when the study begins."),
    "test.table": Key("A CSV file with all inputs and outputs, read once, when the study begins."),
    "simulator.command": Key(
        "A program, called without a shell; {input}, {output} and the names of inputs are filled in.",
        schema={"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]},
    ),
    "simulator.function": Key("A Python function, module:name, called with the inputs by name.", schema=TEXT),
    "simulator.table": Key("A CSV file of finished runs, looked up by their inputs.", schema=TEXT),
    "simulator.timeout": Key("A run that takes longer is ended and has failed.", "no limit", DURATION),
    "simulator.input": Key(
        "json, or the path of a text in which {mach} is filled in.", schema={"type": "string", "default": "json"}
    ),
    "simulator.output": Key(
        "json, csv (the last row counts), or a pattern with one group for each output.",
        schema={"anyOf": [{"enum": ["json", "csv"]}, {"type": "object", "additionalProperties": TEXT}], "default": "json"},
    ),
    "simulator.output_file": Key("The name of the results file in the folder of the run.", "output.json, .csv or .txt", TEXT),
    "simulator.search": Key(
        "Where patterns are looked for.",
        "file if the command names {output} or there is an output_file, else stdout",
        {"enum": ["file", "stdout"]},
    ),
    "simulator.run_in": Key(
        "Where the program runs: in the folder of the run, or in that of the study file.",
        schema={"enum": ["folder", "study"], "default": "folder"},
    ),
    "simulator.runs": Key("The folder of the folders of the runs.", schema={"type": "string", "default": "runs"}),
    "stop.queries": Key("Finished runs in all, the first design included.", "no such rule"),
    "stop.time": Key("How long one hyperleaf run may take, as text or in seconds.", "no such rule", DURATION),
    "stop.rmse": Key(
        "The expected error in standard deviations of the output, or a table of errors by output in their own units.",
        "no such rule",
        {"anyOf": [POSITIVE, {"type": "object", "additionalProperties": POSITIVE}]},
    ),
    "stop.stagnation": Key("So many queries without the expected error falling by a tenth.", "no such rule"),
    "failures.retries": Key("How often a failed run is repeated."),
    "failures.avoid": Key("Whether to keep away from where runs fail."),
    "failures.limit": Key("After so many failed runs in a row the run is given up."),
    "limits.*.min": Key("The smallest value allowed, in the output's own units; a limit has a min, a max or both.", "none"),
    "limits.*.max": Key("The largest value allowed.", "none"),
    "limits.*.confidence": Key(
        "How sure that must be of each query.",
        schema={"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 1, "default": 0.95},
    ),
    "safety.start": Key(
        "Points known to be safe, with all inputs, asked first and in this order.",
        schema={"type": "array", "items": {"type": "object"}, "default": []},
    ),
    "safety.held": Key("Whether what a query may risk follows the violations so far."),
    "safety.ramps": Key(
        "By input, the largest step from one query to the next, in its own units.",
        schema={"type": "object", "additionalProperties": POSITIVE, "default": {}},
    ),
    "safety.order": Key("The order of a batch: by what its points are worth, or the shortest way."),
}
