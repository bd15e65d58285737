"""Models as files: skops, joblib and ONNX."""

from __future__ import annotations

from postshift.persistence.files import dump, load
from postshift.persistence.onnx_graph import phi_inputs, rule_to_onnx
from postshift.persistence.onnx_model import to_onnx

__all__ = ["dump", "load", "phi_inputs", "rule_to_onnx", "to_onnx"]
