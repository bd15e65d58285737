"""The report of a run, and a report about test rows."""

from __future__ import annotations

import re

import pytest

from tests.cli.helpers import fit_inside, inside, make_rows, script

TILE = re.compile(r'<dd class="value">([^<]*)</dd><dd class="limits">([^<]*)</dd>')


def shown(number):
    return f"{number:.3f}".replace("-", "−")


def test_the_page_about_test_rows_has_the_numbers_of_evaluate(made, files):
    run, _ = made
    before = (run / "report.html").read_bytes()
    done = inside("report", run, "--test", files / "test.csv", "--json")
    assert done.code == 0, done.err
    assert done.json == {"report": str(run / "test_report.html")}
    assert (run / "report.html").read_bytes() == before
    page = (run / "test_report.html").read_text(encoding="utf-8")
    scored = inside("evaluate", run, files / "test.csv", "--json").json
    assert "These rows were not used for the fit" in page
    assert "on 200 test rows" in page
    tiles = TILE.findall(page)
    for (value, limits), name in zip(tiles[:2], ("before", "after"), strict=True):
        assert value == shown(scored[name])
        assert limits == " to ".join(map(shown, scored["intervals"][name]))
    gain = [f"{each:+.3f}".replace("-", "−") for each in (scored["gain"], *scored["intervals"]["gain"])]
    assert tiles[2] == (gain[0], f"{gain[1]} to {gain[2]}")
    assert "test.csv" in page
    assert "training labels" in page  # what the fit knew of the training rows


def test_files_of_the_fit_are_no_test_rows(made, files, tmp_path):
    run, _ = made
    done = inside("report", run, "--test", files / "val.csv")
    assert done.code == 2
    assert "val.csv has the validation rows of the fit: give rows that were not used for it" in done.error
    done = inside("report", run, "--test", files / "train.csv")
    assert done.code == 2
    assert "training rows of the fit" in done.error
    done = inside("report", run, "--label", "y")
    assert done.code == 2
    assert "add --test" in done.error
    done = inside("report", run, "--test", files / "test.csv", "-o", tmp_path / "none" / "page.html")
    assert done.code == 3
    assert not (run / "test_report.html").exists()


def test_groups_and_another_metric(files, tmp_path):
    done = fit_inside(
        "--val", files / "val.csv", "--label", "y", "--metric", "worst_group_accuracy", "--groups", "region",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "groups-table" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    out = tmp_path / "page.html"
    done = inside("report", tmp_path / "run", "--test", files / "test.csv", "--metric", "g_mean", "-o", out)
    assert done.code == 0, done.err
    page = out.read_text(encoding="utf-8")
    assert "groups-table" in page
    assert "g_mean before and after" in page
    assert "worst_group_accuracy of the result" in page
    scored = inside("evaluate", tmp_path / "run", files / "test.csv", "--metric", "g_mean", "--json").json
    assert TILE.findall(page)[1][0] == shown(scored["after"])


@pytest.fixture
def costly(files, tmp_path):
    """A run whose metric is a cost."""
    lines = ["true,ant,bee,cat", "ant,0,1,1", "bee,3,0,1", "cat,9,9,0"]
    (tmp_path / "costs.csv").write_text("\n".join(lines))
    done = inside(
        "fit", "--val", files / "val.csv", "--label", "y", "--metric", f"cost:{tmp_path / 'costs.csv'}",
        "--method", "smoothed plug-in", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    return tmp_path / "run", done


def test_costs_are_positive_in_the_terminal_and_on_the_page(costly, files):
    run, done = costly
    first = next(line for line in done.out.splitlines() if "->" in line)
    before, after, change = map(float, re.search(r": (\S+) -> (\S+), change (\S+)", first).groups())
    assert before > after > 0
    assert not re.search(r"-\d", done.out.replace(f"change {change}", "").partition("(")[0])
    assert "You chose 'smoothed plug-in'." in done.out
    assert change == pytest.approx(after - before, abs=2e-4)
    scored = inside("evaluate", run, files / "test.csv")
    numbers = [float(each) for each in re.findall(r"(?:as it is|the shift)\D*(-?[\d.]+)", scored.out)]
    assert len(numbers) == 2
    assert min(numbers) > 0
    asked = inside("evaluate", run, files / "test.csv", "--json").json
    assert asked["less_is_better"]
    assert numbers == [pytest.approx(-asked[name], abs=1e-4) for name in ("before", "after")]
    assert inside("report", run, "--test", files / "test.csv").code == 0
    tiles = TILE.findall((run / "test_report.html").read_text(encoding="utf-8"))
    assert [value for value, _ in tiles[:2]] == [shown(-asked[name]) for name in ("before", "after")]


def test_a_metric_program_needs_another_metric(files, tmp_path):
    program = script(tmp_path / "score.py", "import sys\nprint(len(set(open(sys.argv[1]))))")
    done = inside(
        "fit", "--val", files / "val.csv", "--label", "y", "--metric-command", f"{program} {{predictions}}",
        "--metric-scale", 1000, "--method", "base", "--quiet", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = inside("report", tmp_path / "run", "--test", files / "test.csv")
    assert done.code == 2
    assert "--metric NAME" in done.error
    done = inside("report", tmp_path / "run", "--test", files / "test.csv", "--metric", "g_mean")
    assert done.code == 0, done.err


def test_a_metric_file_of_the_run_is_trusted_or_named(files, tmp_path):
    metric = tmp_path / "mine.py"
    metric.write_text("def hits(y_true, y_pred):\n    return float((y_true == y_pred).mean())\n")
    run = tmp_path / "run"
    done = inside(
        "fit", "--val", files / "val.csv", "--label", "y", "--metric", f"{metric}:hits", "--method", "plug-in search",
        "--quiet", "--out", run,
    )  # fmt: skip
    assert done.code == 0, done.err
    done = inside("report", run, "--test", files / "test.csv")
    assert done.code == 2
    assert "--trust-metric" in done.error
    assert inside("report", run, "--test", files / "test.csv", "--trust-metric").code == 0
    assert "hits before and after" in (run / "test_report.html").read_text(encoding="utf-8")


def test_a_column_that_is_called_otherwise(made, tmp_path):
    run, _ = made
    make_rows(150, 5).rename(columns={"y": "truth"}).to_csv(tmp_path / "new.csv", index=False)
    assert inside("report", run, "--test", tmp_path / "new.csv").code == 2
    assert inside("report", run, "--test", tmp_path / "new.csv", "--label", "truth").code == 0
    assert "on 150 test rows" in (run / "test_report.html").read_text(encoding="utf-8")


def test_a_run_with_both_pages_is_replaced(files, tmp_path):
    fit_of = ("--val", files / "val.csv", "--label", "y", "--metric", "g_mean", "--out", tmp_path / "run")
    assert fit_inside(*fit_of).code == 0
    assert inside("report", tmp_path / "run", "--test", files / "test.csv").code == 0
    done = fit_inside(*fit_of, "--force")
    assert done.code == 0, done.err
    assert not (tmp_path / "run" / "test_report.html").exists()
