"""Writes masks as COCO's own programs make them: data_masks.json; and two small PNGs for ../data/images.

A case: "width", "height", "polygons" (x0 y0 x1 y1 .. in pixels, one list a part of the object), and of the union of
their pixels "counts" (run lengths down the columns), "text" (COCO's compressed form of them) and "box" (x y w h).
Made with pycocotools 2.0.11, numpy and Pillow.

Usage: python3 make_mask_goldens.py
"""

import json
import pathlib
import random

import numpy as np
from PIL import Image
from pycocotools import mask as coco

HERE = pathlib.Path(__file__).resolve().parent


def counts_of(pixels):
    """Run lengths down the columns of [height, width], the first of zeros."""
    counts = [0]
    value = 0
    for pixel in pixels.flatten(order="F"):
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


def case_of(width, height, polygons):
    runs = coco.merge(coco.frPyObjects(polygons, height, width))
    return {
        "width": width,
        "height": height,
        "polygons": polygons,
        "counts": [int(count) for count in counts_of(coco.decode(runs))],
        "text": runs["counts"].decode("ascii"),
        "box": [int(side) for side in coco.toBbox(runs)],
    }


def blob(rng, width, height, corners, spread):
    """A polygon that may cross itself and reach outside."""
    x, y = rng.uniform(0, width), rng.uniform(0, height)
    polygon = []
    for _ in range(corners):
        polygon.append(round(x + rng.uniform(-spread, spread) * width, 2))
        polygon.append(round(y + rng.uniform(-spread, spread) * height, 2))
    return polygon


def main():
    rng = random.Random(5)
    cases = [
        case_of(8, 6, [[1, 1, 5, 1, 5, 4, 1, 4]]),
        case_of(8, 6, [[0, 0, 8, 0, 8, 6, 0, 6]]),
        case_of(8, 6, [[-3, -2, 12, -2, 12, 9, -3, 9]]),
        case_of(8, 6, [[2.2, 2.2, 2.3, 2.2, 2.3, 2.3]]),
        case_of(8, 6, [[2, 2, 2, 2, 6, 5, 6, 5]]),
        case_of(8, 6, [[20, 20, 30, 20, 30, 30]]),
        case_of(8, 6, [[0, 0, 8, 6, 8, 0, 0, 6]]),
        case_of(8, 6, [[0, 0, 3, 0, 3, 6, 0, 6], [2, 3, 7, 3, 7, 6, 2, 6], [3, 0, 5, 0, 5, 2, 3, 2]]),
    ]
    for _ in range(30):
        width, height = rng.randint(1, 40), rng.randint(1, 40)
        parts = rng.randint(1, 3)
        cases.append(case_of(width, height, [blob(rng, width, height, rng.randint(3, 9), 0.7) for _ in range(parts)]))
    for _ in range(4):
        cases.append(case_of(320, 240, [blob(rng, 320, 240, 5, 0.4)]))
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "data_masks.json").write_text("[" + text + "]\n", encoding="ascii")

    palette = Image.fromarray(np.array([[0, 1, 2, 255], [15, 15, 0, 1]], np.uint8), mode="P")
    palette.putpalette([(i * 37 + c * 91) % 256 for i in range(256) for c in range(3)])
    palette.save(HERE / "../data/images/palette_4x2.png")
    numbers = np.array([[0, 300, 300, 0], [7, 300, 0, 0], [7, 7, 0, 65535]], np.uint16)
    Image.fromarray(numbers).save(HERE / "../data/images/numbers16_4x3.png")


if __name__ == "__main__":
    main()
