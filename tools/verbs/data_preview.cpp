// moka data preview: what a net's data layers make of their records, drawn.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "data/inspect/contact_sheet.h"
#include "data/inspect/preview.h"
#include "data/pipeline/open_pipeline.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/net_source.h"
#include "tools/nets/training_nets.h"
#include "tools/train/overrides.h"

namespace moka {
namespace {

// A sheet of each data layer, or of one.
int RunPreview(const Arguments& arguments) {
  const std::string& config = arguments.Word(0, "the net, or the model's folder");
  const std::filesystem::path out = arguments.Get("out", "preview.png");
  CheckFileEnding("--out", out, ".png");
  const std::string wanted = arguments.Get("layer");
  PreviewOptions options;
  options.phase = arguments.Has("test") ? TEST : TRAIN;
  options.seed = static_cast<uint64_t>(arguments.Int("seed", 1, 0, INT64_MAX));
  options.records = arguments.Int("records", options.records, 1, 256);
  options.epochs = arguments.Int("epochs", options.epochs, 1, 256);
  NetReadOptions read;
  read.overrides = arguments.overrides;
  NetState state = StateOfFlags(arguments);
  state.set_phase(options.phase);
  std::vector<CaptionedImage> sheets;
  for (const NetParameter& unfiltered : ReadNetsIn(config, read, state)) {
    const NetParameter net = FilterNet(unfiltered, options.phase);
    for (const LayerParameter& layer : net.layer()) {
      if (!IsPipelineLayer(layer.type()) || (!wanted.empty() && layer.name() != wanted)) continue;
      sheets.push_back({layer.name(), PreviewLayer(layer, options)});
    }
  }
  if (sheets.empty()) {
    throw Error(ErrorKind::kUsage, StrCat(Printable(config), " has no data layer", wanted.empty() ? "" : " named \"",
                                          Printable(wanted), wanted.empty() ? "" : "\"", " in this phase"));
  }
  const Image sheet = Stacked(sheets);
  WriteFileAtomically(out, EncodePng(sheet));
  Print("{}: {}x{} pixels\n", out.string(), sheet.width, sheet.height);
  return 0;
}

}  // namespace

Verb DataPreviewVerb() {
  Verb verb;
  verb.name = "preview";
  verb.under = "data";
  verb.summary = "draw what data layers make of their first records, random changes and all";
  verb.usage = "NET [key=value ...] [--out sheet.png] [--flags]";
  verb.examples = {"moka data preview models/cifar10_full --out sheet.png",
                   "moka data preview net.prototxt --layer data --records 8 --epochs 6 --seed 3"};
  verb.options = {{"out", "FILE", "the PNG to write (default preview.png)"},
                  {"layer", "NAME", "this layer only"},
                  {"records", "N", "rows: the first N records (default 4)"},
                  {"epochs", "N", "columns: the record in N epochs (default 8)"},
                  {"seed", "N", "of the random changes (default 1)"},
                  {"test", "", "the TEST phase"}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunPreview;
  verb.most_words = 1;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
