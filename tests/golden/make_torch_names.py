"""Writes models/NAME/names.torch.tsv, by which `moka import` and `moka export` know torchvision's names of weights.

Usage: python3 make_torch_names.py [net ...] [--check]      nets: the keys of MODULES (default: all)

Which part of torchvision's module a layer is comes from zoo_modules.py, as for the goldens of make_zoo_goldens.py, whose
values hold both to each other; tests/tools/scripts/torch_test.py compares what whole nets compute. With --check nothing
is written, and a table that would change is an error. Tables of nets whose namesake is another net (@differs) are
written by hand.
"""

import argparse
import os
import sys

from torch import nn

import make_zoo_goldens
import prototxt
import zoo_modules

# The zoo's net -> torchvision.models' function.
MODULES = {
    "densenet121": "densenet121",
    "densenet169": "densenet169",
    "densenet201": "densenet201",
    "mobilenet_v2": "mobilenet_v2",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50_v15": "resnet50",
    "resnet101_v15": "resnet101",
    "resnet152_v15": "resnet152",
    "resnext50": "resnext50_32x4d",
    "squeezenet10": "squeezenet1_0",
    "squeezenet11": "squeezenet1_1",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
    "wide_resnet50": "wide_resnet50_2",
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of every classifier of torchvision, R, G, B


def table(name):
    model = zoo_modules.MODELS[name]
    layers = make_zoo_goldens.layers_of(name, model)
    module = model.make()
    places = make_zoo_goldens.places_of(layers, module, model.is_he)
    names = {id(part): place for place, part in module.named_modules()}
    blobs = {}  # torchvision's name -> LAYER/INDEX
    for layer in layers:
        if layer.name not in places:
            continue
        part = places[layer.name]
        statistics = layer.type == "BatchNorm"
        fields = ("running_mean", "running_var") if statistics else ("weight", "bias")
        for index, field in enumerate(fields):
            if getattr(part, field) is not None:
                blobs[f"{names[id(part)]}.{field}"] = f"{layer.name}/{index}"
    state = [key for key in module.state_dict() if not key.endswith(".num_batches_tracked")]
    assert set(state) == set(blobs), set(state) ^ set(blobs)
    layers_with_weights = [place for place, part in module.named_modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
    first, last = layers_with_weights[0], layers_with_weights[-1]
    rows = []
    for key in state:
        word = "\trgb" if key == f"{first}.weight" else "\tclasses" if key.startswith(f"{last}.") else ""
        rows.append(f"{key}\t{blobs[key]}{word}\n")
    head = (f"# Names of weights in torchvision's {MODULES[name]} and here (docs/interchange.md). Made by\n"
            "# tests/golden/make_torch_names.py.\n"
            f"@module\ttorchvision.models.{MODULES[name]}\n"
            "@mean\t" + "\t".join(map(str, MEAN)) + "\n@std\t" + "\t".join(map(str, STD)) + "\n")
    return head + "".join(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nets", nargs="*", default=list(MODULES))
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    options = parser.parse_args()
    stale = []
    for name in options.nets or MODULES:
        path = os.path.join(prototxt.ROOT, "models", zoo_modules.MODELS[name].folder or name, "names.torch.tsv")
        text = table(name)
        if options.check:
            with open(path, encoding="utf-8") as file:
                stale += [path] if file.read() != text else []
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    if stale:
        sys.exit(f"tables that would change: {', '.join(stale)}")


if __name__ == "__main__":
    main()
