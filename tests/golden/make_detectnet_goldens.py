"""Records DetectNet's layers on small inputs.

Usage: python3 make_detectnet_goldens.py      writes layers_detectnet.json, as make_layer_goldens.py describes

detectnet_reference.py has the layers; run by itself it compares them with OpenCV. In phase TRAIN the run's key is 0.
"""

import json
import os

import numpy as np

import detectnet_reference as reference
import make_roi_goldens
from make_roi_goldens import case
from moka_random import named_units


def numbers(name, shape, low, high, step=1.0):
    return np.round((low + (high - low) * named_units(name, tuple(shape))) / step) * step


def labels(name, images, objects, width, height, classes, step=0.25):
    """[images,1,objects+1,16]: the last row of each image is not counted."""
    label = numbers(name + "/rest", (images, 1, objects + 1, 16), -9, 9)
    label[:, :, 0] = 0
    label[:, 0, 0, :2] = objects - 1, 16
    for column, (low, high) in enumerate([(-6, width), (-6, height), (4, width / 2), (4, height / 2)]):
        label[:, 0, 1:, column] = numbers(f"{name}/{column}", (images, objects), low, high, step)
    label[:, 0, 1:, 5] = np.array(classes)[numbers(name + "/class", (images, objects), 0, len(classes) - 1).astype(int)]
    return label


GROUND = ("stride", "scale_cvg", "gridbox_type", "max_cvg_len", "min_cvg_len", "image_size_x", "image_size_y",
          "obj_norm", "crop_bboxes")


def fields_text(given):
    parts = {"detectnet_groundtruth_param": "", "detectnet_augmentation_param": "", "transform_param": ""}
    for name, value in given.items():
        if name == "object_class":
            parts["detectnet_groundtruth_param"] += "".join(f"object_class {{ src: {s} dst: {d} }} " for s, d in value)
        elif name == "mean":
            parts["transform_param"] += "".join(f"mean_value: {v} " for v in value)
        else:
            message = "detectnet_groundtruth_param" if name in GROUND else "detectnet_augmentation_param"
            parts[message] += f"{name}: {str(value).lower() if isinstance(value, bool) else value} "
    return 'type: "DetectNetTransformation" ' + "".join(f"{m} {{ {text}}} " for m, text in parts.items() if text)


def transformation(name, size, label, phase="TEST", low=0, high=255, **given):
    fields, (height, width) = reference.Fields(**given), size
    images = numbers(name + "/image", (len(label), 3, height, width), low, high)
    pictures, grids = [], []
    for n, image in enumerate(images):
        chosen = (reference.choices(fields, name, n, height, width) if phase == "TRAIN" else
                  reference.resize_only(fields))
        pictures.append(reference.transform_image(image, chosen, fields))
        grids.append(reference.coverage(label[n, 0], chosen, fields, width, height).astype(np.float64))
    case(name, fields_text(given), [images, label], lambda *_: [np.stack(pictures), np.stack(grids)], phase)


def transformations():
    def label(name, width, height, images=1, classes=(1, 8, 2)):
        return labels(name, images, 7, width, height, classes)

    transformation("transform_resized", (12, 18), label("a", 18, 12), stride=8, scale_cvg=0.4, min_cvg_len=5,
                   gridbox_type="GRIDBOX_MIN", image_size_x=30, image_size_y=20, obj_norm=True,
                   object_class=((1, 0), (8, 1)), mean=(104, 117, 123))
    transformation("transform_cut", (20, 28), label("b", 28, 20), stride=4, scale_cvg=0.75, max_cvg_len=6,
                   image_size_x=28, image_size_y=20, object_class=((8, 2), (1, 0)), mean=(127,))
    # No classes: KITTI's cars; boxes stay as they are; three and a half cells are four.
    transformation("transform_uncut", (16, 28), label("c", 28, 16, classes=(1,)), stride=8, image_size_x=28,
                   image_size_y=16, crop_bboxes=False)
    off = dict(crop_prob=0.0, scale_prob=0.0, flip_prob=0.0, rotation_prob=0.0, hue_rotation_prob=0.0,
               desaturation_prob=0.0)
    grid = dict(stride=6, gridbox_type="GRIDBOX_MIN", min_cvg_len=4, image_size_x=24, image_size_y=18, obj_norm=True)
    size = (14, 21)
    train = dict(phase="TRAIN", **grid)
    transformation("train_none", size, label("d", 21, 14, classes=(1, 1, 1, 2)), **train, **off)
    transformation("train_flip", size, label("e", 21, 14, classes=(1, 1, 1, 2)), **train, **(off | {"flip_prob": 1.0}))
    transformation("train_scale", size, label("f", 21, 14, classes=(1, 1, 1, 2)), **train, crop_bboxes=False,
                   **(off | {"scale_prob": 1.0, "scale_min": 1.25, "scale_max": 1.75}))
    transformation("train_crop", size, label("g", 21, 14, classes=(1, 1, 1, 2)), **train,
                   **(off | {"crop_prob": 1.0, "shift_x": 9, "shift_y": 5}))
    transformation("train_rotation", size, label("h", 21, 14, classes=(1, 1, 1, 2)), **train, crop_bboxes=False,
                   **(off | {"rotation_prob": 1.0, "max_rotate_degree": 60.0}))
    transformation("train_colour", size, label("i", 21, 14, classes=(1, 1, 1, 2)), **train, mean=(127,),
                   **(off | {"hue_rotation_prob": 1.0, "hue_rotation": 200.0, "desaturation_prob": 1.0,
                             "desaturation_max": 0.75}))
    transformation("train_negative", size, label("j", 21, 14, classes=(1, 1, 1, 2)), low=-130, high=130, **train,
                   **(off | {"hue_rotation_prob": 1.0, "hue_rotation": 90.0}))
    everything = {key: 0.75 for key in off}
    transformation("train_all", size, label("k", 21, 14, images=3), **train, mean=(104, 117, 123), shift_x=6,
                   shift_y=7, scale_min=0.75, scale_max=1.5, max_rotate_degree=30.0, hue_rotation=30.0,
                   desaturation_max=0.5, object_class=((1, 1), (8, 0)), **everything)


def python(module, layer, param=""):
    text = f'type: "Python" python_param {{ module: "caffe.layers.detectnet.{module}" layer: "{layer}" '
    return text + (f'param_str: "{param}" ' if param else "") + "}"


def grids(name, images, classes, rows, columns, stride, objects=4):
    """Coverage and boxes as a trained net gives them: the cells of an object agree nearly."""
    cover = numbers(name + "/noise", (images, classes, rows, columns), 0, 0.5, 1 / 64)
    boxes = numbers(name + "/wild", (images, 4, rows, columns), -40, 40, 1 / 8)
    for n in range(images):
        draws = named_units(f"{name}/{n}", (objects, 4))
        for k, (x, y, w, h) in enumerate(draws):
            w, h = 20 + 30 * w, 16 + 24 * h
            x, y = x * (columns * stride - w), y * (rows * stride - h)
            i, j = np.mgrid[int(y // stride):int((y + h) // stride) + 1, int(x // stride):int((x + w) // stride) + 1]
            i, j = np.minimum(i, rows - 1), np.minimum(j, columns - 1)
            cover[n, k % classes, i, j] = 0.75
            jitter = numbers(f"{name}/{n}/{k}", (4, *i.shape), -0.75, 0.75, 1 / 8)
            for c, corner in enumerate((x, y, x + w, y + h)):
                boxes[n, c, i, j] = np.round(corner * 8) / 8 - (j, i)[c % 2] * stride + jitter[c]
    return cover, boxes


def clusters():
    for name, classes, text, fields in (
            ("cluster_one", 1, "80, 48, 8, 0.6, 3, 0.125, 10", (80, 48, 8, 0.6, 3, 0.125, 10)),
            # The grid has a row more than the image; a least height that one of the boxes has not.
            ("cluster_two", 2, " 80,40,8 ,0.5,1,0.25,30 ,2", (80, 40, 8, 0.5, 1, 0.25, 30)),
            # Every cell by itself: 50 of them fit.
            ("cluster_each", 1, "82, 48, 8, 0.25, 0, 0.02, 0, 1", (82, 48, 8, 0.25, 0, 0.02, 0))):
        cover, boxes = grids(name, 2, classes, 6, 10, 8)
        tops = [np.stack([reference.detections(cover[n, c], boxes[n], *fields) for n in range(2)])
                for c in range(classes)]
        case(name, python("clustering", "ClusterDetections", text), [cover, boxes], lambda *_, tops=tops: tops)
    cover, boxes = grids("cluster_nothing", 1, 1, 6, 10, 8)
    case("cluster_nothing", python("clustering", "ClusterDetections", "80, 48, 8, 0.9, 3, 0.02, 10"),
         [cover, boxes], lambda *_: [np.zeros((1, 50, 5))])
    for name, objects, classes in (("truth_one", 3, ((1, 0),)), ("truth_two", 6, ((1, 0), (8, 1)))):
        fields = reference.Fields(stride=8, image_size_x=80, image_size_y=48, min_cvg_len=10, object_class=classes,
                                  gridbox_type="GRIDBOX_MIN", crop_bboxes=False)
        label = labels(name, 2, objects, 60, 40, [c[0] for c in classes], 0.5)
        plain = dict(reference.resize_only(fields))
        grid = np.stack([reference.coverage(one[0], plain, fields, 80, 48) for one in label]).astype(np.float64)
        tops = [np.stack([reference.truths(g[8 + c], g[1:5], 80, 48, 8) for g in grid]) for c in range(len(classes))]
        count = f", {len(classes)}" if len(classes) > 1 else ""
        case(name, python("clustering", "ClusterGroundtruth", "80, 48, 8" + count), [grid[:, 8:], grid[:, 1:5]],
             lambda *_, tops=tops: tops)


def score_cases():
    truth, found = np.zeros((3, 50, 5)), np.zeros((3, 50, 5))
    for n in range(3):
        boxes = numbers(f"score/{n}", (8, 4), 0, 60)
        boxes[:, 2:] = boxes[:, :2] + 20 + numbers(f"score/{n}/side", (8, 2), 0, 20)
        truth[n, :6, :4] = boxes[:6]
        near = boxes[2:] + numbers(f"score/{n}/off", (6, 4), -3, 3)
        rows = np.concatenate([near, boxes[3:4] + 1, boxes[:1] + 9])
        rows = rows[np.argsort(named_units(f"score/{n}/order", (len(rows),)))]
        found[n, 3 * n:3 * n + len(rows), :4] = rows
        found[n, 3 * n:3 * n + len(rows), 4] = 1.5
    marked = np.stack([reference.scores(t, f) for t, f in zip(truth, found)])
    case("score", python("mean_ap", "ScoreDetections", ""), [truth, found], lambda *_: [marked])
    for name, rows in (("map", marked), ("map_nothing", np.zeros_like(marked))):
        case(name, python("mean_ap", "mAP", "80, 48, 8"), [rows],
             lambda *_, rows=rows: [np.array([v]) for v in reference.precision(rows)])


if __name__ == "__main__":
    for group in (transformations, clusters, score_cases):
        group()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_detectnet.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in make_roi_goldens.CASES) +
                   "\n]}\n")
    print(f"{len(make_roi_goldens.CASES)} cases")
