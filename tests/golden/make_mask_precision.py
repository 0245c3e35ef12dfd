#!/usr/bin/env python3
"""Writes mask_precision.json: masks drawn at random and what pycocotools makes of them.

    python3 tests/golden/make_mask_precision.py

Tables are those of a MaskEvaluate layer's top, a batch a list, made of pycocotools' own areas and overlaps; objects are of
all sizes, difficult (COCO's ignored ones) and crowds among them. Needs numpy and pycocotools.
"""
import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SIDE = 256
PICTURES = 6
BATCHES = 2
CLASSES = (1, 3)
DETECTIONS, OBJECTS = 32, 12  # rows of a picture


def ellipse(x, y, width, height):
    """Run lengths of an ellipse in a box."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside = ((columns + 0.5 - x) / width) ** 2 + ((rows + 0.5 - y) / height) ** 2 <= 0.25
    return masks.encode(np.asfortranarray(inside.astype(np.uint8)))


def draw(rng):
    """Objects (picture, class, mask, mark) and detections (picture, class, score, mask)."""
    objects, detections = [], []
    for picture in range(PICTURES):
        for label in CLASSES:
            for _ in range(int(rng.integers(0, OBJECTS // 2 + 1))):
                width, height = np.exp(rng.uniform(np.log(10), np.log(200), 2))
                x, y = rng.uniform(20, SIDE - 20, 2)
                mark = int(rng.choice([0, 1, 2], p=[0.65, 0.1, 0.25]))
                objects.append((picture, label, ellipse(x, y, width, height), mark))
                for _ in range(3 if mark == 2 else int(rng.choice([0, 1, 1, 2]))):
                    spread = rng.choice([0.0, 0.05, 0.15]) if mark < 2 else 0.2
                    part = 1 if mark < 2 else 0.3  # a detection of a crowd is a small one inside it
                    move = rng.normal(0, spread, 4)
                    moved = ellipse(x + move[0] * width / 2, y + move[1] * height / 2,
                                    max(4, part * width * (1 + move[2])), max(4, part * height * (1 + move[3])))
                    detections.append((picture, label, moved))
            for _ in range(int(rng.integers(0, 2))):
                detections.append((picture, label, ellipse(*rng.uniform(20, 200, 2), *rng.uniform(8, 60, 2))))
    # Nothing of no pixels; scores are exact in float32, no two alike.
    objects = [o for o in objects if masks.area(o[2]) > 0]
    detections = [d for d in detections if masks.area(d[2]) > 0]
    scores = rng.permutation(len(detections)) / 1024.0
    return objects, [(*d[:2], float(s), d[2]) for d, s in zip(detections, scores)]


def evaluate(objects, detections):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {}, "images": [{"id": i + 1, "width": SIDE, "height": SIDE} for i in range(PICTURES)],
            "categories": [{"id": c, "name": str(c)} for c in CLASSES],
            "annotations": [{"id": k + 1, "image_id": o[0] + 1, "category_id": o[1], "segmentation": o[2],
                             "area": float(masks.area(o[2])), "iscrowd": int(o[3] == 2)}
                            for k, o in enumerate(objects)]}
        truth.createIndex()
        found = truth.loadRes([{"image_id": d[0] + 1, "category_id": d[1], "segmentation": d[3], "score": d[2]}
                               for d in detections])
        run = COCOeval(truth, found, "segm")
        # Its own preparation marks crowds alone as ignored; difficult objects are here, too.
        prepare = run._prepare

        def keep_marks():
            prepare()
            for list_of_objects in run._gts.values():
                for o in list_of_objects:
                    o["ignore"] = int(objects[o["id"] - 1][3] > 0)

        run._prepare = keep_marks
        run.evaluate()
        run.accumulate()
        run.summarize()
    precision = run.eval["precision"][:, :, :, 0, -1]  # [overlaps, recalls, classes]
    return run.stats, [float(precision[:, :, k].mean()) for k in range(len(CLASSES))]


def table(picture, objects, detections):
    """Rows: sizes; class, score, pixels and overlaps of each detection; the objects' classes, pixels and marks."""
    own = [o for o in objects if o[0] == picture]
    found = [d for d in detections if d[0] == picture]
    assert len(own) <= OBJECTS and len(found) <= DETECTIONS
    rows = np.full((DETECTIONS + 4, OBJECTS + 3), -1.0)
    rows[0, :2] = DETECTIONS, OBJECTS
    overlaps = masks.iou([d[3] for d in found], [o[2] for o in own], [int(o[3] == 2) for o in own])
    for k, d in enumerate(found):
        rows[k + 1, :3] = d[1], d[2], masks.area(d[3])
        rows[k + 1, 3:] = 0
        if own:
            rows[k + 1, 3:3 + len(own)] = overlaps[k]
            # Rounding may not decide.
            near = np.abs(overlaps[k][:, None] - np.linspace(0.5, 0.95, 10)[None])
            assert near.min() > 1e-6
    for g, o in enumerate(own):
        rows[DETECTIONS + 1:, 3 + g] = o[1], masks.area(o[2]), o[3]
    return [float(f"{v:.8g}") for v in rows.reshape(-1)]


def main():
    rng = np.random.default_rng(5)
    objects, detections = draw(rng)
    stats, classes = evaluate(objects, detections)
    marks = [o[3] for o in objects]
    for mark, other in ((2, 1), (1, 0)):  # each kind must tell
        changed = [(*o[:3], other if o[3] == mark else o[3]) for o in objects]
        assert abs(evaluate(changed, detections)[0][0] - stats[0]) > 1e-3
    print(len(objects), "objects,", marks.count(1), "difficult,", marks.count(2), "crowds;", len(detections),
          "detections;", stats[:6])
    batches = []
    for batch in range(BATCHES):
        pictures = range(batch * PICTURES // BATCHES, (batch + 1) * PICTURES // BATCHES)
        batches.append([v for picture in pictures for v in table(picture, objects, detections)])
    golden = {"batches": batches,
              "values": {"": stats[0], "/ap50": stats[1], "/ap75": stats[2], "/small": stats[3], "/medium": stats[4],
                         "/large": stats[5]},
              "classes": {str(c): v for c, v in zip(CLASSES, classes)}}
    path = pathlib.Path(__file__).with_name("mask_precision.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
