// Takes blobs, parameters and gradients by their names in the order of the layers, so that the first difference names
// the layer where it began.
#include "tools/check/net_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/op.h"
#include "graph/program.h"
#include "layers/net/layer.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "proto/weights/blob_name.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using Arrays = std::map<std::string, NumpyArray>;

const NumpyArray* FindArray(const Arrays& arrays, std::string_view kind, const std::string& name) {
  auto found = arrays.find(StrCat(kind, "/", name));
  if (found == arrays.end() && kind == "blob") found = arrays.find(name);
  return found == arrays.end() ? nullptr : &found->second;
}

// Whether `there` is some of the first rows of `here`: Caffe's size where it depends on the data, and the largest one.
bool IsBeginning(const Shape& here, const Shape& there) {
  if (here.rank() != there.rank()) return false;
  int axis = 0;
  while (axis < here.rank() && here[axis] == 1 && there[axis] == 1) ++axis;
  return axis < here.rank() && there[axis] < here[axis] && here.Count(axis + 1, here.rank()) > 0 &&
         here.With(axis, there[axis]) == there;
}

// Whether two values of which one is not finite are the same: both NaN, or both the same infinity.
bool IsSameOutcome(float here, float there) { return here == there || (std::isnan(here) && std::isnan(there)); }

// The largest distance of finite values, over the largest finite one there. Others have no distance: they are the same
// outcome or a problem.
void CompareValues(std::span<const float> here, std::span<const float> there, BlobDifference& difference) {
  double scale = 0;
  for (size_t i = 0; i < here.size(); ++i) {
    if (!std::isfinite(here[i]) || !std::isfinite(there[i])) {
      if (IsSameOutcome(here[i], there[i])) continue;
      difference.problem = fmt::format("at {}: {:g} here, {:g} there", i, here[i], there[i]);
      return;
    }
    const auto value = static_cast<double>(there[i]);
    scale = std::max(scale, std::abs(value));
    const double distance = std::abs(static_cast<double>(here[i]) - value);
    if (distance <= difference.largest) continue;
    difference.largest = distance;
    difference.index = static_cast<int64_t>(i);
    difference.here = static_cast<double>(here[i]);
    difference.there = value;
  }
  difference.relative = scale > 0 ? difference.largest / scale : difference.largest;
}

BlobDifference Compare(std::string layer, std::string name, const Tensor& here, const NumpyArray& there) {
  BlobDifference difference{.layer = std::move(layer), .name = std::move(name), .problem = {}, .note = {}};
  OwnedTensor plain({DType::kFloat32, here.type().shape, {}});
  CopyTensor(here, plain.tensor());
  std::span<const float> values = plain.as<float>();
  const Shape& shape = here.type().shape;
  if (IsBeginning(shape, there.shape)) {
    const std::span<const float> rest = values.subspan(there.values.size());
    values = values.first(there.values.size());
    difference.note = StrCat("the first ", there.shape.ToString(), " of ", shape.ToString());
    if (std::ranges::any_of(rest, [&](float v) { return v != rest[0]; })) {
      difference.problem = StrCat("the shape is ", shape.ToString(), " here and ", there.shape.ToString(),
                                  ", and the rest here is not padding");
    }
  } else if (!IsSameCaffeShape(shape, there.shape)) {
    difference.problem = StrCat("the shape is ", shape.ToString(), " here and ", there.shape.ToString());
  }
  if (!difference.problem.empty()) return difference;
  CompareValues(values, there.values, difference);
  return difference;
}

// Shapes of data layers' tops are those of the arrays.
DataTypes TypesFrom(const Arrays& arrays) {
  return [&arrays](const LayerParameter& layer) {
    std::vector<TensorType> types;
    for (const std::string& top : layer.top()) {
      const NumpyArray* array = FindArray(arrays, "blob", top);
      if (array == nullptr) return GuessDataTypes()(layer);
      types.push_back({DType::kFloat32, array->shape, {}});
    }
    return types;
  };
}

void FeedInputs(const Program& program, const BuiltNet& net, const Arrays& arrays) {
  for (const DataLayer& data : net.data) {
    for (const std::string& top : data.tops) {
      if (!program.HasInput(top)) continue;
      const Tensor input = program.input(top);
      const NumpyArray* array = FindArray(arrays, "blob", top);
      if (array == nullptr) throw Error(ErrorKind::kBadData, StrCat("the input \"", top, "\" has no values"));
      if (!IsSameCaffeShape(input.type().shape, array->shape)) {
        throw Error(ErrorKind::kBadData, StrCat("the input \"", top, "\" is ", input.type().shape.ToString(),
                                                " and its values are ", array->shape.ToString()));
      }
      std::ranges::copy(array->values, input.as<float>().begin());
    }
  }
}

void SetParameters(const BuiltNet& net, const CompareOptions& options, const Arrays& arrays, ParameterStore& store) {
  AddBlobs(net.blobs, 1, store);
  if (!options.weights.empty()) return LoadTrainedWeights(options.weights, net.blobs, store);
  for (const NetBlob& blob : net.blobs) {
    const NumpyArray* array = FindArray(arrays, "param", BlobName(blob.layer, blob.index));
    if (array == nullptr) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat("parameter ", blob.index, " of layer \"", blob.layer, "\" has no values"),
                  "give --weights, or arrays named param/LAYER/INDEX");
    }
    if (!IsSameCaffeShape(blob.shape, array->shape)) {
      throw Error(ErrorKind::kBadData, StrCat("parameter ", blob.index, " of layer \"", blob.layer, "\" is ",
                                              blob.shape.ToString(), " and its values are ", array->shape.ToString()));
    }
    store.Set(blob.name, array->values);
  }
  TakePlainStatistics(net.blobs, "arrays param/", store);
}

// A value to compare once the program ran.
struct Watched {
  std::string layer;
  std::string name;
  std::string output;
  const NumpyArray* expected;
};

class Comparison {
 public:
  Comparison(BuiltNet& net, const Arrays& arrays) : net_(net), arrays_(arrays) {}

  // Tops in layer order, each at the layer that writes it last.
  void WatchBlobs() {
    std::map<std::string, std::string> writer;
    for (const auto& [name, value] : net_.trace) writer[Top(name)] = name;
    for (const auto& [name, value] : net_.trace) {
      if (writer[Top(name)] != name) continue;
      Watch(Layer(name), Top(name), value, FindArray(arrays_, "blob", Top(name)));
    }
  }

  // Gradients of the loss: of blobs that one layer alone writes (in place, engines differ in what they keep) and of
  // parameters. Requires: the net has a loss.
  void WatchGradients() {
    if (net_.loss == kNoId) throw Error(ErrorKind::kUsage, "the net has no loss, so there are no gradients to compare");
    std::map<std::string, int> writers;
    for (const auto& [name, value] : net_.trace) ++writers[Top(name)];
    std::vector<Watched> wanted;
    std::vector<ValueId> values;
    for (const auto& [name, value] : net_.trace) {
      const std::string what = StrCat("gradient of ", Top(name));
      const std::string why = WhyNoBlobGradient(Top(name), value, writers);
      if (!why.empty()) {
        LeaveOut(what, why);
        continue;
      }
      wanted.push_back({Layer(name), what, {}, FindArray(arrays_, "blobdiff", Top(name))});
      values.push_back(value);
    }
    for (const NetBlob& blob : net_.blobs) {
      const std::string what = StrCat("gradient of parameter ", blob.index, " of layer \"", blob.layer, "\"");
      const std::string why = WhyNoParameterGradient(blob);
      if (!why.empty()) {
        LeaveOut(what, why);
        continue;
      }
      const NumpyArray* expected = FindArray(arrays_, "paramdiff", BlobName(blob.layer, blob.index));
      wanted.push_back({blob.layer, StrCat("gradient of parameter ", blob.index), {}, expected});
      values.push_back(blob.state);
    }
    const std::vector<ValueId> dx = Differentiate(net_.graph, net_.loss, values);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (dx[i] == kNoId) {
        LeaveOut(StrCat(wanted[i].name, " of layer \"", wanted[i].layer, "\""), "the loss does not depend on it");
      } else {
        Watch(wanted[i].layer, wanted[i].name, dx[i], wanted[i].expected);
      }
    }
  }

  // Tells of the file's blobs and parameters that are none of this net's; of its gradients too where they are looked
  // at.
  void TellStrangers(bool with_gradients) {
    std::set<std::string> known;
    for (const auto& [name, value] : net_.trace) {
      for (const std::string& front : {std::string("blob/"), std::string(), std::string("blobdiff/")})
        known.insert(front + Top(name));
    }
    for (const DataLayer& data : net_.data) {
      for (const std::string& top : data.tops) known.insert({top, StrCat("blob/", top), StrCat("blobdiff/", top)});
    }
    for (const NetBlob& blob : net_.blobs) {
      for (const char* front : {"param/", "paramdiff/"}) known.insert(StrCat(front, BlobName(blob.layer, blob.index)));
    }
    int64_t gradients = 0;
    for (const auto& [name, array] : arrays_) {
      const bool is_gradient = name.starts_with("blobdiff/") || name.starts_with("paramdiff/");
      gradients += is_gradient ? 1 : 0;
      if ((with_gradients || !is_gradient) && !known.contains(name))
        LeaveOut(StrCat("array \"", Printable(name), "\""), "the net has nothing of that name");
    }
    if (!with_gradients && gradients > 0) {
      LeaveOut(StrCat(gradients, gradients == 1 ? " gradient" : " gradients", " of the file"),
               "--gradients was not given");
    }
  }

  // Weights come from a file then, and those of the arrays are of no use.
  void TellUnusedParameters() {
    for (const auto& [name, array] : arrays_) {
      if (name.starts_with("param/")) LeaveOut(StrCat("array \"", Printable(name), "\""), "--weights was given");
    }
  }

  NetComparison Read(const Program& program) const {
    NetComparison comparison{.differences = {}, .not_compared = not_compared_};
    for (const Watched& watched : watched_) {
      comparison.differences.push_back(
          Compare(watched.layer, watched.name, program.output(watched.output), *watched.expected));
    }
    return comparison;
  }

 private:
  static std::string Layer(const std::string& name) { return name.substr(0, name.rfind(':')); }
  static std::string Top(const std::string& name) { return name.substr(name.rfind(':') + 1); }

  // Caffe's Reshape and Flatten keep their gradient in their bottom's: if layers write that in place, it is what is
  // left below them.
  bool SharesOverwritten(ValueId value, const std::map<std::string, int>& writers) const {
    const NodeId producer = net_.graph.value(value).producer;
    if (producer == kNoId) return false;
    const Node& node = net_.graph.node(producer);
    if (node.op->name != "reshape") return false;
    return std::ranges::any_of(net_.trace, [&](const auto& traced) {
      return traced.second == node.inputs[0] && writers.at(Top(traced.first)) > 1;
    });
  }

  // Why a blob's gradient is not compared; empty where it is.
  std::string WhyNoBlobGradient(const std::string& top, ValueId value, std::map<std::string, int>& writers) const {
    if (net_.graph.value(value).kind == ValueKind::kInput)
      return "it is an input, and Caffe's gradients stop before it";
    if (writers[top] != 1) {
      return StrCat(writers[top], " layers write it in place, and engines differ in whose gradient they keep");
    }
    if (FindArray(arrays_, "blobdiff", top) == nullptr) return StrCat("the file has no blobdiff/", Printable(top));
    if (SharesOverwritten(value, writers)) {
      return "Caffe keeps it in the gradient of its bottom, which layers write in place";
    }
    return {};
  }

  std::string WhyNoParameterGradient(const NetBlob& blob) const {
    if (blob.role == ParameterRole::kStatistic) return "it is a running statistic";
    if (blob.lr_mult == 0) return "its lr_mult is 0, and Caffe leaves such gradients at 0";
    if (blob.shared) return "it is shared: the gradient is its owner's";
    if (FindArray(arrays_, "paramdiff", BlobName(blob.layer, blob.index)) == nullptr)
      return StrCat("the file has no paramdiff/", Printable(blob.layer), "/", blob.index);
    return {};
  }

  void LeaveOut(const std::string& what, const std::string& why) { not_compared_.push_back(StrCat(what, ": ", why)); }

  void Watch(const std::string& layer, const std::string& name, ValueId value, const NumpyArray* expected) {
    if (expected == nullptr) return;
    // An input is what the file fed it; a layer that only passes it on (Dropout in TEST) has a blob of its own.
    const Value& watched = net_.graph.value(value);
    if (watched.kind == ValueKind::kInput && watched.name == name) return;
    const std::string output = StrCat("watched ", watched_.size());
    net_.graph.AddOutput(output, value);
    watched_.push_back({layer, name, output, expected});
  }

  BuiltNet& net_;
  const Arrays& arrays_;
  std::vector<Watched> watched_;
  std::vector<std::string> not_compared_;
};

}  // namespace

NetComparison CompareNet(const NetParameter& net, const CompareOptions& options, const Arrays& arrays) {
  NetOptions net_options;
  net_options.state = options.state;
  net_options.data_types = TypesFrom(arrays);
  net_options.feeds_python_data = true;
  for (const LayerParameter& layer : net.layer()) {
    if (!TraitsOf(layer).runs_python) continue;
    for (const std::string& top : layer.top()) {
      if (const NumpyArray* array = FindArray(arrays, "blob", top)) net_options.top_shapes[top] = array->shape;
    }
  }
  BuiltNet built = BuildNet(net, net_options);
  ParameterStore store;
  SetParameters(built, options, arrays, store);
  AddKept(built, "compare", store);
  Comparison comparison(built, arrays);
  comparison.WatchBlobs();
  if (options.gradients) comparison.WatchGradients();
  comparison.TellStrangers(options.gradients);
  if (!options.weights.empty()) comparison.TellUnusedParameters();
  built.graph.assignments().clear();  // running statistics stay as they are
  CompileOptions compile;
  compile.name = "compare";
  const std::unique_ptr<Program> program = Compile(built.graph, store, compile);
  FeedInputs(*program, built, arrays);
  if (program->HasInput("random_key")) program->input("random_key").as<int64_t>()[0] = 1;
  program->Run();
  return comparison.Read(*program);
}

}  // namespace moka
