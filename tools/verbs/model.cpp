// moka model show|expand|draw: nets as files (convert: convert.cpp).
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/measure/net_profile.h"
#include "tools/nets/net_drawing.h"
#include "tools/nets/net_source.h"
#include "tools/nets/training_nets.h"
#include "tools/train/overrides.h"

namespace moka {
namespace {

constexpr std::string_view kNetWord = "a prototxt or model folder";

Phase PhaseOf(const Arguments& arguments) {
  const std::string text = arguments.Get("phase", "TRAIN");
  if (text == "TRAIN") return TRAIN;
  if (text == "TEST") return TEST;
  throw Error(ErrorKind::kUsage, StrCat("--phase wants TRAIN or TEST, found \"", Printable(text), "\""));
}

BuiltNet BuildModel(const Arguments& arguments, const NetParameter& net) {
  const Phase phase = PhaseOf(arguments);
  std::set<std::string> tops;
  AddTops(net, tops);
  RefuseUnknownTops(ParseShapes(arguments.Get("shape")), tops);
  NetOptions options;
  options.state.set_phase(phase);
  options.data_types = ProbeDataTypes(phase, {}, ParseShapes(arguments.Get("shape")));
  options.feeds_python_data = true;
  options.top_shapes = ParseShapes(arguments.Get("shape"));
  return BuildNet(net, options);
}

void ShowNet(const BuiltNet& built) {
  const std::map<std::string, int64_t> flops = FlopsByLayer(built);
  std::map<std::string, int64_t> learned;
  int64_t parameters = 0;
  int64_t statistics = 0;
  for (const NetBlob& blob : built.blobs) {
    if (blob.shared) continue;
    (blob.role == ParameterRole::kStatistic ? statistics : parameters) += blob.shape.Count();
    learned[blob.layer] += blob.shape.Count();
  }
  std::map<std::string, std::string> shapes;
  for (const auto& [name, value] : built.trace) {
    const std::string layer = name.substr(0, name.rfind(':'));
    shapes[layer] += (shapes[layer].empty() ? "" : " ") + built.graph.shape(value).ToString();
  }
  Print("net {}\n{:<28} {:<20} {:<26} {:>12} {:>10}\n", NameWithStages(built.param), "layer", "type", "tops",
        "parameters", "MFLOP");
  int64_t total_flops = 0;
  for (const LayerParameter& layer : built.param.layer()) {
    const auto it = flops.find(layer.name());
    const int64_t layer_flops = it == flops.end() ? 0 : it->second;
    total_flops += layer_flops;
    Print("{:<28} {:<20} {:<26} {:>12} {:>10.1f}\n", layer.name(), layer.type(), shapes[layer.name()],
          learned[layer.name()], static_cast<double>(layer_flops) * 1e-6);
  }
  Print("{} layers, {} learnable parameters, {} statistics, {:.3f} GFLOP forward a batch\n", built.param.layer_size(),
        parameters, statistics, static_cast<double>(total_flops) * 1e-9);
}

std::vector<BuiltNet> BuildModels(const Arguments& arguments) {
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "model");
  NetState state = StateOfFlags(arguments);
  state.set_phase(PhaseOf(arguments));
  std::vector<BuiltNet> built;
  for (const NetParameter& net : ReadNetsIn(arguments.Word(0, kNetWord), read, state)) {
    built.push_back(BuildModel(arguments, net));
  }
  return built;
}

int RunShow(const Arguments& arguments) {
  for (const BuiltNet& net : BuildModels(arguments)) ShowNet(net);
  return 0;
}

int RunExpand(const Arguments& arguments) {
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "model");
  const std::string text = NetToText(ReadNet(FindConfig(arguments.Word(0, kNetWord), "train_val.prototxt"), read));
  if (arguments.positionals.size() > 1) {
    WriteFileAtomically(arguments.positionals[1], text);
  } else {
    PrintLines(text);
  }
  return 0;
}

int RunDraw(const Arguments& arguments) {
  if (arguments.positionals.size() != 2)
    throw Error(ErrorKind::kUsage, "moka model draw wants a model and a file: MODEL OUT.svg");
  std::vector<DrawnNet> drawn;
  for (const BuiltNet& built : BuildModels(arguments)) {
    drawn.push_back({built.param});
    for (const auto& [name, value] : built.tops) drawn.back().shapes[name] = built.graph.shape(value).ToString();
  }
  WriteDrawing(NetsToDot(drawn, {}), arguments.positionals[1]);
  return 0;
}

}  // namespace

Verb ModelShowVerb() {
  Verb verb;
  verb.name = "show";
  verb.under = "model";
  verb.summary = "layers, shapes, parameters and work of a net";
  verb.usage = "MODEL [--phase TRAIN|TEST] [--stage LIST]";
  verb.examples = {"moka model show models/resnet50", "moka model show net.prototxt --phase TEST"};
  verb.options = {{"phase", "PHASE", "TRAIN (default) or TEST"},
                  {"shape", "SHAPES", "shapes of data layers' tops: 'data=1,3,32,32;label=1'", ';'}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.computes = false;
  verb.run = RunShow;
  verb.takes_fields = TakenFields::kOfNet;
  verb.most_words = 1;
  return verb;
}

Verb ModelExpandVerb() {
  Verb verb;
  verb.name = "expand";
  verb.under = "model";
  verb.summary = "print a net with its blocks expanded and old versions upgraded";
  verb.usage = "MODEL [OUT]";
  verb.examples = {"moka model expand models/resnet50 > plain.prototxt"};
  verb.computes = false;
  verb.run = RunExpand;
  verb.takes_fields = TakenFields::kOfNet;
  verb.most_words = 2;
  return verb;
}

Verb ModelDrawVerb() {
  Verb verb;
  verb.name = "draw";
  verb.under = "model";
  verb.summary = "draw a net as .svg, .png or .pdf (with graphviz) or as .dot";
  verb.usage = "MODEL OUT.svg|OUT.png|OUT.pdf|OUT.dot [--phase TRAIN|TEST] [--stage LIST]";
  verb.examples = {"moka model draw models/googlenet googlenet.svg"};
  verb.options = {{"phase", "PHASE", "TRAIN (default) or TEST"},
                  {"shape", "SHAPES", "shapes of data layers' tops: 'data=1,3,32,32;label=1'", ';'}};
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.computes = false;
  verb.run = RunDraw;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

Verb ModelVerb() {
  Verb verb;
  verb.name = "model";
  verb.summary = "show, expand, convert and draw nets";
  verb.usage = "SUBVERB ...";
  verb.examples = {"moka model show models/lenet"};
  return verb;
}

}  // namespace moka
