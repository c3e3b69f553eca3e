"""The JSON schema of study.toml is that of the code, knows every key and says what it means, and agrees with what is read."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

import hyperleaf.cli
from hyperleaf.config import schema
from hyperleaf.config.definition import Definition
from hyperleaf.config.keys import KEYS, SECTIONS
from hyperleaf.config.reading import SECTIONS as READ

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = json.loads(schema.FILE.read_text(encoding="utf-8"))
TEMPLATE = (Path(hyperleaf.cli.__file__).parent / "study.toml").read_text(encoding="utf-8")
STUDIES = [*sorted((ROOT / "examples").rglob("*.toml")), Path(hyperleaf.cli.__file__).parent / "study.toml"]
CHECKER = jsonschema.Draft7Validator(SHIPPED)
SMALL = {"study": {"name": "s"}, "inputs": {"x": {"low": 0, "high": 1}}, "outputs": {"y": {}}}


def test_the_schema_that_ships_is_the_one_of_the_code():
    assert schema.FILE.read_text(encoding="utf-8") == schema.written(), "write it anew: python -m hyperleaf.config.schema"
    jsonschema.Draft7Validator.check_schema(SHIPPED)


def test_every_section_is_in_the_schema_and_every_key_says_what_it_means():
    assert set(SHIPPED["properties"]) == set(SECTIONS) == set(READ)
    assert set(SECTIONS) - {"inputs"} == set(Definition.model_fields) - {"domain"}
    keys = set()
    for section, found in SHIPPED["properties"].items():
        named = isinstance(found.get("additionalProperties"), dict)
        inner = found["additionalProperties"] if named else found
        for table in inner.get("anyOf", [inner]):
            for key, said in table["properties"].items():
                place = f"{section}.*.{key}" if named else f"{section}.{key}"
                if section != "surrogate" or key == "kind":
                    assert said.get("description"), f"{place} has no entry in config/keys.py"
                    keys.add(place)
    assert keys == set(KEYS), "config/keys.py has keys that there are no more"


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_studies_that_ship_keep_to_the_schema(path):
    CHECKER.validate(tomllib.loads(path.read_text(encoding="utf-8")))


def test_what_the_template_comments_out_keeps_to_the_schema():
    lines = [
        line.removeprefix("# ") if (line.startswith("# ") and "=" in line) or line.startswith("# [") else line
        for line in TEMPLATE.splitlines()
    ]
    CHECKER.validate(tomllib.loads("\n".join(line for line in lines if not line.startswith(("function", 'table = "runs')))))


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("stop", {"querys": 1}),
        ("stop", {"queries": 0}),
        ("surrogate", {"leafs": 3}),
        ("surrogate", {"kind": "treed", "leaves": 3}),
        ("surrogate", {"inference": {"kind": "smc", "particels": 3}}),
        ("acquisition", {"kind": "entropi"}),
        ("inputs", {"x": {"low": 0}}),
        ("inputs", {"x": {"low": 0, "high": 1, "options": [1, 2]}}),
        ("outputs", {"y": {"noise": "lerned"}}),
        ("outputs", {}),
        ("simulator", {"command": "a", "table": "b"}),
        ("limits", {"y": {"max": 1, "confidence": 0.4}}),
        ("stopp", {}),
    ],
)
def test_what_is_wrong_is_wrong_for_editors_too(section, values):
    assert not CHECKER.is_valid({**SMALL, section: values})


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("stop", {"time": "2h", "rmse": {"y": 0.1}}),
        ("surrogate", {"kind": "treed", "burn_in": 10}),
        ("surrogate", {"inference": {"kind": "nuts", "draws": 3}}),
        ("acquisition", {"kind": "contour", "level": 1.5}),
        ("outputs", {"y": {"noise": 0, "range": [0, 1]}}),
        ("simulator", {"command": ["a", "b"], "timeout": 5}),
        ("limits", {"y": {"max": 1}}),
    ],
)
def test_what_is_right_is_right_for_editors_too(section, values):
    CHECKER.validate({**SMALL, section: values})
