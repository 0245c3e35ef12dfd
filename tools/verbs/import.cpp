// moka import: what other programs trained, for Moka. The file's content says which of the kinds it is of.
#include "tools/cli/command_line.h"
#include "tools/exchange/torch_files.h"

namespace moka {
namespace {

int RunImport(const Arguments& arguments) {
  arguments.Word(0, "a file of weights: .safetensors or .npz");
  return ImportTorchFile(arguments);
}

}  // namespace

Verb ImportVerb() {
  Verb verb;
  verb.name = "import";
  verb.summary = "weights that PyTorch trained, for a net of the zoo";
  verb.usage = "WEIGHTS --net MODEL [--flags]";
  verb.examples = {"moka import resnet50.safetensors --net models/resnet50_v15",
                   "moka import flowers.npz --net models/resnet18 --out flowers.safetensors "
                   "'layer[fc1000].inner_product_param.num_output=102'"};
  verb.operands = {{"WEIGHTS", ".safetensors or .npz with the names of a module's state_dict"}};
  verb.options = {
      {"net", "MODEL", "the net: a folder or prototxt beside which names.torch.tsv lies"},
      {"out", "FILE", "where weights go, and FILE's .prototxt for the net (default: MODEL.safetensors here)"},
      {"dry-run", "", "say what would be written, or why it cannot be"},
      {"json", "", "print as JSON"}};
  verb.computes = false;
  verb.run = RunImport;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
