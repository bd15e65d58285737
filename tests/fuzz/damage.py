"""Ways to damage bytes and JSON, each drawn by a generator of random numbers."""

from __future__ import annotations

import copy
import json

DEEP = 5000  # levels, beyond what Python's own recursion allows


# -- bytes -----------------------------------------------------------------------------------------------------


def damaged_bytes(content, rng):
    """Return the name of a way, and the content damaged in it; the same content is never returned."""
    while True:
        name = str(rng.choice(list(BYTE_WAYS)))
        found = BYTE_WAYS[name](content, rng)
        if found != content:
            return name, found


def _piece(content, rng, longest=64):
    """Return the ends of a piece of the content."""
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, longest)))


def _cut(content, rng):
    return content[: int(rng.integers(len(content) + 1))]


def _flipped(content, rng):
    changed = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 20]))):
        if changed:
            changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _zeroed(content, rng):
    start, end = _piece(content, rng)
    return content[:start] + bytes(end - start) + content[end:]


def _removed(content, rng):
    start, end = _piece(content, rng)
    return content[:start] + content[end:]


def _twice(content, rng):
    start, end = _piece(content, rng)
    return content[:end] + content[start:]


def _moved(content, rng):
    start, end = _piece(content, rng)
    rest = content[:start] + content[end:]
    place = int(rng.integers(len(rest) + 1))
    return rest[:place] + content[start:end] + rest[place:]


def _overwritten(content, rng):
    start, end = _piece(content, rng)
    return content[:start] + rng.bytes(end - start) + content[end:]


def _longer(content, rng):
    return content + bytes(rng.choice([b"\0", b"{}", b"PK\x05\x06", b"\n", b"\xff\xfe"]))


def _emptied(content, rng):  # noqa: ARG001
    return b""


BYTE_WAYS = {
    "cut": _cut,
    "flipped": _flipped,
    "zeroed": _zeroed,
    "removed": _removed,
    "twice": _twice,
    "moved": _moved,
    "overwritten": _overwritten,
    "longer": _longer,
    "emptied": _emptied,
}


# -- JSON ------------------------------------------------------------------------------------------------------

ODD = (
    None, True, False, 0, -1, 1, 2, 10**400, -(2**63), 1e308, 1e-320, float("nan"), float("inf"), -float("inf"), 0.5,
    "", " ", "0", "nan", "x" * 100_000, "\0", "\x1b[2J", "\ud800", "é", "*", "p_*", "..", "/", [], {}, [None], [[]],
    [0] * 1000, {"": ""}, {"x": {"x": {}}}, "finished", "running",
)  # fmt: skip


def places_of(value, path=()):
    """Return the paths to all parts of a JSON value, the whole first."""
    found = [path]
    for key, part in _parts(value):
        found += places_of(part, (*path, key))
    return found


def _parts(value):
    """Return the keys and values of an object, the places and values of a list."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def part_of(value, path):
    """Return a part."""
    for key in path:
        value = value[key]
    return value


def replaced(value, path, part):
    """Return a copy with another part."""
    if not path:
        return part
    whole = copy.deepcopy(value)
    part_of(whole, path[:-1])[path[-1]] = part
    return whole


def _place(value, rng, longest=8):
    """Return the path to a part; parts near the top are as likely as the many below."""
    places = places_of(value)
    depth = int(rng.integers(1, longest))
    near = [path for path in places if 0 < len(path) <= depth] or places
    return near[int(rng.integers(len(near)))]


def damaged_json(value, rng):
    """Return the name of a way, and the text of the JSON damaged in it."""
    while True:
        name = str(rng.choice(list(JSON_WAYS)))
        text = JSON_WAYS[name](value, rng)
        if text != json.dumps(value):
            return name, text


def _odd(value, rng):
    return json.dumps(replaced(value, _place(value, rng), ODD[int(rng.integers(len(ODD)))]))


def _swapped(value, rng):
    one, other = _place(value, rng), _place(value, rng)
    if one[: len(other)] == other or other[: len(one)] == one:  # one is a part of the other
        return json.dumps(value)
    return json.dumps(replaced(replaced(value, one, part_of(value, other)), other, part_of(value, one)))


def _without(value, rng):
    path = _place(value, rng)
    if not path:
        return "{}"
    whole = copy.deepcopy(value)
    del part_of(whole, path[:-1])[path[-1]]
    return json.dumps(whole)


def _renamed(value, rng):
    objects = [path for path in places_of(value) if isinstance(part_of(value, path), dict) and part_of(value, path)]
    if not objects:
        return json.dumps([value])
    path = objects[int(rng.integers(len(objects)))]
    found = part_of(value, path)
    old = str(rng.choice(list(found)))
    new = str(rng.choice(["", "__class__", "format", f"{old}_", old.upper()]))
    return json.dumps(replaced(value, path, {new if key == old else key: part for key, part in found.items()}))


def _of_another_type(value, rng):
    path = _place(value, rng)
    part = part_of(value, path)
    if isinstance(part, dict):
        other = list(part.items())
    elif isinstance(part, list):
        other = {str(place): each for place, each in enumerate(part)}
    else:
        other = [part] if isinstance(part, str) or part is None else str(part)
    return json.dumps(replaced(value, path, other))


def _deep(value, rng):
    text = json.dumps(replaced(value, _place(value, rng), "HERE"))
    opening, closing = (("[", "]"), ('{"a":', "}"))[int(rng.integers(2))]
    return text.replace('"HERE"', opening * DEEP + "1" + closing * DEEP)


def _huge(value, rng):
    number = str(rng.choice(["1e999", "-1e999", "9" * 5000, "1" + "0" * 400 + ".5", "NaN", "Infinity"]))
    return json.dumps(replaced(value, _place(value, rng), "HERE")).replace('"HERE"', number)


def _doubled(value, rng):
    lists = [path for path in places_of(value) if isinstance(part_of(value, path), list) and part_of(value, path)]
    if not lists:
        return json.dumps([value, value])
    path = lists[int(rng.integers(len(lists)))]
    part = part_of(value, path)
    return json.dumps(replaced(value, path, [*part, part[0]] if rng.random() < 0.5 else part[::-1]))


JSON_WAYS = {
    "odd": _odd,
    "swapped": _swapped,
    "without": _without,
    "renamed": _renamed,
    "of another type": _of_another_type,
    "deep": _deep,
    "huge": _huge,
    "doubled": _doubled,
}
