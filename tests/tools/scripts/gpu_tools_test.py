#!/usr/bin/env python3
"""tools/gpu/pack and tools/gpu/verify where there is no GPU: archives of a tiny build, exits, tables.

Usage: gpu_tools_test.py PACK VERIFY
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

PACK, VERIFY = sys.argv[1:3]
# A build's moka, as far as the step "environment" needs one.
MOKA = """#!/bin/sh
[ "$1" = device ] && echo '{"cpu": "a test"}'
"""
# A test program: it writes the report it is asked for, with one failure if the file "fail" lies beside it.
PROGRAM = """#!/bin/sh
for word in "$@"; do case "$word" in --gtest_output=json:*) report=${word#--gtest_output=json:};; esac; done
[ -f "$(dirname "$0")/fail" ] && failures='"failures": [{"failure": "1 is not 2"}],'
echo "{\\"testsuites\\": [{\\"testsuite\\": [{\\"name\\": \\"One\\", \\"classname\\": \\"T\\", $failures
  \\"result\\": \\"COMPLETED\\"}]}]}" > "$report"
"""


def run(*words, **environment):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


class GpuToolsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.build, self.carry = self.folder / "build", self.folder / "carry.tar.xz"
        (self.build / "tests").mkdir(parents=True)
        for path, text in ((self.build / "moka", MOKA), (self.build / "tests/core_tests", PROGRAM)):
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)

    def pack(self, *words):
        return run(PACK, "--build", self.build, "--out", self.carry, *words, MOKA_DATA="")

    def verify(self, *words):
        out = self.folder / "verify.json"
        done = run(VERIFY, "--rehearse", "--out", out, *words)
        return done, json.loads(out.read_text(encoding="utf-8")) if out.is_file() else None

    def test_manifest_names_every_file_as_it_is(self):
        done = self.pack()
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(self.carry) as archive:
            files = {m.name: archive.extractfile(m).read() for m in archive}
        manifest = json.loads(files.pop("carry/manifest.json"))
        self.assertEqual(set(files), {"carry/bin/moka", "carry/bin/core_tests"})
        self.assertEqual({f"carry/{name}" for name in manifest["files"]}, set(files))
        for name, facts in manifest["files"].items():
            data = files[f"carry/{name}"]
            self.assertEqual(facts, {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        self.assertTrue(manifest["version"])

    def test_the_same_build_gives_the_same_archive(self):
        self.pack()
        first = self.carry.read_bytes()
        os.utime(self.build / "moka", (1, 1))
        self.pack()
        self.assertEqual(self.carry.read_bytes(), first)

    def test_too_large_an_archive_is_refused(self):
        done = self.pack("--limit-mib", "0.0001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("over the limit of 0.0001", done.stderr)

    def test_what_is_missing_is_named(self):
        done = self.pack("no_such_test")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no program no_such_test", done.stderr)
        (self.build / "moka").unlink()
        self.assertIn("has no moka", self.pack().stderr)

    def test_a_carry_is_verified(self):
        self.pack()
        done, result = self.verify("--carry", self.carry, "--only", "environment,tests,sanitizer")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(result["rehearsal"] and result["ok"])
        self.assertEqual(result["device"], {"cpu": "a test"})
        rows = {(row["step"], row["what"]): row for row in result["rows"]}
        self.assertEqual(rows["tests", "core_tests"]["verdict"], "holds")
        self.assertIn("skipped", rows["sanitizer", "memcheck, racecheck"]["result"])

    def test_a_failing_case_fails_the_run_and_ends_no_other_step(self):
        (self.build / "tests/fail").touch()
        done, result = self.verify("--build", self.build, "--only", "tests,sanitizer")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(result["failed_tests"], {"core_tests": {"T.One": "1 is not 2"}})
        self.assertEqual([row["verdict"] for row in result["rows"]], ["fails", "said"])

    def test_a_changed_carry_is_refused(self):
        self.pack()
        with tarfile.open(self.carry) as archive:
            archive.extractall(self.folder)
        (self.folder / "carry/bin/moka").write_text("another", encoding="utf-8")
        with tarfile.open(self.carry, "w:xz") as archive:
            archive.add(self.folder / "carry", "carry")
        done, _ = self.verify("--carry", self.carry)
        self.assertEqual(done.returncode, 66)
        self.assertIn("bin/moka is missing or not what was packed", done.stderr)

    def test_no_gpu_is_one_line(self):
        python = pathlib.Path(sys.executable)
        done = run(python, VERIFY, "--build", self.build, PATH=str(self.folder))
        self.assertEqual(done.returncode, 69)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("no GPU", done.stderr)


class StepsTest(unittest.TestCase):
    """Parts of the steps, with what they would meet on a machine with a GPU."""

    def setUp(self):
        sys.path.insert(0, str(pathlib.Path(VERIFY).parent))
        self.addCleanup(sys.path.pop, 0)

    def watch(self, output, code):
        from steps import machine  # noqa: PLC0415  beside VERIFY

        rows = []

        class Session:
            def run(self, command, *_):
                if "--gtest_list_tests" in command:
                    return subprocess.CompletedProcess(command, 0, "Suite.\n  One\n  Two\n", "")
                if isinstance(output, Exception):
                    raise output
                return subprocess.CompletedProcess(command, code, output, "")

            def add(self, _step, _what, _result, _bound="", holds=None):
                rows.append(holds)

        return machine.watch(Session(), "memcheck", pathlib.Path("layers_cuda_test"), 2, 1), rows

    def test_the_sanitizer_fails_for_what_it_finds_alone(self):
        from steps.session import StepError  # noqa: PLC0415

        passed = "[  PASSED  ] 2 tests.\n"
        self.assertEqual(self.watch(passed, 0), ("watched", [True]))
        self.assertEqual(self.watch("========= Invalid read: this is not supported\n" + passed, 9), ("watched", [False]))
        self.assertEqual(self.watch("", 1), ("watched", [False]))
        self.assertEqual(self.watch("========= Error: Device not supported.\n", 1), ("refused", [None]))
        self.assertEqual(self.watch(StepError("not done in 1 s"), 0), ("late", [None]))
        self.assertEqual(self.watch(FileNotFoundError("compute-sanitizer"), 0), ("refused", [None]))

    def test_plain_loops_are_found_in_a_summary(self):
        from steps import benchmarks  # noqa: PLC0415

        summary = ("  29 steps, 0 reorders\n        2 x convolution cudnn\n        2 x convolution_backward_data loop\n"
                   "        6 x matmul gemm:loop\n        1 x matmul gemm:cublasLt\n        3 x lstm moka\n")
        self.assertEqual(benchmarks.LOOPS.findall(summary), ["2 x convolution_backward_data loop", "6 x matmul gemm:loop"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
