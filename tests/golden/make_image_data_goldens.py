#!/usr/bin/env python3
"""Writes data_layers.json: what layers of label images, windows and clips make of small pictures.

The steps are those of the forks' sources (PSPNet, SegNet, ENet, HED, DeconvNet, BVLC, TSN), written with numpy and
OpenCV's resize. Pictures follow from a formula which the C++ test (tests/data/pipeline/picture_layers_test.cpp) has too.
Needs numpy and OpenCV. Usage: make_image_data_goldens.py [FILE]
"""

import json
import os
import sys

import cv2
import numpy as np


def picture(height, width, channels, seed):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    values = (x * 37 + y * 11 + c * 53 + seed * 29 + (x * y * 7) % 64) % 256
    return values.astype(np.uint8)


def grey(height, width, seed):
    return picture(height, width, 1, seed)[:, :, 0]


def planes(image, mean, scale):
    """[H,W,C] to [C,H,W] floats."""
    image = image.astype(np.float32)
    if image.ndim == 2:
        image = image[:, :, None]
    return ((image - np.asarray(mean, np.float32)) * np.float32(scale)).transpose(2, 0, 1)


def numbers(array):
    return [round(float(v), 5) for v in np.asarray(array).ravel()]


def segments(image, label, size=None, factor=1.0, crop=None, mean=(0, 0, 0), scale=1.0, ignore=255):
    """PSPNet's ReadImageToCVMat and TransformImgAndSeg in TEST, labels resized to the nearest."""
    if size:
        image = cv2.resize(image, (size[1], size[0]))
        label = cv2.resize(label, (size[1], size[0]), interpolation=cv2.INTER_NEAREST)
    rows, columns = image.shape[:2]
    if factor != 1.0:
        height, width = int(image.shape[0] * factor), int(image.shape[1] * factor)
        image = cv2.resize(image, (width, height))
        label = cv2.resize(label, (width, height), interpolation=cv2.INTER_NEAREST)
    data = image.astype(np.float64)
    if crop:
        down = max(crop[0] - data.shape[0], 0)
        right = max(crop[1] - data.shape[1], 0)
        if down or right:
            data = cv2.copyMakeBorder(data, 0, down, 0, right, cv2.BORDER_CONSTANT, value=[float(m) for m in mean])
            label = cv2.copyMakeBorder(label, 0, down, 0, right, cv2.BORDER_CONSTANT, value=ignore)
        y, x = (data.shape[0] - crop[0]) // 2, (data.shape[1] - crop[1]) // 2
        data = data[y:y + crop[0], x:x + crop[1]]
        label = label[y:y + crop[0], x:x + crop[1]]
    sizes = (min(data.shape[0], rows), min(data.shape[1], columns))
    return planes(data, mean, scale), label.astype(np.float32), sizes


def window_segments(image, label, window, size, crop, mean, ignore):
    """DeconvNet's window_seg_data_layer."""
    x1, y1, x2, y2 = window
    rows, columns = image.shape[:2]
    left, top, right, bottom = max(0, -x1), max(0, -y1), max(0, x2 - columns + 1), max(0, y2 - rows + 1)
    image = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(0, 0, 0))
    label = cv2.copyMakeBorder(label, top, bottom, left, right, cv2.BORDER_CONSTANT, value=ignore)
    area = np.s_[y1 + top:y2 + top + 1, x1 + left:x2 + left + 1]
    data, label, _ = segments(image[area], label[area], size=size, crop=crop, mean=mean, ignore=ignore)
    return data, label, (min(crop[0], rows), min(crop[1], columns))


def c_round(value):
    """round() of C: half away from zero."""
    return int(np.floor(abs(value) + 0.5) * np.sign(value))


def warped(image, window, crop, pad, square, mirrored, mean, scale):
    """BVLC's window_data_layer, one window."""
    f = np.float32
    x1, y1, x2, y2 = window
    width = height = crop
    pad_w = pad_h = 0
    if pad > 0 or square:
        context = f(crop) / f(crop - 2 * pad)
        half_height, half_width = f(y2 - y1 + 1) / f(2), f(x2 - x1 + 1) / f(2)
        center_x, center_y = f(x1) + half_width, f(y1) + half_height
        if square:
            half_width = half_height = max(half_width, half_height)
        x1, x2 = c_round(center_x - half_width * context), c_round(center_x + half_width * context)
        y1, y2 = c_round(center_y - half_height * context), c_round(center_y + half_height * context)
        all_height, all_width = y2 - y1 + 1, x2 - x1 + 1
        pad_x1, pad_y1 = max(0, -x1), max(0, -y1)
        pad_x2, pad_y2 = max(0, x2 - image.shape[1] + 1), max(0, y2 - image.shape[0] + 1)
        x1, x2, y1, y2 = x1 + pad_x1, x2 - pad_x2, y1 + pad_y1, y2 - pad_y2
        scale_x, scale_y = f(crop) / f(all_width), f(crop) / f(all_height)
        width, height = c_round(f(x2 - x1 + 1) * scale_x), c_round(f(y2 - y1 + 1) * scale_y)
        pad_h = c_round(f(pad_y1) * scale_y)
        pad_w = c_round(f(pad_x2 if mirrored else pad_x1) * scale_x)
        height, width = min(height, crop - pad_h), min(width, crop - pad_w)
    cut = cv2.resize(image[y1:y2 + 1, x1:x2 + 1], (width, height), interpolation=cv2.INTER_LINEAR)
    if mirrored:
        cut = cut[:, ::-1]
    out = np.zeros((3, crop, crop), np.float32)
    out[:, pad_h:pad_h + height, pad_w:pad_w + width] = planes(cut, mean, scale)
    return out


def main():
    image, label = picture(7, 9, 3, 1), grey(7, 9, 2)
    mean = (10.5, 20, 30)
    cases = {}

    def add(name, data, label_values=(), sizes=()):
        cases[name] = {"data": numbers(data), "label": numbers(label_values), "sizes": list(sizes)}

    add("seg_resized_crop", *segments(image, label, size=(10, 12), crop=(8, 8), mean=mean, scale=0.5))
    add("seg_padded", *segments(image, label, crop=(12, 8), mean=mean))
    add("seg_scaled", *segments(image, label, factor=1.5, crop=(6, 7), mean=mean))
    add("seg_window", *window_segments(image, label, (-2, 1, 5, 9), (9, 10), (8, 8), mean, 255))

    resized = cv2.resize(image, (12, 10))
    halved = cv2.resize(label, (6, 5), interpolation=cv2.INTER_NEAREST)
    add("dense_divided", planes(resized, mean, 1.0), halved)
    edges = cv2.resize(label, (12, 10))
    add("labelmap", planes(resized, mean, 1.0), np.rint(edges / 255.0))

    for name, crop, pad, square in (("warp", 6, 0, False), ("context", 8, 2, False), ("square", 8, 1, True)):
        for window_name, window in (("inside", (2, 1, 6, 4)), ("corner", (0, 0, 3, 5)), ("right", (4, 2, 8, 6))):
            for mirrored in (False, True):
                out = warped(image, window, crop, pad, square, mirrored, mean, 0.25)
                add("window_%s_%s%s" % (name, window_name, "_mirrored" if mirrored else ""), out)

    # Two frames of TSN: the whole frame, resized to the crop.
    frames = [cv2.resize(picture(12, 12, 3, seed), (6, 6)) for seed in (3, 4)]
    add("clip_multi_scale", np.concatenate([planes(frame, mean, 1.0) for frame in frames]))

    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "data_layers.json")
    with open(path, "w") as file:
        json.dump(cases, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
