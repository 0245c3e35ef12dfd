"""A contender of tools/bench/compare and of tools/bench/curve: a process that waits for commands."""

import json
import os
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]


def moka_command(binary, net, mode, batch, threads, special):
    """The folder of the net, and Moka's worker on it."""
    folder = next((p for p in (f"tools/bench/nets/{net}", f"models/{net}") if (ROOT / p).is_dir()), net)
    command = [binary, "bench", "model", folder, f"--{mode}", "--threads", str(threads), "--worker",
               *special.get("moka", [])]
    if "items" not in special:
        command += ["--batch", str(batch)]
    return folder, command


class Worker:
    """A process that answers "run N" with its step times."""

    def __init__(self, name, command, environment, seconds, errors=subprocess.DEVNULL):
        self.name, self.peak_bytes = name, 0
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=errors)
        self.seconds = seconds
        self.hello = self.answer()

    def answer(self):
        timer = threading.Timer(self.seconds, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            timer.cancel()
        raise RuntimeError(f"{self.name} gave no answer")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        reply = self.answer()
        self.peak_bytes = max(self.peak_bytes, reply.get("peak_bytes", 0))
        return reply

    def run(self, steps, warmup=0):
        """Milliseconds of each step."""
        if warmup:
            self.ask(f"run {warmup}")
        return self.ask(f"run {steps}")["ms"]

    def cpu_seconds(self):
        """Of all threads that live; where the kernel counts only its ticks, in hundredths."""
        tasks = list(pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"))
        if tasks:
            return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) * 1e-9
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
