"""Writes small image files of every kind that ImageDecoder reads, and OpenCV's decode of each (of GIFs Pillow's).

Usage: python3 images.py      writes ../data/images

decoded.txt has a line a file and channel mode:
  file  mode  width height channels crc32
mode is stored, color or grey: DecodeOptions::channels. The CRC-32 is of the pixels, rows from the top, B,G,R. In mode
grey, colour files other than JPEGs are their colour pixels turned to luma by OpenCV's cvtColor. cmyk.bgr has the
pixels of cmyk.jpg, whose inks are multiplied with other rounding in every decoder: it is compared with a tolerance.

Made with OpenCV 4.6 and Pillow. The files that neither writes (few bits, interlaced, run lengths) are put together here.
"""

import io
import os
import struct
import zlib

import cv2
import numpy as np
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "images")
WIDTH, HEIGHT = 21, 13
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def pattern(channels, limit):
    """Samples 0..limit-1 that differ from pixel to pixel, [HEIGHT, WIDTH, channels]."""
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(channels), indexing="ij")
    return (x * 2654435761 + y * 40503 + c * 7919 * (x + 3 * y) + x * y) % limit


def smooth(channels):
    """A picture that survives lossy coding, uint8."""
    y, x = np.mgrid[0:47, 0:61]
    planes = [255 * x // 61, 255 * y // 47, np.where((x // 8 + y // 8) % 2 == 0, 60, 190), 255 - 3 * y]
    return np.stack(planes[:channels], axis=-1).astype(np.uint8)


def packed(samples, bits):
    """Rows of samples as bytes, the first sample in the highest bits: [rows, bytes]."""
    if bits == 16:
        return samples.astype(">u2").view(np.uint8).reshape(len(samples), -1)
    unpacked = np.unpackbits(samples.astype(np.uint8).reshape(len(samples), -1, 1), axis=2)[:, :, 8 - bits:]
    return np.packbits(unpacked.reshape(len(samples), -1), axis=1)


def png(samples, bits, color_type, chunks=(), interlaced=False):
    """A PNG with every filter in turn; chunks: (name, bytes) before the pixels."""
    pixel_bytes = max(1, samples.shape[2] * bits // 8)
    raw = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = samples[y0::dy, x0::dx]
        if part.size == 0:
            continue
        rows = packed(part.reshape(len(part), -1), bits).astype(np.int64)
        up = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
        left = np.hstack([np.zeros((len(rows), pixel_bytes), np.int64), rows])[:, :rows.shape[1]]
        corner = np.hstack([np.zeros((len(rows), pixel_bytes), np.int64), up])[:, :rows.shape[1]]
        guess = left + up - corner
        a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
        paeth = np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))
        for y in range(len(rows)):
            kind = y % 5
            line = (rows - [0 * up, left, up, (left + up) // 2, paeth][kind])[y]
            raw += bytes([kind]) + (line % 256).astype(np.uint8).tobytes()

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], bits, color_type, 0, 0, int(interlaced))
    pixels = zlib.compress(raw, 9)
    half = len(pixels) // 2
    body = chunk(b"IHDR", header) + b"".join(chunk(n, d) for n, d in chunks)
    body += chunk(b"IDAT", pixels[:half]) + chunk(b"IDAT", pixels[half:]) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def bmp(rows, bits, palette=b"", compression=0, from_top=False, masks=b"", short=False):
    """rows: bytes a row from the top without padding, or the finished bytes of run lengths."""
    if isinstance(rows, list):
        rows = rows if from_top else rows[::-1]
        rows = b"".join(row + bytes(-len(row) % 4) for row in rows)
    height = -HEIGHT if from_top else HEIGHT
    if short:
        header = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, compression, len(rows), 2835, 2835,
                             len(palette) // 4, 0)
    at = 14 + len(header) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + header + masks + palette + rows


def lines(array):
    return [row.tobytes() for row in array]


def runs8(indices):
    """RLE8 with runs, absolute runs, a step over pixels and an end mark; indices from the top."""
    out = b""
    for y, row in enumerate(indices[::-1]):
        if y == 3:  # steps over the whole of one row and five pixels more: they have the first colour
            out += bytes([0, 2, 5, 1])
        elif y == 4:
            out += bytes([len(row) - 5, 7])
        elif y % 2 == 0:
            out += bytes([0, len(row)]) + bytes(row) + bytes(len(row) % 2)
        else:
            out += bytes([len(row) - 4, row[0], 4, row[1]])
        if y != 3:
            out += bytes([0, 0])
    return out + bytes([0, 1])


def runs4(indices):
    """RLE4: two alternating values a run, and absolute runs; indices from the top."""
    out = b""
    for y, row in enumerate(indices[::-1]):
        pairs = np.append(row, 0).reshape(-1, 2) if len(row) % 2 else row.reshape(-1, 2)
        values = bytes((pairs[:, 0] * 16 + pairs[:, 1]).astype(np.uint8))
        out += bytes([0, len(row)]) + values + bytes(len(values) % 2) if y % 2 == 0 else bytes([len(row), values[0]])
        out += bytes([0, 0])
    return out + bytes([0, 1])


def encoded(extension, array, *parameters):
    good, data = cv2.imencode(extension, array, list(parameters))
    assert good
    return data.tobytes()


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def files():
    colors = pattern(3, 256).reshape(-1, 3)[:256].astype(np.uint8)  # R,G,B
    quads = np.hstack([colors, np.zeros((len(colors), 1), np.uint8)])
    greys = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
    index = {bits: pattern(1, 1 << bits).astype(np.uint8) for bits in (1, 2, 4, 8)}
    transparency = (b"tRNS", bytes(range(0, 160, 10)))
    for bits in (1, 2, 4, 8, 16):
        yield f"grey{bits}.png", png(pattern(1, 1 << bits), bits, 0)
    yield "grey8_transparent.png", png(index[8], 8, 0, [(b"tRNS", b"\0\x10")])
    yield "palette1.png", png(index[1], 1, 3, [(b"PLTE", colors[:2].tobytes())])
    yield "palette4_transparent.png", png(index[4], 4, 3, [(b"PLTE", colors[:16].tobytes()), transparency])
    yield "palette8.png", png(index[8], 8, 3, [(b"PLTE", colors.tobytes())])
    yield "rgb8.png", png(pattern(3, 256), 8, 2, [(b"gAMA", struct.pack(">I", 100000)), (b"tEXt", b"Title\0small")])
    yield "rgb16.png", png(pattern(3, 65536), 16, 2)
    yield "grey_alpha8.png", png(pattern(2, 256), 8, 4)
    yield "grey_alpha16.png", png(pattern(2, 65536), 16, 4)
    yield "rgba8.png", png(pattern(4, 256), 8, 6)
    yield "rgba16.png", png(pattern(4, 65536), 16, 6)
    yield "grey2_interlaced.png", png(index[2], 2, 0, interlaced=True)
    yield "grey16_interlaced.png", png(pattern(1, 65536), 16, 0, interlaced=True)
    yield "palette8_interlaced.png", png(index[8], 8, 3, [(b"PLTE", colors.tobytes())], interlaced=True)
    yield "rgb8_interlaced.png", png(pattern(3, 256), 8, 2, interlaced=True)

    packed_rows = {bits: lines(packed(index[bits].reshape(HEIGHT, -1), bits)) for bits in (1, 4, 8)}
    yield "palette1.bmp", bmp(packed_rows[1], 1, quads[:2].tobytes())
    yield "palette4.bmp", bmp(packed_rows[4], 4, quads[:16].tobytes())
    yield "palette8.bmp", bmp(packed_rows[8], 8, quads.tobytes())
    yield "grey8.bmp", bmp(packed_rows[8], 8, greys.tobytes())
    yield "runs4.bmp", bmp(runs4(index[4][:, :, 0]), 4, quads[:16].tobytes(), compression=2)
    yield "runs8.bmp", bmp(runs8(index[8][:, :, 0]), 8, quads.tobytes(), compression=1)
    words = lines(pattern(1, 65536)[:, :, 0].astype("<u2"))
    yield "bgr555.bmp", bmp(words, 16)
    yield "bgr565.bmp", bmp(words, 16, compression=3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    yield "bgr24.bmp", bmp(lines(pattern(3, 256).astype(np.uint8)), 24)
    yield "bgr24_from_top.bmp", bmp(lines(pattern(3, 256).astype(np.uint8)), 24, from_top=True)
    yield "bgra32.bmp", bmp(lines(pattern(4, 256).astype(np.uint8)), 32)
    yield "bgra32_masks.bmp", bmp(lines(pattern(4, 256).astype(np.uint8)), 32, compression=3,
                                  masks=struct.pack("<III", 0xFF0000, 0xFF00, 0xFF))
    yield "short_header.bmp", bmp(packed_rows[8], 8, colors.tobytes(), short=True)

    yield "lossy.webp", encoded(".webp", smooth(3), cv2.IMWRITE_WEBP_QUALITY, 75)
    yield "lossless.webp", encoded(".webp", pattern(3, 256).astype(np.uint8), cv2.IMWRITE_WEBP_QUALITY, 101)
    yield "transparent.webp", saved(Image.fromarray(smooth(4), "RGBA"), "WEBP", lossless=True, exact=True)
    frames = [Image.fromarray(smooth(3)), Image.fromarray(255 - smooth(3))]
    yield "animation.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=20)

    yield "color.jpg", encoded(".jpg", smooth(3), cv2.IMWRITE_JPEG_QUALITY, 80)
    yield "grey.jpg", encoded(".jpg", smooth(1), cv2.IMWRITE_JPEG_QUALITY, 80)
    yield "progressive.jpg", encoded(".jpg", smooth(3), cv2.IMWRITE_JPEG_QUALITY, 80, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    colors8 = Image.fromarray(smooth(3)).quantize(200)
    yield "whole.gif", saved(colors8, "GIF", interlace=0)
    yield "interlaced.gif", saved(colors8, "GIF", interlace=1)
    yield "animation.gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:])

    exif = Image.Exif()
    exif[0x0112] = 6
    yield "turned.jpg", saved(Image.fromarray(smooth(3)), "JPEG", exif=exif)
    yield "cmyk.jpg", saved(Image.fromarray(smooth(4)[:24, :24].copy(), "CMYK"), "JPEG", quality=90)


def decoded(name, data):
    """Per mode OpenCV's pixels, of a GIF Pillow's; nothing for a file that it may not decode."""
    if name.endswith(".gif"):
        color = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[:, :, ::-1].copy()
        return {"stored": color, "color": color, "grey": cv2.cvtColor(color, cv2.COLOR_BGR2GRAY)}
    bytes_ = np.frombuffer(data, np.uint8)
    keep = 0 if name == "turned.jpg" else cv2.IMREAD_IGNORE_ORIENTATION
    color = cv2.imdecode(bytes_, cv2.IMREAD_COLOR | keep)
    # For OS/2's short header OpenCV takes every picture to be grey.
    stored = color if name == "short_header.bmp" else cv2.imdecode(bytes_, cv2.IMREAD_ANYCOLOR | keep)
    if name.endswith(".jpg"):
        grey = cv2.imdecode(bytes_, cv2.IMREAD_GRAYSCALE | keep)
    else:
        grey = stored if stored.ndim == 2 else cv2.cvtColor(color, cv2.COLOR_BGR2GRAY)
    return {"stored": stored, "color": color, "grey": grey}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    table = ""
    for name, data in files():
        with open(os.path.join(FOLDER, name), "wb") as file:
            file.write(data)
        if name == "animation.webp":
            continue
        for mode, pixels in decoded(name, data).items():
            if name == "cmyk.jpg":
                if mode == "stored":
                    pixels.tofile(os.path.join(FOLDER, "cmyk.bgr"))
                continue
            height, width, channels = (*pixels.shape, 1)[:3]
            table += f"{name} {mode} {width} {height} {channels} {zlib.crc32(pixels.tobytes()):08x}\n"
    with open(os.path.join(FOLDER, "decoded.txt"), "w") as file:
        file.write(table)


if __name__ == "__main__":
    main()
