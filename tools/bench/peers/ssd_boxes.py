"""Boxes of a single-shot detector: default boxes, which of them learns which object, the loss, detections and precision.

The rules are those of Moka's layers PriorBox, MultiBoxLoss, DetectionOutput and DetectionEvaluate, as models/bccd_ssd
sets them. Boxes are corners (x0, y0, x1, y1) as fractions of the picture; class 0 is the background.
"""

import math

import torch
import torch.nn.functional as F
from torchvision.ops import box_iou, nms

VARIANCES = (0.1, 0.1, 0.2, 0.2)
OVERLAP = 0.5  # from which a default box learns an object, and a detection is right
NEGATIVES = 3  # for each default box that learns an object
LEAST_SCORE, SUPPRESSED, MOST_OF_CLASS, MOST_OF_PICTURE = 0.01, 0.45, 400, 200


def default_boxes(width, height, maps):
    """[P,4], map by map and cell by cell. maps: rows, columns and the sizes (least, most) of each. A cell has, of each
    size, the square of the least, the one half way to the most, a lying and a standing box."""
    boxes = []
    for rows, columns, sizes in maps:
        sides = []
        for least, most in sizes:
            middle, root = math.sqrt(least * most), math.sqrt(2)
            sides += [(least, least), (middle, middle), (least * root, least / root), (least / root, least * root)]
        half = torch.tensor(sides, dtype=torch.double) / torch.tensor([width, height]) / 2
        y = (torch.arange(rows, dtype=torch.double) + 0.5) / rows
        x = (torch.arange(columns, dtype=torch.double) + 0.5) / columns
        centre = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], 2).view(-1, 1, 2)
        boxes.append(torch.cat([centre - half, centre + half], 2).view(-1, 4))
    return torch.cat(boxes).float()


def centres(boxes):
    """Corners as centres and sides, both [...,4]."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return torch.cat([(low + high) / 2, high - low], -1)


class DefaultBoxes:
    def __init__(self, boxes):
        self.centres, self.variances = centres(boxes), torch.tensor(VARIANCES)
        self.x0, self.y0, self.x1, self.y1 = boxes.t().contiguous()
        self.areas = self.centres[:, 2] * self.centres[:, 3]

    def overlaps(self, boxes):
        """Intersections over unions [G,P]."""
        x0, y0, x1, y1 = boxes.t().unsqueeze(2)
        shared = torch.minimum(self.x1, x1).sub_(torch.maximum(self.x0, x0)).clamp_(min=0)
        shared.mul_(torch.minimum(self.y1, y1).sub_(torch.maximum(self.y0, y0)).clamp_(min=0))
        return shared.div_((self.areas - shared).add_((x1 - x0) * (y1 - y0)))

    def match(self, boxes, labels):
        """The default boxes that learn an object of a picture, the objects' classes and codes: [n], [n], [n,4].

        The pair of the highest overlap matches, and so on until each object has its default box; then each default box
        that is free takes the object it overlaps most, if by OVERLAP. Every place is in some default box, so no object
        stays without.
        """
        if not len(boxes):
            return torch.empty(0, dtype=torch.long), labels, boxes
        overlaps = self.overlaps(boxes)
        best = overlaps.max(1).indices
        if len(best.unique()) < len(best):
            best = greedy_pairs(overlaps)
        objects = torch.full_like(self.areas, -1, dtype=torch.long)
        near = (overlaps.amax(0) >= OVERLAP).nonzero().flatten()
        objects[near] = overlaps[:, near].argmax(0)
        objects[best] = torch.arange(len(best))
        learning = (objects >= 0).nonzero().flatten()
        objects = objects[learning]
        own, wanted = self.centres[learning], centres(boxes)[objects]
        codes = torch.cat([(wanted[:, :2] - own[:, :2]) / own[:, 2:], (wanted[:, 2:] / own[:, 2:]).log()], 1)
        return learning, labels[objects], codes / self.variances

    def decoded(self, codes, which):
        """The boxes that codes [...,4] say relative to the default boxes `which` [...]."""
        own, codes = self.centres[which], codes * self.variances
        centre, half = own[..., :2] + codes[..., :2] * own[..., 2:], codes[..., 2:].exp() * own[..., 2:] / 2
        return torch.cat([centre - half, centre + half], -1)


def greedy_pairs(overlaps):
    """The default box of each object, where objects want the same one."""
    left, pairs = overlaps.clone(), torch.empty(len(overlaps), dtype=torch.long)
    for _ in pairs:
        most, best = left.max(1)
        chosen = most.argmax()
        pairs[chosen] = best[chosen]
        left[:, best[chosen]] = -1
        left[chosen] = -1
    return pairs


def multibox_loss(places, scores, learning, classes, codes):
    """places [N,P,4], scores [N,P,C]; the matches of all pictures, `learning` counted through the batch.

    Of each picture's other default boxes those with the highest loss are taught the background, NEGATIVES a match.
    """
    pictures, boxes, _ = places.shape
    flat = scores.reshape(-1, scores.shape[2])
    with torch.no_grad():
        losses = torch.logsumexp(scores, 2) - scores[:, :, 0]
        losses.view(-1)[learning] = -math.inf
        wanted = NEGATIVES * torch.bincount(learning // boxes, minlength=pictures).unsqueeze(1)
        most = int(wanted.max())
        hardest = losses.topk(most).indices + boxes * torch.arange(pictures).unsqueeze(1)
        negatives = hardest[torch.arange(most) < wanted]
    taught = flat.index_select(0, torch.cat([learning, negatives]))
    loss = F.cross_entropy(taught, torch.cat([classes, torch.zeros_like(negatives)]), reduction="sum")
    learnt = places.reshape(-1, 4).index_select(0, learning)
    return (loss + F.smooth_l1_loss(learnt, codes, reduction="sum")) / max(len(learning), 1)


def detections(default, places, scores):
    """For each picture the classes [n], scores [n] and boxes [n,4] of what is found, class by class, highest first."""
    best, which = scores.softmax(2)[:, :, 1:].transpose(1, 2).topk(MOST_OF_CLASS)
    pictures = torch.arange(len(places)).view(-1, 1, 1)
    boxes = default.decoded(places[pictures, which], which)
    found = []
    for scores_of, boxes_of in zip(best, boxes):
        kept = []
        for c, (s, b) in enumerate(zip(scores_of, boxes_of), 1):
            s = s[s > LEAST_SCORE]
            stays = nms(b[:len(s)], s, SUPPRESSED)
            kept.append((torch.full_like(stays, c), s[stays], b[stays]))
        labels, values, corners = map(torch.cat, zip(*kept))
        first = values.sort(descending=True, stable=True).indices[:MOST_OF_PICTURE].sort().values
        found.append((labels[first], values[first], corners[first]))
    return found


def judged(boxes, objects):
    """Whether each detection is right, the highest score first: the first on the object that it overlaps most."""
    right = torch.zeros(len(boxes), dtype=torch.bool)
    if not len(boxes) or not len(objects):
        return right
    most, best = box_iou(boxes, objects).max(1)
    taken = set()
    for i in (most >= OVERLAP).nonzero().flatten().tolist():
        j = int(best[i])
        right[i] = j not in taken
        taken.add(j)
    return right


def average_precision(scores, right, objects):
    """VOC 2012's, under the curve made monotonous."""
    if not len(scores) or not objects:
        return 0.0
    right = right[scores.sort(descending=True, stable=True).indices].double().cumsum(0)
    precision = right / torch.arange(1, len(right) + 1)
    precision = precision.flip(0).cummax(0).values.flip(0)
    recall = right / objects
    return (precision * recall.diff(prepend=recall.new_zeros(1))).sum().item()


def mean_precision(found, truth, classes):
    """VOC's mean average precision over classes 1 to `classes`. truth: boxes and labels of each picture."""
    total = 0.0
    for c in range(1, classes + 1):
        scores, right, objects = [], [], 0
        for (labels, values, boxes), (true_boxes, true_labels) in zip(found, truth):
            own, theirs = labels == c, true_labels == c
            scores.append(values[own])
            right.append(judged(boxes[own], true_boxes[theirs]))
            objects += int(theirs.sum())
        total += average_precision(torch.cat(scores), torch.cat(right), objects)
    return total / classes
