"""Writes what Pillow's antialiased bilinear resizing makes of parts of a picture: ../data/images/resampled.txt.

Usage: python3 make_resample_goldens.py

The picture is [47, 61, 3] with value (7 x + 13 y + 50 c + 3 (x y mod 31)) mod 256. A line a part:
  x y width height (cut out of the picture)  new_width new_height  bytes in hex, rows from the top, channels together
Made with Pillow 13.
"""

import pathlib

import numpy as np
from PIL import Image

PARTS = [((0, 0, 61, 47), (24, 17)), ((5, 3, 20, 30), (20, 30)), ((11, 7, 13, 9), (29, 31)), ((30, 2, 31, 45), (8, 45)),
         ((1, 1, 59, 45), (3, 2)), ((60, 46, 1, 1), (5, 4)), ((0, 20, 61, 5), (17, 11))]


def main():
    y, x, c = np.mgrid[0:47, 0:61, 0:3]
    picture = Image.fromarray(((7 * x + 13 * y + 50 * c + 3 * (x * y % 31)) % 256).astype(np.uint8))
    lines = []
    for (left, top, width, height), size in PARTS:
        part = picture.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.BILINEAR)
        lines.append(f"{left} {top} {width} {height} {size[0]} {size[1]} {np.asarray(part).tobytes().hex()}")
    path = pathlib.Path(__file__).resolve().parent / "../data/images/resampled.txt"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
