"""Write the bundled model as a graph for onnxruntime: ``export_graph.py SOURCE TARGET``.

A program of its own, run in its own process, because it loads torch. It exits with an error when
the graph it wrote does not compute what the weights compute.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
import torch
from transformers import AutoModel

# Hidden states are of the order of 1; other kernels alone differ by about 1e-6.
_TOLERANCE = 1e-4
_SAMPLE_LENGTHS = (2, 3, 17, 256)


class _HiddenStates(torch.nn.Module):
    """Token ids of texts without padding in, the last layer's hidden states out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> Any:
        # No attention mask: without padding there is nothing to mask.
        embedded = self.model.embeddings(input_ids=input_ids)
        return self.model.encoder(embedded, attention_mask=None).last_hidden_state


def export(source: str, target: str) -> None:
    torch.set_num_threads(1)
    model = AutoModel.from_pretrained(
        source, local_files_only=True, attn_implementation="eager", dtype=torch.float32
    )
    # The wrapper too: the exporter puts back the mode it found, dropout with it.
    module = _HiddenStates(model).eval()
    example = torch.arange(1000, 1008).reshape(2, 4)
    axes = {0: "texts", 1: "tokens"}
    with torch.no_grad():
        torch.onnx.export(
            module,
            (example,),
            target,
            input_names=["input_ids"],
            output_names=["hidden"],
            dynamic_axes={"input_ids": axes, "hidden": axes},
            opset_version=17,
            dynamo=False,
        )
    _require_equal(model, target)


def _require_equal(model: Any, target: str) -> None:
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    for length in _SAMPLE_LENGTHS:
        ids = (torch.arange(length) * 97 % 29000 + 1000).reshape(1, -1)
        with torch.no_grad():
            # The whole model, as its authors wrote it, is what the graph is compared with.
            wanted = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        found = session.run(None, {"input_ids": ids.numpy()})[0]
        difference = float(np.abs(found - wanted.numpy()).max())
        if not difference < _TOLERANCE:
            raise SystemExit(f"graph and weights differ by {difference} at {length} tokens")


if __name__ == "__main__":
    export(sys.argv[1], sys.argv[2])
