"""Records SSD's layers on small inputs in float64, from their definitions: boxes and choices in numpy, losses and
gradients by PyTorch over the chosen rows.

Usage: python3 make_ssd_goldens.py      writes layers_ssd.json (the format of make_layer_goldens.py)
"""

import json
import math
import os

import numpy as np
import torch

import moka_random
from ssd_boxes import decode, encode, overlaps, prior_boxes, suppress

CASES = []
VARIANCE = (0.125, 0.125, 0.25, 0.25)


def random(name, shape, low=-1.0, high=1.0):
    """Multiples of 1/512: exact in float32 and short in the text."""
    return np.round(512 * (low + (high - low) * moka_random.named_units(name, tuple(shape)))) / 512


def record(name, kind, fields, bottoms, top, gradients=None, phase="TRAIN", loss=False):
    """bottoms: arrays; gradients: {bottom: array}."""
    text = f'layer {{ name: "{name}" type: "{kind}" '
    text += "".join(f'bottom: "x{i}" ' for i in range(len(bottoms))) + f'top: "y0" {fields} }}'
    rows = []
    for i, x in enumerate(bottoms):
        row = {"shape": list(x.shape), "data": [short(v) for v in x.reshape(-1)]}
        if gradients is not None and i in gradients:
            row["gradient"] = rounded(gradients[i])
        rows.append(row)
    written = {"shape": list(top.shape), "data": rounded(top)}
    if loss:
        written["weight"] = [1.0]
    CASES.append({"name": name, "layer": text, "phase": phase, "bottoms": rows, "params": [], "tops": [written]})


def rounded(array):
    return [short(float(f"{v:.8g}")) for v in np.asarray(array, dtype=np.float64).reshape(-1)]


def short(value):
    """Whole numbers without a point."""
    return int(value) if value == int(value) else float(value)


def some_priors(rows=2):
    """Priors [1,2,P*4] of few digits: three cells a row, each with a small, a middle and a flat box."""
    prior = prior_boxes((rows, 3), (32, 32), [9], [16], [2], flip=False)
    prior[0, 0] = np.round(512 * prior[0, 0]) / 512
    prior[0, 1] = np.tile(VARIANCE, prior.shape[2] // 4)
    return prior


# PriorBox ------------------------------------------------------------------------------------------------------------


def prior_case(name, map_size, image, fields, with_image=True, **settings):
    text = fields
    for key, values in (("min_size", settings["min_sizes"]), ("max_size", settings.get("max_sizes", ())),
                        ("aspect_ratio", settings.get("ratios", ())), ("variance", settings.get("variance", ()))):
        text += "".join(f" {key}: {v}" for v in values)
    bottoms = [np.ones((2, 1, *map_size))] + ([np.ones((2, 3, *image))] if with_image else [])
    record(name, "PriorBox", f"prior_box_param {{ {text} }}", bottoms, prior_boxes(map_size, image, **settings))


def prior_cases():
    prior_case("prior_square", (2, 3), (10, 14), "", min_sizes=[4])
    prior_case("prior_ssd", (3, 3), (12, 12), "flip: true step: 4", min_sizes=[3.9], max_sizes=[7.5],
               ratios=[2, 3], variance=[0.1, 0.1, 0.2, 0.2], step=(4, 4))
    prior_case("prior_no_flip", (2, 2), (9, 6), "flip: false clip: true offset: 0.25", min_sizes=[5], ratios=[1, 2, 0.5],
               flip=False, clip=True, offset=0.25)
    record("prior_two_sizes", "PriorBox",
           "prior_box_param { img_h: 80 img_w: 200 step_h: 60 step_w: 50 min_size: 30 min_size: 60.5 max_size: 45 "
           "max_size: 90 aspect_ratio: 2 aspect_ratio: 2 aspect_ratio: 0.5 variance: 0.2 }", [np.ones((2, 1, 1, 3))],
           prior_boxes((1, 3), (80, 200), [30, 60.5], [45, 90], [2, 2, 0.5], variance=[0.2], step=(60, 50)))
    prior_case("prior_img_size", (2, 1), (16, 16), "img_size: 16", with_image=False, min_sizes=[6], ratios=[3])


# MultiBoxLoss --------------------------------------------------------------------------------------------------------


def match(boxes, objects, s):
    """For each box the object it learns (-1: none, -2: may not), and its best overlap."""
    table = overlaps(boxes, objects)
    table[table <= 1e-6] = 0
    owner = np.full(len(boxes), -1)
    if s["ignore_cross"]:
        owner[((boxes < 0) | (boxes > 1)).any(axis=1)] = -2
        table[owner == -2] = 0
    best = table.max(axis=1, initial=0)
    left = table.copy()
    while left.size and left.max() > 0:
        i, j = np.unravel_index(np.argmax(left), left.shape)
        owner[i], best[i] = j, table[i, j]
        left[i, :], left[:, j] = 0, 0
    if s["per_prediction"]:
        for i in np.flatnonzero(owner == -1):
            if table.shape[1] and table[i].max() >= s["overlap"] and table[i].max() > 0:
                owner[i] = np.argmax(table[i])
    return owner, best


def conf_loss(x, target, logistic):
    """Loss of each row of x [n,C] for its class."""
    if not logistic:
        return torch.nn.functional.cross_entropy(x, target, reduction="none")
    hot = torch.nn.functional.one_hot(target, x.shape[1]).to(x.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(x, hot, reduction="none").sum(1)


def loc_loss(d, square):
    return (0.5 * d * d if square else torch.nn.functional.smooth_l1_loss(d, torch.zeros_like(d), reduction="none")).sum(
        -1)


def mine(s, owner, best, conf, target, loc, boxes, objectness):
    """Indices chosen by the mining."""
    hard = s["mining"] == "HARD_EXAMPLE"
    loss = conf_loss(conf, torch.tensor(target), s["logistic"]).numpy()
    if hard:
        loss = loss + loc
        eligible = np.ones(len(owner), dtype=bool)
        wanted = s["sample_size"]
    else:
        eligible = (owner == -1) & (best < s["neg_overlap"])
        wanted = int((owner >= 0).sum() * s["ratio"])
    if objectness is not None:
        eligible &= objectness >= float(np.float32(0.01))
    order = sorted(np.flatnonzero(eligible), key=lambda p: (-loss[p], p))
    wanted = min(wanted, len(order))
    if s["nms"] is not None:
        threshold, top_k = s["nms"]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        order = suppress(boxes, [p for p in order[:top_k] if area[p] >= 1e-5], threshold)
    return order[:wanted]


DEFAULTS = dict(code="CORNER", in_target=False, share=True, per_prediction=True, overlap=0.5, use_prior=True,
                difficult=True, mining="MAX_NEGATIVE", ratio=3.0, neg_overlap=0.5, sample_size=64, nms=None,
                nms_prior=False, logistic=False, square=False, weight=1.0, background=0, agnostic=False,
                ignore_cross=False, inside=False, normalization="VALID")
FIELDS = dict(code="code_type", in_target="encode_variance_in_target", share="share_location",
              overlap="overlap_threshold", use_prior="use_prior_for_matching", difficult="use_difficult_gt",
              mining="mining_type", ratio="neg_pos_ratio", neg_overlap="neg_overlap", sample_size="sample_size",
              nms_prior="use_prior_for_nms", weight="loc_weight", background="background_label_id",
              agnostic="map_object_to_agnostic", ignore_cross="ignore_cross_boundary_bbox", inside="bp_inside")


def image_terms(s, classes, loc, conf, priors, variance, objects, labels, arm):
    """(loc losses, conf losses, matches) of one image; loc [P,L,4] and conf [P,C] are torch tensors."""
    count, locations = loc.shape[:2]
    values = loc.detach().numpy()
    nothing = torch.zeros(count if s["mining"] == "NONE" else 0, dtype=torch.long) + s["background"]
    if len(objects) == 0:
        if s["mining"] != "NONE":
            return [], [], 0
        if not s["logistic"]:
            return [], [conf_loss(conf, nothing, False).sum()], 0
        return [], [torch.nn.functional.softplus(conf).sum()], 0
    scale = np.ones(4) if s["in_target"] else variance
    if arm is not None:
        priors = decode(s["code"], priors, arm[1] * scale)
    owners = np.full((count, locations), -1)
    best = np.zeros(count)
    if s["use_prior"]:
        owner, best = match(priors, objects, s)
        for c in range(locations):
            owners[:, c] = owner if s["share"] else [o if o >= 0 and labels[o] == c else -1 for o in owner]
    for c in range(locations):
        if s["use_prior"] or (not s["share"] and c == s["background"]):
            continue
        boxes = decode(s["code"], priors, values[:, c] * scale)
        which = np.arange(len(labels)) if s["share"] else np.flatnonzero(labels == c)
        owner, best = match(boxes, objects[which], s)
        owners[:, c] = [which[o] if o >= 0 else o for o in owner]

    def differences(p, c):
        own = 1.0 if s["in_target"] else variance[p]
        d = loc[p, c] - torch.tensor(encode(s["code"], priors[p:p + 1], objects[owners[p, c]][None])[0] / own)
        if s["in_target"]:
            d = d / torch.tensor(variance[p])
        if s["inside"]:
            box = priors[p] if s["use_prior"] else decode(s["code"], priors[p:p + 1], values[p:p + 1, c] * own)[0]
            d = d * torch.tensor(((box >= 0) & (box <= 1)).astype(np.float64))
        return d

    wanted = labels if not s["agnostic"] else np.full(len(labels), s["background"] + 1)
    negatives = []
    if s["mining"] != "NONE":
        owner = owners[:, 0]
        target = np.array([wanted[o] if o >= 0 else s["background"] for o in owner])
        with torch.no_grad():
            loc_part = np.array([float(loc_loss(differences(p, 0), s["square"])) if owner[p] >= 0 else 0.0
                                 for p in range(count)])
        boxes = priors if s["nms_prior"] else decode(s["code"], priors, values[:, 0] * scale)
        chosen = mine(s, owner, best, conf.detach(), target, loc_part, boxes, None if arm is None else arm[0][:, 1])
        negatives = [p for p in chosen if owner[p] == -1]
        if s["mining"] == "HARD_EXAMPLE":
            owners[[p for p in range(count) if p not in chosen and owner[p] >= 0], 0] = -2
    pairs = [(p, c) for p in range(count) for c in range(locations) if owners[p, c] >= 0]
    loc_terms = [loc_loss(differences(p, c), s["square"]) for p, c in pairs]
    if s["mining"] != "NONE":
        rows = [p for p, _ in pairs] + negatives
        target = [wanted[owners[p, c]] for p, c in pairs] + [s["background"]] * len(negatives)
        conf_terms = [conf_loss(conf[rows], torch.tensor(target, dtype=torch.long), s["logistic"]).sum()]
    elif s["logistic"]:
        hot = torch.zeros(conf.shape, dtype=conf.dtype)
        for p, c in pairs:
            hot[p, wanted[owners[p, c]]] = 1
        conf_terms = [torch.nn.functional.binary_cross_entropy_with_logits(conf, hot, reduction="sum")]
    else:
        for p, c in pairs:
            nothing[p] = int(wanted[owners[p, c]])
        conf_terms = [conf_loss(conf, nothing, False).sum()]
    return loc_terms, conf_terms, len(pairs)


def truth_rows(name, images, classes, count, difficult=False, agnostic=False):
    """Ground truth of `images` (numbers of boxes), some padding in between, some objects difficult."""
    rows = []
    for i, boxes in enumerate(images):
        for g in range(boxes):
            unit = moka_random.named_units(f"{name}/truth{i}_{g}", (6,))
            low = np.round(512 * 0.6 * unit[:2]) / 512
            high = low + np.round(512 * (0.15 + 0.25 * unit[2:4])) / 512
            label = 1 + int(unit[4] * (classes - 1 if not agnostic else 5))
            rows.append([i, label, g, *low, *high, float(difficult and g % 2)])
    rows.append([-1.0] * 8)
    while len(rows) < count:
        rows.append([-1.0] * 8)
    return np.array(rows)[None, None]


def loss_case(name, images=(3, 2), classes=3, arm=False, seed="", moved=0.5, **changes):
    s = {**DEFAULTS, **changes}
    n = len(images)
    prior = some_priors()
    count = prior.shape[2] // 4
    locations = 1 if s["share"] else classes
    loc = random(f"{name}{seed}/loc", (n, count * locations * 4), -moved, moved)
    conf = random(f"{name}{seed}/conf", (n, count * classes), -3, 3)
    truth = truth_rows(f"{name}{seed}", images, classes, sum(images) + 2, not s["difficult"], s["agnostic"])
    bottoms = [loc, conf, prior, truth]
    if arm:
        bottoms.append(random(f"{name}/arm_conf", (n, count * 2), -0.01, 0.03))
        bottoms.append(random(f"{name}/arm_loc", (n, count * 4), -0.3, 0.3))
    boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
    x = [torch.tensor(loc, requires_grad=True), torch.tensor(conf, requires_grad=True)]
    total, matches = 0, 0
    for i in range(n):
        rows = truth[0, 0][truth[0, 0][:, 0] == i]
        if not s["difficult"]:
            rows = rows[rows[:, 7] == 0]
        stage = (bottoms[4][i].reshape(-1, 2), bottoms[5][i].reshape(-1, 4)) if arm else None
        loc_terms, conf_terms, found = image_terms(s, classes, x[0][i].reshape(count, locations, 4),
                                                   x[1][i].reshape(count, classes), boxes, variance, rows[:, 3:7],
                                                   rows[:, 1].astype(int), stage)
        total = total + s["weight"] * sum(loc_terms) + sum(conf_terms)
        matches += found
    norm = {"VALID": matches, "FULL": n * count, "BATCH_SIZE": n, "NONE": 1}[s["normalization"]]
    loss = total / max(1, norm) if isinstance(total, torch.Tensor) else x[0].sum() * 0
    loss.backward()
    gradients = {i: np.zeros_like(bottoms[i]) if t.grad is None else t.grad.numpy() for i, t in enumerate(x)}
    fields = f"num_classes: {classes}"
    for key, value in changes.items():
        if key in FIELDS:
            fields += f" {FIELDS[key]}: {str(value).lower() if isinstance(value, bool) else value}"
    fields += " match_type: BIPARTITE" * (not s["per_prediction"]) + " conf_loss_type: LOGISTIC" * s["logistic"]
    fields += " loc_loss_type: L2" * s["square"]
    if s["nms"] is not None:
        fields += f" nms_param {{ nms_threshold: {s['nms'][0]} top_k: {s['nms'][1]} }}"
    text = f"multibox_loss_param {{ {fields} }}"
    if "normalization" in changes:
        text += f" loss_param {{ normalization: {s['normalization']} }}"
    print(f"{name}: {matches} matches, loss {float(loss.detach()):.6f}")
    record(name, "MultiBoxLoss", text, bottoms, loss.detach().numpy(), gradients, loss=True)


def loss_cases():
    low = dict(overlap=0.25, neg_overlap=0.25)
    loss_case("multibox_ssd", code="CENTER_SIZE", images=(2, 0, 3), classes=4)
    loss_case("multibox_many", code="CENTER_SIZE", **low)
    loss_case("multibox_corner", **low)
    loss_case("multibox_corner_in_target", in_target=True, **low)
    loss_case("multibox_corner_size", code="CORNER_SIZE", weight=2.5, **low)
    loss_case("multibox_center_in_target", code="CENTER_SIZE", in_target=True, **low)
    loss_case("multibox_bipartite", per_prediction=False, code="CENTER_SIZE")
    loss_case("multibox_few_negatives", ratio=0.5, **low)
    loss_case("multibox_everything", mining="NONE", images=(2, 0, 1), **low)
    loss_case("multibox_logistic", logistic=True, **low)
    loss_case("multibox_logistic_everything", logistic=True, mining="NONE", images=(2, 0, 1), **low)
    loss_case("multibox_squares", square=True, code="CENTER_SIZE", **low)
    loss_case("multibox_easy_only", difficult=False, **low)
    loss_case("multibox_agnostic", classes=2, agnostic=True, **low)
    loss_case("multibox_no_crossing", ignore_cross=True, **low)
    loss_case("multibox_inside", inside=True, **low)
    loss_case("multibox_inside_predictions", inside=True, use_prior=False, code="CENTER_SIZE", moved=2.0, **low)
    loss_case("multibox_predictions", use_prior=False, code="CENTER_SIZE", moved=1.0, **low)
    loss_case("multibox_own_locations", classes=3, share=False, mining="NONE", images=(2, 1), **low)
    loss_case("multibox_own_predictions", classes=3, share=False, mining="NONE", use_prior=False, images=(3, 1), **low)
    loss_case("multibox_hard", mining="HARD_EXAMPLE", sample_size=9, code="CENTER_SIZE", **low)
    loss_case("multibox_hard_nms", mining="HARD_EXAMPLE", sample_size=9, nms=(0.4, 30), **low)
    loss_case("multibox_hard_nms_priors", mining="HARD_EXAMPLE", sample_size=6, nms=(0.3, 40), nms_prior=True, **low)
    loss_case("multibox_negative_nms", nms=(0.4, 20), **low)
    loss_case("multibox_background_last", background=2, images=(0, 0), code="CENTER_SIZE")
    loss_case("multibox_full", normalization="FULL", **low)
    loss_case("multibox_batch", normalization="BATCH_SIZE", **low)
    loss_case("multibox_refined", arm=True, code="CENTER_SIZE", **low)


# DetectionOutput -----------------------------------------------------------------------------------------------------


def detect(loc, conf, priors, variance, s):
    """Rows (label, score, box) of one image."""
    found = []
    for c in range(conf.shape[1]):
        if c == s["background"]:
            continue
        boxes = decode(s["code"], priors, loc[:, 0 if s["share"] else c] * (1 if s["in_target"] else variance))
        order = sorted(np.flatnonzero(conf[:, c] > s["confidence"]), key=lambda p: (-conf[p, c], p))
        if s["top_k"] >= 0:
            order = order[:s["top_k"]]
        found += [(c, conf[p, c], *boxes[p]) for p in suppress(boxes, order, s["nms"], s["eta"])]
    if len(found) > s["keep"]:
        found = sorted(sorted(found, key=lambda f: -f[1])[:s["keep"]], key=lambda f: (f[0], -f[1]))
    return found


def detection_case(name, fields, classes=4, n=2, rows=None, arm=False, image=False, **changes):
    s = {**dict(code="CORNER", in_target=False, share=True, background=0, confidence=-math.inf, nms=0.3, eta=1.0,
                top_k=-1, keep=-1), **changes}
    s["nms"], s["eta"] = float(np.float32(s["nms"])), float(np.float32(s["eta"]))
    prior = some_priors()
    count = prior.shape[2] // 4
    locations = 1 if s["share"] else classes
    loc = random(f"{name}/loc", (n, count * locations * 4), -0.5, 0.5)
    # Distinct scores, so that the order is one.
    conf = np.stack([(np.argsort(np.argsort(moka_random.named_units(f"{name}/conf{i}", (count * classes,)))) + 1) / 512
                     for i in range(n)])
    boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
    objects = classes - (0 <= s["background"] < classes)
    everything = (count if s["top_k"] < 0 else min(count, s["top_k"])) * objects
    limit = s["keep"] = everything if s["keep"] < 0 else min(s["keep"], everything)
    bottoms = [loc, conf, prior]
    if image:
        bottoms.append(np.ones((n, 3, 2, 2)))
    if arm:
        bottoms += [random(f"{name}/arm_conf", (n, count * 2), -0.01, 0.03),
                    random(f"{name}/arm_loc", (n, count * 4), -0.3, 0.3)]
    found = []
    for i in range(n):
        start, scores = boxes, conf[i].reshape(count, classes)
        if arm:
            start = decode(s["code"], boxes, bottoms[4][i].reshape(-1, 4) * variance)
            scores = scores.copy()
            scores[bottoms[3][i].reshape(-1, 2)[:, 1] < float(np.float32(0.01))] = np.eye(classes)[0]
        found += [(i, *row) for row in detect(loc[i].reshape(count, locations, 4), scores, start, variance, s)]
    print(f"{name}: {len(found)} detections")
    top = np.full((1, 1, n * limit, 7), -1.0)
    if found:
        top[0, 0, :len(found)] = found
    else:
        top[0, 0, :n, 0] = range(n)
    record(name, "DetectionOutput", f"detection_output_param {{ num_classes: {classes} {fields} }}", bottoms, top,
           phase="TEST")


def detection_cases():
    detection_case("detection_ssd", "code_type: CENTER_SIZE nms_param { nms_threshold: 0.45 top_k: 20 } keep_top_k: 15 "
                   "confidence_threshold: 0.046875", code="CENTER_SIZE", nms=0.45, top_k=20, keep=15, confidence=0.046875)
    detection_case("detection_all", "nms_param { nms_threshold: 0.6 }", nms=0.6)
    detection_case("detection_all_few_kept", "nms_param { nms_threshold: 0.05 top_k: 4 }", nms=0.05, top_k=4)
    detection_case("detection_corner_size", "code_type: CORNER_SIZE variance_encoded_in_target: true keep_top_k: 50",
                   code="CORNER_SIZE", in_target=True, keep=50)
    detection_case("detection_own_locations", "share_location: false keep_top_k: 12", share=False, keep=12, classes=3)
    detection_case("detection_adaptive", "nms_param { nms_threshold: 0.9 eta: 0.8 } keep_top_k: 30", nms=0.9, eta=0.8,
                   keep=30)
    detection_case("detection_background_2", "background_label_id: 2 keep_top_k: 10", background=2, keep=10)
    detection_case("detection_no_background", "background_label_id: -1 keep_top_k: 10", background=-1, keep=10)
    detection_case("detection_nothing", "confidence_threshold: 2 keep_top_k: 3", confidence=2, keep=3)
    detection_case("detection_with_image", "keep_top_k: 5", image=True, keep=5)
    detection_case("detection_refined", "code_type: CENTER_SIZE keep_top_k: 20", code="CENTER_SIZE", arm=True, keep=20,
                   nms=0.3)


# DetectionEvaluate ---------------------------------------------------------------------------------------------------


def evaluate(found, truth, classes, background, threshold, difficult):
    rows = []
    for c in range(classes):
        if c != background:
            objects = truth[(truth[:, 0] >= 0) & (truth[:, 1] == c)]
            rows.append([-1, c, len(objects) if difficult else int((objects[:, 7] == 0).sum()), -1, -1])
    found = found[(found[:, 0] != -1) & (found[:, 1] != -1)]
    for image, label in sorted({(f[0], f[1]) for f in found}):
        mine = found[(found[:, 0] == image) & (found[:, 1] == label)]
        objects = truth[(truth[:, 0] == image) & (truth[:, 1] == label)]
        if len(objects) == 0:
            rows += [[image, label, f[2], 0, 1] for f in mine]
            continue
        taken = set()
        for f in mine[np.argsort(-mine[:, 2], kind="stable")]:
            table = overlaps(f[None, 3:], objects[:, 3:7])[0]
            hit = int(np.argmax(table))
            if table[hit] < threshold:
                rows.append([image, label, f[2], 0, 1])
            elif objects[hit, 7] and not difficult:
                rows.append([image, label, f[2], 0, 0])
            else:
                rows.append([image, label, f[2], int(hit not in taken), int(hit in taken)])
                taken.add(hit)
    return rows


def evaluate_case(name, fields, classes=4, background=0, threshold=0.5, difficult=True):
    truth = truth_rows(name, (3, 0, 4), classes, 9, True)
    found = []
    for i in range(3):
        for k in range(8):
            unit = moka_random.named_units(f"{name}/found{i}_{k}", (7,))
            objects = truth[0, 0][truth[0, 0][:, 0] == i]
            if len(objects):
                near = objects[int(unit[0] * len(objects))]
                box, label = near[3:7] + np.round(512 * 0.1 * (unit[1:5] - 0.5)) / 512, near[1]
            else:
                box, label = np.round(512 * np.sort(unit[1:5])) / 512, 1 + int(unit[0] * (classes - 1))
            found.append([i, label if k % 3 else 1 + k % 2, round(unit[5] * 512) / 512, *box])
    found = found[:9] + [[-1.0] * 7, [2, -1, -1, -1, -1, -1, -1]] + found[9:]
    found = np.array(found, dtype=np.float64)
    rows = evaluate(found, truth[0, 0], classes, background, threshold, difficult)
    print(f"{name}: {sum(r[3] == 1 for r in rows)} right, {sum(r[4] == 1 for r in rows)} wrong of {len(found)}")
    top = np.full((1, 1, classes - (0 <= background < classes) + len(found), 5), -1.0)
    top[0, 0, :len(rows)] = rows
    record(name, "DetectionEvaluate", f"detection_evaluate_param {{ num_classes: {classes} {fields} }}",
           [found[None, None], truth], top, phase="TEST")


def evaluate_cases():
    evaluate_case("evaluate_voc", "")
    evaluate_case("evaluate_easy_only", "evaluate_difficult_gt: false", difficult=False)
    evaluate_case("evaluate_strict", "overlap_threshold: 0.75", threshold=0.75)
    evaluate_case("evaluate_no_background", "background_label_id: 4294967295", background=-1)


def main():
    prior_cases()
    loss_cases()
    detection_cases()
    evaluate_cases()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_ssd.json")
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
