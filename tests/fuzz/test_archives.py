"""Journals and saved mixtures: damaged, or changed by someone who knows how their digests are made."""

import contextlib
import hashlib
import io
import json

import numpy as np
import pytest

from postshift import Mixture, Session
from postshift.core.session import _check
from postshift.exceptions import ArchiveError, PostshiftError
from postshift.metrics import GMean
from postshift.rules import Choice, Problem
from tests.core.runs import new_run, oracle_for
from tests.fuzz.cases import cases
from tests.fuzz.damage import damaged_bytes, damaged_json
from tests.fuzz.watch import watched
from tests.problems import make_problem
from tests.rules.helpers import tables, value_of

PROBLEM = make_problem(seed=5, n_bases=2, basis="soft", n_val=30)
KINDS = ("confusion", "soft", "hard")


class Loop:
    """A session of the Frank-Wolfe loop, some answers in."""

    suffix = "jsonl"

    def __init__(self, kind):
        self.kind, self.oracle = kind, oracle_for(kind, PROBLEM.val, GMean())

    def save(self, path):
        with new_run(PROBLEM, self.kind, GMean(), journal=path) as session:
            for _ in range(2):
                query = session.ask()[0]
                session.tell(query.key, self.oracle.answer(query))

    def use(self, path):
        """Go on to the end; return the score that was reached."""
        with new_run(PROBLEM, self.kind, GMean(), journal=path) as session:
            return session.run(self.oracle).score


class Asked:
    """A session of the menu, three answers in."""

    suffix = "jsonl"

    def __init__(self):
        train, val = tables(9, n_val=60)
        self.labels, self.problem = val.labels, Problem.queried(train, val, kind="hard")

    def begin(self, path):
        return Session(lambda: Choice().fit(self.problem), journal=path, about=self.problem.digest())

    def answer(self, session):
        query = session.ask()[0]
        session.tell(query.key, value_of(GMean(), self.labels, query.predictions))

    def save(self, path):
        with self.begin(path) as session:
            for _ in range(3):
                self.answer(session)

    def use(self, path):
        """Resume, and go on to the end; return the labels of the rule."""
        with self.begin(path) as session:
            while session.ask():
                self.answer(session)
            return session.result().rule.labels(self.problem.val).tolist()


class Saved:
    """A mixture."""

    suffix = "npz"

    def save(self, path):
        new_run(PROBLEM, "confusion", GMean()).run(oracle_for("confusion", PROBLEM.val, GMean())).mixture.save(path)

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
        path = folder / f"{place}.{maker.suffix}"
        maker.save(path)
        found.append((maker, path.read_bytes(), maker.use(path)))
    return found


@cases(100, 10)
def test_damaged(case, archives, tmp_path, secret):
    maker, content, expected = archives[case % len(MAKERS)]
    path = tmp_path / f"saved.{maker.suffix}"
    _, damaged = damaged_bytes(content, np.random.default_rng(case))
    path.write_bytes(damaged)
    with watched(tmp_path, secret), contextlib.suppress(ArchiveError):
        assert maker.use(path) == expected


@cases(100, 10)
def test_tampered(case, archives, tmp_path, secret):
    maker, content, _ = archives[case % len(MAKERS)]
    rng = np.random.default_rng(case)
    path = tmp_path / f"saved.{maker.suffix}"
    path.write_bytes(TAMPERED[maker.suffix](content, rng))
    with watched(tmp_path, secret), contextlib.suppress(PostshiftError):
        maker.use(path)


def changed_journal(content, rng):
    """Return the journal with one of its lines damaged and its check made anew, where the line still is an object."""
    lines = content.splitlines()
    place = int(rng.integers(len(lines)))
    line = json.loads(lines[place])
    line.pop("check")
    _, text = damaged_json(line, rng)
    try:
        found = json.loads(text)
    except (RecursionError, ValueError):
        found = None
    if isinstance(found, dict):
        text = json.dumps({**found, "check": _check(found)})
    lines[place] = text.encode(errors="surrogatepass").replace(b"\n", b" ")
    return b"\n".join(lines) + b"\n"


def changed_archive(content, rng):
    """Return the archive with its header or one of its arrays changed."""
    return changed_header(content, rng) if rng.random() < 0.6 else changed_array(content, rng)


TAMPERED = {"jsonl": changed_journal, "npz": changed_archive}


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
