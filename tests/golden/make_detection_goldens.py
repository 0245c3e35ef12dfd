"""Records the detection and pose layers of forks on small inputs in float64, from their definitions: boxes and peaks
in numpy, gradients by PyTorch.

Usage: python3 make_detection_goldens.py      writes layers_detection.json (the format of make_layer_goldens.py)
"""

import json
import math
import os

import numpy as np
import torch

import moka_random
from make_ssd_goldens import detect, random, rounded, short
from ssd_boxes import prior_boxes

CASES = []


def record(name, kind, fields, bottoms, top, phase="TRAIN", gradients=None, params=(), weight=None):
    """bottoms: arrays; gradients: {bottom: array} of the sum of weight * top; params: rows of the format."""
    text = f'layer {{ name: "{name}" type: "{kind}" '
    text += "".join(f'bottom: "x{i}" ' for i in range(len(bottoms))) + f'top: "y0" {fields} }}'
    rows = []
    for i, x in enumerate(bottoms):
        row = {"shape": list(x.shape), "data": [short(v) for v in x.reshape(-1)]}
        if gradients is not None and i in gradients:
            row["gradient"] = rounded(gradients[i])
        rows.append(row)
    written = {"shape": list(top.shape), "data": rounded(top)}
    if weight is not None:
        written["weight"] = rounded(weight)
    CASES.append({"name": name, "layer": text, "phase": phase, "bottoms": rows, "params": list(params),
                  "tops": [written]})


def torch_case(name, kind, fields, x, function, **more):
    """A layer of one bottom whose top and gradient follow from a function of torch."""
    bottom = torch.tensor(x, requires_grad=True)
    top = function(bottom)
    weight = random(name + "/weight", tuple(top.shape))
    (top * torch.tensor(weight)).sum().backward()
    record(name, kind, fields, [x], top.detach().numpy(), gradients={0: bottom.grad.numpy()}, weight=weight, **more)


# Priors --------------------------------------------------------------------------------------------------------------


def cells(map_size, image, step, boxes, offset=0.5):
    """Priors of a list of (shift x, shift y in pixels, width, height) a cell."""
    found = []
    for y in range(map_size[0]):
        for x in range(map_size[1]):
            for dx, dy, w, h in boxes:
                cx, cy = (x + offset) * step[1] + dx, (y + offset) * step[0] + dy
                found.append([(cx - w / 2) / image[1], (cy - h / 2) / image[0], (cx + w / 2) / image[1],
                              (cy + h / 2) / image[0]])
    return np.array(found)


def prior_case(name, fields, boxes, map_size=(2, 3), image=(24, 30), step=None, kind="PriorBox", yx=False, offset=0.5):
    step = step or (image[0] / map_size[0], image[1] / map_size[1])
    found = cells(map_size, image, step, boxes, offset)
    if yx:
        found = found[:, [1, 0, 3, 2]]
    variances = np.full(found.size, np.float64(np.float32(0.1)))
    record(name, kind, f"prior_box_param {{ img_h: {image[0]} img_w: {image[1]} {fields} }}",
           [np.ones((1, 1, *map_size))], np.stack([found.reshape(-1), variances])[None])


def sides(size, ratio):
    return size * math.sqrt(ratio), size / math.sqrt(ratio)


def prior_cases():
    middle = math.sqrt(8 * 12)
    prior_case("prior_no_default", "use_default: false min_size: 8 max_size: 12 aspect_ratio: 2",
               [(0, 0, *sides(s, r)) for r in (2, 0.5) for s in (8, middle)])
    third = np.float64(np.float32(0.25))
    prior_case("prior_offsets", "offset_w: 0.25 offset_w: 0.75 offset_h: 0.5 min_size: 6 min_size: 10 aspect_ratio: 0.25 "
               "flip: false", [((ox - 0.5) * 10, 0, *sides(s, third)) for ox in (0.25, 0.75) for s in (6, 10)])
    prior_case("prior_tf", "tf: true yx_order: true min_size: 60 max_size: 100 aspect_ratio: 2", [
        (0, 0, 60 - 20, 60 - 30), (0, 0, *sides(60, 2)), (0, 0, *sides(60, 0.5)), (0, 0, math.sqrt(6000), math.sqrt(6000))],
        image=(300, 200), yx=True)
    dense = [(j * 8, i * 8, 31, 31) for i in range(-2, 2) for j in range(-2, 2)]
    dense += [(j * 16, i * 16, 63, 63) for i in range(-1, 1) for j in range(-1, 1)] + [(0, 0, 127, 127)]
    prior_case("prior_faceboxes", "faceboxes: true min_size: 32 min_size: 64 min_size: 128", dense, image=(64, 96))
    twice = [(0, dy, *size) for size in ((8, 8), (middle, middle), sides(8, 3)) for dy in (0, 6)]
    prior_case("prior_textboxes", "textboxes: true min_size: 8 max_size: 12 aspect_ratio: 3 flip: false", twice)
    prior_case("prior_clustered", "width: 9.5 height: 15 width: 25.25 height: 39.5 step: 16",
               [(0, 0, 9.5, 15), (0, 0, 25.25, 39.5)], step=(16, 16), kind="PriorBoxClustered")


# Detections ----------------------------------------------------------------------------------------------------------


def maps_case():
    """Two maps as convolutions leave them, against the same numbers box by box."""
    settings = {"background": 0, "code": "CENTER_SIZE", "share": True, "in_target": False, "confidence": 0.25, "top_k": 8,
                "nms": 0.45, "eta": 1.0, "keep": 6}
    classes, shapes = 3, [(2, 3, 2), (1, 2, 1)]  # height, width, boxes a cell
    conf = [random(f"maps/conf{i}", (1, classes, b, h * w), 0, 1) for i, (h, w, b) in enumerate(shapes)]
    loc = [random(f"maps/loc{i}", (1, 4 * b, h, w)) for i, (h, w, b) in enumerate(shapes)]
    prior = np.concatenate([prior_boxes((h, w), (32, 32), [9], [14] if b == 2 else []) for h, w, b in shapes], axis=2)
    prior[0, 0] = np.round(512 * prior[0, 0]) / 512
    prior[0, 1] = 0.125
    boxes_loc = np.concatenate([x[0].reshape(b, 4, h * w).transpose(2, 0, 1).reshape(-1, 4)
                                for x, (h, w, b) in zip(loc, shapes)])
    boxes_conf = np.concatenate([x[0].transpose(2, 1, 0).reshape(-1, classes) for x in conf])
    found = detect(boxes_loc[:, None], boxes_conf, prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4), settings)
    top = np.full((1, 1, 6, 7), -1.0)
    for i, row in enumerate(found):
        top[0, 0, i] = (0, *row)
    record("detection_maps", "DetectionOutput", "detection_output_param { num_classes: 3 code_type: CENTER_SIZE keep_top_k: 6 "
           "confidence_threshold: 0.25 nms_param { nms_threshold: 0.45 top_k: 8 } no_permute: true nbottom: 2 }",
           [*conf, *loc, prior], top, phase="TEST")


def regions_case():
    """Regions in pixels, one class's place a region."""
    settings = {"background": 0, "code": "CENTER_SIZE", "share": False, "in_target": True, "confidence": 0.125, "top_k": 10,
                "nms": 0.4, "eta": 1.0, "keep": 5}
    count, classes = 6, 2
    corner = np.round(8 * random("regions/corner", (count, 2), 0, 20)) / 8
    extent = np.round(8 * random("regions/extent", (count, 2), 4, 20)) / 8
    rois = np.concatenate([np.zeros((count, 1)), corner, corner + extent], axis=1)
    loc = random("regions/loc", (1, count * classes * 4), -0.5, 0.5)
    conf = random("regions/conf", (1, count * classes), 0, 1)
    found = detect(loc.reshape(count, classes, 4), conf.reshape(count, classes), rois[:, 1:] / np.array([64, 32, 64, 32]),
                   np.ones((count, 4)), settings)
    top = np.full((1, 1, 5, 7), -1.0)
    for i, row in enumerate(found):
        top[0, 0, i] = (0, *row)
    record("detection_regions", "DetectionOutput", "detection_output_param { num_classes: 2 share_location: false code_type: "
           "CENTER_SIZE variance_encoded_in_target: true normalized: false input_width: 64 input_height: 32 keep_top_k: 5 "
           "confidence_threshold: 0.125 nms_param { nms_threshold: 0.4 top_k: 10 } }", [loc, conf, rois], top, phase="TEST")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def yolo_case():
    """YOLO v2's map; the threshold leaves boxes that do not meet."""
    height, width, anchors, classes = 2, 3, [(0.5, 0.25), (0.375, 0.5)], 3
    x = random("yolo/map", (1, 2 * (5 + classes), height, width), -2, 2)
    rows = []
    for h in range(height):
        for w in range(width):
            for n, (a, b) in enumerate(anchors):
                v = x[0, n * (5 + classes):(n + 1) * (5 + classes), h, w]
                p = np.exp(v[5:]) / np.exp(v[5:]).sum()
                score = sigmoid(v[4]) * p.max()
                if score >= 0.25:
                    rows.append((0, p.argmax(), score, (w + sigmoid(v[0])) / width, (h + sigmoid(v[1])) / height,
                                 math.exp(v[2]) * a / width, math.exp(v[3]) * b / height))
    rows.sort(key=lambda r: -r[2])
    kept = []
    for row in rows:
        def overlap(other):
            shared = 1.0
            for k in (3, 4):
                low = max(row[k] - row[k + 2] / 2, other[k] - other[k + 2] / 2)
                high = min(row[k] + row[k + 2] / 2, other[k] + other[k + 2] / 2)
                shared *= max(0.0, high - low)
            return shared / (row[5] * row[6] + other[5] * other[6] - shared)

        if all(overlap(k) < 0.3 for k in kept):
            kept.append(row)
    assert 1 <= len(kept) < len(anchors) * height * width
    top = np.full((1, 1, 12, 7), -1.0)
    top[0, 0, :len(kept)] = kept
    record("detection_yolo", "DetectionOutput", "detection_output_param { classes: 3 num_box: 2 confidence_threshold: 0.25 "
           "nms_threshold: 0.3 biases: 0.5 biases: 0.25 biases: 0.375 biases: 0.5 }", [x], top, phase="TEST")


def faces_case(name, maps, sizes, picture, softmax, landmarks, threshold, keep):
    places = 4 + (10 if landmarks else 0)
    channels = places + (2 if softmax else 1)
    x = [random(f"{name}/{i}", (2, channels, *m), -1.5, 1.5) for i, m in enumerate(maps)]
    rows = []
    for n in range(2):
        found = []
        for values, (height, width), size in zip(x, maps, sizes):
            stride = picture / width
            for i in range(height):
                for j in range(width):
                    v = values[n, :, i, j]
                    at = np.array([(j + 0.5) * stride, (i + 0.5) * stride] * (places // 2))
                    at = np.clip(at - v[:places] * size / (1 if softmax else 2), 0, picture)
                    score = sigmoid(v[places + 1] - v[places] if softmax else v[places])
                    if at[2] > at[0] and at[3] > at[1] and score >= threshold:
                        found.append((score, at))
        kept = []
        for score, at in sorted(found, key=lambda f: -f[0]):
            def clash(other):
                w, h = (min(at[k + 2], other[k + 2]) - max(at[k], other[k]) + 1 for k in (0, 1))
                shared = max(w, 0) * max(h, 0)
                area = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (at, other))
                return shared / (area - shared) > np.float32(0.3)

            if len(kept) < keep and not any(clash(other) for _, other in kept):
                kept.append((score, at))
        rows += [(n, 1, score, *(at / picture)) for score, at in kept]
    limit = min(keep, sum(h * w for h, w in maps))
    assert 2 < len(rows) <= 2 * limit, len(rows)
    top = np.full((1, 1, 2 * limit, 3 + places), -1.0)
    top[0, 0, :len(rows)] = rows
    fields = "".join(f"bias_scale: {s} " for s in sizes) + (f"class_type: SOFTMAX num_classes: 2 has_lm: "
                                                            f"{str(landmarks).lower()}" if softmax else "num_classes: 1")
    record(name, "CenterGridOutput", f"detection_output_param {{ {fields} net_height: {picture} net_width: {picture} "
           f"confidence_threshold: {threshold} nms_thresh: 0.3 keep_top_k: {keep} }}", x, top, phase="TEST")


# Others --------------------------------------------------------------------------------------------------------------


def region(x, boxes, classes, softmax):
    n, _, h, w = x.shape
    rows = x.reshape(n, boxes, 5 + classes, h * w).permute(0, 3, 1, 2)
    score = rows[..., 5:].softmax(-1) if softmax else rows[..., 5:]
    return torch.cat([rows[..., :4], rows[..., 4:5].sigmoid(), score], dim=-1).reshape(x.shape)


def cubic_matrix(outputs, pixels, border):
    """[outputs, pixels]: how each output weighs the pixels between the borders."""
    inner = pixels - 2 * border
    matrix = np.zeros((outputs, pixels))
    for i in range(outputs):
        place = (i - (outputs / inner / 2 - 0.5)) * inner / outputs
        low = max(int(place + 1e-5), 0)
        d = place - low
        weights = [-d / 2 + d**2 - d**3 / 2, 1 - 5 * d**2 / 2 + 3 * d**3 / 2, d / 2 + 2 * d**2 - 3 * d**3 / 2,
                   -d**2 / 2 + d**3 / 2]
        for k, weight in zip((low - 1, low, low + 1, low + 2), weights):
            matrix[i, border + min(max(k, 0), inner - 1)] += weight
    return matrix


def resize_case(name, shape, size, fields, start=1.0, gap=0.125):
    x = random(name, shape)
    top = np.zeros((1, shape[1], *size))
    for n in range(shape[0]):
        part = 1 - start + n * gap
        rows, columns = (cubic_matrix(size[k], shape[2 + k], math.floor(shape[2 + k] // 2 * part)) for k in (0, 1))
        top += np.einsum("ih,chw,jw->cij", rows, x[n], columns)[None] / shape[0]
    record(name, "ImResize", f"imresize_param {{ {fields} }}", [x], top)


def peaks_case():
    x = random("peaks", (1, 3, 9, 11))
    x[0, 0] = np.round(512 * sum(
        h * np.exp(-((np.arange(9)[:, None] - cy)**2 + (np.arange(11)[None] - cx)**2) / 4)
        for cy, cx, h in ((2, 2, 0.9), (6, 8, 0.7), (7, 1, 0.5)))) / 512
    top = np.zeros((1, 2, 4, 3))
    for c in range(2):
        plane, count = x[0, c], 0
        for i in range(1, 8):
            for j in range(1, 10):
                around = plane[i - 1:i + 2, j - 1:j + 2].copy()
                around[1, 1] = -math.inf
                if not plane[i, j] > max(0.25, around.max()):
                    continue
                count += 1
                if count <= 3:
                    window = [(plane[y, z], z, y) for y in range(max(i - 3, 1), min(i + 3, 8) + 1)
                              for z in range(max(j - 3, 1), min(j + 3, 10) + 1) if plane[y, z] > 0]
                    mass = sum(v for v, _, _ in window)
                    top[0, c, count] = (sum(v * z for v, z, _ in window) / mass, sum(v * y for v, _, y in window) / mass,
                                        plane[i, j])
        top[0, c, 0, 0] = count
    assert top[0, 0, 0, 0] == 3 and top[0, 1, 0, 0] > 3
    record("peaks", "Nms", "nms_param { threshold: 0.25 max_peaks: 3 num_parts: 2 }", [x], top)


def reversal_case(name, passes, fields, coefficient):
    x = random(name, (2, 3))
    weight = random(name + "/weight", (2, 3))
    record(name, "GradientScaler", f"gradient_scaler_param {{ {fields} }}", [x], x, gradients={0: -coefficient * weight},
           weight=weight, params=[{"shape": [], "data": [passes], "after": [passes + 1]}])


def other_cases():
    up = random("upsample", (1, 2, 2, 3))
    torch_case("upsample_darknet", "UpsampleDarknet", "upsample_darknet_param { stride: 2 }", up,
               lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest"))
    boxes = random("region", (2, 2 * 7, 2, 3))
    torch_case("region", "Region", "region_param { classes: 2 boxes_of_each_grid: 2 }", boxes,
               lambda x: region(x, 2, 2, False))
    torch_case("region_softmax", "Region", "region_param { classes: 2 boxes_of_each_grid: 2 softmax: true }", boxes,
               lambda x: region(x, 2, 2, True))
    mean, variance = np.array([0.5, -0.25]), np.array([2.0, 0.5])
    kept = [{"shape": [2], "data": [short(v * 4) for v in mean], "after": [short(v * 4) for v in mean]},
            {"shape": [2], "data": [short(v * 4) for v in variance], "after": [short(v * 4) for v in variance]},
            {"shape": [1], "data": [4], "after": [4]}]
    torch_case("bn_eps_after_root", "BatchNorm", "batch_norm_param { add_eps_before_sqrt: false eps: 0.0625 }",
               random("bn", (2, 2, 2, 2)),
               lambda x: (x - torch.tensor(mean)[:, None, None]) / (torch.tensor(variance)[:, None, None].sqrt() + 0.0625),
               phase="TEST", params=kept)
    resize_case("resize_factor", (1, 2, 4, 5), (8, 10), "factor: 2")
    resize_case("resize_target", (1, 1, 6, 5), (4, 9), "target_spatial_height: 4 target_spatial_width: 9")
    resize_case("resize_scales", (3, 1, 12, 16), (18, 20), "target_spatial_height: 18 target_spatial_width: 20 "
                "scale_gap: 0.25", gap=0.25)
    peaks_case()
    c = 2 / (1 + math.exp(-10 * 30 / 100)) - 1
    reversal_case("reversal", 30, "max_iter: 100", c)
    reversal_case("reversal_later", 60, "max_iter: 90 threshold_iter: 10 alpha: 4 lower_bound: 0.25 upper_bound: 0.75",
                  1 / (1 + math.exp(-4 * 50 / 100)) - 0.5 + 0.25)
    reversal_case("reversal_not_yet", 10, "max_iter: 90 threshold_iter: 10", 0)


def main():
    prior_cases()
    maps_case()
    regions_case()
    yolo_case()
    faces_case("faces_sigmoid", [(4, 4), (2, 2)], [9, 18], 32, False, False, 0.5, 6)
    faces_case("faces_softmax", [(3, 3), (2, 2)], [6, 12], 24, True, False, 0.25, 50)
    faces_case("faces_landmarks", [(3, 3), (1, 1)], [6, 12], 24, True, True, 0.25, 5)
    other_cases()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_detection.json")
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
