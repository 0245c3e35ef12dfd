"""A peer's side of tools/bench/compare: one line says what is there, then every "run N" is answered by a line of JSON."""

import json
import sys
import time


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def serve(step, version, batch):
    """Until the input ends or says "quit"."""
    step()  # whatever is traced or compiled is, before the first turn
    print(json.dumps({"ready": True, "version": version, "batch": batch}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        times = []
        for _ in range(int(words[1])):
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps({"ms": times, "peak_bytes": peak_bytes()}), flush=True)
