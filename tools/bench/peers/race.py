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
    file = IMPORTED / f"{source.parent.name}-{source.name}-{facts.st_size}-{facts.st_mtime_ns}.pt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        torch.save(read(source), part)
        part.replace(file)
    return file


def add_options(parser):
    parser.add_argument("--target", type=float, help="of the metric, at which training ends; prints JSON")
    parser.add_argument("--metric", default="accuracy", help="a name with loss or error in it: the test loss")


class Race:
    """One training to a target. batch: images an iteration."""

    def __init__(self, target, metric, batch, version, out=print):
        self.target, self.metric, self.batch, self.version, self.out = target, metric, batch, version, out
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

    def test(self, iteration, epoch, accuracy, loss):
        """Tells a test that has been made. Returns whether the target is reached."""
        value = loss if self.falls else accuracy
        self.iterations = iteration
        line = {"clock_s": self.clock(), "epoch": epoch, "iteration": iteration,
                self.metric: value if math.isfinite(value) else None}
        self.out(json.dumps(line), flush=True)
        self.reached = value <= self.target if self.falls else value >= self.target
        return self.reached

    def end(self):
        images, seconds = self.iterations * self.batch, self.clock()
        self.out(json.dumps({"reached": self.reached, "init_s": self.init_s, "images_per_s": images / seconds,
                             "training_images_per_s": images / max(seconds - self.tested_s - self.loaded_s, 1e-9),
                             "version": self.version}), flush=True)
