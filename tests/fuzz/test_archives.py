"""Saved conversations and mixtures (npz): damaged, or changed by someone who knows how their digests are made."""

import contextlib
import hashlib
import io
import json

import numpy as np
import pytest

from postshift import FrankWolfe, GMean, MemoryEngine, Mixture, converse
from postshift.exceptions import ArchiveError, PostshiftError
from postshift.rules import Choice, Interview, Problem
from tests.core.test_frank_wolfe import new_run, oracle_for
from tests.fuzz.cases import cases
from tests.fuzz.damage import damaged_bytes, damaged_json
from tests.fuzz.watch import watched
from tests.problems import make_problem
from tests.rules.helpers import tables, value_of

PROBLEM = make_problem(seed=5, n_bases=2, basis="soft", n_val=30)
KINDS = ("confusion", "soft", "hard")


class Loop:
    """A run of the Frank-Wolfe loop, two iterations in."""

    def __init__(self, kind):
        self.kind, self.oracle = kind, oracle_for(kind, PROBLEM.val, GMean())

    def save(self, path):
        run = new_run(PROBLEM, self.kind, GMean())
        while run.state.iteration < 2:
            query = run.ask()[0]
            run.tell(query.key, self.oracle.answer(query))
            run.ask()
        run.save(path)

    def use(self, path):
        """Go on to the end; return the value that was reached."""
        metric = GMean() if self.kind == "confusion" else None
        run = FrankWolfe.load(path, MemoryEngine(PROBLEM.train), PROBLEM.val, kind=self.kind, metric=metric)
        converse(run, self.oracle)
        return run.result().value


class Asked:
    """An interview, three answers in."""

    def __init__(self):
        train, val = tables(9, n_val=60)
        self.labels = val.labels
        problem = Problem.queried(train, val, kind="hard")
        self.begin = lambda: Interview(lambda: Choice().fit(problem), about=problem.digest())

    def answer(self, interview):
        query = interview.ask()[0]
        interview.tell(query.key, value_of(GMean(), self.labels, query.predictions))

    def save(self, path):
        interview = self.begin()
        for _ in range(3):
            self.answer(interview)
        interview.save(path)

    def use(self, path):
        """Resume, and answer one more query; return how many are answered."""
        interview = self.begin()
        interview.resume(path)
        if interview.ask():
            self.answer(interview)
        return interview.n_queries


class Saved:
    """A mixture."""

    def save(self, path):
        run = new_run(PROBLEM, "confusion", GMean())
        converse(run, oracle_for("confusion", PROBLEM.val, GMean()))
        run.result().mixture.save(path)

    def use(self, path):
        """Return the distribution that it gives."""
        return Mixture.load(path).predict_distribution(PROBLEM.val.eta, PROBLEM.val.phi).tolist()


MAKERS = (*(Loop(kind) for kind in KINDS), Asked(), Saved())


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The bytes of each, and what becomes of it."""
    folder = tmp_path_factory.mktemp("archives")
    found = []
    for place, maker in enumerate(MAKERS):
        path = folder / f"{place}.npz"
        maker.save(path)
        found.append((maker, path.read_bytes(), maker.use(path)))
    return found


@cases(100, 10)
def test_damaged(case, archives, tmp_path, secret):
    maker, content, expected = archives[case % len(MAKERS)]
    path = tmp_path / "saved.npz"
    _, damaged = damaged_bytes(content, np.random.default_rng(case))
    path.write_bytes(damaged)
    with watched(tmp_path, secret), contextlib.suppress(ArchiveError):
        assert maker.use(path) == expected


@cases(100, 10)
def test_tampered(case, archives, tmp_path, secret):
    maker, content, _ = archives[case % len(MAKERS)]
    rng = np.random.default_rng(case)
    path = tmp_path / "saved.npz"
    path.write_bytes(changed_header(content, rng) if rng.random() < 0.6 else changed_array(content, rng))
    with watched(tmp_path, secret), contextlib.suppress(PostshiftError):
        maker.use(path)


def changed_header(content, rng):
    """Return the file with its header damaged and its digest made anew, where the header still is an object."""
    header, arrays = opened(content)
    _, text = damaged_json(header, rng)
    try:
        header = json.loads(text)
    except (RecursionError, ValueError):
        return closed(text, arrays)
    return sealed(header, arrays) if isinstance(header, dict) else closed(text, arrays)


def changed_array(content, rng):
    """Return the file with one of its arrays changed and its digest made anew."""
    header, arrays = opened(content)
    name = str(rng.choice(list(arrays)))
    array = arrays[name]
    size = max(array.size, 1)
    odd = (
        array[..., :0], array.ravel(), array[None], array.astype(str), array.astype(complex), array.astype(np.float16),
        np.zeros(array.shape, dtype=bool), np.full(array.shape, np.nan), np.full(array.shape, 1e308),
        np.full(array.shape, -1e308),
        np.array("text"), np.zeros(0), np.zeros((2,) * 20), np.concatenate([array, array]) if array.ndim else array,
        array.astype(np.longdouble), np.zeros(array.shape, dtype="datetime64[s]"), rng.permutation(array.ravel()),
        np.zeros(size, dtype=[("a", float)]), array.astype("S8"), -array, array.T,
    )  # fmt: skip
    arrays[name] = odd[int(rng.integers(len(odd)))]
    if rng.random() < 0.1:
        del arrays[name]
    return sealed(header, arrays)


def opened(content):
    """Return header and arrays."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays.pop("header")))
    del header["digest"]
    return header, arrays


def sealed(header, arrays):
    """Return the file with a digest that fits."""
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}/{array.dtype.str}/{array.shape}".encode() + array.tobytes())
    return closed(json.dumps({**header, "digest": digest.hexdigest()}), arrays)


def closed(text, arrays):
    """Return the bytes of a file."""
    stream = io.BytesIO()
    np.savez(stream, header=np.array(text), **arrays)
    return stream.getvalue()
