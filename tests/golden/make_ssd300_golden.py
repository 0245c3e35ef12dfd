"""Records the forward pass of models/ssd300 by torchvision's ssd300_vgg16 in float64.

Usage: python3 make_ssd300_golden.py      (PyTorch, torchvision, numpy; a minute, 2 GB)

torchvision has the paper's net with COCO's sizes of default boxes; here it gets VOC's (30, 60, 111, ... 315 of 300) and 21
classes. Nothing comes from the prototxt but the layers' names, which stand beside torchvision's below: parameters are
moka_random.parameter's under those names, the scales of the normalisation 20 (1 + 0.2 (u - 0.5)), and all of
torchvision's are filled exactly once, so both count the same number. The picture is moka_random.data. Boxes are decoded
by torchvision's BoxCoder (its limit to widths and heights is not reached) and suppressed by its nms.

Detections are asked from SCORE on, which leaves some dozens. The script checks that none is a matter of rounding: scores
of a class, and scores and SCORE, are MARGIN apart, overlaps of its candidates and 0.45 as well.

nets/ssd300.json: {
  engine, input_shape, parameter_count
  tops         "mbox_loc", "mbox_conf", "mbox_priorbox" -> {shape, norm, max, samples}; the samples are those of
               moka_random.sample_indices(name, count)
  score        of detection_output_param.confidence_threshold
  detections   [class, score, xmin, ymin, xmax, ymax], by class and falling score, corners as parts of the picture
}
"""

import json
import os

import numpy as np
import torch
import torchvision
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator

import moka_random

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets", "ssd300.json")
CLASSES = 21
SIDE = 300
SIZES = (30, 60, 111, 162, 213, 264, 315)
STEPS = (8, 16, 32, 64, 100, 300)
RATIOS = [[2], [2, 3], [2, 3], [2, 3], [2], [2]]
MAPS = ("conv4_3_norm", "fc7", "conv6_2", "conv7_2", "conv8_2", "conv9_2")
SCORE = 0.75
MARGIN = 5e-5
OVERLAP = 0.45
KEPT = 200


class Layer:
    """What moka_random.parameter asks of a layer of the net."""

    type = "Convolution"

    def __init__(self, name):
        self.name = name


def names_of(model):
    """torchvision's convolutions beside the names of the net's layers, in the order of the picture's way."""
    names = [f"conv{stage}_{i}" for stage, count in enumerate((2, 2, 3, 3, 3), 1) for i in range(1, count + 1)]
    names += ["fc6", "fc7"] + [f"conv{stage}_{i}" for stage in range(6, 10) for i in (1, 2)]
    convs = [m for m in model.backbone.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convs) == len(names)
    for kind, head in (("loc", model.head.regression_head), ("conf", model.head.classification_head)):
        names += [f"{name}_mbox_{kind}" for name in MAPS]
        convs += list(head.module_list)
    return list(zip(names, convs))


@torch.no_grad()
def fill(model):
    filled = set()
    for name, conv in names_of(model):
        for index, tensor in enumerate((conv.weight, conv.bias)):
            tensor.copy_(torch.from_numpy(moka_random.parameter(Layer(name), index, tensor.shape)))
            filled.add(id(tensor))
    scale = model.backbone.scale_weight
    units = moka_random.named_units("conv4_3_norm/0", scale.shape)
    scale.copy_(torch.from_numpy(np.float64(np.float32(20 * (1 + 0.2 * (units - 0.5))))))
    filled.add(id(scale))
    assert filled == {id(p) for p in model.parameters()}, "parameters that the net lacks"
    return sum(p.numel() for p in model.parameters())


def summary(name, tensor):
    values = tensor.contiguous().numpy().reshape(-1)
    samples = values[moka_random.sample_indices(name, len(values))]
    return {
        "shape": list(tensor.shape),
        "norm": float(f"{np.linalg.norm(values):.10g}"),
        "max": float(f"{np.abs(values).max():.10g}"),
        "samples": [float(f"{v:.7g}") for v in samples],
    }


def detect(model, codes, scores, priors):
    """[class, score, box] of one picture; asserts that rounding decides nothing."""
    boxes = model.box_coder.decode_single(codes, priors)
    assert codes[:, 2:].max() / 5 < model.box_coder.bbox_xform_clip
    found = []
    for label in range(1, CLASSES):
        every = scores[:, label]
        assert (every - SCORE).abs().min() > MARGIN, "a score near the threshold"
        chosen = torch.nonzero(every > SCORE)[:, 0]
        assert len(chosen) <= 400
        ranked = every[chosen].sort().values
        assert len(chosen) < 2 or (ranked[1:] - ranked[:-1]).min() > MARGIN, "scores that are nearly equal"
        overlaps = torchvision.ops.box_iou(boxes[chosen], boxes[chosen])
        assert len(chosen) == 0 or (overlaps - OVERLAP).abs().min() > MARGIN, "an overlap near the threshold"
        for i in chosen[torchvision.ops.nms(boxes[chosen], every[chosen], OVERLAP)].tolist():
            found.append([label] + [float(f"{v:.8g}") for v in [float(every[i])] + (boxes[i] / SIDE).tolist()])
    assert len(found) <= KEPT
    return found


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    model = torchvision.models.detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=CLASSES).eval()
    model.anchor_generator = DefaultBoxGenerator(RATIOS, scales=[size / SIDE for size in SIZES], steps=list(STEPS),
                                                 clip=False)
    parameters = fill(model)
    picture = torch.from_numpy(moka_random.data((1, 3, SIDE, SIDE)))
    maps = list(model.backbone(picture).values())
    head = model.head(maps)
    priors = model.anchor_generator(torchvision.models.detection.image_list.ImageList(picture, [(SIDE, SIDE)]), maps)[0]
    codes, logits = head["bbox_regression"], head["cls_logits"]
    variances = torch.tensor([0.1, 0.1, 0.2, 0.2]).repeat(len(priors))
    golden = {
        "engine": f"torchvision {torchvision.__version__}",
        "input_shape": list(picture.shape),
        "parameter_count": parameters,
        "tops": {
            "mbox_loc": summary("mbox_loc", codes.reshape(1, -1)),
            "mbox_conf": summary("mbox_conf", logits.reshape(1, -1)),
            "mbox_priorbox": summary("mbox_priorbox", torch.stack([priors.reshape(-1) / SIDE, variances])[None]),
        },
        "score": SCORE,
        "detections": detect(model, codes[0], logits[0].softmax(-1), priors),
    }
    print(parameters, "parameters,", len(priors), "default boxes,", len(golden["detections"]), "detections")
    with open(PATH, "w", encoding="utf-8") as file:
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
