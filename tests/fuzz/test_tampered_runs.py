"""Run folders that were made to do harm: nothing of them runs, no file outside is opened, no page holds a script."""

import io
import json
import os
import pickle
import zipfile
from functools import partial

import numpy as np
import skops.io
from sklearn.preprocessing import FunctionTransformer

from postshift.cli.files.file_table import digest_of
from postshift.cli.program import Program
from postshift.metrics import from_labels, from_predictions
from tests.fuzz.cases import cases
from tests.fuzz.damage import ODD, part_of, places_of, replaced

KINDS = ("bases", "groups", "model", "costs", "file", "program")
SCRIPTS = ("<script>hostile()</script>", '"><img src=x onerror=hostile()>', "</style><script>hostile()</script>")
CLASSES = (
    ("os", "system"), ("posix", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("builtins", "exec"),
    ("postshift.cli.program", "Program"), ("postshift.cli.program", "subprocess"), ("pathlib", "Path"),
    ("functools", "partial"), ("operator", "methodcaller"), ("postshift.cli.files.file_table", "read_bytes"),
    ("postshift.core.archive", "write_archive"), ("importlib", "import_module"), ("shutil", "rmtree"),
    ("postshift.metrics.adapters", "LabelFunction"), ("sklearn.preprocessing", "FunctionTransformer"),
)  # fmt: skip
LOADERS = ("ConstructorFromReduceNode", "MethodNode", "PartialNode", "FunctionNode", "TypeNode", "ObjectNode")


def texts(secret):
    """Return texts that are code, or name files, wherever something reads them so."""
    mark = secret / "mark"
    return (
        f"{secret}/x.py:f", "../../secret/x.py:f", "x.py:f", "metric.py:f", "f1[x.py:f]", f"cost:{secret}/costs.csv",
        "cost:../../secret/costs.csv", f"{secret}/x.py", "../../secret/costs.csv", f"file://{secret}/x.py",
        f"__import__('os').system('touch {mark}')", f"$(touch {mark})", f"`touch {mark}`", f"'; touch {mark}; '",
        f"| touch {mark}", f"{secret}/x.py {{predictions}}", f"touch {mark} {{predictions}}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{% include '/etc/passwd' %}", "{0.__class__}%s%n",
        "os.system", "postshift.cli.program.Program", "\x1b]0;hostile\x07\x1b[2J", "\u202e\u2066", *SCRIPTS,
    )  # fmt: skip


def use(run):
    """Use a run in every way; each is watched."""
    run.predict()
    for how in ((), ("--trust-metric",), ("--metric", "accuracy")):
        run.evaluate(*how)
    page = run.report()
    assert page is None or not any(script in page for script in SCRIPTS)
    run.resume()


# -- every text of every file ----------------------------------------------------------------------------------


@cases(18, 1)
def test_texts(case, used, secret):
    rng = np.random.default_rng(case)
    run = used(KINDS[case % len(KINDS)])
    name = ("run.json", "facts.json", "metrics.json")[case // len(KINDS) % 3]
    path = run.run / name
    content = json.loads(path.read_text())
    (run.run / "metric.py").write_text((secret / "x.py").read_text())
    places = [place for place in places_of(content) if isinstance(part_of(content, place), str)]
    hostile = texts(secret)
    for place in rng.permutation(len(places))[:6]:
        path.write_text(json.dumps(replaced(content, places[place], hostile[int(rng.integers(len(hostile)))])))
        use(run)
    text = hostile[case % len(hostile)]
    for place in places:
        content = replaced(content, place, text)
    path.write_text(json.dumps(content))
    use(run)


@cases(6, 1)
def test_metrics(case, used, secret):
    """The parts that say what the metric is, all together and in order."""
    rng = np.random.default_rng(case)
    run = used("file" if case % 2 else "bases")
    path = run.run / "run.json"
    content = json.loads(path.read_text())
    (run.run / "metric.py").write_text((secret / "x.py").read_text())
    hostile = [*texts(secret)[:10], "g_mean", "metric.py"]
    for _ in range(6):
        text, copy = (str(rng.choice(hostile)) for _ in range(2))
        kind = str(rng.choice(["name", "file", "cost", "program"]))
        metric = {**content["metric"], "text": text, "kind": kind, "digest": content["digests"]["metric"]}
        path.write_text(json.dumps({**content, "metric": metric, "copies": {"metric": copy}}))
        use(run)


# -- types of a rule -------------------------------------------------------------------------------------------


@cases(18, 2)
def test_types(case, used, secret):
    """Nodes of a skops file that are of another class, or hold other values."""
    rng = np.random.default_rng(case)
    run = used(("bases", "groups", "model")[case % 3])
    path = run.run / ("model.skops" if case % 3 == 2 else "rule.skops")
    whole = path.read_bytes()
    for _ in range(6):
        path.write_bytes(with_schema(whole, lambda schema: changed(schema, rng, texts(secret))))
        if path.name == "model.skops":
            sign(run.run, path)
        use(run)


def changed(schema, rng, hostile):
    """Return the schema with one node changed."""
    nodes = [place for place in places_of(schema) if place and place[-1] == "__class__"]
    place = nodes[int(rng.integers(len(nodes)))][:-1]
    node = dict(part_of(schema, place))
    way = int(rng.integers(7))
    if way > 4:
        return replaced(schema, place, grafted(rng, hostile))
    if way < 2:
        node["__module__"], node["__class__"] = CLASSES[int(rng.integers(len(CLASSES)))]
    if way in (1, 2):
        node["__loader__"] = str(rng.choice(LOADERS))
    if way == 3:
        node["content"] = json.dumps(hostile[int(rng.integers(len(hostile)))])
    if way == 4:
        values = [each for each in places_of(node) if each and each[-1] == "content"]
        node = (
            replaced(node, values[int(rng.integers(len(values)))], ODD[int(rng.integers(len(ODD)))]) if values else {}
        )
    return replaced(schema, place, node)


def grafted(rng, hostile):
    """Return the node of an object that runs code when it is called or asked for its attributes."""
    commands = [text for text in hostile if "touch" in text]
    command = commands[int(rng.integers(len(commands)))]
    objects = (
        Program("true {predictions}", timeout=1.0),
        partial(os.system, command),
        FunctionTransformer(os.system, kw_args={"command": command}),
        from_labels(average),
        from_predictions(average),
    )
    chosen = objects[int(rng.integers(len(objects)))]
    if isinstance(chosen, Program):
        chosen._arguments = ["sh", "-c", command, "{predictions}"]
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(chosen))) as archive:
        return json.loads(archive.read("schema.json"))


def average(labels, others=None):  # noqa: ARG001
    """Stand for a function of somebody's."""
    return 0.5


def with_schema(content, change):
    """Return a skops file with another schema."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, json.dumps(change(json.loads(part))) if name == "schema.json" else part)
    return stream.getvalue()


def sign(run, path):
    """Let run.json have the digest of a copy."""
    header = json.loads((run / "run.json").read_text())
    header["digests"][path.stem] = digest_of(path.read_bytes())
    (run / "run.json").write_text(json.dumps(header))


# -- other files in their places -------------------------------------------------------------------------------


class Runs:
    """Leaves a mark when it is read as a pickle."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch '{self.mark}'",)


@cases(8, 1)
def test_places(case, used, secret):
    """Files that are links, folders, pickles, or other files of the run."""
    rng = np.random.default_rng(case)
    run = used(KINDS[case % len(KINDS)])
    names = sorted(each.name for each in run.run.iterdir())
    contents = {name: (run.run / name).read_bytes() for name in names}
    for name in names:
        path, other = run.run / name, str(rng.choice(names))
        ways = (
            lambda path=path: path.symlink_to(secret / "x.py"),
            lambda path=path: path.symlink_to(path),
            lambda path=path: path.mkdir(),
            lambda path=path: path.write_bytes(pickle.dumps(Runs(secret / "mark"))),
            lambda path=path, other=other: path.write_bytes(contents[other]),
            lambda: None,
        )
        path.unlink()
        ways[int(rng.integers(len(ways)))]()
        use(run)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(contents[name])
    assert run.predict() == run.made.labels
