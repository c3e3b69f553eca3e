"""All operations of the HTTP interface, one after the other."""

from __future__ import annotations

from hyperleaf.server import answers, parts
from hyperleaf.server.operations import COUNT, FLAG, NAME, NUMBER, POINTS, ROOT, TEXT, VALUES, Operation
from hyperleaf.storage.base import Kind

STUDY = f"{ROOT}/studies/{{study}}"
QUERY = f"{STUDY}/queries/{{query}}"
CHANGE = {"why": TEXT, "who": NAME, "seen": {"type": "integer", "minimum": 0, "description": "The last change that was seen."}}
LEASE = {"oneOf": [{"type": "number"}, {"type": "string", "maxLength": 40}], "description": 'Seconds, or a text such as "8h".'}

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", f"{ROOT}/openapi.json", "store", "This description."),
    Operation("GET", f"{ROOT}/studies", "store", "All studies, with how far they are.", answers.listed),
    Operation("GET", STUDY, "quick", "What a study is: inputs, outputs, settings.", answers.described),
    Operation("GET", f"{STUDY}/snapshot", "quick", "How it stands, as hyperleaf status says it.", answers.snapshot),
    Operation("GET", f"{STUDY}/history", "quick", "Accuracy after each number of observations.", answers.history),
    Operation("GET", QUERY, "quick", "One query, what it gave, and what was put right.", answers.query),
    Operation("GET", f"{STUDY}/events", "stream", "What happens, as server-sent events.", media="text/event-stream"),
    Operation(
        "POST",
        f"{STUDY}/ask",
        "slow",
        "The next queries, held by the owner (a person, if none is named) until told, released or silent for the lease.",
        answers.ask,
        {"n": COUNT, "owner": NAME, "lease": LEASE},
        writes=True,
    ),
    Operation(
        "POST", f"{STUDY}/suggest", "slow", "The next queries, without asking for them.", answers.suggest, {"n": COUNT}
    ),
    Operation(
        "POST",
        f"{STUDY}/beat",
        "quick",
        "Signs of life of owners, who keep their queries by them.",
        answers.beat,
        {"owners": {"type": "array", "items": NAME}},
        ("owners",),
        writes=True,
    ),
    Operation(
        "POST",
        f"{QUERY}/tell",
        "quick",
        "Keep what a query gave: all outputs, and inputs that were set otherwise than asked. On disk when answered.",
        answers.tell,
        {"values": VALUES, "seconds": NUMBER, "point": VALUES, "look": FLAG},
        ("values",),
        writes=True,
    ),
    Operation(
        "POST",
        f"{QUERY}/failed",
        "quick",
        "Say that a run failed; it is offered again if another attempt is allowed.",
        answers.tell_failed,
        {"reason": TEXT, "seconds": NUMBER, "retry": FLAG, "attempt": COUNT, "owner": {**NAME, "maxLength": 190}},
        ("reason",),
        writes=True,
    ),
    Operation(
        "POST",
        f"{QUERY}/release",
        "quick",
        "Give a query back, so that it is offered again.",
        answers.release,
        {"owner": {**NAME, "maxLength": 190}},
        writes=True,
    ),
    Operation(
        "POST",
        f"{QUERY}/repeat",
        "quick",
        "Ask for the same point again.",
        answers.repeat,
        {"n": COUNT, "owner": NAME},
        writes=True,
    ),
    Operation(
        "POST",
        f"{QUERY}/correct",
        "quick",
        "Correct what a query gave, or an input as it was really set.",
        answers.correct,
        {"values": VALUES, **CHANGE},
        ("values",),
        writes=True,
    ),
    Operation("POST", f"{QUERY}/void", "quick", "Set a run aside.", answers.cover(Kind.VOIDED), CHANGE, writes=True),
    Operation("POST", f"{QUERY}/restore", "quick", "Let it count again.", answers.cover(Kind.RESTORED), CHANGE, writes=True),
    Operation("POST", f"{QUERY}/confirm", "quick", "Say that it is right.", answers.cover(Kind.CONFIRMED), CHANGE, writes=True),
    Operation(
        "POST",
        f"{STUDY}/add",
        "quick",
        "Learn from runs that were not asked for; all of them are kept, or none.",
        answers.add,
        {"runs": {"type": "array", "items": VALUES}, "note": TEXT},
        ("runs",),
        writes=True,
    ),
    Operation(
        "POST",
        f"{STUDY}/predict",
        "slow",
        "Mean, standard deviation and quantiles of the latent output, or with noisy of a measurement.",
        answers.predict,
        {
            "points": POINTS,
            "output": NAME,
            "noisy": FLAG,
            "quantiles": {"type": "array", "items": NUMBER},
            "wait": {**FLAG, "description": "Learn from everything told first (the default), or answer from what was learned."},
        },
        ("points",),
    ),
    Operation(
        "POST",
        f"{STUDY}/slices",
        "slow",
        "The prediction at a point, and along each input through it.",
        parts.slices,
        {"point": VALUES, "output": NAME, "wait": FLAG},
    ),
    Operation(
        "GET",
        f"{STUDY}/parts",
        "quick",
        "Parts of the report that need nothing to be learned, as HTML.",
        parts.quick_parts,
    ),
    Operation("GET", f"{STUDY}/learned", "slow", "Parts of the report about what was learned, as HTML.", parts.learned_parts),
    Operation("GET", f"{STUDY}/report", "slow", "The report, one HTML file.", answers.report, media="text/html"),
    Operation("GET", f"{STUDY}/export.csv", "quick", "All runs as a table.", answers.export_csv, media="text/csv"),
    Operation(
        "GET",
        f"{STUDY}/export.npz",
        "slow",
        "The surrogate of an output, for hyperleaf predict.",
        answers.export_model,
        options={"output": "Of which output."},
        media="application/octet-stream",
    ),
)
