"""A study in a notebook: a real one, with a kernel of its own, executed from the first cell to the last."""

import pytest

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

CELLS = (
    """import numpy as np
import hyperleaf as hl
domain = hl.Domain(speed=hl.Real(1, 100, log=True, unit="1/min"))
study = hl.Study.create("bench", domain, {"torque": {"unit": "N m"}}, surrogate={"kind": "stationary", "inference": "map"})
study.add([{"speed": s, "torque": np.sin(np.log(s))} for s in np.geomspace(1, 100, 7)])
accuracy = study.measure()
study""",
    "study.plot(resolution=21)",
    "study.plot(resolution=21, backend='matplotlib')",
    "print(study)",
    """live = study.live(every=0.1, resolution=9)
study.add([{"speed": 3.3, "torque": np.sin(np.log(3.3))}])
study.measure()
live.stop()
live""",
)


def test_a_study_shows_itself_and_draws_in_a_notebook(tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[output.get("data", {}) for output in cell.outputs] for cell in book.cells]
    (study,) = [data for data in shown[0] if "text/html" in data]
    assert "<td>torque</td>" in study["text/html"] and study["text/plain"].startswith("<Study 'bench': 7 done, torque ±")
    assert any("application/vnd.plotly.v1+json" in data for data in shown[1])
    assert any("image/png" in data for data in shown[2])
    assert book.cells[3].outputs[0]["text"].startswith("<Study 'bench'")
    live = [output for output in book.cells[4].outputs if output.output_type == "display_data"]
    (drawn,) = [output["data"]["text/html"] for output in live]  # one output, drawn again in its place
    assert "8 done" in drawn and drawn.count("<img") == 2 and "data:image/png;base64," in drawn


def test_live_does_no_harm_in_a_terminal(capsys):
    from hyperleaf import Domain, Real, Study

    study = Study.create("bench", Domain(x=Real(0, 1)), "y")
    assert study.live() is None
    assert capsys.readouterr().out == "<Study 'bench': nothing asked yet>\n"
