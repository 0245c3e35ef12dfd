"""Steps environment, tests and sanitizer: what the machine has, the test programs, and some of their cases under
compute-sanitizer."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

from steps.session import StepError, tail

# Library, the function that gives its version.
LIBRARIES = [("libcudnn.so.9", "cudnnGetVersion"), ("libcublasLt.so.13", "cublasLtGetVersion"), ("libnvrtc.so.13", ""),
             ("libnccl.so.2", "ncclGetVersion")]
ASK = """import ctypes, json, sys
found = {}
for name, function in json.loads(sys.argv[1]):
    try:
        library = ctypes.CDLL(name)
        if function == "ncclGetVersion":
            version = ctypes.c_int()
            library.ncclGetVersion(ctypes.byref(version))
            found[name] = str(version.value)
        elif function:
            getattr(library, function).restype = ctypes.c_size_t
            found[name] = str(getattr(library, function)())
        else:
            parts = ctypes.c_int(), ctypes.c_int()
            library.nvrtcVersion(ctypes.byref(parts[0]), ctypes.byref(parts[1]))
            found[name] = f"{parts[0].value}.{parts[1].value}"
    except (OSError, AttributeError) as error:
        found[name] = f"missing: {error}"
print(json.dumps(found))
"""
TORCH = """import json, torch
print(json.dumps({"torch": torch.__version__, "torch_cuda": torch.version.cuda,
                  "torch_cudnn": torch.backends.cudnn.version()}))
"""


def nvidia_folders(python):
    """The lib folders of NVIDIA's wheels beside a Python, cuDNN's first; empty where there are none."""
    out = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                         capture_output=True, text=True, check=False)
    packages = pathlib.Path(out.stdout.strip() or "/nonexistent")
    folders = sorted({str(p.parent) for p in packages.glob("nvidia/**/lib/*.so*")})
    return sorted(folders, key=lambda folder: "cudnn" not in folder)


def gpus():
    """[{name, driver, memory, capability}] as the driver's own tool lists them; empty without one."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap",
                              "--format=csv,noheader"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    keys = ("name", "driver", "memory", "capability")
    return [dict(zip(keys, line.split(", "))) for line in out.stdout.splitlines() if out.returncode == 0 and line]


def environment(session):
    """Device, driver and versions, and that every library Moka opens can be opened."""
    session.facts["device"] = json.loads(session.run_moka("device", "--json"))
    session.facts["gpus"] = gpus()
    names = [gpu["name"] for gpu in session.facts["gpus"]]
    session.add("environment", "device", ", ".join(names) or "rehearsed by the CPU")
    found = json.loads(session.run([session.python, "-c", ASK, json.dumps(LIBRARIES)]).stdout or "{}")
    session.facts["libraries"] = found
    for name, version in found.items():
        is_there = not version.startswith("missing")
        session.add("environment", name, version, "can be loaded", None if session.is_rehearsal else is_there)
    # PyTorch finds its own libraries; the packed ones are not for it.
    done = session.run([session.python, "-c", TORCH], environment=dict(os.environ))
    if done.returncode == 0:
        session.facts.update(json.loads(done.stdout))
    session.add("environment", "PyTorch", session.facts.get("torch", "missing: " + tail(done.stderr, 80)))


def tests(session):
    """Test programs, side by side and the largest in parts: those of GPU kernels whole, which a rehearsal needs no less;
    of others what concerns devices."""
    if not session.programs:
        session.add("tests", "programs", "the build has none", "", None)
    parts = max(1, min(4, (os.cpu_count() or 1) // 3))

    def try_part(program, part, count):
        report = session.temporary / f"{program.name}.{part}.json"
        words = [f"--gtest_output=json:{report}"]
        if "cuda" not in program.name:  # a GPU changes nothing for the other cases
            words.append("--gtest_filter=*Gpu*:*Cuda*:*Rehears*:*Device*:*Stream*")
        environment = {**session.environment(), "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(part)}
        done = session.run([program, *words], environment=environment)
        if not report.is_file():
            raise StepError("no report: " + tail(done.stdout))
        return json.loads(report.read_text(encoding="utf-8"))["testsuites"]

    with concurrent.futures.ThreadPoolExecutor(2 * parts) as pool:
        tasks = {program: [pool.submit(try_part, program, part, count) for part in range(count)]
                 for program in session.programs for count in [parts if "catalog" in program.name else 1]}
        for program, under_way in tasks.items():
            try:
                add_report(session, program.name, [suite for task in under_way for suite in task.result()])
            except StepError as error:
                session.add("tests", program.name, str(error), "all pass", False)


def from_root(text):
    """The beginning of a failure, its paths those of the repository, not of where it was built."""
    return re.sub(r"\S*/(tests/\S+:\d+)", r"\1", text)[:1000]


def add_report(session, name, suites):
    cases = [case for suite in suites for case in suite["testsuite"]]
    failed = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
    skipped = sum(case.get("result") == "SKIPPED" for case in cases)
    session.facts.setdefault("failed_tests", {})[name] = {f"{case['classname']}.{case['name']}":
                                                          from_root(case["failures"][0]["failure"])
                                                          for case in cases if case.get("failures")}
    passed = len(cases) - len(failed) - skipped
    text = f"{passed} pass, {skipped} skipped, {len(failed)} fail"
    is_empty = session.is_rehearsal and passed + len(failed) == 0
    session.add("tests", name, text + (f": {', '.join(failed[:3])}" if failed else ""), "some pass, none fails",
                None if is_empty else not failed and passed > 0)


def sanitizer(session):
    """compute-sanitizer over every n-th case of the programs of GPU kernels."""
    if session.is_rehearsal:
        session.add("sanitizer", "memcheck, racecheck", "skipped: a rehearsed GPU runs nothing that could be watched")
        return
    programs = [p for p in session.programs if "cuda" in p.name and "plan" not in p.name]
    runs = [(tool, count, program) for tool, count in (("memcheck", 12), ("racecheck", 6)) for program in programs]
    outcomes = [watch(session, tool, program, count, session.left() / (len(runs) - number))
                for number, (tool, count, program) in enumerate(runs)]
    if runs and "late" in outcomes and "watched" not in outcomes:
        session.add("sanitizer", "all", "no run came to its end in time", "some do", False)


def watch(session, tool, program, count, seconds):
    """One tool over some cases of a program: "watched", "late", or "refused" where the tool is missing or does not know
    the device. Only an error it finds, or cases that fail, are a failure."""
    what = f"{tool} {program.name}"
    try:
        cases = sample(session.run([program, "--gtest_list_tests"], 10).stdout, count)
        done = session.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", program,
                            "--gtest_filter=" + ":".join(cases)], seconds)
    except (StepError, OSError) as error:
        session.add("sanitizer", what, f"not watched: {error}")
        return "late" if isinstance(error, StepError) else "refused"
    passed = re.search(r"\[  PASSED  \] (\d+)", done.stdout)
    ran = int(passed[1]) if passed else 0  # cases that were skipped touched no device
    if not passed and re.search(r"^=+ .*Device not supported", done.stdout, re.M):
        session.add("sanitizer", what, "not watched: " + tail(done.stdout))
        return "refused"
    result = "clean" if done.returncode == 0 else f"exit {done.returncode}: {tail(done.stdout)}"
    session.add("sanitizer", what, f"{ran} of {len(cases)} cases pass: {result}", "no error, some pass",
                done.returncode == 0 and ran > 0)
    return "watched"


def sample(listing, count):
    """At most `count` names out of what --gtest_list_tests prints, evenly spread."""
    names, suite = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if name and not name.startswith(" ") and name.endswith("."):
            suite = name
        elif name.startswith("  ") and suite:
            names.append(suite + name.strip())
    return [names[i * len(names) // count] for i in range(count)] if len(names) > count else names
