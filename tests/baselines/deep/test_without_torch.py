"""Where torch is not installed: everything imports, and the first use says what to install."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            asked.append(name)
            raise ModuleNotFoundError("No module named 'torch'")

asked = []
sys.meta_path.insert(0, NoTorch())
from sklearn.base import clone
from postshift.baselines import deep_methods, fine_tuning, forward_correction, learn_to_reweight, networks
from postshift.baselines.deep import NetworkClassifier
from postshift.exceptions import SettingError

model = clone(NetworkClassifier("small", epochs=3))
fine_tuning.FineTuned(model)
assert not asked
for use in (lambda: model.fit([[0.0], [1.0]], [0, 1]), lambda: networks.resnet14(3)):
    try:
        use()
    except SettingError as error:
        assert str(error) == "networks need torch: pip install '.[deep]' in a clone of postshift", error
    else:
        raise AssertionError
"""


def test_torch_is_asked_for_at_the_first_use_and_the_extra_is_named():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
