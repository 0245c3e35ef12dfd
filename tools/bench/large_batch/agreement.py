"""Whether a batch made by `iter_size`, by ranks, or at once trains alike: the losses of each of ten iterations.

Ranks take every fourth picture and `iter_size` takes runs of them, so where a normalisation sees a part of the batch
the two see other parts. Here they see the same: pictures of the training set are written out, and the list that the
ranks read has them in the order that gives each rank the part that `iter_size` has. Nothing of a picture is changed at
random.
"""

import dataclasses
import subprocess

from trainings import ALEXNET, Training

BATCH, PARTS, ITERATIONS = 256, 4, 10
BOUND = 1e-4


FOLDER = f"data/{ALEXNET.data}/large_batch"
IN_ORDER, BY_RANKS = f"{FOLDER}/in_order.txt", f"{FOLDER}/by_ranks.txt"


def write_lists(lab):
    """The two lists: pictures as they come, and as ranks take them."""
    folder, lists = lab.folder / FOLDER, (lab.folder / IN_ORDER, lab.folder / BY_RANKS)
    if all(path.exists() for path in lists):
        return
    train = lab.split(ALEXNET) / "train"
    subprocess.run([lab.moka, "data", "export", str(train), str(folder / "pictures"), "--quiet",
                    "--limit", str(BATCH * ITERATIONS)], check=True, capture_output=True)
    files = sorted((folder / "pictures").glob("*.png"), key=lambda file: file.stem.split("_")[1])
    rows = [f"{file} {file.stem.split('_')[0]}\n" for file in files]
    part = BATCH // PARTS
    by_ranks = [rows[first + rank * part + n] for first in range(0, len(rows) - BATCH + 1, BATCH)
                for n in range(part) for rank in range(PARTS)]
    for path, lines in zip(lists, (rows, by_ranks)):
        path.write_text("".join(lines), encoding="utf-8")


def pairs():
    """Pairs of trainings that must agree: (name, one, other)."""
    part = BATCH // PARTS
    found = []
    for kind, fields in (("SGD", (("base_lr", 0.02),)),
                         ("LARS", (("type", "LARS"), ("base_lr", 0.02), ("lars_eta", 0.05)))):
        def make(way, part, ranks=1, stages=(), overrides=(), source=IN_ORDER, kind=kind, fields=fields):
            net = "no normalisation" if stages else "normalised"
            read = ('layer[0].type="ImageData"', f'layer[0].image_data_param.source="{source}"',
                    f"layer[0].image_data_param.batch_size={part * ranks}", "layer[0].transform_param.pad=0",
                    "layer[0].transform_param.mirror=false")
            return Training(ALEXNET, f"{kind}, {net}, {way}", BATCH, fields, 1, "none", stages=stages, warmup=0,
                            overrides=read + overrides, iterations=ITERATIONS, ranks=ranks, part=part)

        def plain(way, part, ranks=1, make=make):
            return make(way, part, ranks, stages=("plain",))

        together = ("layer[bn*].batch_norm_param.sync_ranks=0",)
        found += [
            (f"{kind}, no normalisation: iter_size 4 and one batch",
             plain("iter_size 4", part), plain("one batch", BATCH)),
            (f"{kind}, no normalisation: 4 ranks and one batch",
             plain("4 ranks", part, PARTS), plain("one batch", BATCH)),
            (f"{kind}, normalised over parts of {part}: 4 ranks and iter_size 4",
             make("4 ranks", part, PARTS, source=BY_RANKS), make("iter_size 4", part)),
            (f"{kind}, normalised over the batch: 4 ranks with sync_ranks and one batch",
             make("4 ranks, sync_ranks 0", part, PARTS, overrides=together), make("one batch", BATCH))]
    return found


def trainings():
    return list({training.key(): training for _, *both in pairs() for training in both}.values())


@dataclasses.dataclass(frozen=True)
class Agreement:
    name: str
    difference: float

    def holds(self):
        return self.difference <= BOUND


def outcome(rows):
    """The largest difference of two losses of an iteration, of each pair that has its rows."""
    found = []
    for name, one, other in pairs():
        both = [rows.get(training.key()) for training in (one, other)]
        if None not in both:
            found.append(Agreement(name, max(abs(a[1] - b[1]) for a, b in zip(*(row["losses"] for row in both)))))
    return found
