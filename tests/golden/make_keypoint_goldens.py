"""Writes what COCO's key points are as parts of their picture, plain and mirrored: data_keypoints.json.

"coco": an annotation file as COCO's person_keypoints_*.json are: people with points, one of a crowd, one that is cut by
the border, and a dog, which has none. "images": by file name, the objects in the file's order, each with "label" (from
1, by the categories' ids) and its "points" and "mirrored" points: x and y as fractions of the width and height, and the
flag (0 not labelled, 1 hidden, 2 visible); x and y are 0 where the flag is 0. Pixels are counted from 0, so the place of
one is its number + 0.5. In a mirrored picture the left eye is where the right one was.

Plain Python, on its own reading of the format (https://cocodataset.org/#format-data).

Usage: python3 make_keypoint_goldens.py
"""

import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["nose", "left_eye", "right_eye", "left_hand", "right_hand"]
SKELETON = [[1, 2], [1, 3], [4, 2], [5, 3]]
SIZES = {"a.png": (40, 30), "b.png": (24, 32)}  # width, height


def annotation(rng, number, image, size, flags):
    width, height = size
    x, y = rng.randrange(0, width // 2), rng.randrange(0, height // 2)
    w, h = rng.randrange(4, width - x + 1), rng.randrange(4, height - y + 1)
    points = []
    for flag in flags:
        points += [rng.randrange(x, x + w), rng.randrange(y, y + h), flag] if flag else [0, 0, 0]
    return {"id": number, "image_id": image, "category_id": 1, "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0,
            "keypoints": points, "num_keypoints": sum(1 for flag in flags if flag)}


def read(coco):
    """By file name: label and points of each object."""
    labels = {c["id"]: i + 1 for i, c in enumerate(sorted(coco["categories"], key=lambda c: c["id"]))}
    names = next(c["keypoints"] for c in coco["categories"] if "keypoints" in c)
    other = [name.replace("left_", "right_") if "left_" in name else name.replace("right_", "left_") for name in names]
    partner = [names.index(name) for name in other]
    images = {}
    for image in coco["images"]:
        objects = []
        for a in coco["annotations"]:
            if a["image_id"] != image["id"]:
                continue
            numbers = a.get("keypoints") or [0] * 3 * len(names)
            points = []
            for i in range(len(names)):
                x, y, flag = numbers[3 * i:3 * i + 3]
                points.append([(x + 0.5) / image["width"], (y + 0.5) / image["height"], flag] if flag else [0, 0, 0])
            swapped = [points[k] for k in partner]
            mirrored = [[1 - x, y, flag] if flag else [0, 0, 0] for x, y, flag in swapped]
            objects.append({"label": labels[a["category_id"]], "points": points, "mirrored": mirrored})
        images[image["file_name"]] = objects
    return images


def main():
    rng = random.Random(17)
    a, b = SIZES["a.png"], SIZES["b.png"]
    crowd = annotation(rng, 12, 7, b, [0] * 5)
    crowd["iscrowd"] = 1
    coco = {
        "info": {"description": "made by make_keypoint_goldens.py"},
        "images": [{"id": 5, "file_name": "a.png", "width": a[0], "height": a[1]},
                   {"id": 7, "file_name": "b.png", "width": b[0], "height": b[1]}],
        "annotations": [annotation(rng, 10, 5, a, [2, 2, 1, 0, 2]), annotation(rng, 11, 5, a, [0, 0, 2, 2, 1]), crowd,
                        {"id": 13, "image_id": 7, "category_id": 18, "bbox": [3, 4, 9, 8], "area": 72, "iscrowd": 0},
                        annotation(rng, 14, 7, b, [1, 0, 0, 2, 2])],
        "categories": [{"id": 18, "name": "dog"},
                       {"id": 1, "name": "person", "keypoints": NAMES, "skeleton": SKELETON}],
    }
    golden = {"coco": coco, "images": read(coco)}
    text = json.dumps(golden, indent=1, separators=(",", ": ")) + "\n"
    (HERE / "data_keypoints.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
