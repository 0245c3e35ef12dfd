#!/usr/bin/env python3
"""Writes data_augment.json: what torchvision, Pillow and numpy make of a small picture by the changes of data/augment.

The picture follows from a formula which the C++ tests (tests/data/augment) have too. Pixels are written as hex of
[H,W,C] bytes in the order B,G,R. Geometry is Pillow's bilinear resampling.
Needs numpy, Pillow, PyTorch and torchvision. Usage: make_augment_goldens.py [FILE]
"""

import json
import os
import sys

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, InterpolationMode, RandAugment, TrivialAugmentWide
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

HEIGHT, WIDTH, FILL = 13, 17, 9
BILINEAR = InterpolationMode.BILINEAR


def picture(channels):
    """A smooth part, and one that changes from pixel to pixel; few values reach the ends of the range."""
    y, x, c = np.mgrid[0:HEIGHT, 0:WIDTH, 0:channels]
    smooth = 20 + 9 * x + 5 * y + 17 * c
    rough = (x * 37 + y * 11 + c * 53 + (x * y * 7) % 64) % 200 + 30
    return np.where(y < HEIGHT // 2, smooth, rough).astype(np.uint8)


def to_pil(bgr):
    return Image.fromarray(bgr[:, :, 0]) if bgr.shape[2] == 1 else Image.fromarray(bgr[:, :, ::-1].copy())


def hex_of(image):
    pixels = np.asarray(image)
    if pixels.ndim == 3:
        pixels = pixels[:, :, ::-1]
    return pixels.astype(np.uint8).tobytes().hex()


def policy_steps():
    """Each change at several magnitudes of the policies, both signs."""
    magnitudes = {
        "Identity": [0], "ShearX": [0.12, -0.3, 0.99], "ShearY": [0.15, -0.3, -0.99], "TranslateX": [3.7, -5.2],
        "TranslateY": [2.2, -6.9], "Rotate": [12, -30, 101.25], "Brightness": [0.3, -0.57, 0.99],
        "Color": [0.27, -0.9, 0.99], "Contrast": [0.45, -0.66, 0.99], "Sharpness": [0.9, -0.6, -0.99],
        "Posterize": [8, 6, 4, 2], "Solarize": [255, 127.5, 76.5, 0], "AutoContrast": [0], "Equalize": [0],
        "Invert": [0]}
    found = []
    for channels in (3, 1):
        for name, values in magnitudes.items():
            for value in values:
                fill = [FILL] * channels
                image = _apply_op(to_pil(picture(channels)), name, value, interpolation=BILINEAR, fill=fill)
                found.append({"change": name, "magnitude": value, "channels": channels, "pixels": hex_of(image)})
    return found


def spaces():
    """The magnitudes of each policy's steps for pictures of 200 x 120 (height x width)."""
    made = {"RAND_AUGMENT": RandAugment()._augmentation_space(31, (200, 120)),
            "TRIVIAL_AUGMENT": TrivialAugmentWide()._augmentation_space(31),
            "AUTO_AUGMENT_IMAGENET": AutoAugment()._augmentation_space(10, (200, 120))}
    return {kind: {name: {"values": [float(v) for v in values.reshape(-1)], "signed": signed}
                   for name, (values, signed) in space.items()} for kind, space in made.items()}


def pairs():
    policies = {"AUTO_AUGMENT_IMAGENET": AutoAugmentPolicy.IMAGENET, "AUTO_AUGMENT_CIFAR10": AutoAugmentPolicy.CIFAR10}
    return {kind: [[[name, p, -1 if step is None else step] for name, p, step in pair]
                   for pair in AutoAugment(policy).policies] for kind, policy in policies.items()}


def colors():
    found = []
    image = to_pil(picture(3))
    changes = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation,
               "sharpness": F.adjust_sharpness}
    for name, change in changes.items():
        for factor in (0.0, 0.4, 1.0, 1.37, 2.5):
            found.append({"change": name, "factor": factor, "pixels": hex_of(change(image, factor))})
    tensor = torch.from_numpy(picture(3)[:, :, ::-1].copy()).permute(2, 0, 1)
    for turns in (-0.5, -0.13, 0.0, 0.08, 0.35):
        turned = F.adjust_hue(tensor, turns).permute(1, 2, 0).numpy()
        found.append({"change": "hue", "factor": turns, "pixels": hex_of(turned)})
    return found


def affines():
    found = []
    for degrees, dx, dy, scale, shear_x, shear_y in ((0, 0, 0, 1, 0, 0), (30, 0, 0, 1, 0, 0), (-75, 2, -3, 1, 0, 0),
                                                     (0, 0, 0, 0.6, 0, 0), (10, -1, 1, 1.7, 20, 0),
                                                     (170, 3, 2, 1.2, -35, 0), (25, 0, 1, 0.9, 15, -20)):
        image = F.affine(to_pil(picture(3)), degrees, [dx, dy], scale, [shear_x, shear_y], BILINEAR, [FILL] * 3)
        found.append({"degrees": degrees, "dx": dx, "dy": dy, "scale": scale, "shear_x": shear_x, "shear_y": shear_y,
                      "pixels": hex_of(image)})
    return found


def lightings():
    """Krizhevsky's formula with ImageNet's components."""
    values = np.array([0.2175, 0.0188, 0.0045])
    vectors = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    found = []
    for alphas in ([0.1, -0.2, 0.05], [-0.31, 0.4, -0.9], [2.0, 1.0, -1.0]):
        rgb = vectors @ (np.array(alphas) * values) * 255
        changed = np.clip(np.round(picture(3)[:, :, ::-1] + rgb), 0, 255)
        found.append({"alphas": alphas, "rgb": rgb.tolist(), "pixels": hex_of(changed)})
    return found


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "data_augment.json")
    goldens = {"height": HEIGHT, "width": WIDTH, "fill": FILL, "steps": policy_steps(), "spaces": spaces(),
               "pairs": pairs(), "colors": colors(), "affines": affines(), "lightings": lightings()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(goldens, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
