"""tools/nightly with programs in place of the fuzz targets, and a soak of seconds: what it reports, and how it ends."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

NIGHTLY, MOKA = sys.argv.pop(1), sys.argv.pop(1)

PASSES = """#!/bin/sh
echo "stat::number_of_executed_units: 1234"
"""
# libFuzzer's exit code of a crash is 77.
FINDS = """#!/bin/sh
for word; do case $word in -artifact_prefix=*) echo bytes > "${word#*=}crash-1";; esac; done
echo "stat::number_of_executed_units: 7"
exit 77
"""


class NightlyTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def write_target(self, name, text):
        self.write_program(self.folder / f"{name}_fuzz", text)

    def write_program(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.chmod(file, 0o755)

    def copied_nightly(self):
        """In a tree of its own, which the test fills."""
        tree = self.folder / "tree"
        for name in ("tools/nightly", "tests/fuzz/CMakeLists.txt"):
            (tree / name).parent.mkdir(parents=True)
            shutil.copy(pathlib.Path(NIGHTLY).parent.parent / name, tree / name)
        return tree, str(tree / "tools/nightly")

    def run_nightly(self, *words, nightly=NIGHTLY):
        done = subprocess.run([nightly, "--no-build", f"--out={self.folder}/out", f"--moka={MOKA}",
                               f"--fuzz-folder={self.folder}", *words], capture_output=True, text=True, timeout=600)
        report = self.folder / "out/report.json"
        return done, json.loads(report.read_text()) if report.exists() else None

    def test_counts_executions_and_passes(self):
        self.write_target("hosts", PASSES)
        done, report = self.run_nightly("--parts=fuzz", "--targets=hosts", "--fuzz-seconds=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(report["ok"])
        row = report["rows"][0]
        self.assertEqual((row["part"], row["name"], row["figures"]),
                         ("fuzz", "hosts", {"executions": 1234, "corpus": 0, "found": 0}))
        self.assertIn("-max_total_time=1", row["command"])
        self.assertIn("| fuzz | hosts | ok |", (self.folder / "out/report.md").read_text())
        self.assertEqual(set(report["machine"]), {"cpu", "cpus", "memory_gib", "kernel", "gpu"})

    def test_keeps_what_a_target_failed_on(self):
        self.write_target("hosts", PASSES)
        self.write_target("tar", FINDS)
        done, report = self.run_nightly("--parts=fuzz", "--targets=hosts,tar", "--fuzz-seconds=1")
        self.assertEqual(done.returncode, 1)
        self.assertFalse(report["ok"])
        self.assertEqual([row["ok"] for row in report["rows"]], [True, False])
        self.assertEqual(report["rows"][1]["figures"], {"executions": 7, "corpus": 0, "found": 1})
        self.assertEqual((self.folder / "out/found/tar/crash-1").read_text(), "bytes\n")
        self.assertIn("**failed**", (self.folder / "out/report.md").read_text())

    def test_a_target_that_says_nothing_fails(self):
        self.write_target("hosts", "#!/bin/sh\n")
        done, report = self.run_nightly("--parts=fuzz", "--targets=hosts", "--fuzz-seconds=1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(report["rows"][0]["why"], "it did not say how much it executed")

    def test_soaks(self):
        done, report = self.run_nightly("--parts=soak", "--soak-seconds=1", "--soak-iterations=60", "--memory-seconds=2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kills, memory = report["rows"]
        self.assertGreaterEqual(kills["figures"]["trainings"], 1)
        self.assertGreaterEqual(memory["figures"]["samples"], 3)
        self.assertGreater(memory["figures"]["resident_mib"], 5)

    def test_additions_without_a_table_fail(self):
        tree, nightly = self.copied_nightly()
        done, report = self.run_nightly("--parts=stranger", nightly=nightly)
        self.assertEqual(done.returncode, 66, done.stdout + done.stderr)
        self.assertIn("missing: build/release", done.stderr)
        self.assertIsNone(report)
        self.write_program(tree / "build/release/build.ninja", "")
        self.write_program(tree / "tools/stranger/run", "#!/bin/sh\n")
        done, report = self.run_nightly("--parts=stranger", nightly=nightly)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(report["rows"][0]["why"], "it wrote no results")

    def test_a_dry_run_names_every_part_and_runs_nothing(self):
        done, report = self.run_nightly("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(report)
        for words in ("ctest --preset asan", "ctest --preset tsan", "hosts_fuzz", "tools/faults/run", "train --resume=",
                      "tools/zoo/sweep"):
            self.assertIn(words, done.stdout)
        # A target for each folder of seeds.
        seeds = pathlib.Path(NIGHTLY).parent.parent / "tests/fuzz/seeds"
        for target in os.listdir(seeds):
            self.assertIn(f"/{target}_fuzz ", done.stdout)

    def test_a_folder_that_holds_something_is_refused(self):
        self.write_target("hosts", PASSES)
        left = self.folder / "out/found/hosts/crash-1"
        left.parent.mkdir(parents=True)
        left.write_text("of yesterday")
        done, report = self.run_nightly("--parts=fuzz", "--targets=hosts", "--fuzz-seconds=1")
        self.assertEqual(done.returncode, 73, done.stdout + done.stderr)
        self.assertIn("out is no empty folder", done.stderr)
        self.assertIsNone(report)
        self.assertEqual(left.read_text(), "of yesterday")

    def test_wrong_words_and_missing_programs_are_told(self):
        for words, code, text in ((["--parts=fuzzing"], 64, "fuzzing is not among sanitizers, forks, fuzz, faults, soak, zoo, stranger"),
                                  (["--nothing"], 64, "--nothing"), (["--fuzz-seconds=0"], 64, "0 is not above 0"),
                                  (["--parts=fuzz", "--targets=hosts"], 66, "hosts_fuzz")):
            done, report = self.run_nightly(*words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertIsNone(report)


if __name__ == "__main__":
    unittest.main()
