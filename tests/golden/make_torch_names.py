"""Writes models/NAME/names.torch.tsv, by which `moka import` and `moka export` know torchvision's names of weights.

Usage: python3 make_torch_names.py [net ...] [--check]      nets: the keys of MODULES (default: all)

Which part of torchvision's module a layer is comes from zoo_modules.py and the makers of the goldens, whose values hold
both to each other; tests/tools/scripts/torch_test.py compares what whole nets compute. With --check nothing
is written, and a table that would change is an error. Tables of nets whose namesake is another net (@differs) are
written by hand.
"""

import argparse
import os
import sys

import torchvision
from torch import nn

import make_rcnn_goldens
import make_zoo_goldens
import prototxt
import zoo_modules

# The zoo's net -> torchvision.models' function.
MODULES = {
    "deeplab50": "segmentation.deeplabv3_resnet50",
    "densenet121": "densenet121",
    "densenet169": "densenet169",
    "densenet201": "densenet201",
    "faster_rcnn_r50_fpn": "detection.fasterrcnn_resnet50_fpn",
    "mask_rcnn_r50_fpn": "detection.maskrcnn_resnet50_fpn",
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


def classifier_table(name):
    """The rows of a classifier, and its first and last layers with weights, in torchvision's names."""
    model = zoo_modules.MODELS[name]
    layers = make_zoo_goldens.layers_of(name, model)
    module = model.make()
    places = make_zoo_goldens.places_of(layers, module, model.is_he)
    names = {id(part): place for place, part in module.named_modules()}
    blobs = {}
    for layer in layers:
        if layer.name in places:
            put(blobs, names[id(places[layer.name])], places[layer.name], layer.name, layer.type == "BatchNorm")
    weighted = [place for place, part in module.named_modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
    return module, blobs, weighted[0], (weighted[-1],)


def put(blobs, place, part, layer, is_norm):
    """A module's tensors, by name, as blobs of a layer: learned ones or, of a BatchNorm, statistics."""
    for index, field in enumerate(("running_mean", "running_var") if is_norm else ("weight", "bias")):
        if getattr(part, field) is not None:
            blobs[f"{place}.{field}"] = f"{layer}/{index}"


def detector_table(name):
    has_masks = name.startswith("mask")
    kind = "mask" if has_masks else "faster"
    module = getattr(torchvision.models.detection, f"{kind}rcnn_resnet50_fpn")(
        weights=None, weights_backbone=None, num_classes=make_rcnn_goldens.CLASSES)
    parts, blobs = dict(module.named_modules()), {}
    for conv, norm, ours, place in make_rcnn_goldens.backbone_names():
        put(blobs, f"backbone.body.{conv}", parts[f"backbone.body.{conv}"], ours, False)
        put(blobs, f"backbone.body.{norm}", parts[f"backbone.body.{norm}"], f"scale{place}", False)
        put(blobs, f"backbone.body.{norm}", parts[f"backbone.body.{norm}"], f"bn{place}", True)
    for theirs, ours in make_rcnn_goldens.other_names(has_masks):
        put(blobs, theirs, parts[theirs], ours, False)
    heads = ["roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"]
    heads += ["roi_heads.mask_predictor.mask_fcn_logits"] if has_masks else []
    return module, blobs, "backbone.body.conv1", heads


def deeplab_table(_name):
    module = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21,
                                                                aux_loss=False)
    parts, blobs = dict(module.named_modules()), {}

    def pair(ours, conv, norm):
        put(blobs, conv, parts[conv], ours, False)
        put(blobs, norm, parts[norm], f"{ours}_scale", False)
        put(blobs, norm, parts[norm], f"{ours}_bn", True)

    pair("conv1", "backbone.conv1", "backbone.bn1")
    for stage in range(2, 6):
        for i in range((3, 4, 6, 3)[stage - 2]):
            theirs, ours = f"backbone.layer{stage - 1}.{i}", f"res{stage}{'abcdef'[i]}"
            for k in (1, 2, 3):
                pair(f"{ours}_conv{k}", f"{theirs}.conv{k}", f"{theirs}.bn{k}")
            if i == 0:
                pair(f"{ours}_shortcut", f"{theirs}.downsample.0", f"{theirs}.downsample.1")
    for i in range(4):
        pair(f"aspp{i}", f"classifier.0.convs.{i}.0", f"classifier.0.convs.{i}.1")
    pair("aspp4", "classifier.0.convs.4.1", "classifier.0.convs.4.2")
    pair("project", "classifier.0.project.0", "classifier.0.project.1")
    pair("head", "classifier.1", "classifier.2")
    put(blobs, "classifier.4", parts["classifier.4"], "score8", False)
    return module, blobs, "backbone.conv1", ("classifier.4",)


# Nets that zoo_modules.py does not have.
OTHERS = {"deeplab50": deeplab_table, "faster_rcnn_r50_fpn": detector_table, "mask_rcnn_r50_fpn": detector_table}


def table(name):
    module, blobs, first, last = OTHERS.get(name, classifier_table)(name)
    state = [key for key in module.state_dict() if not key.endswith(".num_batches_tracked")]
    assert set(state) == set(blobs), set(state) ^ set(blobs)
    rows = []
    for key in state:
        is_of_classes = key.rpartition(".")[0] in last
        word = "\trgb" if key == f"{first}.weight" else "\tclasses" if is_of_classes else ""
        rows.append(f"{key}\t{blobs[key]}{word}\n")
    head = (f"# Names of weights in torchvision's {MODULES[name]} and here (docs/interchange.md). Made by\n"
            "# tests/golden/make_torch_names.py.\n"
            f"@module\ttorchvision.models.{MODULES[name]}\n"
            "@mean\t" + "\t".join(map(str, MEAN)) + "\n@std\t" + "\t".join(map(str, STD)) + "\n")
    head += "@leaves_out\taux_classifier.\n" if name == "deeplab50" else ""
    return head + "".join(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nets", nargs="*", default=list(MODULES))
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    options = parser.parse_args()
    stale = []
    for name in options.nets or MODULES:
        path = os.path.join(prototxt.ROOT, "models", name, "names.torch.tsv")
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
