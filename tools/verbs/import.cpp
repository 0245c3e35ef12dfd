// moka import: another program's file as a net of Moka's with its weights.
#include "tools/cli/command_line.h"
#include "tools/verbs/import_onnx.h"

namespace moka {

Verb ImportVerb() {
  Verb verb;
  verb.name = "import";
  verb.summary = "an ONNX file as a net with weights, which every verb here takes";
  verb.usage = "MODEL.onnx [--out FOLDER] [--flags]";
  verb.examples = {"moka import resnet18.onnx", "moka import swin_t.onnx --out models/swin_t",
                   "moka import detector.onnx --shape images=1x3x320x320 --dry-run"};
  verb.options = {{"out", "FOLDER", "a new folder for net and weights (default: the file's name)"},
                  {"batch", "N", "for this number of images alone, where the file leaves it open"},
                  {"shape", "SIZES", "of an input, as 1x3x224x224 or NAME=1x3x224x224, in place of the file's", ','},
                  {"dry-run", "", "say what would be written, or why it cannot be"},
                  {"json", "", "print as JSON"}};
  verb.computes = false;
  verb.run = ImportOnnxFile;
  verb.most_words = 1;
  return verb;
}

}  // namespace moka
