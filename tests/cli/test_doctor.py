"""The doctor."""

from tests.cli.helpers import postshift


def test_doctor_tells_what_there_is(tmp_path):
    done = postshift("doctor", "--json", POSTSHIFT_DATA=str(tmp_path))
    assert done.code == 0, done.err
    found = done.json
    assert found["ok"]
    assert found["data"] == str(tmp_path)
    by_name = {(each["extra"], each["name"]): each for each in found["packages"]}
    assert by_name[None, "numpy"]["version"]
    assert by_name["cli", "typer"]["problem"] == ""
    assert all(each["problem"].startswith("pip install") for each in found["packages"] if not each["version"])


def test_doctor_fails_where_a_required_package_is_broken(tmp_path):
    broken = tmp_path / "sklearn"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('built for another Python')")
    done = postshift("doctor", PYTHONPATH=str(tmp_path))
    assert done.code == 1
    assert "built for another Python" in done.out
