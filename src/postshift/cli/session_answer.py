"""The work of ``postshift run tell``: an answer arrives, or the last one is corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from postshift._validation import LARGEST
from postshift.cli.errors import UsageError
from postshift.cli.query_files import Withdrawn, number_and_version
from postshift.cli.session_folder import OpenSession, check_answers, opened
from postshift.rules.choice import FAR_ABOVE

_SHOWN = 60  # characters of a wrong number


def tell(path: Path, text: str, *, query: str | None, correct: bool) -> dict[str, Any]:
    """Store an answer, and return what comes next; the same answer again changes nothing."""
    value = number_of(text)
    with opened(path) as found:
        asked = None if query is None else _numbered(found, query)
        before = _take_back(found, asked) if correct else None
        check_answers(found)
        answered = found.session.n_queries
        number = asked or (found.number if found.is_open else answered) or 0
        if asked is None:
            _check_certain(found)
        if 0 < number <= answered:
            _check_same(found, number, value, asked=asked is not None)
            repeated = True
        else:
            _check_open(found, number)
            repeated = False
            session_query = found.query
            assert session_query is not None  # noqa: S101
            found.session.tell(session_query.key, found.settings.sign * value)
        if before is not None and _put_back(found, before):
            before = None
        return {
            "query": number,
            "name": found.files.name(number),
            "score": value,
            "repeated": repeated,
            "withdrawn": None if before is None else str(before.file),
            "warnings": _warnings(found, number, value, before),
            "answered": found.session.n_queries,
            "at_most": found.session.max_queries,
            "finished": found.query is None,
            "command": next_command(found),
        }


def _warnings(found: OpenSession, number: int, value: float, before: Withdrawn | None) -> list[str]:
    """Return what is doubtful about an answer, and what it withdrew."""
    far = [_about_scale(found, number, value)] if abs(value) > FAR_ABOVE * found.settings.scale else []
    return far if before is None else [*far, _about_withdrawn(found, before)]


def number_of(text: str) -> float:
    """Return the number of an answer.

    Examples
    --------
    >>> number_of("-0.3")
    -0.3
    """
    value = _float(text)
    if value is None:
        raise UsageError(f"VALUE must be one finite number, such as 0.71. Got {text[:_SHOWN]!r}{_hint(text)}")
    return value


def _float(text: str) -> float | None:
    """Return the number that a text is, if the metric can have it."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST and "_" not in text else None


def _hint(text: str) -> str:
    """Return how to write what was meant."""
    share = _float(text.strip().removesuffix("%"))
    if share is not None and text.strip().endswith("%"):
        return f": write {share / 100:.12g}, or {share:.12g} if the other scores are written so"
    return ": write a decimal point, not a comma" if "," in text else ""


def _about_scale(found: OpenSession, number: int, value: float) -> str:
    """Return the warning about a score that is too large for the scale."""
    again = found.command("tell", "VALUE", "--query", found.files.name(number), "--correct")
    return (
        f"the score {value!r} is far above the range of the scores, whose width should be about "
        f"{found.settings.scale:g}: if it is wrong, correct it with {again}; if the scores are so large, start again "
        "with postshift run start --metric-scale and the width of their range"
    )


# -- which query -------------------------------------------------------------------------------------------------


def _numbered(found: OpenSession, query: str) -> int:
    """Return the number of a query by its name; raise for one that was withdrawn."""
    number, version = number_and_version(query)
    last = found.files.version(number)
    if version < last:
        raise UsageError(
            f"query {query} is withdrawn, because the answer before it was corrected: do not tell its score. Query "
            f"{found.files.name(number)} takes its place; {found.command('status')} shows what comes next"
        )
    if version > last:
        raise UsageError(f"there is no query {query}; query {number} is called {found.files.name(number)}")
    return number


def _check_certain(found: OpenSession) -> None:
    """Raise if the score may belong to a withdrawn file: then the query must be named."""
    if found.number is None or not found.is_open or found.files.version(found.number) == 1:
        return
    raise UsageError(
        f"query {found.number} was asked before with other predictions, which are withdrawn: do not tell their score. "
        f"Name the query, as in {found.command('tell', 'VALUE', '--query', found.files.name(found.number))}"
    )


def _take_back(found: OpenSession, query: int | None) -> Withdrawn | None:
    """Remove the last answer, if it is the one to correct; return the file of the query after it, if it was written."""
    answered = found.session.n_queries
    if query is None:
        raise UsageError("--correct needs the number of the query, as in --query 7")
    if query == answered + 1:
        return None  # it has no answer yet, or not any more: an earlier correction was stopped
    if not 1 <= query == answered:
        last = f"the last one is query {answered}" if answered else "there is none yet"
        raise UsageError(f"only the last answer can be corrected, and {last}: later queries depend on the others")
    before = None
    if found.files.file(query + 1).is_file() and found.query is not None:
        before = found.files.withdraw(query + 1, fingerprint=found.query.fingerprint())
    found.session.take_back()
    found.write_query()
    return before


def _put_back(found: OpenSession, before: Withdrawn) -> bool:
    """Return whether a withdrawn query did not change after all; it gets its file back."""
    same = found.query is not None and found.query.fingerprint() == before.fingerprint
    if same:
        before.put_back()
    return same


def _about_withdrawn(found: OpenSession, before: Withdrawn) -> str:
    """Return the warning about a file that a correction withdrew."""
    instead = "no query is left"
    if found.number is not None:
        instead = f"hand out that of query {found.files.name(found.number)}, which {found.command('next')} writes"
    return (
        f"{before.file} is withdrawn: its predictions depend on the answer that was corrected (it is kept as "
        f"{before.kept.name}). Do not tell its score; {instead}"
    )


def _check_same(found: OpenSession, number: int, value: float, *, asked: bool) -> None:
    """Raise if an answered query gets another answer."""
    stored, last = found.scores[number - 1], number == found.session.n_queries
    if stored == value:
        return
    correct = found.command("tell", repr(value), "--query", found.files.name(number), "--correct")
    if not asked:
        raise UsageError(
            f"no query is open; the last one, query {number}, has the answer {stored!r}: go on with "
            f"{next_command(found)}, or correct that answer with {correct}"
        )
    remedy = (
        f"if that was wrong, correct it with {correct}"
        if last
        else "only the last answer can be corrected, because later queries depend on the others"
    )
    raise UsageError(f"query {number} already has the answer {stored!r}, and {value!r} is another one: {remedy}")


def _check_open(found: OpenSession, number: int) -> None:
    """Raise unless this is the open query."""
    answerable = found.number
    if answerable is None:
        raise UsageError(f"all {found.session.n_queries} queries are answered: {last_command(found)}")
    if number == answerable and found.is_open:
        return
    if found.is_open:
        raise UsageError(f"query {number} is not open; query {found.files.name(answerable)} is: {next_command(found)}")
    raise UsageError(f"no query is open: write the predictions to be scored with {found.command('next')}")


# -- what comes next ---------------------------------------------------------------------------------------------


def next_command(found: OpenSession) -> str:
    """Return the command that comes next."""
    if found.number is None:
        return last_command(found)
    if found.is_open:
        return found.command("tell", "VALUE", "--query", found.files.name(found.number))
    return found.command("next")


def last_command(found: OpenSession) -> str:
    """Return the command that writes the best rule."""
    return found.command("finish", "--out", "RUN")
