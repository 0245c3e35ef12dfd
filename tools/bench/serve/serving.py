"""Servers and their load for tools/bench/serve/peers and tools/bench/serve/rows: both use moka bench serve's clients."""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]


def moka_json(moka, *words):
    """What a verb prints as JSON."""
    done = subprocess.run([str(moka), *map(str, words), "--json"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"moka {' '.join(map(str, words))}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def machine(moka):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(line.split(":", 1) for line in file if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    wide = "AVX-512" if "avx512f" in facts.get("flags", "") else "AVX2" if "avx2" in facts.get("flags", "") else "-"
    return {"cpu": facts.get("model name", platform.machine()), "isa": wide, "cores": os.cpu_count(),
            "onednn": moka_json(moka, "version")["oneDNN"]}


class Server:
    """A process that answers at `self.url`; ended with `with`."""

    def __init__(self, words, environment=None, url=None, ready=None):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(words, cwd=ROOT, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(environment or {})})
        self.url, self.ready = url, ready
        try:
            self.wait()
        except RuntimeError:
            self.__exit__()
            raise

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            time.sleep(0.1)
            text = pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")
            found = re.search(r"listening at (http://[0-9.:]+)", text)
            if self.url is None and found:
                self.url = found[1]
            if self.url is None:
                continue
            try:
                with urllib.request.urlopen(self.url + self.ready, timeout=5) as reply:
                    if reply.status == 200:
                        return
            except OSError:
                pass
        text = pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{self.process.args} is not ready: {text[-800:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def moka_server(moka, model, weights, words=()):
    given = [str(moka), "serve", str(model), "--port", "0", "--grace", "0", *words]
    return Server(given + (["--weights", str(weights)] if weights else []), ready="/v2/health/ready")


def post(url, body):
    request = urllib.request.Request(url, data=body, method="POST", headers={"Inference-Header-Content-Length": "0"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        begin = int(reply.headers.get("Inference-Header-Content-Length", 0))
        return reply.read()[begin:]


def load(moka, url, seconds, clients=None, rates=None, body=None):
    """Rows of moka bench serve: one for each rate, or one of clients that wait for their answers."""
    words = ["bench", "serve", url, "--seconds", seconds]
    words += ["--body", body] if body else []
    words += ["--clients", clients] if clients else []
    words += ["--rate", ",".join(f"{rate:.6g}" for rate in rates)] if rates else []
    return moka_json(moka, *words)


def random_weights(moka, folder):
    """ResNet-50 v1.5 with weights that nobody trained, of which only the speed counts."""
    path = folder / "resnet50.safetensors"
    if path.exists():
        return path
    import numpy
    import torch
    import torchvision

    torch.manual_seed(1)
    state = torchvision.models.resnet50(weights=None).state_dict()
    arrays = folder / "resnet50.npz"
    numpy.savez(arrays, **{name: value.numpy() for name, value in state.items()})
    subprocess.run([str(moka), "import", str(arrays), "--net", "models/resnet50_v15", "--out", str(path)], cwd=ROOT,
                   check=True, stdout=sys.stderr)
    return path
