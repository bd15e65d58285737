"""Skops files written by hand."""

from __future__ import annotations

import io
import json
import zipfile

import skops.io


def described(module, name, loader, content, **more):
    """A skops file of one entry, written by hand."""
    schema = {"__class__": name, "__module__": module, "__loader__": loader, "content": content, "__id__": 1, **more}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", json.dumps({**schema, "protocol": 2, "_skops_version": skops.__version__}))
    return stream.getvalue()


def entry(value):
    """The entry of a text or a tuple of texts in a skops file."""
    if isinstance(value, str):
        return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}
    parts = [entry(each) for each in value]
    return {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": parts}


def made_by_every_loader(name, path):
    """Files that make an object of a class in all the ways that skops knows, of the text of a path."""
    module, _, attribute = name.rpartition(".")
    kind = {"__class__": attribute, "__module__": module, "__loader__": "TypeNode"}
    kinds = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [kind]}
    mapping = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "key_types": kinds}
    yield described(module, attribute, "ObjectNode", entry((path, path)))
    yield described(module, attribute, "ObjectNode", mapping | {"content": {}})
    yield described(module, attribute, "ListNode", [entry(path)])
    yield described(module, attribute, "SetNode", [entry(path)])
    yield described(module, attribute, "TypeNode", None)
    yield described(module, attribute, "FunctionNode", None)
    yield described("builtins", "dict", "DictNode", {path: entry(path)}, key_types=kinds)
    for n_words in range(4):
        yield described(module, attribute, "ConstructorFromReduceNode", entry((path,) * n_words))
