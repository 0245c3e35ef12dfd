"""What every step of tools/gpu/verify works with: the programs, their environment, time left, and the rows of results."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRECISIONS = ["float32", "bfloat16", "float16"]


class StepError(Exception):
    """Why a part of a step has no result."""


@dataclasses.dataclass
class Row:
    """A line of the table. verdict: holds, fails, or said (no bound, or skipped: the result tells why)."""

    step: str
    what: str
    result: str
    bound: str
    verdict: str


@dataclasses.dataclass
class Session:
    """One run of the verifier."""

    bin: pathlib.Path  # moka, and the test programs in one of `programs`
    programs: list
    lib: pathlib.Path  # packed shared libraries; None for a build in place
    data: pathlib.Path  # packed data sets; they may be missing
    temporary: pathlib.Path
    python: str  # with PyTorch
    is_rehearsal: bool
    end: float  # time.monotonic() at which the budget is spent
    nvidia: list = dataclasses.field(default_factory=list)  # folders of NVIDIA's libraries
    rows: list = dataclasses.field(default_factory=list)
    facts: dict = dataclasses.field(default_factory=dict)  # what goes into the JSON beside the rows
    limit: float = 0  # time.monotonic() at which the present step ends
    warming: object = None  # what the bench's peers compile while other steps run

    @property
    def moka(self):
        return str(self.bin / "moka")

    @property
    def device(self):
        return "rehearsal" if self.is_rehearsal else "gpu"

    def left(self):
        """Seconds the present step has."""
        return min(self.limit, self.end) - time.monotonic()

    def environment(self):
        """For Moka's programs. Kernel times and generated code are kept in the run's own cache."""
        folders = [*([str(self.lib)] if self.lib else []), *self.nvidia]
        inherited = os.environ.get("LD_LIBRARY_PATH")
        if inherited:
            folders.append(inherited)
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "NO_COLOR": "1", "MOKA_SOURCE_DIR": str(ROOT),
                "XDG_CACHE_HOME": str(self.temporary / "cache")}

    def run(self, command, seconds=None, environment=None, until=None):
        """The finished process, its output kept. until: time.monotonic() at which it has to end, by default with the
        step. Errors: StepError when it ran past its time, with all it started."""
        left = self.left() if until is None else until - time.monotonic()
        limit = min(left, seconds or left)
        if limit <= 0:
            raise StepError("no time left")
        with subprocess.Popen([str(word) for word in command], cwd=ROOT, env=environment or self.environment(),
                              text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise StepError(f"not done in {limit:.0f} s") from error
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def run_moka(self, *words, seconds=None):
        """What moka printed. Errors: StepError with the end of what it said."""
        done = self.run([self.moka, *words], seconds)
        if done.returncode != 0:
            raise StepError(f"moka {words[0]}: exit {done.returncode}: {tail(done.stderr or done.stdout)}")
        return done.stdout

    def add(self, step, what, result, bound="", holds=None):
        verdict = "said" if holds is None else "holds" if holds else "fails"
        self.rows.append(Row(step, what, result, bound, verdict))
        print(f"  {step:10} {what:44} {result:40.200} {bound:24} {verdict}", flush=True)


def complaint(text):
    """The last line of a program's output that names an error, else the end of it."""
    lines = re.findall(r"^[\w.]*(?:Error|error): .*$", text, re.M)
    return lines[-1][:240] if lines else tail(text)


def tail(text, length=240):
    """The end of a program's output on one line."""
    return " ".join(text.split())[-length:]


def metrics(folder, split):
    """[{"iter": .., "loss": .., ..}] of one split of a run's metrics.jsonl."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("split") == split]


def train(session, name, words, seconds=None):
    """Runs moka train in a run folder of its own and gives the folder."""
    runs = session.temporary / "runs"
    session.run_moka("train", *words, "--runs", str(runs), "--run", name, "--progress", "off", "--quiet",
                     "snapshot=0", seconds=seconds)
    return max(runs.glob(name + "-*"))
