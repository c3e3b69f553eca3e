"""Commands about surrogates: export to other forms, tables of any length, sensitivity, comparison."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hyperleaf as hl
from hyperleaf.cli import streaming
from hyperleaf.cli.app import app

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fixed_draws import MODELS


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "lift.npz"
    MODELS["line"](2).export(path)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def values(*arguments):
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.stderr or result.exception
    return json.loads(result.stdout)


def test_a_saved_surrogate_goes_on_to_other_forms(saved, tmp_path):
    shown = values("export", tmp_path / "lift.py", "--surrogate", saved, "--quantile", 0.05, "--noisy")
    assert shown["predicts"] == "a new observation" and shown["outputs"][0]["data"]["runs"] == 30
    assert "q05" in (tmp_path / "lift.py").read_text()
    result = call("export", tmp_path / "lift.c", "--surrogate", saved, "--study", "study.toml")
    assert result.exit_code == 2 and "not both" in result.stderr
    result = call("export", tmp_path / "lift.csv", "--surrogate", saved)
    assert result.exit_code == 1 and "those of a study" in result.stderr


def test_tables_are_predicted_in_blocks_without_a_seam(saved, tmp_path, monkeypatch):
    model = hl.load_model(saved)
    points = model.domain.design(70, "uniform", 0)
    lines = "".join(f'{p["t"]!r},"a ""note"", over\ntwo lines"\n' for p in points)
    (tmp_path / "points.csv").write_text("t [s],remark\n" + lines)
    pd.DataFrame(points).to_parquet(tmp_path / "points.parquet")
    whole = values("predict", saved, tmp_path / "points.csv", "-o", tmp_path / "whole.csv")
    assert whole["rows"] == 70
    monkeypatch.setattr(streaming, "BLOCK", 16)
    monkeypatch.setattr(streaming, "WHOLE", 0)
    seen = []
    streaming.predict_to(tmp_path / "parts.csv", model, tmp_path / "points.csv", False, seen.append)
    assert len(seen) > 3 and seen == sorted(seen) and seen[-1] == 1.0
    streaming.predict_to(tmp_path / "parts.parquet", model, tmp_path / "points.parquet", False, seen.append)
    first = pd.read_csv(tmp_path / "whole.csv")
    for other in (pd.read_csv(tmp_path / "parts.csv"), pd.read_parquet(tmp_path / "parts.parquet")):
        assert list(other.columns) == list(first.columns) == ["t", "lift_mean", "lift_std", "lift_low", "lift_high"]
        np.testing.assert_allclose(other, first, rtol=1e-9)
    np.testing.assert_allclose(first["lift_mean"], model.predict(points).mean(), rtol=1e-9)


def test_a_mistake_far_down_a_long_table_is_named_by_its_line(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK", 16)
    monkeypatch.setattr(streaming, "WHOLE", 0)
    (tmp_path / "points.csv").write_text("\nt\n" + "0.5\n" * 40 + "oops\n")
    result = call("predict", saved, tmp_path / "points.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 1 and "line 43" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_memory_does_not_grow_with_the_table(saved, tmp_path, monkeypatch):
    """What is held while blocks are read is that of one block."""
    monkeypatch.setattr(streaming, "BLOCK", 500)
    monkeypatch.setattr(streaming, "WHOLE", 0)
    domain = hl.load_model(saved).domain
    peaks = []
    for rows in (2_000, 20_000):
        (tmp_path / "points.csv").write_text("t\n" + "0.5\n" * rows)
        tracemalloc.start()
        assert sum(len(block) for block, _ in streaming.blocks(tmp_path / "points.csv", domain)) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_wrong_tables_are_refused(saved, tmp_path):
    pd.DataFrame({"z": [1.0]}).to_parquet(tmp_path / "other.parquet")
    (tmp_path / "none.parquet").write_text("t\n1\n")
    for name, words in (("other.parquet", "has no 't'"), ("none.parquet", "cannot be read")):
        result = call("predict", saved, tmp_path / name)
        assert result.exit_code == 1 and words in result.stderr


def test_sensitivity_and_comparison_are_commands(saved, tmp_path):
    found = values("sensitivity", "--surrogate", saved)
    assert found["total"]["t"]["mean"] == pytest.approx(1.0, abs=0.05)
    assert "Shares of the variance of lift" in call("sensitivity", "--surrogate", saved).stdout
    apart = values("compare", saved, saved)
    assert apart["difference"] == 0 and apart["data_shared"]
    assert "Learned from 30 and 30 runs, the same." in call("compare", saved, saved).stdout


def test_what_is_printed_comes_in_blocks_too(saved, tmp_path, monkeypatch):
    """Into a pipe as into a file: what is held is one block."""
    monkeypatch.setattr(streaming, "BLOCK", 16)
    monkeypatch.setattr(streaming, "WHOLE", 0)
    (tmp_path / "points.csv").write_text("t\n" + "".join(f"{i / 20}\n" for i in range(40)))
    parts = list(streaming.predict_lines(hl.load_model(saved), tmp_path / "points.csv", False))
    assert len(parts) == 3 and sum(part.count("lift_mean") for part in parts) == 1
    result = call("predict", saved, tmp_path / "points.csv")
    assert result.stdout == "".join(parts) and len(result.stdout.splitlines()) == 41
    (tmp_path / "none.csv").write_text("t\n")
    result = call("predict", saved, tmp_path / "none.csv")
    assert result.exit_code == 1 and "at least one row" in result.stderr


def test_wrong_arguments_are_answered_with_the_rule_and_the_remedy(saved, tmp_path):
    (tmp_path / "points.csv").write_text("t\n0.5\n")
    MODELS["plane"](1).export(tmp_path / "plane.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 cut short")
    for arguments, code, words in (
        (("compare", saved), 2, "Missing argument"),
        (("compare", saved, tmp_path / "no.npz"), 1, "no.npz"),
        (("compare", saved, tmp_path / "points.csv"), 1, "must be an .npz file"),
        (("compare", saved, tmp_path), 1, "is a folder"),
        (("compare", saved, tmp_path / "broken.npz"), 1, "broken.npz"),
        (("compare", saved, tmp_path / "plane.npz"), 1, "the same inputs"),
        (("sensitivity", "--surrogate", saved, "--output", "drag"), 1, "['lift']; got 'drag'"),
        (("sensitivity", "--surrogate", tmp_path / "no.npz"), 1, "no.npz"),
        (("sensitivity", "--surrogate", tmp_path / "points.csv"), 1, "must be an .npz file"),
        (("sensitivity", "--surrogate", saved, "--study", "study.toml"), 2, "not both"),
        (("sensitivity", "--study", tmp_path / "no.toml"), 1, "no.toml"),
        (("sensitivity", "extra", "--surrogate", saved), 2, "extra"),
        (("export", tmp_path / "f.onx", "--surrogate", saved), 1, ".onnx"),
        (("export", tmp_path / "f.c", "--surrogate", saved, "--quantile", 95), 1, "between 0 and 1"),
        (("export", tmp_path / "f.c", "--surrogate", saved, "--tolerance", 0), 1, "tolerance is a share"),
        (("predict", saved, tmp_path / "no.csv"), 1, "no.csv"),
        (("predict", tmp_path / "points.csv", saved), 1, "Name it first"),
        (("predict", saved, tmp_path / "points.csv", "-o", tmp_path / "no" / "out.csv"), 1, "does not"),
    ):
        result = call(*arguments)
        said = " ".join(result.stderr.replace("│", " ").split())
        assert result.exit_code == code and words in said, (arguments, result.exit_code, said, result.exception)
        assert "Traceback" not in said and not result.stdout
