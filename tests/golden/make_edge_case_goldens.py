"""Writes what OpenCV makes of the public corpora of odd images: ../data/images/edge_cases.txt.

Usage: python3 make_edge_case_goldens.py FOLDER     (the folder image-edge-cases with its tars)

A line a file: archive, name, and width, height and crc32 of its colour pixels (rows from the top, B,G,R), or "refused".
EXIF orientations are applied. Made with OpenCV 5.0.
"""

import pathlib
import sys
import tarfile
import zlib

import cv2
import numpy as np

ARCHIVES = {"exif_landscape.tar": ".jpg", "jpeg_variants.tar": ".jpg", "pngsuite.tar": ".png"}


def main():
    lines = []
    for archive, kind in ARCHIVES.items():
        with tarfile.open(pathlib.Path(sys.argv[1]) / archive) as tar:
            members = sorted((m for m in tar if m.isfile() and m.name.endswith(kind)), key=lambda m: m.name)
            for member in members:
                data = np.frombuffer(tar.extractfile(member).read(), np.uint8)
                pixels = cv2.imdecode(data, cv2.IMREAD_COLOR)
                name = pathlib.Path(member.name).name
                found = "refused" if pixels is None else "{} {} {:08x}".format(
                    pixels.shape[1], pixels.shape[0], zlib.crc32(np.ascontiguousarray(pixels).tobytes()))
                lines.append(f"{archive} {name} {found}")
    path = pathlib.Path(__file__).resolve().parent / "../data/images/edge_cases.txt"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
