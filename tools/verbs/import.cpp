// moka import: what other programs made, for Moka. The file's content says of which kind it is.
#include <filesystem>

#include "core/error.h"
#include "core/text.h"
#include "proto/content.h"
#include "tools/cli/command_line.h"
#include "tools/exchange/torch_files.h"
#include "tools/verbs/import_onnx.h"

namespace moka {
namespace {

int RunImport(const Arguments& arguments) {
  const std::filesystem::path file = arguments.Word(0, "an ONNX file, or weights as .safetensors or .npz");
  if (RecognizeFile(file) != Content::kOnnx && file.extension() != ".onnx") return ImportTorchFile(arguments);
  if (!arguments.overrides.empty()) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("\"", Printable(arguments.overrides.at(0)), "\" sets a field of --net's net, and ",
                       Printable(file.string()), " is a net of its own"),
                "import it, and change the prototxt that is written");
  }
  return ImportOnnxFile(arguments);
}

}  // namespace

Verb ImportVerb() {
  Verb verb;
  verb.name = "import";
  verb.summary = "an ONNX file as a net, or weights that PyTorch trained, for every verb here";
  verb.usage = "MODEL.onnx | WEIGHTS --net MODEL [--flags]";
  verb.examples = {"moka import resnet18.onnx", "moka import swin_t.onnx --out models/swin_t",
                   "moka import detector.onnx --shape images=1x3x320x320 --dry-run",
                   "moka import resnet50.safetensors --net models/resnet50_v15",
                   "moka import flowers.npz --net models/resnet18 --out flowers.safetensors "
                   "'layer[fc1000].inner_product_param.num_output=102'"};
  verb.operands = {{"MODEL.onnx", "a net with its weights"},
                   {"WEIGHTS", ".safetensors or .npz with the names of a module's state_dict"}};
  verb.options = {
      {"out", "PATH",
       "of an ONNX file the folder for net and weights (default: the file's name); of weights their file, "
       "and PATH's .prototxt for the net (default: MODEL.safetensors here)"},
      {"net", "MODEL", "the net of the weights: a folder or prototxt beside which names.torch.tsv lies"},
      {"batch", "N", "an ONNX file for this number of images alone, where it leaves it open"},
      {"shape", "SIZES", "of an ONNX input, as 1x3x224x224 or NAME=1x3x224x224, in place of the file's", ','},
      {"dry-run", "", "say what would be written, or why it cannot be"},
      {"json", "", "print as JSON"}};
  verb.computes = false;
  verb.run = RunImport;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
