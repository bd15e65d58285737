"""Models as files: skops, joblib and ONNX. The code of ONNX graphs is imported only when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postshift.persistence.files import dump, load

if TYPE_CHECKING:
    from postshift.persistence.onnx_graph import phi_inputs, rule_to_onnx
    from postshift.persistence.onnx_model import to_onnx

__all__ = ["dump", "load", "phi_inputs", "rule_to_onnx", "to_onnx"]


def __getattr__(name: str) -> Any:
    """Import the functions for ONNX when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from postshift.persistence import onnx_graph, onnx_model

    return getattr(onnx_model if name == "to_onnx" else onnx_graph, name)
