"""The package where its compiled module is missing says how to build it; it is never imported empty."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import moka


class UnbuiltTest(unittest.TestCase):
    def imported_without(self, names):
        """Imports a copy of the package that lacks the files whose names begin so, in a process of its own."""
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "moka"
            shutil.copytree(pathlib.Path(moka.__file__).parent, package)
            for path in list(package.iterdir()):
                if path.name.startswith(names):
                    path.unlink()
            return subprocess.run([sys.executable, "-c", "import moka"], env={**os.environ, "PYTHONPATH": folder},
                                  capture_output=True, text=True)

    def test_says_how_to_build(self):
        outcome = self.imported_without("_moka")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("ImportError: moka's compiled module is not there for Python", outcome.stderr)
        self.assertIn("tools/build release moka_python", outcome.stderr)

    def test_whole_copy_imports(self):
        outcome = self.imported_without("no such file")
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
