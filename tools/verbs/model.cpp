// moka model show|expand|draw: nets as files (convert: convert.cpp).
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net.h"
#include "optim/net_weights.h"
#include "proto/net_file.h"
#include "tools/net_drawing.h"
#include "tools/net_profile.h"
#include "tools/net_source.h"
#include "tools/print.h"
#include "tools/train_setup.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

NetParameter ReadModel(const Arguments& arguments, const std::string& file) {
  if (arguments.positionals.empty()) throw Error(ErrorKind::kUsage, "missing argument: a prototxt or model folder");
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "model");
  return ReadNet(FindConfig(arguments.positionals[0], file), read);
}

Phase PhaseOf(const Arguments& arguments) {
  const std::string text = arguments.Get("phase", "TRAIN");
  if (text == "TRAIN") return TRAIN;
  if (text == "TEST") return TEST;
  throw Error(ErrorKind::kUsage, StrCat("--phase wants TRAIN or TEST, found \"", Printable(text), "\""));
}

BuiltNet BuildModel(const Arguments& arguments, const NetParameter& net) {
  const Phase phase = PhaseOf(arguments);
  NetOptions options;
  options.state.set_phase(phase);
  options.data_types = ProbeDataTypes(phase, {}, ParseShapes(arguments.Get("shape")));
  options.feeds_python_data = true;
  options.top_shapes = ParseShapes(arguments.Get("shape"));
  return BuildNet(net, options);
}

int RunShow(const Arguments& arguments) {
  const NetParameter net = ReadModel(arguments, "train_val.prototxt");
  const BuiltNet built = BuildModel(arguments, net);
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
  Print("net {}\n{:<28} {:<20} {:<26} {:>12} {:>10}\n", built.param.name(), "layer", "type", "tops", "parameters",
        "MFLOP");
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
  return 0;
}

int RunExpand(const Arguments& arguments) {
  const std::string text = NetToText(ReadModel(arguments, "train_val.prototxt"));
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
  const BuiltNet net = BuildModel(arguments, ReadModel(arguments, "train_val.prototxt"));
  DrawingOptions options;
  for (const auto& [name, value] : net.tops) options.shapes[name] = net.graph.shape(value).ToString();
  WriteDrawing(NetToDot(net.param, options), arguments.positionals[1]);
  return 0;
}

}  // namespace

Verb ModelVerb() {
  Verb show;
  show.name = "show";
  show.summary = "layers, shapes, parameters and work of a net";
  show.usage = "MODEL [--phase TRAIN|TEST]";
  show.examples = {"moka model show models/resnet50", "moka model show net.prototxt --phase TEST"};
  show.options = {{"phase", "PHASE", "TRAIN (default) or TEST"},
                  {"shape", "SHAPES", "shapes of data layers' tops: 'data=1,3,32,32;label=1'", ';'}};
  show.computes = false;
  show.run = RunShow;
  show.most_words = 1;

  Verb expand;
  expand.name = "expand";
  expand.summary = "print a net with its blocks expanded and old versions upgraded";
  expand.usage = "MODEL [OUT]";
  expand.examples = {"moka model expand models/resnet50 > plain.prototxt"};
  expand.computes = false;
  expand.run = RunExpand;
  expand.most_words = 2;

  Verb draw;
  draw.name = "draw";
  draw.summary = "draw a net as .svg, .png or .pdf (with graphviz) or as .dot";
  draw.usage = "MODEL OUT.svg|OUT.png|OUT.pdf|OUT.dot [--phase TRAIN|TEST]";
  draw.examples = {"moka model draw models/googlenet googlenet.svg"};
  draw.options = {{"phase", "PHASE", "TRAIN (default) or TEST"},
                  {"shape", "SHAPES", "shapes of data layers' tops: 'data=1,3,32,32;label=1'", ';'}};
  draw.computes = false;
  draw.run = RunDraw;

  Verb verb;
  verb.name = "model";
  verb.summary = "show, expand, convert and draw nets";
  verb.usage = "SUBVERB ...";
  verb.examples = {"moka model show models/lenet"};
  verb.subverbs = {ModelCheckVerb(), ConvertVerb(), draw, expand, show};
  return verb;
}

}  // namespace moka
