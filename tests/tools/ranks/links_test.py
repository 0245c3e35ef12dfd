#!/usr/bin/env python3
"""tools/bench/links/run: what it refuses, sums over two hosts, the links' rate, and that nothing stays behind.

Usage: links_test.py RUN MOKA
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

RUN, MOKA = sys.argv[1:3]


class LinksTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # All processes below the script inherit this.
        self.mark = f"MOKA_LINKS_TEST={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.environment = {**os.environ, "TMPDIR": str(self.folder), name: value}

    def run_links(self, *words, **more):
        return subprocess.run([RUN, *map(str, words)], capture_output=True, text=True, check=False, timeout=60,
                              **{"env": self.environment, **more})

    def need_links(self):
        done = self.run_links("--hosts", 1, "--check")
        if done.returncode == 69:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    def marked(self):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark.encode() in entry.read_bytes():
                    found.append((entry.parent / "cmdline").read_bytes().decode().replace("\0", " "))
            except OSError:
                pass  # it has ended, or is another user's
        return found

    def expect_nothing_left(self):
        until = time.monotonic() + 15
        while self.marked() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.marked(), [])

    def test_refuses_in_one_sentence(self):
        for words, what in [((), "there is no program"),
                            (("--hosts", "0", "--", "true"), '--hosts wants 1 to 200, found "0"'),
                            (("--mbit", "fast", "--", "true"), '--mbit wants 0 to 100000, found "fast"'),
                            (("--map", "row", "--", "true"), '--map is slot or node, found "row"'),
                            (("--host", "4"), 'unknown flag "--host"; the program stands behind --')]:
            with self.subTest(words):
                done = self.run_links(*words)
                self.assertEqual(done.returncode, 64)
                self.assertEqual(done.stderr.splitlines()[0], f"links: {what}")
                self.assertIn("tools/bench/links/run [--hosts 4]", done.stderr)
        if os.geteuid() == 0:
            done = self.run_links("--check", env={"PATH": str(self.folder)})
            self.assertEqual((done.returncode, done.stderr), (69, "links: cannot run here: there is no ip\n"))
            # As nobody, from where nobody may read.
            copy = pathlib.Path(shutil.copy(RUN, self.folder))
            self.folder.chmod(0o755)
            done = subprocess.run([copy, "--check"], capture_output=True, text=True, check=False, cwd="/",
                                  user=65534, group=65534, extra_groups=[])
        else:
            done = self.run_links("--check")
        self.assertEqual((done.returncode, done.stderr), (69, "links: cannot run here: network namespaces need root\n"))

    def test_sizes_have_a_unit_or_none(self):
        def sizes(smallest, largest):
            done = subprocess.run([MOKA, "bench", "comm", "--ranks", "2", "--json", "--algorithm", "ring", "--minbytes",
                                   smallest, "--maxbytes", largest, "--iters", "1"],
                                  capture_output=True, text=True, check=False, timeout=60)
            if done.returncode != 0:
                return done.returncode
            return [row["bytes"] for row in json.loads(done.stdout)["algorithms"][0]["rows"]]

        self.assertEqual(sizes("512", "2K"), [512, 1024, 2048])
        self.assertEqual(sizes("1K", "2048"), [1024, 2048])
        self.assertEqual(sizes("8T", "1M"), 64)

    def test_ranks_of_two_hosts_sum_over_the_link(self):
        self.need_links()
        network = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
        done = self.run_links("--hosts", 2, "--slots", 2, "--mbit", 200, "--", MOKA, "bench", "comm", "--json",
                              "--algorithm", "ring", "--minbytes", "16", "--maxbytes", "1M", "--stepfactor", 256,
                              "--iters", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = json.loads(done.stdout[done.stdout.index("{"):])
        self.assertEqual(table["ranks"], 4)
        rows = table["algorithms"][0]["rows"]
        self.assertEqual([row["bytes"] for row in rows], [16, 4096, 1 << 20])
        self.assertEqual([row["wrong"] for row in rows], [0, 0, 0])
        # A ring of four sends 3/2 of the bytes over each link: no faster than the link, but for what the bucket holds.
        shortest_us = (1.5 * (1 << 20) - 65536) * 8 / 200
        self.assertGreater(rows[-1]["us"], shortest_us)
        self.assertLess(rows[-1]["us"], 20 * shortest_us)
        self.expect_nothing_left()
        self.assertEqual(list(self.folder.iterdir()), [])
        after = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(network, after)

    def test_ends_as_the_program_does(self):
        self.need_links()
        # The first rank to fail ends the others, so each says where it is and waits for the other before it does.
        program = f"cd {self.folder} && touch $(hostname) && until [ -e host0 -a -e host1 ]; do sleep 0.02; done; exit 7"
        done = self.run_links("--hosts", 2, "--slots", 1, "--mbit", 0, "--", "sh", "-c", program)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.expect_nothing_left()
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["host0", "host1"])

    def test_leaves_nothing_behind_when_it_is_killed(self):
        self.need_links()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                process = subprocess.Popen([RUN, "--hosts", "2", "--slots", "1", "--", "sleep", "1000"],
                                           env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                until = time.monotonic() + 30
                while sum(one == "sleep 1000 " for one in self.marked()) < 2 and time.monotonic() < until:
                    time.sleep(0.05)
                self.assertEqual(sum(one == "sleep 1000 " for one in self.marked()), 2)
                process.send_signal(number)
                process.wait(timeout=30)
                self.expect_nothing_left()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
