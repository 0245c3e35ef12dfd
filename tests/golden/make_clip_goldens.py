#!/usr/bin/env python3
"""Writes data_clips.json: what the forks' layers of clips and sequences make of small pictures in TEST.

Each class follows one fork's source (Caffe_action, caffe_qi, lisa-caffe-lstm, zhzhong11's video-caffe, Caffe-3D),
batches and all, with numpy and OpenCV's resize. A picture's pixels follow from its name's numbers by a formula which
the C++ test (tests/data/pipeline/clip_layers_test.cpp) has too. Needs numpy and OpenCV. Usage: make_clip_goldens.py [FILE]
"""

import json
import math
import os
import sys

import cv2
import numpy as np

from make_image_data_goldens import numbers, picture

SIZE = (6, 8)  # height, width of every picture


def shot(seed, channels):
    return picture(SIZE[0], SIZE[1], channels, seed)


def cut(image, new=None, crop=None, mean=(0,), scale=1.0):
    """[C,H,W] of a picture in TEST: resized, its middle, the mean taken, scaled."""
    image = image.reshape(image.shape[0], image.shape[1], -1)
    if new:
        image = cv2.resize(image, (new[1], new[0])).reshape(new[0], new[1], -1)
    if crop:
        y, x = (image.shape[0] - crop) // 2, (image.shape[1] - crop) // 2
        image = image[y:y + crop, x:x + crop]
    values = image.astype(np.float64)
    for c in range(values.shape[2]):
        values[:, :, c] -= mean[c % len(mean)]
    return values.transpose(2, 0, 1) * scale


def linspace(first, last, count):
    if count == 1:
        return [(first + last) // 2]
    step = np.float32(last - first) / np.float32(count - 1)
    return [int(first + step * i) for i in range(count)]


def flow(video, frame, axis):
    """The seed of a flow picture."""
    return video * 50 + frame * 2 + axis


def action_rnn(videos, steps, stride, length, segments, crop, mean):
    """video_data_rnn_layer: videos are (number, frames, label), one item of the batch each."""
    batch = len(videos)
    streams = segments * batch
    data = np.zeros((steps * streams, 2 * length, crop, crop))
    label = -np.ones((steps, streams))
    marker = np.zeros((steps, streams))
    for b, (video, frames, number) in enumerate(videos):
        places = frames - length + 1
        whole = 1 + stride * (steps - 1)
        for s, start in enumerate(linspace(0, max(stride - 1, places - whole), segments)):
            real = min(steps, (places - start - 1) // stride + 1)
            for t in range(real):
                at = s + segments * (b + batch * t)
                planes = []
                for f in range(length):
                    for axis in (0, 1):
                        planes.append(cut(shot(flow(video, start + stride * t + f, axis), 1), crop=crop, mean=mean))
                data[at] = np.concatenate(planes)
                label[t, s + segments * b] = -1 if steps - t > 1 else number
                marker[t, s + segments * b] = -real if t == 0 else 1
    return data, label, marker


def action_items(videos, length, segments, crop, mean):
    """video_data_layer of Caffe_action: each segment an item, one label a video."""
    data, label = [], []
    for video, frames, number in videos:
        offsets = linspace(0, frames - length, segments) if frames > length else [0] * segments
        for start in offsets:
            planes = []
            for f in range(length):
                for axis in (0, 1):
                    planes.append(cut(shot(flow(video, (start + f) % frames, axis), 1), crop=crop, mean=mean))
            data.append(np.concatenate(planes))
        label.append(number)
    return np.stack(data), label


def run(videos, crop, mean):
    """image_data_layer of caffe_qi with clip markers, folders of 16 pictures each."""
    data = np.zeros((16 * len(videos), 3, crop, crop))
    label = np.zeros(16 * len(videos))
    marker = np.ones(16 * len(videos))
    for v, (video, number) in enumerate(videos):
        for t in range(16):
            at = len(videos) * t + v
            data[at] = cut(shot(video * 50 + t, 3), crop=crop, mean=mean)
            label[at] = number
            marker[at] = 1 if t else 0
    return data, label, marker


def spread(videos, steps, stack):
    """rgb_video_data_layer and flow_video_data_layer: stack(video, place) makes the rows of top 0."""
    size = len(videos)
    rows, labels = [None] * (steps * size), np.ones((steps * size, 2))
    for v, (video, frames, label_of) in enumerate(videos):
        gap = np.float32(frames) / np.float32(steps - 1) if steps > 1 else 0
        for i in range(steps):
            place = min(max(int(np.float32(i) * np.float32(gap)), 0), frames - 1)
            rows[size * i + v] = stack(video, place)
            labels[size * i + v, 0] = label_of(place)
    return np.stack(rows), labels


def image_video(folders, batch, length, crop, batches):
    """video_image_data_layer: folders are (video, files, label)."""
    lines = list(range(batch))
    current = [0] * batch
    rounds = [folders[i][1] // length for i in range(batch)]
    newest = batch - 1
    tops = []
    for _ in range(batches):
        data, image, label = [], [], []
        for item in range(batch):
            video, _, number = folders[lines[item]]
            first = current[item] * length + 1
            frames = [shot(video * 100 + first + i, 3) for i in range(length)]
            data.append(np.stack([cut(frame, crop=crop) for frame in frames], axis=1))
            image.append(cut(frames[20], crop=crop))
            label.append(number)
            current[item] += 1
            if current[item] >= rounds[item]:
                current[item] = 0
                lines[item] = lines[newest] + 1
                newest = item
                if lines[item] >= len(folders):
                    lines[item] = 0
                rounds[item] = folders[lines[item]][1] // length
        tops.append((np.stack(data), np.stack(image), label))
    return tops


def main():
    cases = {}

    def add(name, *tops):
        cases[name] = [numbers(top) for top in tops]

    mean = (128,)
    # Video 2 is so short that its sequences end early.
    add("rnn", *action_rnn([(1, 12, 4), (2, 5, 7)], steps=3, stride=2, length=2, segments=2, crop=4, mean=mean))
    add("items", *action_items([(1, 9, 4), (2, 3, 7), (3, 2, 1)], length=2, segments=3, crop=4, mean=mean))
    add("run", *run([(1, 3), (2, 5)], crop=2, mean=(10.5, 20, 30)))

    add("rgb", *spread([(1, 7, lambda place: 4), (2, 3, lambda place: 50 + place)], 4,
                       lambda video, place: cut(shot(video * 50 + place, 3), new=(5, 7), crop=4, mean=(10.5, 20, 30))))

    def stack(value):
        def of(video, place):
            planes = []
            for later in range(2):
                for axis in (0, 1):
                    planes.append(value(cut(shot(flow(video, place + later, axis), 1), crop=4)) - 8)
            return np.concatenate(planes)
        return of

    flows = [(1, 5, lambda place: 4), (2, 2, lambda place: 7)]
    add("flow_pixels", *spread(flows, 3, stack(lambda pixel: pixel)))
    add("flow_values", *spread(flows, 3, stack(lambda pixel: pixel / 255 * 2 * 20 - 20)))

    # Videos of 2, 1, 1 and 3 clips of 22 frames.
    batches = image_video([(1, 44, 1), (2, 22, 2), (3, 30, 3), (4, 66, 4)], batch=2, length=22, crop=2, batches=4)
    for i, tops in enumerate(batches):
        add("image_video_%d" % i, *tops)

    slices = [cv2.resize(shot(10 + i, 1), (7, 5)) for i in (3, 4)]
    labels = [cv2.resize(shot(20 + i, 1), (7, 5)) for i in (3, 4)]
    add("scan", np.stack(slices), np.stack(labels))
    assert math.isfinite(sum(sum(top) for tops in cases.values() for top in tops))

    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "data_clips.json")
    with open(path, "w") as file:
        json.dump(cases, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
