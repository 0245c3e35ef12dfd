"""Records the forward pass of models/mask_rcnn_r50_fpn and models/faster_rcnn_r50_fpn by torchvision's detectors in
float64.

Usage: python3 make_rcnn_goldens.py      (PyTorch, torchvision, numpy; a minute, 3 GB)

Nothing comes from the prototxt but the layers' names, which stand beside torchvision's below: parameters are
moka_random.parameter's under those names, running statistics moka_random.running_statistics', and each tensor of
torchvision's is filled exactly once. Both detectors have ResNet-50 with frozen normalisations, as torchvision builds it for
weights that were trained; its own modules count the learned numbers. Both get the same parameters, so the Faster R-CNN's
tops are those of the Mask R-CNN without the masks, which is asserted.

The heads look at the same regions on both sides, some of them larger than the picture, so that each map is pooled from.

nets/rcnn_r50_fpn.json: {
  engine, input_shape
  parameters   of each folder of models/
  proposals    rows of picture, x1, y1, x2, y2
  tops         name -> {shape, norm, max, samples}; the samples are moka_random.sample_indices(name, count, 64)
}
"""

import json
import os

import numpy as np
import torch
import torchvision
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.ops.misc import FrozenBatchNorm2d

import moka_random

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets", "rcnn_r50_fpn.json")
CLASSES = 91
HEIGHT, WIDTH = 128, 192
SAMPLES = 64
PROPOSALS = [[10, 12, 40, 52], [0, 0, 90, 60], [30.5, 20.25, 160, 120], [5, 5, 120, 125], [-40, -60, 200, 190],
             [100, 90, 108, 97], [-200, -150, 380, 330], [60, 2, 191, 127]]


class ScaleParam:
    filler = None

    @staticmethod
    def HasField(_name):
        return False


class Layer:
    """What moka_random asks of a layer of the net."""

    scale_param = ScaleParam

    def __init__(self, name, kind="Convolution"):
        self.name, self.type = name, kind


def backbone_names():
    """torchvision's convolution, its normalisation and what He calls them."""
    yield "conv1", "bn1", "conv1", "_conv1"
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            ours = f"{stage + 1}{'abcdef'[block]}"
            theirs = f"layer{stage}.{block}"
            for i, branch in enumerate("abc", 1):
                yield f"{theirs}.conv{i}", f"{theirs}.bn{i}", f"res{ours}_branch2{branch}", f"{ours}_branch2{branch}"
            if block == 0:
                yield f"{theirs}.downsample.0", f"{theirs}.downsample.1", f"res{ours}_branch1", f"{ours}_branch1"


def other_names(has_masks):
    for level in range(4):
        inner = "merge5" if level == 3 else f"merge{level + 2}_lateral"
        yield f"backbone.fpn.inner_blocks.{level}.0", inner
        yield f"backbone.fpn.layer_blocks.{level}.0", f"p{level + 2}"
    yield from (("rpn.head.conv.0.0", "rpn2_conv"), ("rpn.head.cls_logits", "rpn2_score"),
                ("rpn.head.bbox_pred", "rpn2_delta"), ("roi_heads.box_head.fc6", "box_fc6"),
                ("roi_heads.box_head.fc7", "box_fc7"), ("roi_heads.box_predictor.cls_score", "class_score"),
                ("roi_heads.box_predictor.bbox_pred", "box_code"))
    if has_masks:
        for i in range(4):
            yield f"roi_heads.mask_head.{i}.0", f"mask_conv{i + 1}"
        yield from (("roi_heads.mask_predictor.conv5_mask", "mask_up"),
                    ("roi_heads.mask_predictor.mask_fcn_logits", "mask_score"))


@torch.no_grad()
def fill(model, has_masks):
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    left = set(tensors)

    def put(name, values):
        tensors[name].copy_(torch.from_numpy(np.asarray(values)))
        left.remove(name)

    def put_both(theirs, layer):
        for index, part in enumerate(("weight", "bias")):
            put(f"{theirs}.{part}", moka_random.parameter(layer, index, tensors[f"{theirs}.{part}"].shape))

    for conv, norm, ours, place in backbone_names():
        weight = f"backbone.body.{conv}.weight"
        put(weight, moka_random.parameter(Layer(ours), 0, tensors[weight].shape))
        put_both(f"backbone.body.{norm}", Layer(f"scale{place}", "Scale"))
        mean, variance, factor = moka_random.running_statistics(Layer(f"bn{place}", "BatchNorm"),
                                                                len(tensors[f"backbone.body.{norm}.weight"]))
        put(f"backbone.body.{norm}.running_mean", mean / factor)
        put(f"backbone.body.{norm}.running_var", variance / factor)
    for theirs, ours in other_names(has_masks):
        put_both(theirs, Layer(ours))
    assert not left, left
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def run(has_masks):
    """The number of learned parameters, and the net's blobs by name."""
    backbone = _resnet_fpn_extractor(torchvision.models.resnet50(weights=None, norm_layer=FrozenBatchNorm2d), 5)
    model = (MaskRCNN if has_masks else FasterRCNN)(backbone, CLASSES).double().eval()
    count = fill(model, has_masks)
    features = model.backbone(torch.from_numpy(moka_random.data((1, 3, HEIGHT, WIDTH))))
    tops = dict(zip(("p2", "p3", "p4", "p5", "p6"), features.values()))
    for name, maps in zip(("score", "delta"), model.rpn.head(list(features.values()))):
        for level, blob in enumerate(maps, 2):
            tops[f"rpn{level}_{name}"] = blob
    regions, size = [torch.tensor(PROPOSALS, dtype=torch.float64)], [(HEIGHT, WIDTH)]
    heads = model.roi_heads
    tops["class_score"], tops["box_code"] = heads.box_predictor(heads.box_head(heads.box_roi_pool(features, regions,
                                                                                                  size)))
    if has_masks:
        tops["mask_score"] = heads.mask_predictor(heads.mask_head(heads.mask_roi_pool(features, regions, size)))
    return count, tops


def summary(name, tensor):
    values = tensor.contiguous().numpy().reshape(-1)
    return {
        "shape": list(tensor.shape),
        "norm": float(f"{np.linalg.norm(values):.10g}"),
        "max": float(f"{np.abs(values).max():.10g}"),
        "samples": [float(f"{v:.7g}") for v in values[moka_random.sample_indices(name, len(values), SAMPLES)]],
    }


def main():
    torch.set_num_threads(1)
    faster, without = run(False)
    mask, tops = run(True)
    assert all(torch.equal(top, tops[name]) for name, top in without.items())
    print(faster, "and", mask, "parameters")
    golden = {
        "engine": f"torchvision {torchvision.__version__}",
        "input_shape": [1, 3, HEIGHT, WIDTH],
        "parameters": {"faster_rcnn_r50_fpn": faster, "mask_rcnn_r50_fpn": mask},
        "proposals": [[0, *box] for box in PROPOSALS],
        "tops": {name: summary(name, top) for name, top in tops.items()},
    }
    with open(PATH, "w", encoding="utf-8") as file:
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
