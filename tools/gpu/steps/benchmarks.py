"""Step bench: whole steps of Moka beside PyTorch, by turns in one run.

All peers start first, side by side, as torch.compile takes most of a minute; then they wait, blocked in a read. Work by
work Moka's worker starts alone and turns begin: everyone runs, the first one changing from round to round. Ratios are
medians of the rounds' ratios to the fastest peer. Device memory: Moka's is what the driver counts more once its worker
has run, the context included; PyTorch's what its allocator took, without a context, so the ratio flatters PyTorch.
Host time is the processor time of the process over a turn.
"""

import concurrent.futures
import contextlib
import os
import statistics
import subprocess
import sys
import time

from steps.session import ROOT, StepError, tail

sys.path.insert(0, str(ROOT / "tools/bench/peers"))
from worker import Worker  # noqa: E402
from works import DCGAN, SEQ2SEQ  # noqa: E402

HOST_MS = 0.2  # processor time of a step at most
MEMORY = 0.8  # of the fastest peer's device memory at most

# Net, mode, batch, precision, the peer's ways, Moka's words, ratio of rates to be reached.
WORKS = [
    ("resnet50", "train", 256, "bfloat16", ["compile", "graph"], [], 1.15),
    ("alexnet_bn", "train", 256, "bfloat16", ["compile", "graph"], [], 1.15),
    ("dcgan", "train", 64, "bfloat16", ["compile", "graph"], DCGAN["moka"], 1.5),
    ("seq2seq", "train", 64, "bfloat16", ["eager", "graph"], SEQ2SEQ["moka"], 1.2),
    ("resnet50", "infer", 1, "float16", ["compile", "graph"], [], 1 / 0.7),
]
REHEARSED = [("lenet", "train", 4, "float32", ["eager"], [], None)]


class Contender:
    """A worker, the file of its complaints, and what was measured of it."""

    def __init__(self, session, name, command, environment):
        self.name, self.ms, self.host_ms, self.device_bytes = name, [], [], 0
        path = session.temporary / (name.replace(" ", "-") + ".err")
        try:
            with open(path, "w", encoding="utf-8") as errors:
                self.worker = Worker(name, command, environment, max(1, 0.6 * session.left()), errors)
        except (RuntimeError, OSError) as error:
            raise StepError(f"{error}: {tail(path.read_text(errors='replace'))}") from error

    def turn(self, seconds):
        """Steps for about this long, after one that is not counted."""
        first = self.worker.run(1)[0]
        steps = max(3, min(2000, int(seconds * 1e3 / max(first, 1e-3))))
        before = self.worker.cpu_seconds()
        reply = self.worker.ask(f"run {steps}")
        self.ms.append(statistics.median(reply["ms"]))
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


def start_peers(session, works):
    """{(net, mode, way): contender or the error}: the processes side by side, their first lines one after another."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(session.temporary / "inductor")}

    def start(key, command):
        try:
            return key, Contender(session, "torch " + " ".join(key), command, environment)
        except StepError as error:
            return key, error

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        begun = [pool.submit(start, (w[0], w[1], way), peer_command(session, w, way)) for w in works for way in w[4]]
        return dict(future.result() for future in begun)


def start_moka(session, work):
    net, mode, batch, precision, _, words, _ = work
    command = [session.moka, "bench", "model", net, f"--{mode}", "--worker", f"--device={session.device}",
               f"--precision={precision}", *words]
    if net not in ("dcgan", "seq2seq"):
        command += ["--batch", str(batch)]
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
    session.add("bench", what + ": host", f"{host:.3f} ms of a processor a step", f"<= {HOST_MS}", host <= HOST_MS)
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


def bench(session):
    works = REHEARSED if session.is_rehearsal else WORKS
    started = start_peers(session, works)
    for number, work in enumerate(works):
        share = max(1, session.left() / (len(works) - number))
        keys = [(work[0], work[1], way) for way in work[4]]
        peers = []
        for key in keys:
            if isinstance(started[key], StepError):
                # One way PyTorch cannot go is no fault here, as long as another can.
                session.add("bench", "torch " + " ".join(key), str(started[key]))
            else:
                peers.append(started[key])
        contenders = list(peers)
        try:
            contenders.insert(0, start_moka(session, work))
            take_turns(session, contenders, time.monotonic() + share * 0.7)
            report(session, work, contenders[0], peers)
        except (StepError, RuntimeError, OSError) as error:
            session.add("bench", f"{work[0]} {work[1]}", str(error), "", False)
        for contender in contenders:
            with contextlib.suppress(OSError):  # of one that ended by itself
                contender.worker.close()
