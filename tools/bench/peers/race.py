"""A peer's side of `moka bench accuracy`: trains to a target on MLPerf's clock and prints a line of JSON for each test.

  {"clock_s": 12.3, "epoch": 2.0, "iteration": 782, "accuracy": 0.61}
      after each test; its value under the metric's name
  {"reached": true, "init_s": 8.1, "images_per_s": 655.2, "training_images_per_s": 690.1, "version": "torch 2.15"}
      the last line

The clock begins when training data is first touched (Race.begin). In front of it lie the start of the process, the
nets, whatever is compiled, warm-up on made-up pictures, and imported(), which is what `moka data import` is for Moka:
pictures are decoded once and kept in a file, whose reading is on the clock. Tests are on the clock.
"""

import contextlib
import json
import math
import os
import pathlib
import time

IMPORTED = pathlib.Path("build/peers-data")


def since_start():
    """Seconds since this process was made, its interpreter's start inside."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def imported(source, read):
    """A file of what read(source) gives, made where it is not there yet. source: a file or a folder."""
    import torch  # the rest of this module does without

    source, facts = pathlib.Path(source), pathlib.Path(source).stat()
    name = f"{source.parent.name}-{source.name}-{read.__name__}-{facts.st_size}-{facts.st_mtime_ns}.pt"
    file = IMPORTED / name
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        torch.save(read(source), part)
        part.replace(file)
    return file


def add_options(parser, *metrics):
    """metrics: what the peer measures, where that is not an accuracy and a loss."""
    parser.add_argument("--target", type=float, help="of the metric, at which training ends; prints JSON")
    if metrics:
        parser.add_argument("--metric", default=metrics[0], choices=metrics)
    else:
        parser.add_argument("--metric", default="accuracy", help="a name with loss or error in it: the test loss")


def save(result, path):
    """Writes what a training without a target has told. path: none leaves it out."""
    if path:
        pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


class Race:
    """One training to a target. batch: images an iteration; before: iterations of a first training on its clock."""

    def __init__(self, target, metric, batch, version, before=0, out=print):
        self.target, self.metric, self.batch, self.version, self.out = target, metric, batch, version, out
        self.before = before
        self.falls = "loss" in metric or "error" in metric
        self.init_s = self.began = None
        self.reached, self.tested_s, self.loaded_s, self.iterations = False, 0.0, 0.0, 0

    def begin(self):
        """Training data is touched from here on."""
        self.init_s, self.began = since_start(), time.monotonic()

    def loaded(self):
        """The data is read and cut; iterations begin."""
        self.loaded_s = self.clock()

    def clock(self):
        return time.monotonic() - self.began

    @contextlib.contextmanager
    def testing(self):
        begin = time.monotonic()
        yield
        self.tested_s += time.monotonic() - begin

    def test(self, iteration, epoch, quality, loss=math.nan):
        """Tells a test that has been made. quality: an accuracy or what else rises. Returns whether the target is
        reached."""
        value = loss if self.falls else quality
        self.iterations = iteration
        line = {"clock_s": self.clock(), "epoch": epoch, "iteration": iteration,
                self.metric: value if math.isfinite(value) else None}
        self.out(json.dumps(line), flush=True)
        self.reached = value <= self.target if self.falls else value >= self.target
        return self.reached

    def end(self):
        images, seconds = (self.before + self.iterations) * self.batch, self.clock()
        self.out(json.dumps({"reached": self.reached, "init_s": self.init_s, "images_per_s": images / seconds,
                             "training_images_per_s": images / max(seconds - self.tested_s - self.loaded_s, 1e-9),
                             "version": self.version}), flush=True)
