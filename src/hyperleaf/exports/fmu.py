"""FMU 2.0 for co-simulation: the C code with its sources, and compiled for this platform where there is a compiler.

For Simulink, Dymola, OpenModelica and whatever else couples models. It has no states: outputs follow from inputs at each moment.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.c_source import identifier, sources
from hyperleaf.exports.ingredients import AxisForm, Ingredients
from hyperleaf.exports.texts import filled, template
from hyperleaf.io import replacing

SECONDS = 300  # for a compiler to finish
FLAGS = ("-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
PLATFORMS = {"linux": ("linux64", ".so"), "darwin": ("darwin64", ".dylib")}
SLOPES = ("derivative", "std of the derivative")
EPOCH = (1980, 1, 1, 0, 0, 0)  # of all files within, so that the same surrogate gives the same bytes


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    ingredients = source.ingredients(wishes)
    name = identifier(path.stem)
    header, code = sources(ingredients, name, f"{name}.h")
    guid = str(uuid.uuid5(uuid.NAMESPACE_OID, code))
    start = [_start(axis) for axis in ingredients.axes]
    wrapper = filled(
        template("surrogate_fmi2.c"),
        {
            "name": name,
            "NAME": name.upper(),
            "header": f"{name}.h",
            "GUID": guid,
            "START": ", ".join(repr(float(value)) for value in start),
            "slopes": len(ingredients.slope_columns) // 2,
            "IS_REAL": ", ".join(str(int(axis.kind == "real")) for axis in ingredients.axes),
        },
    )
    files = {f"sources/{name}.h": header, f"sources/{name}.c": code, f"sources/{name}_fmi2.c": wrapper}
    entries: dict[str, bytes] = {"modelDescription.xml": _description(ingredients, name, guid, start)}
    entries |= {entry: text.encode() for entry, text in files.items()}
    entries["documentation/index.html"] = _page(ingredients).encode()
    binary, note = _compiled(files, name)
    if binary is not None:
        entries[f"binaries/{PLATFORMS[sys.platform][0]}/{name}{PLATFORMS[sys.platform][1]}"] = binary
    with replacing(path) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(zipfile.ZipInfo(entry, EPOCH), content, zipfile.ZIP_DEFLATED)
    what = f"an FMU of {', '.join(part.name for part in ingredients.parts)}, {note}"
    return {"what": what, "compiled": binary is not None, **ingredients.certificate}


def _start(axis: AxisForm) -> float:
    """In the middle of the domain."""
    return 0.5 * (axis.low + axis.high) if axis.kind == "real" else float(int(0.5 * (axis.low + axis.high)))


def _compiled(files: dict[str, str], name: str) -> tuple[bytes | None, str]:
    """The library for this platform, or why there is none."""
    command = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    wide = platform.machine().lower() in ("x86_64", "amd64") or sys.platform == "darwin"
    if sys.platform not in PLATFORMS or not wide:
        return None, "with C sources only, since this platform has no name in FMI 2.0"
    if command is None:
        return None, "with C sources only, since there is no compiler here"
    with tempfile.TemporaryDirectory() as folder:
        for entry, text in files.items():
            (Path(folder) / Path(entry).name).write_text(text, encoding="utf-8")
        target = Path(folder) / f"{name}.bin"
        code = [str(Path(folder) / Path(entry).name) for entry in files if entry.endswith(".c")]
        try:
            done = subprocess.run(
                [command, *FLAGS, "-o", str(target), *code, "-lm"], capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"compiling the FMU must take less than {SECONDS} s; it did not. Thin it: tolerance=0.01.") from None
        if done.returncode:
            raise InputError(f"the FMU must compile; {command} says: {done.stderr.strip()[:300]}. Choose a compiler with CC.")
        return target.read_bytes(), f"compiled for {PLATFORMS[sys.platform][0]}, with its C sources"


def _description(ingredients: Ingredients, name: str, guid: str, start: list[float]) -> bytes:
    axes, parts = ingredients.axes, ingredients.parts
    root = Xml.Element(
        "fmiModelDescription",
        fmiVersion="2.0",
        modelName=name,
        guid=guid,
        description=f"{', '.join(part.name for part in parts)}, learned by hyperleaf",
        generationTool=ingredients.certificate.get("made by", "hyperleaf"),
        variableNamingConvention="flat",
    )
    simulation = Xml.SubElement(root, "CoSimulation", modelIdentifier=name, canHandleVariableCommunicationStepSize="true")
    listed = Xml.SubElement(simulation, "SourceFiles")
    for file in (f"{name}.c", f"{name}_fmi2.c"):
        Xml.SubElement(listed, "File", name=file)
    units = sorted({*(axis.unit for axis in axes), *(part.unit for part in parts)} - {""})
    if units:
        definitions = Xml.SubElement(root, "UnitDefinitions")
        for unit in units:
            Xml.SubElement(definitions, "Unit", name=unit)
    Xml.SubElement(root, "DefaultExperiment", startTime="0", stopTime="1", stepSize="0.1")
    variables = Xml.SubElement(root, "ModelVariables")

    def variable(label: str, causality: str, kind: str, words: str, **attributes: str) -> None:
        changing = "continuous" if kind == "Real" else "discrete"
        reference = str(len(variables))
        one = Xml.SubElement(
            variables, "ScalarVariable", name=label, valueReference=reference, description=words, causality=causality,
            variability=changing,
        )  # fmt: skip
        Xml.SubElement(one, kind, {key: value for key, value in attributes.items() if value})

    for axis, value in zip(axes, start, strict=True):
        if axis.kind == "real":
            limits = {"min": repr(axis.low), "max": repr(axis.high)}
            variable(axis.name, "input", "Real", axis.meaning(), start=repr(value), unit=axis.unit, **limits)
        else:
            limits = {"min": str(int(axis.low)), "max": str(int(axis.high))}
            variable(axis.name, "input", "Integer", axis.meaning(), start=str(int(value)), **limits)
    for part, labels in zip(parts, ingredients.labels([*(axis.name for axis in axes), "outside"]), strict=True):
        slopes = [f"{what} of {part.name} by {axis.name}" for axis in axes if axis.kind == "real" for what in SLOPES]
        words = [*(f"{column} of {part.name}" for column in ingredients.columns), *(slopes if ingredients.derivatives else ())]
        for number, (label, text) in enumerate(zip(labels, words, strict=True)):
            variable(label, "output", "Real", text, unit=part.unit if number < len(ingredients.columns) else "")
    variable("outside", "output", "Boolean", "whether the inputs lie outside the domain of the surrogate")
    structure = Xml.SubElement(root, "ModelStructure")
    for label in ("Outputs", "InitialUnknowns"):
        unknowns = Xml.SubElement(structure, label)
        for index in range(len(axes), len(variables)):
            Xml.SubElement(unknowns, "Unknown", index=str(index + 1))
    Xml.indent(root)
    return Xml.tostring(root, encoding="UTF-8", xml_declaration=True)


def _page(ingredients: Ingredients) -> str:
    from html import escape

    from hyperleaf.exports.certificate import summary

    words = "".join(f"<p>{escape(line)}</p>" for line in summary(ingredients.certificate))
    inputs = "".join(f"<li>{escape(axis.name)}: {escape(axis.meaning())}</li>" for axis in ingredients.axes)
    data = escape(json.dumps(ingredients.certificate, indent=1))
    return f"<!DOCTYPE html><meta charset=utf-8><title>hyperleaf</title>{words}<ul>{inputs}</ul><pre>{data}</pre>\n"


FORMAT = Format((".fmu",), "an FMU 2.0 for co-simulation", write)
