"""Records the forward pass of the zoo's classifiers in test mode, by torchvision's or other modules in float64.

Usage: python3 make_zoo_goldens.py [net ...] [--blobs FOLDER]     nets: the keys of zoo_modules.MODELS (default: all)

With --blobs the whole tensors are written to FOLDER/<net>.npz instead, for
`moka compare models/<folder>/<file> FOLDER/<net>.npz --stage <stages>`, which compares every value.

Another engine and another description of each net: modules come from torchvision or zoo_modules.py, not from the
prototxt. Of that only the order of its layers is read, so that the parameters of moka_random.py go where they belong:
convolutions, normalisations and inner products in their order; in ResNets by He's names. Every parameter of the module
is filled exactly once, so both count the same number of them. Statistics of BatchNorm are moka_random's
running_statistics, which differ from channel to channel.

zoo.json: net -> {
  folder, file, stages    models/<folder>/<file> in phase TEST with these stages, its data layer one fixed picture
  engine                  where the module comes from
  input_shape             [1,C,H,W]
  parameter_count, statistic_count   learned values; those of BatchNorm as Caffe keeps them (2 a channel and a factor)
  macs                    multiply-adds of convolutions and inner products for this picture
  tops                    "layer:top" -> {shape, norm, max, samples} of some stages and of the scores; the samples are
                          those of moka_random.sample_indices(key, count, 16)
}
"""

import argparse
import json
import os
import re

import numpy as np
import torch
import torchvision
from torch import nn

import moka_random
import prototxt
import zoo_modules

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo.json")
SAMPLES = 16


def layers_of(name, model):
    net = prototxt.read_net(os.path.join(prototxt.ROOT, "models", model.folder or name, model.file))
    return prototxt.filter_net(net, prototxt.messages().TEST, stages=model.stages)


def he_place(name):
    """torchvision's place of one of He's layers: "bn4b12_branch2a" is layer3.12.bn1."""
    match = re.fullmatch(r"(?:res|bn|scale)(\d)([a-z])(\d*)_branch(1|2[abc])", name)
    if not match:
        return {"conv1": "conv1", "bn_conv1": "bn1", "scale_conv1": "bn1", "fc1000": "fc"}[name]
    stage, letter, number, branch = match.groups()
    block = int(number) if number else ord(letter) - ord("a")
    is_conv = name.startswith("res")
    part = f"downsample.{0 if is_conv else 1}"
    if branch != "1":
        part = f"{'conv' if is_conv else 'bn'}{'abc'.index(branch[1]) + 1}"
    return f"layer{int(stage) - 1}.{block}.{part}"


def places_of(layers, module, is_he):
    """Layer name -> module, for those with parameters; a Scale goes where the BatchNorm before it went."""
    if is_he:
        parts = dict(module.named_modules())
        return {layer.name: parts[he_place(layer.name)] for layer in layers
                if layer.type in ("Convolution", "InnerProduct", "BatchNorm", "Scale")}
    kinds = {"Convolution": nn.Conv2d, "InnerProduct": nn.Linear, "BatchNorm": nn.BatchNorm2d}
    waiting = {kind: [m for m in module.modules() if isinstance(m, part)] for kind, part in kinds.items()}
    places, last = {}, None
    for layer in layers:
        if layer.type in waiting:
            places[layer.name] = waiting[layer.type].pop(0)
            last = places[layer.name] if layer.type == "BatchNorm" else last
        elif layer.type == "Scale":
            places[layer.name] = last
    assert not any(waiting.values()), "parts of the module that the net lacks"
    return places


@torch.no_grad()
def fill(layers, module, is_he, arrays):
    """Gives the module moka_random's parameters; returns how many there are, and how many statistics.

    `arrays`, if there are any, get "param/LAYER/INDEX".
    """
    places, filled, statistics = places_of(layers, module, is_he), set(), 0

    def keep(layer, *blobs):
        if arrays is not None:
            arrays.update({f"param/{layer.name}/{i}": np.float32(blob) for i, blob in enumerate(blobs)})
    for layer in layers:
        if layer.name not in places:
            continue
        part = places[layer.name]
        if layer.type == "BatchNorm":
            assert np.isclose(part.eps, layer.batch_norm_param.eps, rtol=1e-6, atol=0), layer.name
            part.eps = layer.batch_norm_param.eps  # as the float32 that it is
            mean, variance, factor = moka_random.running_statistics(layer, part.num_features)
            part.running_mean.copy_(torch.from_numpy(mean / factor))
            part.running_var.copy_(torch.from_numpy(variance / factor))
            statistics += 2 * part.num_features + 1
            keep(layer, mean, variance, [factor])
            continue
        tensors = [tensor for tensor in (part.weight, part.bias) if tensor is not None]
        for index, tensor in enumerate(tensors):
            assert id(tensor) not in filled, layer.name
            tensor.copy_(torch.from_numpy(moka_random.parameter(layer, index, tensor.shape)))
            filled.add(id(tensor))
        keep(layer, *[tensor.numpy() for tensor in tensors])
    assert filled == {id(p) for p in module.parameters()}, "parameters that the net lacks"
    return sum(p.numel() for p in module.parameters()), statistics


def summary(name, tensor):
    values = tensor.contiguous().numpy().reshape(-1)
    samples = values[moka_random.sample_indices(name, len(values), SAMPLES)]
    return {
        "shape": list(tensor.shape),
        "norm": float(f"{np.linalg.norm(values):.10g}"),
        "max": float(f"{np.abs(values).max():.10g}"),
        "samples": [float(f"{v:.7g}") for v in samples],
    }


@torch.no_grad()
def run(name, arrays=None):
    """The golden of a net; `arrays`, if there are any, get all values as `moka compare` reads them."""
    model = zoo_modules.MODELS[name]
    layers = layers_of(name, model)
    module = model.make().double().eval()
    parameters, statistics = fill(layers, module, model.is_he, arrays)
    tops, macs = {}, []

    known = {f"{layer.name}:{blob}" for layer in layers for blob in layer.top}
    assert known.issuperset(model.outputs.values()), set(model.outputs.values()) - known

    def record(top):
        def hook(part, inputs, result):
            layer, blob = top.split(":")
            tops[top] = summary(top, result)
            last = [each.name for each in layers if blob in each.top][-1]
            if arrays is not None and layer == last:  # of a blob changed in place only the last value can be compared
                arrays[f"blob/{blob}"] = np.float32(result.numpy())

        return hook

    def count(part, inputs, result):
        spatial = result[0, 0].numel() if isinstance(part, nn.Conv2d) else 1
        macs.append(spatial * part.weight.numel())

    parts = dict(module.named_modules())
    for part in parts.values():
        if isinstance(part, (nn.Conv2d, nn.Linear)):
            part.register_forward_hook(count)
    for place, top in model.outputs.items():
        parts[place].register_forward_hook(record(top))
    shape = (1, model.channels, model.size, model.size)
    picture = moka_random.data(shape)
    module(torch.from_numpy(picture))
    if arrays is not None:
        arrays.update({"blob/data": np.float32(picture), "blob/label": np.zeros(1, np.float32)})
    version = f"torchvision {torchvision.__version__}" if model.source == "torchvision" else model.source
    return {"folder": model.folder or name, "file": model.file, "stages": list(model.stages), "engine": version,
            "input_shape": list(shape), "parameter_count": parameters, "statistic_count": statistics,
            "macs": sum(macs), "tops": tops}


def write_json(goldens):
    """One line a top, so that changes can be read."""
    nets = []
    for name, content in sorted(goldens.items()):
        tops = ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in content["tops"].items())
        head = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in content.items() if k != "tops")
        nets.append(f' {json.dumps(name)}: {{\n{head},\n  "tops": {{\n{tops}\n  }}\n }}')
    with open(PATH, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(nets) + "\n}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nets", nargs="*", default=list(zoo_modules.MODELS))
    parser.add_argument("--blobs", metavar="FOLDER", help="write whole tensors there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.blobs:
        for name in options.nets or zoo_modules.MODELS:
            arrays = {}
            run(name, arrays)
            np.savez(os.path.join(options.blobs, name + ".npz"), **arrays)
        return
    goldens = {}
    if os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            goldens = json.load(file)
    for name in options.nets or zoo_modules.MODELS:
        goldens[name] = run(name)
        print(name, goldens[name]["parameter_count"], "parameters,", goldens[name]["macs"], "multiply-adds, largest",
              [top["max"] for top in goldens[name]["tops"].values()], flush=True)
        write_json(goldens)


if __name__ == "__main__":
    main()
