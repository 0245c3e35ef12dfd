"""What make_shape_goldens.py and make_loss_goldens.py share: one layer, given as a Python function, on small inputs.

The format of the file is make_layer_goldens.py's. Each layer's function is written with loops or PyTorch from the
definition in Caffe's (or the fork's) documentation and source; its gradients are PyTorch's, unless the original's
differ from the derivative: then `own` gives them.
"""

import json
import os

import numpy as np
import torch

from make_layer_goldens import exact, rounded, values

CASES = []


def case(name, kind, fields, bottoms, function, params=(), phase="TRAIN", tops=1, no_gradient=(), silent_tops=(),
         low=-1.0, weight=None, own=None, after=None):
    """function(x, p) -> tops. bottoms, params: shapes or arrays; weight: of the first top in the objective (default 1
    for losses, else made up); own(x, p, dy) -> {"x0" or "p0": gradient}; after: {index: value once the layer ran}."""
    arrays = [b if isinstance(b, np.ndarray) else values(f"{name}/bottom{i}", b, low) for i, b in enumerate(bottoms)]
    fixed = [p if isinstance(p, np.ndarray) else values(f"{name}/param{i}", p) for i, p in enumerate(params)]
    after = after or {}
    text = f'layer {{ name: "{name}" type: "{kind}" '
    text += "".join(f'bottom: "x{i}" ' for i in range(len(arrays)))
    text += "".join(f'top: "y{i}" ' for i in range(tops)) + fields + " }"
    x = [torch.tensor(a, requires_grad=i not in no_gradient) for i, a in enumerate(arrays)]
    p = [torch.tensor(a, requires_grad=i not in after) for i, a in enumerate(fixed)]
    results = function(x, p)
    assert len(results) == tops, name
    written, objective, dy = [], 0, []
    for i, y in enumerate(results):
        top = {"shape": list(y.shape), "data": rounded(y.detach())}
        if i not in silent_tops:
            if i == 0 and weight is not None:
                factor = np.full(tuple(y.shape), weight)
            elif y.dim() == 0:
                factor = np.ones(())
            else:
                factor = values(f"{name}/weight{i}", y.shape)
            top["weight"] = exact(factor)
            dy.append(torch.tensor(factor))
            objective = objective + (y * dy[-1]).sum()
        written.append(top)
    if isinstance(objective, torch.Tensor) and objective.requires_grad:
        objective.backward()
    given = own([t.detach() for t in x], [t.detach() for t in p], dy) if own else {}

    def gradient(key, tensor, array):
        if key in given:
            return rounded(given[key])
        return rounded(np.zeros_like(array) if tensor.grad is None else tensor.grad)

    entry = {"name": name, "layer": text, "phase": phase, "bottoms": [], "params": [], "tops": written}
    for i, (array, tensor) in enumerate(zip(arrays, x)):
        row = {"shape": list(array.shape), "data": exact(array)}
        if tensor.requires_grad and isinstance(objective, torch.Tensor):
            row["gradient"] = gradient(f"x{i}", tensor, array)
        entry["bottoms"].append(row)
    for i, (array, tensor) in enumerate(zip(fixed, p)):
        row = {"shape": list(array.shape), "data": exact(array)}
        if i in after:
            row["after"] = rounded(after[i])
        else:
            row["gradient"] = gradient(f"p{i}", tensor, array)
        entry["params"].append(row)
    CASES.append(entry)


def write(file_name):
    names = [entry["name"] for entry in CASES]
    assert len(set(names)) == len(names)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file_name)
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")
