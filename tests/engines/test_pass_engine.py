"""Every method of an engine is one pass, with its name and its arguments."""

from __future__ import annotations

import numpy as np

from postshift.core.sums import Engine
from postshift.engines.memory import MemoryEngine
from postshift.engines.pass_engine import PassEngine


class Recorded(PassEngine):
    """An engine that returns what it is asked for."""

    n_classes, n_bases = 2, 1

    def _summed(self, method, *arguments, **options):
        return method, arguments, options


def test_every_method_is_a_pass_of_its_name():
    engine, ratios = Recorded(), np.ones(2)
    assert engine.label_sums() == ("label_sums", (), {})
    assert engine.classifier_sums("h", confusions=True) == ("classifier_sums", ("h",), {"confusions": True})
    assert engine.gram_sums() == ("gram_sums", (), {})
    assert engine.influence_sums("h") == ("influence_sums", ("h",), {})
    assert engine.look("h", influence=False) == ("look", ("h",), {"influence": False})
    assert engine.pair_hits(ratios, reference=1) == ("pair_hits", (ratios,), {"reference": 1})


def test_it_has_the_methods_of_the_protocol_and_so_has_an_engine_in_memory():
    methods = {name for name in vars(Engine) if not name.startswith("_")}
    assert methods <= set(dir(Recorded))
    assert methods <= set(dir(MemoryEngine))
