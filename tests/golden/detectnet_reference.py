"""DetectNet's layers written a second time, with numpy, for make_detectnet_goldens.py.

Usage: python3 detectnet_reference.py      compares with OpenCV (opencv-python-headless) what it can be compared with;
4.5 has everything, newer ones draw the edges of rotated pictures by another rule than those NVIDIA's Caffe was built on

Images are resized and rotated by formulas over whole arrays, rectangles are grouped over the matrix of all pairs.
"""

import math

import numpy as np

import moka_random

F = np.float32
EPSILON = np.finfo(np.float32).eps


# Augmentations --------------------------------------------------------------------------------------------------------


def away(v):
    """C's round."""
    return math.copysign(math.floor(abs(v) + 0.5), v)


def rotated_corners(center, width, height, degrees):
    """Corners of a cv::RotatedRect, in float32."""
    angle = float(F(degrees)) * math.pi / 180
    half_sine, half_cosine = F(math.sin(angle)) * F(0.5), F(math.cos(angle)) * F(0.5)
    (cx, cy), w, h = map(F, center), F(width), F(height)
    a = (cx - half_sine * h - half_cosine * w, cy + half_cosine * h - half_sine * w)
    b = (cx + half_sine * h - half_cosine * w, cy - half_cosine * h - half_sine * w)
    return np.array([a, b, (F(2) * cx - a[0], F(2) * cy - a[1]), (F(2) * cx - b[0], F(2) * cy - b[1])])


def bounding_rect(corners):
    """(x, y, width, height) as cv::RotatedRect::boundingRect has it."""
    low, high = np.floor(corners.min(axis=0)).astype(int), np.ceil(corners.max(axis=0)).astype(int)
    return (*low, *(high - low + 1))


def rotated_size(width, height, degrees):
    return bounding_rect(rotated_corners((width // 2, height // 2), width, height, degrees))[2:]


def rotation_matrix(width, height, degrees):
    """[2,3]: where a point of the picture goes."""
    x, y, _, _ = bounding_rect(rotated_corners((width / 2, height / 2), width, height, degrees))
    angle = float(F(degrees)) * math.pi / 180
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    center = np.array([width / 2, height / 2])
    return np.column_stack([turn, center - [x, y] - turn @ center])


class Fields:
    """The prototxt's defaults, and what a case gives."""

    def __init__(self, **given):
        defaults = dict(stride=4, scale_cvg=0.5, gridbox_type="GRIDBOX_MAX", max_cvg_len=50, min_cvg_len=50,
                        image_size_x=1248, image_size_y=384, obj_norm=False, crop_bboxes=True, object_class=(),
                        crop_prob=1.0, shift_x=0, shift_y=0, scale_prob=0.33, scale_min=0.7, scale_max=1.0,
                        flip_prob=0.33, rotation_prob=0.33, max_rotate_degree=1.0, hue_rotation_prob=0.33,
                        hue_rotation=15.0, desaturation_prob=0.33, desaturation_max=0.5, mean=())
        assert set(given) <= set(defaults)
        self.__dict__.update(defaults | given)


def resize_only(fields):
    return dict(hue=0.0, saturation=1.0, flip=False, size=(fields.image_size_x, fields.image_size_y), rotation=0.0,
                crop=(0, 0))


def choices(fields, name, image, height, width):
    """The draws of one image in a run whose key is 0."""
    stream = moka_random.stable_hash(name) & (2**53 - 1)
    u = F(moka_random.random_words(0, stream, 16, 16 * image) >> np.uint32(8)) / F(2**24)
    chosen = dict(hue=0.0, saturation=1.0, flip=bool(u[4] < F(fields.flip_prob)), size=(width, height), rotation=0.0)
    if u[0] < F(fields.hue_rotation_prob):
        chosen["hue"] = float(np.clip(F((float(u[1]) - 0.5) * 2 * fields.hue_rotation), -180, 180))
    if u[2] < F(fields.desaturation_prob):
        chosen["saturation"] = float(F(1 - float(u[3] * F(fields.desaturation_max))))
    if u[5] < F(fields.scale_prob):
        scale = F(fields.scale_min) + (F(fields.scale_max) - F(fields.scale_min)) * u[6]
        chosen["size"] = tuple(int(away(F(side) * scale)) for side in (width, height))
    if u[7] < F(fields.rotation_prob):
        chosen["rotation"] = float(F((float(u[8]) - 0.5) * 2 * fields.max_rotate_degree))
    size = chosen["size"]
    if abs(chosen["rotation"]) > EPSILON:
        size = rotated_size(*size, chosen["rotation"])
    room = size[0] - fields.image_size_x, size[1] - fields.image_size_y
    if u[9] < F(fields.crop_prob):
        shifts = fields.shift_x, fields.shift_y
        chosen["crop"] = tuple(int(away(float(v) * (r + s) - s // 2)) for v, r, s in zip(u[10:12], room, shifts))
    else:
        chosen["crop"] = tuple(int(away(0.5 * r)) for r in room)
    return chosen


# Images [3,H,W], in the order B,G,R -----------------------------------------------------------------------------------


def recolour(image, hue, saturation):
    turns, fades = abs(hue) > EPSILON, saturation < 1 - 1 / 255
    if not turns and not fades:
        return image
    b, g, r = image
    value, low = image.max(axis=0), image.min(axis=0)
    span = np.where(value == low, 1, value - low)
    degrees = 60 * np.select([value == r, value == g], [(g - b) / span, 2 + (b - r) / span], 4 + (r - g) / span)
    part = np.where(value == 0, 0, (value - low) / np.where(value == 0, 1, value))
    degrees, part = degrees + (hue if turns else 0), part * (saturation if fades else 1)

    def channel(offset):
        k = (offset + degrees / 60) % 6
        return value - value * part * np.clip(np.minimum(k, 4 - k), 0, 1)

    return np.stack([channel(1), channel(3), channel(5)])


def cubic(distance):
    d, a = np.abs(distance), -0.75
    return np.where(d <= 1, (a + 2) * d**3 - (a + 3) * d**2 + 1,
                    np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0))


def resize_matrix(before, after):
    """[after,before]: rows of weights; what lies outside falls to the edge."""
    matrix = np.zeros((after, before))
    for i in range(after):
        place = (i + 0.5) * before / after - 0.5
        for tap in range(math.floor(place) - 1, math.floor(place) + 3):
            matrix[i, min(max(tap, 0), before - 1)] += cubic(place - tap)
    return matrix


def resize(image, width, height):
    if image.shape[1:] == (height, width):
        return image
    return resize_matrix(image.shape[1], height) @ image @ resize_matrix(image.shape[2], width).T


def rotate(image, degrees):
    if abs(degrees) <= EPSILON:
        return image
    _, rows, columns = image.shape
    width, height = rotated_size(columns, rows, degrees)
    forward = rotation_matrix(columns, rows, degrees)
    y, x = np.mgrid[0:height, 0:width]
    places = np.linalg.inv(forward[:, :2]) @ (np.stack([x.ravel(), y.ravel()]) - forward[:, 2:])
    left, top = np.floor(places).astype(int)
    inside = (left >= 0) & (top >= 0) & (left + 1 < columns) & (top + 1 < rows)
    (u, v), left, top = places - np.floor(places), left * inside, top * inside
    result = 0
    for dy, weight_y in ((0, 1 - v), (1, v)):
        for dx, weight_x in ((0, 1 - u), (1, u)):
            result = result + image[:, np.minimum(top + dy, rows - 1),
                                    np.minimum(left + dx, columns - 1)] * weight_x * weight_y
    return (result * inside).reshape(-1, height, width)


def crop(image, corner, width, height):
    y, x = np.mgrid[0:height, 0:width]
    y, x = y + corner[1], x + corner[0]
    inside = (y >= 0) & (x >= 0) & (y < image.shape[1]) & (x < image.shape[2])
    return image[:, y * inside, x * inside] * inside


def transform_image(image, chosen, fields):
    image = recolour(image, chosen["hue"], chosen["saturation"])
    if len(fields.mean):
        image = image - np.reshape(fields.mean, (-1, 1, 1))
    if chosen["flip"]:
        image = image[:, :, ::-1]
    image = rotate(resize(image, *chosen["size"]), chosen["rotation"])
    return crop(image, chosen["crop"], fields.image_size_x, fields.image_size_y)


# Boxes ----------------------------------------------------------------------------------------------------------------


def transform_box(box, chosen, width, height):
    """box: x, y, w, h in float32."""
    x, y, w, h = map(F, box)
    if chosen["flip"]:
        x = F(width) - x - w - F(1)
    if chosen["size"] != (width, height):
        sx, sy = F(chosen["size"][0]) / F(width), F(chosen["size"][1]) / F(height)
        x, y, w, h = x * sx, y * sy, w * sx, h * sy
    if abs(chosen["rotation"]) > EPSILON:
        middle = np.array([(x + (x + w)) * F(0.5), (y + (y + h)) * F(0.5)])
        turned = rotation_matrix(*chosen["size"], chosen["rotation"]) @ np.append(middle.astype(np.float64), 1)
        x, y = F(turned[0]) - (x + w - middle[0]), F(turned[1]) - (y + h - middle[1])
    return x - F(chosen["crop"][0]), y - F(chosen["crop"][1]), w, h


def shared(a, b):
    x, y = max(a[0], b[0]), max(a[1], b[1])
    w, h = min(a[0] + a[2], b[0] + b[2]) - x, min(a[1] + a[3], b[1] + b[3]) - y
    return (x, y, w, h) if w > 0 and h > 0 else (F(0),) * 4


def covered_side(side, fields):
    part = side * F(fields.scale_cvg)
    if fields.gridbox_type == "GRIDBOX_MAX":
        return min(F(fields.max_cvg_len), part)
    return min(side, max(F(fields.min_cvg_len), part))


def coverage(label, chosen, fields, width, height):
    """[8+classes,rows,columns] of one image's label [objects+1,16]."""
    stride = F(fields.stride)
    classes = dict(fields.object_class or ((1, 0),))
    rows, columns = (int(np.rint(F(s) * F(1 / fields.stride))) for s in (fields.image_size_y, fields.image_size_x))
    grid = np.zeros((8 + max(classes.values()) + 1, rows, columns), np.float32)
    for row in label[1:1 + int(label[0][0])]:
        x, y, w, h = transform_box(row[:4], chosen, width, height)
        if fields.crop_bboxes:
            x, y, w, h = shared((x, y, w, h), (F(0), F(0), F(fields.image_size_x), F(fields.image_size_y)))
        if int(row[5]) not in classes or w * h < EPSILON:
            continue
        halves = covered_side(w, fields) * F(0.5), covered_side(h, fields) * F(0.5)
        middle = (x + (x + w)) * F(0.5), (y + (y + h)) * F(0.5)
        low, high = [m - s for m, s in zip(middle, halves)], [m + s for m, s in zip(middle, halves)]
        part = (low[0], low[1], high[0] - low[0], high[1] - low[1])
        norm = max(F(0) if fields.obj_norm else F(1), stride * stride / (part[2] * part[3]))
        for i in range(rows):
            for j in range(columns):
                cell = (F(j) * stride, F(i) * stride, stride, stride)
                both = shared(part, cell)
                if both[2] * both[3] / (stride * stride) <= EPSILON:
                    continue
                grid[:8, i, j] = (1, x - cell[0], y - cell[1], x + w - cell[0], y + h - cell[1], F(1) / w, F(1) / h,
                                  norm)
                grid[8:, i, j] = np.arange(grid.shape[0] - 8) == classes[int(row[5])]
    return grid


# Lists of boxes -------------------------------------------------------------------------------------------------------


def group_rectangles(rectangles, threshold, eps):
    """[(x, y, w, h)] and how many each stands for: cv::groupRectangles."""
    r = np.asarray(rectangles, dtype=np.int64).reshape(-1, 4)
    if threshold <= 0 or len(r) == 0:
        return r, np.ones(len(r), dtype=int)
    reach = eps * (np.minimum.outer(r[:, 2], r[:, 2]) + np.minimum.outer(r[:, 3], r[:, 3])) * 0.5
    ends = np.column_stack([r[:, 0], r[:, 1], r[:, 0] + r[:, 2], r[:, 1] + r[:, 3]])
    alike = (np.abs(ends[:, None] - ends[None]) <= reach[:, :, None]).all(axis=2)
    group = np.arange(len(r))
    while True:  # the smallest index that anything alike has, until nothing changes
        smaller = np.where(alike, group[None], len(r)).min(axis=1)
        if (smaller == group).all():
            break
        group = np.minimum(group, smaller)
    members = [r[group == g] for g in np.unique(group)]
    counts = np.array([len(m) for m in members])
    means = np.array([np.rint(m.sum(axis=0).astype(F) * (F(1) / F(len(m)))) for m in members]).astype(int)
    kept = []
    for i, (x, y, w, h) in enumerate(means):
        def swallows(j):
            (ox, oy, ow, oh), n = means[j], counts[j]
            dx, dy = np.rint(ow * eps), np.rint(oh * eps)
            return (j != i and n > threshold and (n > max(3, counts[i]) or counts[i] < 3) and x >= ox - dx and
                    y >= oy - dy and x + w <= ox + ow + dx and y + h <= oy + oh + dy)
        if counts[i] > threshold and not any(swallows(j) for j in range(len(means))):
            kept.append(i)
    return means[kept], counts[kept]


def proposals(cover, boxes, width, height, stride, chosen):
    rows, columns = height // stride, width // stride
    picked = np.argwhere(chosen(cover[:rows, :columns].astype(F)))
    corners = [[boxes[k, i, j] + (j * (width / columns), i * (height / rows))[k % 2] for k in range(4)]
               for i, j in picked]
    return np.array(corners, dtype=np.float64).reshape(-1, 4)


def listed(rows):
    """At most 50 of them, through float16, with zeros after."""
    result = np.zeros((50, 5))
    rows = np.asarray(rows, dtype=np.float64).reshape(-1, 5)[:50]
    result[:len(rows)] = rows.astype(np.float16)
    return result


def detections(cover, boxes, width, height, stride, least, threshold, eps, least_height):
    corners = proposals(cover, boxes, width, height, stride, lambda c: c >= F(least))
    if not corners.any():
        return listed([])
    sides = np.column_stack([corners[:, :2], corners[:, 2:] - corners[:, :2]])
    kept = zip(*group_rectangles(np.rint(sides), threshold, eps))
    return listed([[x, y, x + w, y + h, math.log(n)] for (x, y, w, h), n in kept if h >= least_height])


def truths(cover, boxes, width, height, stride):
    rows = dict.fromkeys(map(tuple, proposals(cover, boxes, width, height, stride, lambda c: c > 0)))
    return listed([[*row, 0] for row in rows])


def scores(truth, found):
    """Marked rows of one image."""
    truth, found = ([row[:4] for row in rows if row[:4].any()] for rows in (truth, found))
    free, missed, hits = list(range(len(found))), [], []
    for box in truth:
        def overlap(other):
            sides = [max(0, min(box[k + 2], other[k + 2]) - max(box[k], other[k])) for k in (0, 1)]
            areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (box, other)]
            both = sides[0] * sides[1]
            return both / (sum(areas) - both) if both else 0
        match = next((j for j in free if overlap(found[j]) >= 0.7), None)
        if match is None:
            missed.append(box)
        else:
            free.remove(match)
            hits.append(match)
    rows = [[*found[j], 1] for j in sorted(hits)] + [[*found[j], 2] for j in free] + [[*box, 3] for box in missed]
    result = np.zeros((50, 5))
    result[:len(rows)] = np.reshape(rows, (-1, 5))[:50]
    return result


def precision(marked):
    hits, wrong, missed = (int((marked[..., 4] == k).sum()) for k in (1, 2, 3))
    p, r = (100 * hits / max(hits + other, 1) for other in (wrong, missed))
    return p * r / 100, p, r


# OpenCV ---------------------------------------------------------------------------------------------------------------


def compare_groups(cv2, random):
    sizes = []
    for _ in range(400):
        seeds = random.integers(0, 200, (random.integers(1, 8), 4)) + [0, 0, 10, 10]
        picked = seeds[random.integers(0, len(seeds), random.integers(1, 60))]
        rectangles = picked + random.integers(-4, 5, picked.shape)
        threshold, eps = int(random.integers(0, 4)), float(random.choice([0.02, 0.1, 0.3, 1.0]))
        theirs, weights = cv2.groupRectangles([[int(v) for v in r] for r in rectangles], threshold, eps)
        ours, counts = group_rectangles(rectangles, threshold, eps)
        assert np.array_equal(np.reshape(theirs, (-1, 4)), ours), (rectangles, threshold, eps)
        assert np.array_equal(np.reshape(weights, -1), counts)
        sizes.append(len(ours))
    print(f"groupRectangles: {len(sizes)} sets equal, {sum(sizes)} rectangles")


def compare_images(cv2, random):
    worst = 0
    for _ in range(60):
        rows, columns = random.integers(5, 40, 2)
        image = random.random((rows, columns, 3)).astype(F)
        width, height = (int(v) for v in random.integers(4, 60, 2))
        theirs = cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC)
        worst = max(worst, np.abs(resize(image.transpose(2, 0, 1), width, height).transpose(1, 2, 0) - theirs).max())
    assert worst < 1e-5, worst
    print(f"resize: largest difference {worst:.2g}")
    worst, edges, pixels = 0, 0, 0
    for _ in range(60):
        rows, columns = (int(v) for v in random.integers(8, 40, 2))
        degrees = float(F(random.uniform(-80, 80)))
        image = random.random((rows, columns, 3)).astype(F)
        size = rotated_size(columns, rows, degrees)
        center = np.array([columns / 2, rows / 2])
        turned = cv2.boxPoints((center.tolist(), (columns, rows), degrees))
        assert np.abs(turned - rotated_corners(center, columns, rows, degrees)).max() < 1e-4
        if hasattr(cv2, "RotatedRect"):
            rect = cv2.RotatedRect((columns // 2, rows // 2), (columns, rows), degrees)
            assert tuple(rect.boundingRect()[2:]) == size
        moved = (center - bounding_rect(turned)[:2]).tolist()
        matrix = cv2.getAffineTransform(cv2.boxPoints((center.tolist(), (columns, rows), 0))[:3],
                                        cv2.boxPoints((moved, (columns, rows), degrees))[:3])
        assert np.abs(matrix - rotation_matrix(columns, rows, degrees)).max() < 1e-4
        canvas = np.zeros((size[1], size[0], 3), F)
        theirs = cv2.warpAffine(image, matrix, tuple(map(int, size)), canvas, cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT)
        ours = rotate(image.transpose(2, 0, 1), degrees).transpose(1, 2, 0)
        both = (ours != 0).all(axis=2) & (theirs != 0).all(axis=2)
        edges += int(((ours != 0).any(axis=2) != (theirs != 0).any(axis=2)).sum())
        pixels += int(both.sum())
        worst = max(worst, np.abs(ours - theirs)[both].max())
    # OpenCV rounds places to a 32nd of a pixel.
    assert worst < 0.07, worst
    assert edges < 0.005 * pixels or not cv2.__version__.startswith("4.5."), (edges, pixels)
    print(f"warpAffine: largest difference {worst:.2g}; {edges} of {pixels} pixels drawn by one only")


def compare_colours(cv2, random):
    image = random.random((20, 20, 3)).astype(F)
    for hue, saturation in ((0.0, 0.5), (-170.0, 1.0), (33.0, 0.25), (180.0, 0.0)):
        hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV) * F([1, saturation, 1]) + F([hue, 0, 0])
        hsv[..., 0] %= 360  # vector code of newer OpenCVs takes no negative hue; the older loop did
        theirs = cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)
        ours = recolour(image.transpose(2, 0, 1).astype(np.float64), hue, saturation).transpose(1, 2, 0)
        assert np.abs(ours - theirs).max() < 1e-5, (hue, saturation)
    print("cvtColor: equal")


if __name__ == "__main__":
    import cv2

    for compare in (compare_groups, compare_images, compare_colours):
        compare(cv2, np.random.default_rng(1))
