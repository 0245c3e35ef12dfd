"""tools/stranger/run without building: each line that its additions need still has a place in the tree."""

import importlib.machinery
import importlib.util
import sys
import unittest

LOADER = importlib.machinery.SourceFileLoader("stranger", sys.argv.pop(1))
SPEC = importlib.util.spec_from_loader("stranger", LOADER)
stranger = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(stranger)


class StrangerTest(unittest.TestCase):
    def test_each_line_has_a_place(self):
        lines = 0
        for addition in stranger.NINE:
            for name in addition.files:
                self.assertTrue((stranger.ADDITIONS / name).exists(), name)
            for pattern, line, before in addition.lines:
                files = list(stranger.ROOT.glob(pattern))
                self.assertEqual(len(files), 1, pattern)
                text = files[0].read_text()
                is_index = files[0] == stranger.ROOT / stranger.INDEX
                make = stranger.with_link if is_index else stranger.with_line
                made = make(text, line, before)
                self.assertIsNotNone(made, f"{addition.name}: {pattern} has no place for {line}")
                self.assertEqual(made.count("\n"), text.count("\n") + (0 if is_index else 1), line)
                self.assertIn(line.strip(), made)
                self.assertEqual(make(made, line, before), made, "a line is added once")
                lines += 1
        self.assertGreater(lines, 9)

    def test_a_line_stands_as_its_neighbours_do(self):
        text = "list(\n  x/a.cpp\n  x/c.cpp\n  y/a.cpp)\n"
        self.assertEqual(stranger.with_line(text, "      x/b.cpp", None), text.replace("  x/c", "  x/b.cpp\n  x/c"))
        self.assertIsNone(stranger.with_line(text, "  z/b.cpp", None))


if __name__ == "__main__":
    unittest.main()
