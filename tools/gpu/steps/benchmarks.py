"""Steps fusion and bench: whole steps of Moka with and without its fused passes, and beside PyTorch, by turns in one
run.

Fusion: a net's programs are too large to be in memory side by side, so each variant starts, runs and ends in its turn,
once in one order and once in the other; kernels that were timed are kept for the next.

torch.compile takes most of a minute a net, so while other steps run all that is to be compiled is, side by side, into a
cache that the peers then start from. Work by work they and Moka's worker start, and turns begin: everyone runs, the first one changing
from round to round; then all of them end, so that no other work's memory is in use. Ratios are medians of the rounds'
ratios to the fastest peer. Device memory: Moka's is what the driver counts more once its worker
has run, the context included; PyTorch's what its allocator took, without a context, so the ratio flatters PyTorch.
Host time is the processor time of the process over a turn; an inference of one picture has no bound on it, as it is
waited for without sleeping. A step of Moka that fell to a plain loop, for want of a library's kernel, is a failure.
"""

import concurrent.futures
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time

from steps.session import ROOT, StepError, complaint, tail

sys.path.insert(0, str(ROOT / "tools/bench/peers"))
from worker import Worker  # noqa: E402
from works import DCGAN, SEQ2SEQ  # noqa: E402

HOST_MS = 0.2  # processor time of a step at most
MEMORY = 0.8  # of the fastest peer's device memory at most

# Net, mode, batch, precision, the peer's ways, Moka's words, ratio of rates to be reached.
WORKS = [
    ("resnet50", "train", 256, "bfloat16", ["compile", "graph"], [], 1.15),
    ("alexnet_bn", "train", 256, "bfloat16", ["compile", "graph"], [], 1.15),
    ("dcgan", "train", 64, "bfloat16", ["compile-graph", "graph"], DCGAN["moka"], 1.5),
    ("seq2seq", "train", 64, "bfloat16", ["eager", "graph"], SEQ2SEQ["moka"], 1.2),
    ("resnet50", "infer", 1, "float16", ["compile-graph", "graph"], [], 1 / 0.7),
]
# What fuses statistics and gradients of batch norms into convolutions, what makes blocks of pixels channels, and what
# that has to be worth.
FUSED = [("resnet50", "train", 256, "bfloat16", [], [], None), ("resnet50", "train", 256, "float16", [], [], None),
         ("alexnet_bn", "train", 256, "bfloat16", [], [], None), ("alexnet_bn", "train", 256, "float16", [], [], None)]
VARIANTS = {"all passes": [], "without gradient_sums": ["--disable-pass=gradient_sums"],
            "without channel_statistics": ["--disable-pass=channel_statistics"],
            "without both of these": ["--disable-pass=gradient_sums,channel_statistics"],
            "without depth_stems": ["--disable-pass=depth_stems"]}
LOSS = 1.02  # of the fastest variant's time a step with all passes may take
LOOPS = re.compile(r"^ +(\d+ x (?:matmul|lstm|gru|convolution)\w* \S*loop)$", re.M)  # in moka's summary of a program
REHEARSED = [("lenet", "train", 4, "float32", ["eager"], [], None)]


class Contender:
    """A worker, the file of its complaints, and what was measured of it."""

    def __init__(self, session, name, command, environment):
        self.is_training = "infer" not in command and "--infer" not in command
        self.name, self.ms, self.host_ms, self.device_bytes = name, [], [], 0
        path = session.temporary / (name.replace(" ", "-") + ".err")
        try:
            with open(path, "w", encoding="utf-8") as errors:
                self.worker = Worker(name, command, environment, max(1, 0.6 * session.left()), errors)
        except (RuntimeError, OSError) as error:
            raise StepError(f"{error}: {complaint(path.read_text(errors='replace'))}") from error

    def turn(self, seconds):
        """Steps for about this long, after one that is not counted."""
        first = self.worker.run(1)[0]
        steps = max(3, min(2000, int(seconds * 1e3 / max(first, 1e-3))))
        before = self.worker.cpu_seconds()
        reply = self.worker.ask(f"run {steps}")
        # PyTorch's trainings tell the mean of their steps, so means are compared; of single pictures the median.
        self.ms.append((statistics.fmean if self.is_training else statistics.median)(reply["ms"]))
        self.host_ms.append((self.worker.cpu_seconds() - before) / steps * 1e3)
        self.device_bytes = max(self.device_bytes, reply.get("device_bytes", 0))


def device_memory():
    """Bytes of the first GPU in use, by the driver; 0 where it does not say."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
                             capture_output=True, text=True, check=True, timeout=20).stdout
        return int(out.split()[0]) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0


def peer_command(session, work, way):
    net, mode, batch, precision = work[:4]
    return [session.python, str(ROOT / "tools/bench/peers/torch_gpu.py"), net, mode, "--batch", str(batch), "--way", way,
            "--precision", precision, "--device", "cpu" if session.is_rehearsal else "cuda"]


def peer_environment(session):
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(session.temporary / "inductor"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "2"}


class Warming:
    """Compiles what the peers will run, four nets at a time, until a time.monotonic() at most. What fails here fails
    again, and is told, when the peer starts."""

    def __init__(self, session, until):
        self.pool = concurrent.futures.ThreadPoolExecutor(4)

        def warm(command):
            with contextlib.suppress(StepError):
                session.run([*command, "--warm"], environment=peer_environment(session), until=until)

        for work in works_of(session):
            for way in work[4]:
                if way.startswith("compile"):
                    self.pool.submit(warm, peer_command(session, work, way))

    def finish(self):
        self.pool.shutdown()


def start_peers(session, work):
    """The peers of one work, started side by side. One way PyTorch cannot go is no fault here, as long as another can."""

    def start(way):
        name = f"torch {work[0]} {work[1]} {way}"
        try:
            return Contender(session, name, peer_command(session, work, way), peer_environment(session))
        except StepError as error:
            session.add("bench", name, str(error))
            return None

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [peer for peer in pool.map(start, work[4]) if peer is not None]


def moka_command(session, work):
    net, mode, batch, precision, _, words, _ = work
    command = [session.moka, "bench", "model", net, f"--{mode}", f"--device={session.device}",
               f"--precision={precision}", *words]
    return command if net in ("dcgan", "seq2seq") else [*command, "--batch", str(batch)]


def check_kernels(session, work):
    """That the libraries' kernels take the products and convolutions of a work."""
    done = session.run([*moka_command(session, work), "--dry-run"])
    if done.returncode != 0:
        raise StepError(f"moka bench --dry-run: exit {done.returncode}: {tail(done.stderr or done.stdout)}")
    loops = LOOPS.findall(done.stdout)
    what = f"{work[0]} {work[1]}: kernels"
    found = "plain loops: " + ", ".join(loops) if loops else "no plain loop"
    session.add("bench", what, found, "no plain loop", None if session.is_rehearsal else not loops)


def start_moka(session, work, *words):
    net, mode = work[:2]
    command = [*moka_command(session, work), *words, "--worker"]
    before = device_memory()
    moka = Contender(session, f"moka {net} {mode}", command, session.environment())
    moka.worker.run(3)
    moka.device_bytes = max(0, device_memory() - before)
    return moka


def take_turns(session, contenders, end):
    seconds = 0.1 if session.is_rehearsal else 0.7
    for turn in range(2 if session.is_rehearsal else 5):
        first = turn % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            contender.turn(seconds)
        if time.monotonic() > end:
            break


def report(session, work, moka, peers):
    net, mode, batch, precision, _, _, wanted = work
    what = f"{net} {mode} {batch} {precision}"
    step = statistics.median(moka.ms)
    session.facts.setdefault("bench", {})[what] = {
        c.name: {"step_ms": c.ms, "host_ms": c.host_ms, "device_bytes": c.device_bytes} for c in [moka, *peers]}
    if session.is_rehearsal:
        session.add("bench", what, "every contender ran; a rehearsal claims no ratio")
        return
    host = statistics.median(moka.host_ms)
    bound, holds = (f"<= {HOST_MS}", host <= HOST_MS) if mode == "train" else ("", None)
    session.add("bench", what + ": host", f"{host:.3f} ms of a processor a step", bound, holds)
    if not peers:
        session.add("bench", what, f"{step:.3f} ms; no peer to compare with", "", False)
        return
    best = min(peers, key=lambda c: statistics.median(c.ms))
    ratio = statistics.median(theirs / ours for ours, theirs in zip(moka.ms, best.ms))
    text = f"{step:.3f} ms, {best.name} {statistics.median(best.ms):.3f}: {ratio:.2f}x"
    if mode == "infer":
        session.add("bench", what + ": latency", f"{text} ({1 / ratio:.2f} of its)", f"<= {1 / wanted:.2f} of its",
                    ratio >= wanted)
    else:
        session.add("bench", what, text, f">= {wanted:.2f}x", ratio >= wanted)
    if moka.device_bytes and best.device_bytes:
        share = moka.device_bytes / best.device_bytes
        session.add("bench", what + ": memory", f"{moka.device_bytes / 2**20:.0f} of {best.device_bytes / 2**20:.0f} MiB: "
                    f"{share:.2f}", f"<= {MEMORY}", share <= MEMORY)
    else:
        session.add("bench", what + ": memory", "the driver does not say")


def fusion(session):
    works = REHEARSED if session.is_rehearsal else FUSED
    for number, work in enumerate(works):
        what = f"{work[0]} {work[3]}"
        end = time.monotonic() + max(1, session.left() / (len(works) - number))
        times = {name: [] for name in VARIANTS}
        for name in list(VARIANTS)[:2] if session.is_rehearsal else [*VARIANTS, *reversed(VARIANTS)]:
            if times["all passes"] and time.monotonic() > end:
                break
            try:
                moka = start_moka(session, work, *VARIANTS[name])
                moka.turn(0.1 if session.is_rehearsal else 0.7)
                times[name] += moka.ms
                moka.worker.close()
            except (StepError, RuntimeError, OSError) as error:
                session.add("fusion", f"{what}: {name}", str(error), "", False)
        judge_fusion(session, what, {name: ms for name, ms in times.items() if ms})


def judge_fusion(session, what, times):
    """Both turns of a variant count, by their lesser, as what disturbs a turn only makes it longer."""
    session.facts.setdefault("fusion", {})[what] = times
    best = {name: min(ms) for name, ms in times.items()}
    text = ", ".join(f"{name} {ms:.2f}" for name, ms in best.items()) + " ms"
    if session.is_rehearsal or "all passes" not in best:
        session.add("fusion", what, text)
        return
    share = best["all passes"] / min(best.values())
    session.add("fusion", what, text, f"all passes <= {LOSS:.2f} of the least", share <= LOSS)


def works_of(session):
    return REHEARSED if session.is_rehearsal else WORKS


def bench(session):
    session.warming.finish()
    works = works_of(session)
    for number, work in enumerate(works):
        end = time.monotonic() + max(1, session.left() / (len(works) - number))
        contenders = []
        try:
            check_kernels(session, work)
            contenders = start_peers(session, work)
            peers = list(contenders)
            contenders.insert(0, start_moka(session, work))
            take_turns(session, contenders, end - 2)
            report(session, work, contenders[0], peers)
        except (StepError, RuntimeError, OSError) as error:
            session.add("bench", f"{work[0]} {work[1]}", str(error), "", False)
        for contender in contenders:
            with contextlib.suppress(OSError):  # of one that ended by itself
                contender.worker.close()
