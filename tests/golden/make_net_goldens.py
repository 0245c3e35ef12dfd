"""Records whole nets: every activation, every parameter gradient and 20 steps of training, in float64.

Usage: python3 make_net_goldens.py [net ...]     nets: lenet alexnet_bn resnet50 googlenet (default: all)

Each net is models/<net>/train_val.prototxt in the TRAIN phase with its data layer replaced by one fixed batch, every
dropout_ratio set to 0, and parameters, inputs and labels from the formulas of moka_random.py.

Two files a net. <net>.json is the net itself. Its activations agree between float32 and float64, its gradients cannot
in the deep nets: of ten million ReLU and max-pool units some lie so near their kink that rounding flips them, and each
flip is a finite change of a gradient. <net>_smooth.json is a twin whose gradients are continuous: every ReLU layer has
become an ELU (alpha 1) and every MAX pooling an AVE pooling, nothing else changed. Compare gradients there.

nets/<net>.json, nets/<net>_smooth.json:
  net, smooth, batch, classes   the prototxt's folder; the twin?; images in the batch; labels are 0 .. classes - 1
  input_shape           [N,C,H,W] of blob "data"; "label" is [N]
  solver                rate, momentum, weight_decay of the 20 steps (Caffe's SGD; lr_mult and decay_mult apply)
  parameter_count       learned values; statistics of BatchNorm not counted
  float32               how far PyTorch in float32 is from this file: "losses" relative, "tops", "gradients" and
                        "statistics" relative to the tensor's largest value, the worst of each, and where
  kinks                 of nets with few units near a kink (net_kinks.py): "units", how many there are, and for each
                        gradient how far turning them moves "samples" (relative to the tensor's largest value) and the
                        "norm" (relative to it)
  losses                total loss (weights applied) before each of the 20 updates, same batch each time
  tops                  "layer:top" -> summary, in the order of computing. A blob changed in place has one entry a layer
  gradients             "layer/index" -> summary of dLoss/dparameter at the first step, without decay; no BatchNorm
  statistics            "layer/index" -> summary of BatchNorm's blobs after the first forward pass
summary: {"shape", "norm": L2 norm, "max": largest absolute value, "samples": values at
  moka_random.sample_indices(name, count): all of up to 256, else 256 at RandomWord(7, StableHash(name), j) mod count,
  where name is the entry's key, with "gradient:" before it for gradients and "statistic:" for statistics}
"""

import argparse
import json
import os

import numpy as np
import torch

import caffe_torch
import moka_random
import net_kinks
import prototxt

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets")
# batch, input C,H,W, classes, rate
NETS = {
    "lenet": (8, (1, 28, 28), 10, 0.002),
    "alexnet_bn": (2, (3, 227, 227), 1000, 0.000002),
    "resnet50": (2, (3, 224, 224), 1000, 0.0001),
    "googlenet": (2, (3, 224, 224), 1000, 0.00001),
}
# Those of so few units near a kink that each can be turned.
KINKED = ("lenet", "alexnet_bn")
TABLES = ("tops", "gradients", "statistics")
STEPS, MOMENTUM, DECAY = 20, 0.9, 5e-4


def summary(name, tensor):
    values = tensor.detach().double().contiguous().numpy().reshape(-1)
    samples = values[moka_random.sample_indices(name, len(values))]
    return {
        "shape": list(tensor.shape),
        "norm": float(f"{np.linalg.norm(values):.10g}"),
        "max": float(f"{np.abs(values).max():.10g}"),
        "samples": [float(f"{v:.7g}") for v in samples],
    }


def layers_of(name, smooth):
    messages = prototxt.messages()
    net = prototxt.read_net(os.path.join(prototxt.ROOT, "models", name, "train_val.prototxt"))
    layers = prototxt.filter_net(net, messages.TRAIN)
    for layer in layers:
        if layer.type == "Dropout":
            layer.dropout_param.dropout_ratio = 0
        elif smooth and layer.type == "ReLU":
            layer.type = "ELU"
        elif smooth and layer.type == "Pooling":
            layer.pooling_param.pool = layer.pooling_param.AVE
    return layers


def inputs_of(name, dtype):
    batch, image, classes, _ = NETS[name]
    return {"data": torch.tensor(moka_random.data((batch, *image)), dtype=dtype),
            "label": torch.tensor(moka_random.labels(batch, classes))}


def run(name, dtype, smooth):
    batch, image, classes, rate = NETS[name]
    engine = caffe_torch.Net(layers_of(name, smooth), dtype)
    shape = (batch, *image)
    inputs = inputs_of(name, dtype)
    solver = caffe_torch.CaffeSgd(engine, rate, MOMENTUM, DECAY)
    losses = []
    for step in range(STEPS):
        loss = engine.forward(inputs)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            learned = {k: v for k, v in engine.params.items() if v.requires_grad}
            tops = {k: summary(k, v) for k, v in engine.tops.items()}
            gradients = {k: summary("gradient:" + k, v.grad) for k, v in learned.items()}
            statistics = {k: summary("statistic:" + k, v) for k, v in engine.params.items() if not v.requires_grad}
            count = sum(v.numel() for v in learned.values())
        solver.step()
    return {"net": name, "smooth": smooth, "batch": batch, "classes": classes, "input_shape": list(shape),
            "solver": {"rate": rate, "momentum": MOMENTUM, "weight_decay": DECAY}, "parameter_count": count,
            "losses": [float(f"{v:.10g}") for v in losses], "tops": tops, "gradients": gradients,
            "statistics": statistics}


def gaps(found, wanted):
    """The worst difference of a sample relative to its tensor's largest value, for each table; losses relative."""
    result = {"losses": float("%.2g" % max(abs(a - b) / abs(b) for a, b in zip(found["losses"], wanted["losses"])))}
    for part in TABLES:
        worst, where = 0.0, ""
        for key, want in wanted[part].items():
            gap = np.abs(np.array(found[part][key]["samples"]) - np.array(want["samples"])).max()
            if gap > worst * max(want["max"], 1e-30):
                worst, where = gap / want["max"], key
        result[part], result[part + "_at"] = float(f"{worst:.2g}"), where
    return result


def write_json(path, content):
    """One line an entry of each table, so that changes can be read."""
    rows = []
    for key, value in content.items():
        if isinstance(value, dict) and key in TABLES:
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in value.items())
            rows.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            rows.append(f" {json.dumps(key)}: {json.dumps(value)}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(rows) + "\n}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nets", nargs="*", default=list(NETS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in options.nets or NETS:
        for smooth in (False, True):
            path = os.path.join(FOLDER, name + ("_smooth" if smooth else "") + ".json")
            content = run(name, torch.float64, smooth)
            content["float32"] = gaps(run(name, torch.float32, smooth), content)
            if name in KINKED and not smooth:
                content["kinks"] = net_kinks.bounds(layers_of(name, smooth), inputs_of(name, torch.float64))
            write_json(path, {key: content[key] for key in sorted(content, key=lambda k: k in TABLES)})
            print(os.path.basename(path), content["parameter_count"], "parameters, losses", content["losses"][0], "...",
                  content["losses"][-1], content["float32"], os.path.getsize(path), "bytes", flush=True)


if __name__ == "__main__":
    main()
