"""Small data sets in the places where the zoo's nets look for theirs: drawn pictures with boxes and masks, numbers,
texts.

The pictures are colour, grey, or a mixture of both, and of several sizes; the counts are no multiples of any batch of
the sweep. A data set is known by its path below data/: whoever adds a model over another set adds a maker here, and
the sweep says so.
"""

import gzip
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import zlib

KINDS = ("colour", "mixed", "grey")
TRAIN, TEST = 7, 5  # records: no multiples of 2 or 3
TABLE_ROWS = 37
WORDS = 4000        # enough different ones for a vocabulary of 5,000 pieces


class NoMaker(Exception):
    """No maker for a data set."""


def sources(net):
    """The files and databases that a prototxt reads, in its order."""
    return list(dict.fromkeys(re.findall(r'(?:source|vocabulary|_file): "(data/[^"]*)"', net)))


def png(path, width, height, channels, pixel):
    """Writes an 8-bit picture; pixel(x, y) gives a number, or three of a colour."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            value = pixel(x, y)
            rows += bytes(value if channels == 3 else (value,))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows), 1)) +
                     chunk(b"IEND", b""))


def is_grey(kind, i):
    return kind == "grey" or (kind == "mixed" and i % 2 == 1)


def picture(path, size, kind, i):
    """A picture with a bright rectangle on a dark ground, whose corners are returned."""
    width, height = size
    box = (width // 4, height // 4, width * 3 // 4, height * 3 // 4)

    def brightness(x, y):
        inside = box[0] <= x < box[2] and box[1] <= y < box[3]
        return (190 if inside else 40) + (x * 3 + y * 5 + i * 7) % 50

    if is_grey(kind, i):
        png(path, width, height, 1, brightness)
    else:
        png(path, width, height, 3, lambda x, y: (brightness(x, y), brightness(y, x) // 2, (x + y + i) % 256))
    return box


class DataMaker:
    """Makes what a net reads below `root`, a working folder of one kind of pictures, once each."""

    def __init__(self, moka, root, kind):
        self.moka, self.root, self.kind, self.made = moka, pathlib.Path(root), kind, set()

    def make(self, net):
        """Makes every data set of the net. Raises NoMaker, or a SubprocessError if an import fails or hangs."""
        for source in sources(net):
            name = source.split("/")[1]
            if name in self.made:
                continue
            maker = getattr(self, "make_" + name.replace("-", "_"), None)
            if maker is None:
                raise NoMaker(f"{source}: no made-up data for it; add make_{name.replace('-', '_')} to {__file__}")
            if not (self.root / "data" / name).exists():
                self.make_whole(name, maker, net)
            self.made.add(name)

    def make_whole(self, name, maker, net):
        """A set that is half made must not be taken for a whole one, so it takes its place when it is done."""
        root = self.root
        self.root = root / "making" / name
        shutil.rmtree(self.root, ignore_errors=True)  # of a maker that failed
        self.root.mkdir(parents=True)
        try:
            maker(net)
            (root / "data").mkdir(exist_ok=True)
            (self.root / "data" / name).rename(root / "data" / name)
        finally:
            self.root = root

    def pictures_to_infer(self):
        """A folder with a colour and a grey picture of odd sizes."""
        folder = self.root / "pictures"
        if not folder.exists():
            picture(folder / "a colour.png", (301, 233), "colour", 0)
            picture(folder / "b grey.png", (97, 128), "grey", 0)
        return folder

    def run(self, *words):
        # 124: a hang is an error like others.
        subprocess.run([self.moka, *map(str, words), "--quiet"], cwd=self.root, check=True, capture_output=True,
                       text=True, timeout=120)

    def splits(self, name):
        """(split, folder of the raw pictures, count) of the database data/NAME."""
        for split, count in (("train", TRAIN), ("val", TEST)):
            yield split, self.root / "raw" / name / split, count

    # Pictures of two classes.
    def classes(self, name, sizes, *flags, test="val"):
        for split, raw, count in self.splits(name):
            for i in range(count):
                picture(raw / f"class{i % 2}" / f"{i}.png", sizes[i % len(sizes)], self.kind, i)
            out = f"data/{name}/{'train' if split == 'train' else test}"
            self.run("data", "import", raw, out, *flags)

    def make_ilsvrc12(self, _):
        self.classes("ilsvrc12", [(256, 256), (300, 260)], "--resize", "256x256")

    def make_cifar10(self, _):
        self.classes("cifar10", [(32, 32)], "--storage", "raw", test="test")

    def make_cifar10_jpeg(self, _):
        self.classes("cifar10-jpeg", [(32, 32)], "--storage", "jpeg", test="test")

    def make_mnist(self, _):
        self.classes("mnist", [(28, 28)], test="test")

    def make_clothing(self, _):
        self.classes("clothing", [(160, 121), (113, 190)], "--storage", "raw", test="validation")

    def make_pictures64(self, _):
        self.classes("pictures64", [(64, 64)])

    # Pictures with boxes.
    def voc_annotation(self, file, name, size, box):
        corners = dict(zip(("xmin", "ymin", "xmax", "ymax"), box))
        shape = "".join(f"<{key}>{value}</{key}>" for key, value in corners.items())
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"<annotation><filename>{name}</filename><size><width>{size[0]}</width><height>{size[1]}</height>"
            "<depth>3</depth></size><object><name>bird</name><difficult>0</difficult>"
            f"<bndbox>{shape}</bndbox></object></annotation>", encoding="utf-8")

    def make_bccd(self, _):
        root = self.root / "raw/bccd"
        for split, count in (("train", TRAIN), ("val", TEST)):
            names = [f"{split}{i}" for i in range(count)]
            for i, name in enumerate(names):
                size = (160 + 20 * (i % 2), 120)
                box = picture(root / f"JPEGImages/{name}.png", size, self.kind, i)
                self.voc_annotation(root / f"Annotations/{name}.xml", f"{name}.png", size, box)
            sets = root / "ImageSets/Main"
            sets.mkdir(parents=True, exist_ok=True)
            (sets / f"{split}.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        for split in ("train", "val"):
            self.run("data", "import", f"voc:{root},{split}", f"data/bccd/{split}", "--storage", "raw")

    def make_voc0712(self, _):
        root = self.root / "raw/voc0712"
        (root / "labels.prototxt").parent.mkdir(parents=True, exist_ok=True)
        (root / "labels.prototxt").write_text(
            'item { name: "none_of_the_above" label: 0 display_name: "background" }\n'
            'item { name: "bird" label: 3 display_name: "bird" }\n', encoding="utf-8")
        for split, count in (("trainval", TRAIN), ("test", TEST)):
            lines = []
            for i in range(count):
                size = (150, 110 + 30 * (i % 2))
                box = picture(root / f"{split}{i}.png", size, self.kind, i)
                self.voc_annotation(root / f"{split}{i}.xml", f"{split}{i}.png", size, box)
                lines.append(f"{split}{i}.png {split}{i}.xml\n")
            (root / f"{split}.txt").write_text("".join(lines), encoding="utf-8")
            self.run("data", "import", f"boxes:{root}/{split}.txt,{root}/labels.prototxt,{root}",
                     f"data/voc0712/{split}")

    def make_coco2017(self, _):
        for split, raw, count in self.splits("coco2017"):
            images, annotations = [], []
            for i in range(count):
                size = (180 + 40 * (i % 2), 150)
                x1, y1, x2, y2 = picture(raw / f"{i}.png", size, self.kind, i)
                images.append({"id": i, "file_name": f"{i}.png", "width": size[0], "height": size[1]})
                annotations.append({"id": i + 1, "image_id": i, "category_id": 1 + i % 3, "iscrowd": 0,
                                    "area": (x2 - x1) * (y2 - y1), "bbox": [x1, y1, x2 - x1, y2 - y1],
                                    "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]]})
            categories = [{"id": i, "name": f"thing{i}"} for i in range(1, 91)]
            (raw.parent / f"{split}.json").write_text(json.dumps(
                {"images": images, "annotations": annotations, "categories": categories}), encoding="utf-8")
            self.run("data", "import", f"coco:{raw.parent}/{split}.json,{raw}", f"data/coco2017/{split}")

    # Pictures with a mask.
    def masks(self, name, source, size, inside):
        for split, raw, count in self.splits(name):
            for i in range(count):
                box = picture(raw / f"pictures/{i}.png", size, self.kind, i)
                png(raw / f"masks/{i}.png", *size, 1, lambda x, y, b=box:
                    inside if b[0] <= x < b[2] and b[1] <= y < b[3] else 0)
            self.run("data", "import", f"{source}:{raw}/pictures,{raw}/masks", f"data/{name}/{split}")

    def make_camvid(self, _):
        self.masks("camvid", "masks", (160, 120), 3)

    def make_voc2012(self, _):
        self.masks("voc2012", "masks", (170, 140), 3)

    def make_isbi_membrane(self, _):
        self.masks("isbi-membrane", "masks", (256, 256), 1)

    def make_nuclei(self, _):
        self.masks("nuclei", "instances", (256, 260), 1)

    # Numbers.
    def table(self, name, lines, *flags):
        file = self.root / "raw" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines), encoding="utf-8")
        self.run("data", "table", file, f"data/{name}", *flags)

    def make_auto_mpg(self, _):
        lines = [f"{18 + i % 9}.0 {4 + i % 3 * 2} {300 + i}.0 {130 + i}.0 {3500 - i}. 12.{i % 10} 70 {1 + i % 3} "
                 '"car"\n' for i in range(TABLE_ROWS)]
        self.table("auto_mpg", lines, "--target", "0", "--features", "1,2,3,4,5,6,7", "--one-hot", "7")

    def make_wine_quality(self, _):
        names = ";".join(f'"c{i}"' for i in range(12)) + "\n"
        lines = [";".join(str((i * (c + 2)) % 11 + 0.5) for c in range(11)) + f";{3 + i % 5}\n"
                 for i in range(TABLE_ROWS)]
        self.table("wine_quality", [names, *lines], "--target", "11")

    # Texts.
    def sentences(self, count, letters):
        rng = random.Random(f"{letters}{count}")
        words = ["".join(rng.choice(letters) for _ in range(rng.randint(2, 9))) for _ in range(WORDS)]
        return "".join(" ".join(rng.choice(words) for _ in range(rng.randint(4, 14))) + " .\n" for _ in range(count))

    def text(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
            file.write(text)

    def make_multi30k(self, _):
        for split, count in (("train", 1501), ("val", TEST), ("test_2016_flickr", TEST)):
            self.text(f"data/multi30k/{split}.de.gz", self.sentences(count, "aäbdeghiklmnorstuüw"))
            self.text(f"data/multi30k/{split}.en.gz", self.sentences(count, "abcdefghiklmnoprstuwy"))
        for language, pieces in (("de", 5000), ("en", 4000)):
            self.run("data", "vocabulary", f"data/multi30k/train.{language}.gz", f"data/multi30k/{language}.txt",
                     "--pieces", pieces)

    def make_multi30k_english(self, _):
        self.text("data/multi30k-english/train.en.gz", self.sentences(1501, "abcdefghiklmnoprstuwy"))
        self.text("data/multi30k-english/val.en.gz", self.sentences(61, "abcdefghiklmnoprstuwy"))
        self.run("data", "vocabulary", "data/multi30k-english/train.en.gz", "data/multi30k-english/words.txt", "--most",
                 "3266")  # and four marks: the rows of its Embed layers

    def make_babi(self, net):
        # With "mary went to the where is" and four marks the 177 words that the net has rows for.
        places = ["x" + chr(97 + i // 26) + chr(97 + i % 26) for i in range(167)]
        said = 0
        files = [s for s in sources(net) if s.endswith(("_train.txt", "_test.txt"))]
        for file in files:
            lines = []
            for i in range(13):
                place, other = places[said % len(places)], places[(said + 1) % len(places)]
                said += 1
                lines.append(f"1 Mary went to the {other}.\n2 Mary went to the {place}.\n"
                             f"3 Where is Mary?\t{place}\t2\n")
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            (self.root / file).write_text("".join(lines), encoding="utf-8")
        self.run("data", "vocabulary", *files, os.path.join(os.path.dirname(files[0]), "words.txt"), "--stories")

    def inputs(self, model):
        """What stands behind a model in `moka infer`, by the task of its card."""
        task = model.task
        if task == "GENERATE":
            return ["--count", "3", "--out", f"{model.name}_inferred.png"]
        if "SkipGramData" in model.net:
            return (self.root / "data/multi30k-english/words.txt").read_text(encoding="utf-8").split()[4:6]
        if task == "TRANSLATE":
            (self.root / "lines.txt").write_text("der hund\nein haus .\n", encoding="utf-8")
            return ["--text", "lines.txt"]
        if task == "ANSWER":
            (self.root / "story.txt").write_text("Mary went to the xab.\nWhere is Mary?\n", encoding="utf-8")
            return ["--story", "story.txt"]
        if task == "REGRESS":
            columns = json.loads((self.root / f"data/{model.name}/table.json").read_text(encoding="utf-8"))["columns"]
            rows = [" ".join(f"{(i + c) % 5 / 5}" for c in range(len(columns))) + "\n" for i in range(3)]
            (self.root / f"{model.name}_rows.txt").write_text("".join(rows), encoding="utf-8")
            return [f"{model.name}_rows.txt"]
        return [str(self.pictures_to_infer())]
