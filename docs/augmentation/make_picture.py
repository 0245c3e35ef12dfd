#!/usr/bin/env python3
"""Draws house.png and its label picture house_labels.png, which the pictures of docs/augmentation.md are made from.

Needs Pillow and numpy. Usage: make_picture.py
"""

import os

import numpy as np
from PIL import Image, ImageDraw

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEIGHT, FINER = 128, 128, 4


def scene(draw, wall, roof, door, window, trunk, leaves, sun, ground):
    def box(*corners):
        return [c * FINER for c in corners]
    draw.rectangle(box(0, 96, 128, 128), fill=ground)
    if sun is not None:
        draw.ellipse(box(96, 8, 118, 30), fill=sun)
    draw.rectangle(box(22, 56, 78, 104), fill=wall)
    draw.polygon(box(14, 58, 50, 26, 86, 58), fill=roof)
    draw.rectangle(box(44, 78, 58, 104), fill=door)
    for left in (27, 63):
        draw.rectangle(box(left, 66, left + 11, 77), fill=window)
    draw.rectangle(box(98, 76, 104, 106), fill=trunk)
    draw.ellipse(box(86, 42, 117, 84), fill=leaves)


def main():
    y = np.linspace(0, 1, HEIGHT * FINER)[:, None, None]
    sky = (1 - y) * np.array([88, 150, 214]) + y * np.array([214, 232, 244])
    picture = Image.fromarray(np.broadcast_to(sky, (HEIGHT * FINER, WIDTH * FINER, 3)).astype(np.uint8))
    scene(ImageDraw.Draw(picture), (222, 200, 160), (168, 62, 48), (96, 60, 40), (70, 110, 150), (98, 70, 48),
          (60, 128, 62), (250, 214, 84), (120, 160, 84))
    picture.resize((WIDTH, HEIGHT), Image.LANCZOS).save(os.path.join(HERE, "house.png"))

    labels = Image.new("L", (WIDTH * FINER, HEIGHT * FINER), 0)
    scene(ImageDraw.Draw(labels), 1, 1, 1, 1, 2, 2, None, 3)
    labels.resize((WIDTH, HEIGHT), Image.NEAREST).save(os.path.join(HERE, "house_labels.png"))


if __name__ == "__main__":
    main()
