"""The installed tree: what is in it, that the program finds the rest from wherever it lies, that pages and completions are
those that the program says, and that the version stands in one place. A library or a path of the building machine that
would come along unnamed fails it, too.
"""

import gzip
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (pathlib.Path(word) for word in (sys.argv.pop(1), sys.argv.pop(1)))


def words_of(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def source_files(folder, endings):
    return {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.suffix in endings}


def files_of(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "any where"
        cls.work = pathlib.Path(cls.folder.name) / "work"
        cls.work.mkdir()
        words_of("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", "moka", "--strip")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def moka(self, *words):
        """What the installed program says in an empty folder, without an environment."""
        return words_of(self.prefix / "bin/moka", *words, cwd=self.work, env={"HOME": str(self.work)})

    def verbs(self, path=""):
        """All verbs and subverbs that the program completes, "data", "data import", ..."""
        found = []
        for name in self.moka("completion", f"--line=help {path}").split():
            found.append(path + name)
            if path == "":
                found += self.verbs(name + " ")
        return found

    def test_the_tree_has_its_files_and_no_others(self):
        share = self.prefix / "share"
        self.assertEqual({path.name for path in self.prefix.iterdir()}, {"bin", "share"})
        self.assertEqual({path.name for path in (self.prefix / "bin").iterdir()}, {"moka"})
        endings = {".binaryproto", ".json", ".jsonl", ".md", ".prototxt", ".safetensors", ".tsv", ".txt"}
        self.assertEqual(files_of(share / "moka/models"), source_files("models", endings))
        self.assertEqual(files_of(share / "moka/tools/data/sets"), files_of(ROOT / "tools/data/sets"))
        self.assertEqual(files_of(share / "doc/moka/docs"), files_of(ROOT / "docs"))
        for paper in ("LICENSE", "NOTICE", "README.md"):
            self.assertEqual((share / "doc/moka" / paper).read_bytes(), (ROOT / paper).read_bytes())

    def test_the_program_finds_its_models_from_its_place(self):
        listed = [json.loads(line)["name"] for line in self.moka("zoo", "list", "--json").splitlines()]
        self.assertEqual(listed, sorted(path.parent.name for path in (ROOT / "models").glob("*/model.prototxt")))
        for word in ("lenet", "models/lenet", "models/lenet/", "models/lenet/train_val.prototxt"):
            self.assertIn("conv1", self.moka("model", "show", word), word)
        self.assertIn("lenet\n", self.moka("completion", "--line=train len"))
        moved = self.prefix.parent / "moved"
        self.prefix.rename(moved)
        try:
            self.assertIn("431080", words_of(moved / "bin/moka", "zoo", "info", "lenet", "--json", cwd=self.work))
        finally:
            moved.rename(self.prefix)

    def test_a_folder_of_the_user_comes_before_a_model(self):
        own = self.work / "lenet"
        shutil.copytree(ROOT / "models/mnist_fast", own)
        try:
            self.assertNotIn('"LeNet"', self.moka("model", "expand", "lenet"))
        finally:
            shutil.rmtree(own)

    def test_data_are_fetched_by_the_script_beside_the_models(self):
        told = subprocess.run([self.prefix / "bin/moka", "zoo", "train", "lenet"], cwd=self.work, text=True,
                              capture_output=True, check=False)
        self.assertEqual(told.returncode, 66, told.stderr)
        command = told.stdout.strip()
        self.assertEqual(command, f"{self.prefix}/share/moka/tools/data/get mnist")
        refused = subprocess.run([command.removesuffix(" mnist"), "mnits"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 64)
        self.assertIn("mnist", refused.stderr)

    def test_the_manual_page_has_every_verb_with_its_flags(self):
        page = gzip.decompress((self.prefix / "share/man/man1/moka.1.gz").read_bytes()).decode()
        self.assertEqual(page, self.moka("help", "--man"))
        headings = [line.removeprefix(".SS moka ") for line in page.splitlines() if line.startswith(".SS ")]
        self.assertEqual(sorted(headings), sorted(self.verbs()))
        self.assertGreater(len(headings), 40)
        plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
        for verb in headings:
            usage = re.search(r"^  (--\S+)", self.moka(*verb.split(), "--help"), re.M)
            if usage is not None:
                self.assertIn("\n" + usage[1], plain, verb)
        for line in page.splitlines():
            if line.startswith("."):
                self.assertRegex(line, r"^\.(TH|SH|SS|TP|PP|nf|fi|RS|RE)\b")

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_the_manual_page_is_formatted_without_a_warning(self):
        page = gzip.decompress((self.prefix / "share/man/man1/moka.1.gz").read_bytes())
        shown = subprocess.run(["groff", "-man", "-k", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, check=True)
        self.assertEqual(shown.stderr.decode(), "")

    def test_completions_are_those_that_the_program_prints(self):
        for shell, place in (("bash", "bash-completion/completions/moka"), ("zsh", "zsh/vendor-completions/_moka"),
                             ("fish", "fish/vendor_completions.d/moka.fish")):
            self.assertEqual((self.prefix / "share" / place).read_text(), self.moka("completion", shell))

    @unittest.skipUnless(shutil.which("readelf"), "binutils are not installed")
    def test_every_linked_library_is_in_the_notice(self):
        needed = []
        for program in [self.prefix / "bin/moka", *(BUILD / "python/moka").glob("_moka*.so"),
                        *BUILD.glob("libmoka_serve_grpc.so")]:
            needed += re.findall(r"\(NEEDED\).*\[(lib\S+?)\.so", words_of("readelf", "-d", program))
        self.assertGreater(len(needed), 15)
        notice = (ROOT / "NOTICE").read_text()
        for library in set(needed):
            self.assertRegex(notice, rf"(?<![\w]){re.escape(library)}(?![\w])")

    @unittest.skipUnless(shutil.which("readelf"), "binutils are not installed")
    def test_libraries_are_looked_for_beside_the_program(self):
        dynamic = words_of("readelf", "-d", self.prefix / "bin/moka")
        self.assertEqual(re.findall(r"\(RUNPATH\).*\[(.*)\]", dynamic), ["$ORIGIN/../lib/moka"])
        self.assertNotIn("libmpi", dynamic)

    def test_no_path_of_the_building_machine_is_in_the_program(self):
        program = (self.prefix / "bin/moka").read_bytes()
        for room in ("core", "layers", "graph", "optim", "comm", "data", "proto", "tools", "models", "build"):
            self.assertFalse(f"{ROOT}/{room}/".encode() in program, room)

    def test_the_version_stands_in_one_place(self):
        version = re.search(r"project\(moka VERSION (\d+\.\d+\.\d+) ", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(json.loads(self.moka("version", "--json"))["moka"], version)
        changes = re.search(r"^## (\S+), \d+ [A-Z][a-z]+ \d{4}$", (ROOT / "docs/CHANGELOG.md").read_text(), re.M)
        self.assertEqual(changes[1], version)
        spec = importlib.util.spec_from_file_location("build_wheel", ROOT / "tools/python/build_wheel.py")
        build_wheel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build_wheel)
        self.assertEqual(build_wheel.version(), version)
        for place in ("tools/python/pyproject.toml", "tools/python/build_wheel.py", "tools/package/CMakeLists.txt"):
            self.assertNotIn(version, (ROOT / place).read_text(), place)


if __name__ == "__main__":
    unittest.main()
