"""Moka's counter-based random numbers in numpy (core/rng.h, core/text.h), and the goldens' deterministic values.

The same formulas are meant to be used by the C++ tests, so neither side has to store weights or images:

  word k of stream S   RandomWord(seed, StableHash(S), k); Philox4x32-10, four words a block
  u                    UnitFloat(word) = (word >> 8) / 2^24
  parameter blob i of layer L, in Caffe's order and shape, seed 1701, stream "L/i":
    rank >= 2          (u - 0.5) * 2 * sqrt(2) * sqrt(3 / fan_in), fan_in = count / shape[0]  (He's uniform)
    rank 1             0.2 * (u - 0.5)
    Scale, blob 0      g + 0.2 * (u - 0.5), whatever its rank; g = 0.25 where the layer has a filler of value 0
                       (the last scale of a residual branch), else 1
    PReLU              0.25 + 0.2 * (u - 0.5)
    BatchNorm          0 for all three blobs; `running_statistics` has others
  input element k      2 * (u - 0.5), seed 1701, stream "data"
  label k              RandomWord(1701, StableHash("label"), k) mod classes

Every value is computed in double and rounded once to float32.
"""

import math

import numpy as np

SEED = 1701
SAMPLE_SEED = 7


def stable_hash(text):
    """64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def _multiply(a, b):
    product = np.uint64(a) * b.astype(np.uint64)
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def random_words(seed, stream, count, first=0):
    """Words first .. first + count - 1 of a stream, uint32."""
    block = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    counter = [block.astype(np.uint32), (block >> np.uint64(32)).astype(np.uint32),
               np.full(len(block), stream & 0xFFFFFFFF, np.uint32), np.full(len(block), stream >> 32, np.uint32)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high0, low0 = _multiply(0xD2511F53, counter[0])
        high1, low1 = _multiply(0xCD9E8D57, counter[2])
        counter = [high1 ^ counter[1] ^ np.uint32(key[0]), low1, high0 ^ counter[3] ^ np.uint32(key[1]), low0]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    skip = first % 4
    return np.stack(counter, 1).reshape(-1)[skip:skip + count]


def unit_floats(seed, stream, count):
    """u in [0, 1), exact in float64 and float32."""
    units, part = np.empty(count), 1 << 22  # a part at a time, since words take ten times their own memory to make
    for first in range(0, count, part):
        words = random_words(seed, stream, min(part, count - first), first)
        units[first:first + part] = (words >> np.uint32(8)) / 2.0**24
    return units


def named_units(name, shape):
    return unit_floats(SEED, stable_hash(name), math.prod(shape)).reshape(shape)


def _float32(values):
    return np.float64(np.float32(values))


def parameter(layer, index, shape):
    """The golden value of one parameter blob of a LayerParameter, float64 holding float32 values."""
    shape = tuple(shape)
    if layer.type == "BatchNorm":
        return np.zeros(shape)
    centred = named_units(f"{layer.name}/{index}", shape) - 0.5
    if layer.type == "Scale" and index == 0:
        filler = layer.scale_param.filler
        small = layer.scale_param.HasField("filler") and filler.type == "constant" and filler.value == 0
        return _float32((0.25 if small else 1) + 0.2 * centred)
    if layer.type == "PReLU":
        return _float32(0.25 + 0.2 * centred)
    if len(shape) >= 2:
        fan_in = math.prod(shape) // shape[0]
        return _float32(centred * (2 * math.sqrt(2) * math.sqrt(3 / fan_in)))
    return _float32(0.2 * centred)


def running_statistics(layer, channels):
    """BatchNorm's mean and variance where they matter, as its blobs hold them: times the factor 2, the third blob."""
    mean, variance = (named_units(f"{layer.name}/{i}", (channels,)) - 0.5 for i in range(2))
    return _float32(2 * (0.5 * mean)), _float32(2 * (1 + variance)), 2.0


def data(shape, stream="data"):
    """A batch of inputs in [-1, 1)."""
    return _float32(2 * (named_units(stream, tuple(shape)) - 0.5))


def labels(count, classes, stream="label"):
    return (random_words(SEED, stable_hash(stream), count) % classes).astype(np.int64)


def sample_indices(name, count, samples=256):
    """All indices of a small tensor; of a large one 256, drawn with replacement from the stream of its name."""
    if count <= samples:
        return np.arange(count)
    return random_words(SAMPLE_SEED, stable_hash(name), samples).astype(np.int64) % count
