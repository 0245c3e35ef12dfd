#!/usr/bin/env python3
"""Writes track_scores.json: tracks drawn at random, changed as trackers change them, and what TrackEval makes of both.

    python3 tests/golden/make_track_scores.py

Each case is the text of two files in MOT's format and the values. Needs numpy and trackeval 1.3. Its classes are used
as they are; of scipy, which it wants for assignments, and where that is missing, an assignment by shortest augmenting
paths stands in its place, whose sums are the same.
"""
import json
import pathlib
import sys
import types

import numpy as np


def assignment(cost):
    """The rows and columns of the least sum, as scipy.optimize.linear_sum_assignment gives them."""
    cost = np.asarray(cost, dtype=float)
    if cost.shape[0] > cost.shape[1]:
        columns, rows = assignment(cost.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    n, m = cost.shape
    u, v = np.zeros(n + 1), np.zeros(m + 1)
    match, way = np.zeros(m + 1, dtype=int), np.zeros(m + 1, dtype=int)
    for i in range(1, n + 1):
        match[0], j0 = i, 0
        least, used = np.full(m + 1, np.inf), np.zeros(m + 1, dtype=bool)
        while True:
            used[j0] = True
            i0 = match[j0]
            for j in range(1, m + 1):
                if not used[j] and cost[i0 - 1, j - 1] - u[i0] - v[j] < least[j]:
                    least[j], way[j] = cost[i0 - 1, j - 1] - u[i0] - v[j], j0
            j1 = min((j for j in range(1, m + 1) if not used[j]), key=lambda j: least[j])
            delta = least[j1]
            u[match[used]] += delta
            v[used] -= delta
            least[~used] -= delta
            j0 = j1
            if match[j0] == 0:
                break
        while j0:
            match[j0], j0 = match[way[j0]], way[j0]
    pairs = sorted((match[j] - 1, j - 1) for j in range(1, m + 1) if match[j])
    return np.array([p[0] for p in pairs], dtype=int), np.array([p[1] for p in pairs], dtype=int)


def import_trackeval():
    """The package's metrics, without the libraries of its plots and other formats."""
    try:
        from scipy.optimize import linear_sum_assignment  # noqa: F401
    except ImportError:
        scipy, optimize = types.ModuleType("scipy"), types.ModuleType("scipy.optimize")
        optimize.linear_sum_assignment = assignment
        scipy.optimize = optimize
        sys.modules.update({"scipy": scipy, "scipy.optimize": optimize})
    import importlib.util
    spec = importlib.util.find_spec("trackeval")
    package = types.ModuleType("trackeval")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["trackeval"] = package
    from trackeval.datasets._base_dataset import _BaseDataset
    from trackeval.metrics import CLEAR, HOTA, Identity
    return _BaseDataset, (HOTA(), CLEAR({"PRINT_CONFIG": False}), Identity({"PRINT_CONFIG": False}))


def draw(rng, frames, objects):
    """Rows frame, id, x, y, width, height of objects that come, move on curves and go."""
    rows = []
    for number in range(1, objects + 1):
        first = int(rng.integers(1, frames // 2))
        last = int(rng.integers(first + 3, frames + 1))
        place, speed = rng.uniform(0, 300, 2), rng.normal(0, 4, 2)
        size = rng.uniform(20, 60, 2)
        for frame in range(first, last + 1):
            rows.append([frame, number, *place, *size])
            speed += rng.normal(0, 0.5, 2)
            place = place + speed
    return rows


def changed(rng, rows, drop, noise, switch, extra, frames):
    """What a tracker makes of them: boxes missed, moved, given other ids, and some of nothing."""
    names, found, next_id = {}, [], 100
    for frame, number, x, y, width, height in sorted(rows):
        if number not in names or rng.uniform() < switch:
            names[number], next_id = next_id, next_id + 1
        if rng.uniform() < drop:
            continue
        moved = np.array([x, y, width, height]) + rng.normal(0, noise, 4)
        found.append([frame, names[number], moved[0], moved[1], max(moved[2], 1), max(moved[3], 1)])
    for _ in range(extra):
        found.append([int(rng.integers(1, frames + 1)), next_id, *rng.uniform(0, 300, 2), *rng.uniform(20, 60, 2)])
        next_id += 1
    return found


def text(rows):
    return "".join("{},{},{:.3f},{:.3f},{:.3f},{:.3f},1,1,1\n".format(*row) for row in rows)


def sequence(base, truth, found, frames):
    """What MotChallenge2DBox makes of two files of one class, without its removal of distractors."""
    tables = []
    for lines in (truth, found):
        table = np.array([[float(v) for v in line.split(",")] for line in lines.splitlines()]).reshape(-1, 9)
        ids = {number: i for i, number in enumerate(sorted(set(table[:, 1])))}
        tables.append((table, ids))
    data = {"num_timesteps": frames, "seq": "s", "gt_ids": [], "tracker_ids": [], "similarity_scores": []}
    for frame in range(1, frames + 1):
        boxes = []
        for (table, ids), key in zip(tables, ("gt_ids", "tracker_ids")):
            rows = table[table[:, 0] == frame]
            boxes.append(rows[:, 2:6])
            data[key].append(np.array([ids[number] for number in rows[:, 1]], dtype=int))
        data["similarity_scores"].append(base._calculate_box_ious(boxes[0], boxes[1], box_format="xywh"))
    for (table, ids), key in zip(tables, ("gt", "tracker")):
        data[f"num_{key}_dets"], data[f"num_{key}_ids"] = len(table), len(ids)
    return data


def main():
    base, metrics = import_trackeval()
    rng = np.random.default_rng(7)
    settings = [(20, 4, 0.0, 0.0, 0.0, 0), (30, 6, 0.1, 2.0, 0.02, 3), (40, 8, 0.3, 5.0, 0.05, 10),
                (25, 5, 0.2, 12.0, 0.0, 5), (30, 3, 0.0, 3.0, 0.3, 0), (15, 2, 0.95, 1.0, 0.0, 2)]
    cases = []
    for frames, objects, drop, noise, switch, extra in settings:
        truth = draw(rng, frames, objects)
        lines = text(truth), text(changed(rng, truth, drop, noise, switch, extra, frames))
        data = sequence(base, *lines, frames)
        hota, clear, identity = (metric.eval_sequence(data) for metric in metrics)
        values = {name: float(np.mean(hota[key])) for name, key in
                  (("hota", "HOTA"), ("det_a", "DetA"), ("ass_a", "AssA"), ("loc_a", "LocA"))}
        values |= {"mota": float(clear["MOTA"]), "motp": float(clear["MOTP"]), "idf1": float(identity["IDF1"])}
        values |= {name: int(clear[key]) for name, key in
                   (("missed", "CLR_FN"), ("false", "CLR_FP"), ("switches", "IDSW"), ("mostly_tracked", "MT"),
                    ("mostly_lost", "ML"), ("fragments", "Frag"))}
        cases.append({"frames": frames, "truth": lines[0], "found": lines[1], "values": values})
    path = pathlib.Path(__file__).with_name("track_scores.json")
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
