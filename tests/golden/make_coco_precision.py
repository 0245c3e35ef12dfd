#!/usr/bin/env python3
"""Writes coco_precision.json: boxes drawn at random and what pycocotools makes of them.

    python3 tests/golden/make_coco_precision.py

Rows are those of a CocoEvaluate layer's top, a batch a list: detections (image, class, score, corners, -1), then objects
(image, class, instance, corners, difficult). Corners are whole pixels of pictures of 512x512, so that fractions are exact.
Difficult objects are COCO's ignored ones. Needs numpy and pycocotools.
"""
import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SIDE = 512
IMAGES = 6
BATCHES = 2
CLASSES = (1, 2, 4)


def random_box(rng):
    width, height = (int(v) for v in np.exp(rng.uniform(np.log(8), np.log(300), 2)))
    x, y = (int(rng.integers(0, SIDE - v)) for v in (width, height))
    return [x, y, x + width, y + height]


def moved(rng, box):
    """A box about the same place, more or less well."""
    spread = rng.choice([0.0, 0.05, 0.1, 0.25])
    sides = np.array([box[2] - box[0], box[3] - box[1]] * 2)
    found = np.array(box) + np.rint(rng.normal(0, 1, 4) * spread * sides).astype(int)
    found = np.clip(found, 0, SIDE)
    return [int(v) for v in found] if found[2] > found[0] and found[3] > found[1] else list(box)


def draw(rng):
    objects, detections = [], []
    for image in range(IMAGES):
        for label in CLASSES:
            for _ in range(int(rng.integers(0, 6))):
                box = random_box(rng)
                objects.append((image, label, box, int(rng.random() < 0.1)))
                for _ in range(int(rng.choice([0, 1, 1, 1, 2]))):
                    detections.append((image, label, moved(rng, box)))
            for _ in range(int(rng.integers(0, 3))):
                detections.append((image, label, random_box(rng)))
    scores = rng.permutation(len(detections)) / 1024.0  # no two alike, exact in float32
    return objects, [(*d, float(s)) for d, s in zip(detections, scores)]


def evaluate(objects, detections):
    def xywh(box):
        return [box[0], box[1], box[2] - box[0], box[3] - box[1]]

    def area(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {}, "images": [{"id": i + 1, "width": SIDE, "height": SIDE} for i in range(IMAGES)],
            "categories": [{"id": c, "name": str(c)} for c in CLASSES],
            "annotations": [{"id": k + 1, "image_id": o[0] + 1, "category_id": o[1], "bbox": xywh(o[2]),
                             "area": area(o[2]), "iscrowd": 0, "ignore": o[3]} for k, o in enumerate(objects)]}
        truth.createIndex()
        found = truth.loadRes([{"image_id": d[0] + 1, "category_id": d[1], "bbox": xywh(d[2]), "score": d[3]}
                               for d in detections])
        run = COCOeval(truth, found, "bbox")
        # Its own preparation marks crowds alone as ignored; the mark of the annotation is kept here.
        prepare = run._prepare

        def keep_marks():
            prepare()
            for list_of_objects in run._gts.values():
                for o in list_of_objects:
                    o["ignore"] = objects[o["id"] - 1][3]

        run._prepare = keep_marks
        run.evaluate()
        run.accumulate()
        run.summarize()
    precision = run.eval["precision"][:, :, :, 0, -1]  # [overlaps, recalls, classes]
    return run.stats, [float(precision[:, :, k].mean()) for k in range(len(CLASSES))]


def main():
    rng = np.random.default_rng(7)
    objects, detections = draw(rng)
    stats, classes = evaluate(objects, detections)
    batches = []
    for batch in range(BATCHES):
        first, last = batch * IMAGES // BATCHES, (batch + 1) * IMAGES // BATCHES
        rows = [[d[0] - first, d[1], d[3], *(v / SIDE for v in d[2]), -1] for d in detections if first <= d[0] < last]
        rows += [[o[0] - first, o[1], k + 1, *(v / SIDE for v in o[2]), o[3]]
                 for k, o in enumerate(objects) if first <= o[0] < last]
        rows.append([-1] * 8)
        batches.append([v for row in rows for v in row])
    golden = {"side": SIDE, "batches": batches,
              "values": {"": stats[0], "/ap50": stats[1], "/ap75": stats[2], "/small": stats[3], "/medium": stats[4],
                         "/large": stats[5]},
              "classes": {str(c): v for c, v in zip(CLASSES, classes)}}
    path = pathlib.Path(__file__).with_name("coco_precision.json")
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
