// Builds the net twice, for two and for three images, so that what differs is the batch's; reads its pictures' way as
// inference does.
#include "tools/verbs/exported_model.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/layer_fields.h"
#include "data/transform/transform.h"
#include "graph/op.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/text/places.h"
#include "tools/infer/input_shape.h"
#include "tools/infer/picture_way.h"
#include "tools/measure/calibration.h"
#include "tools/nets/deploy_net.h"

namespace moka {
namespace {

constexpr uint64_t kExportSeed = 1;  // of blobs before they are loaded
constexpr int64_t kTwoBatches[] = {2, 3};

// The numbers that a generator draws are given to the file from outside.
void TakeNoiseFromOutside(NetParameter& net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (TraitsOf(layer).data != DataKind::kNoise) continue;
    const RandomNoiseParameter noise = layer.random_noise_param();
    LogInfo(StrCat("the numbers that layer \"", layer.name(), "\" draws become the input \"", layer.top(0), "\": ",
                   noise.distribution() == RandomNoiseParameter::UNIFORM
                       ? StrCat("uniform between ", noise.low(), " and ", noise.high())
                       : StrCat("normal with mean ", noise.mean(), " and standard deviation ", noise.std())));
    layer.clear_random_noise_param();
    layer.set_type("Input");
    *layer.mutable_input_param()->add_shape() = noise.shape();
  }
}

bool IsInputTop(const NetParameter& net, const std::string& blob) {
  return std::ranges::any_of(net.layer(), [&](const LayerParameter& layer) {
    return TraitsOf(layer).data == DataKind::kInput && std::ranges::find(layer.top(), blob) != layer.top().end();
  });
}

// The outputs of the deployed net in the order of its text, and the scores of a training net's loss.
std::vector<std::string> OutputsOf(const BuiltNet& built, const std::optional<DeployedScores>& scores) {
  std::set<std::string> unread;
  for (const BuiltNet::Output& output : built.outputs) {
    if (!IsInputTop(built.param, output.name)) unread.insert(output.name);
  }
  if (scores && built.tops.contains(scores->top)) unread.insert(scores->top);
  std::vector<std::string> outputs;
  for (const LayerParameter& layer : built.param.layer()) {
    for (const std::string& top : layer.top()) {
      if (unread.erase(top) > 0) outputs.push_back(top);
    }
  }
  if (outputs.empty()) throw Error(ErrorKind::kConfig, StrCat("net \"", built.param.name(), "\" has no output"));
  return outputs;
}

BuiltNet BuildFor(const NetParameter& net, const Shape& input, int64_t batch, bool is_first) {
  NetOptions options;
  options.state.set_phase(TEST);
  options.state.add_stage("deploy");
  options.tells_fields = is_first;
  try {
    BuiltNet built = BuildNet(DeployNet(net, input.With(0, batch)), options);
    for (const std::string& output : OutputsOf(built, DeployedScoresOf(net)))
      built.graph.AddOutput(output, built.tops.at(output));
    return built;
  } catch (Error& error) {
    error.AddNote(StrCat("while building the net for a batch of ", batch, "; --batch N chooses another one"));
    throw;
  }
}

nlohmann::json Numbers(const google::protobuf::RepeatedField<float>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const float value : values) list.push_back(value);
  return list;
}

// Subtracted from a picture of the input's size: a number a channel, or the middle of a mean image.
OnnxTensor MeanOf(const TransformationParameter& fields, const Shape& sample) {
  OnnxTensor mean{.name = "prepare/mean", .dims = {1, sample[0], 1, 1}, .floats = {}};
  if (fields.has_mean_file()) {
    Shape shape;
    std::vector<float> values;
    ReadMeanImage(fields.mean_file(), shape, values);
    if (shape.rank() != 3 || shape[0] != sample[0] || shape[1] < sample[1] || shape[2] < sample[2]) {
      throw Error(ErrorKind::kBadData, StrCat(Printable(fields.mean_file()), ": a mean of ", shape.ToString(),
                                              " does not cover the input's ", sample.ToString()));
    }
    mean.dims = {1, sample[0], sample[1], sample[2]};
    const int64_t top = (shape[1] - sample[1]) / 2;
    const int64_t left = (shape[2] - sample[2]) / 2;
    for (int64_t c = 0; c < sample[0]; ++c) {
      for (int64_t h = 0; h < sample[1]; ++h) {
        const auto row = values.begin() + ((c * shape[1] + top + h) * shape[2] + left);
        mean.floats.insert(mean.floats.end(), row, row + sample[2]);
      }
    }
    return mean;
  }
  const int count = fields.mean_value_size();
  for (int c = 0; c < sample[0]; ++c) mean.floats.push_back(count == 0 ? 0 : fields.mean_value(count == 1 ? 0 : c));
  return mean;
}

OnnxPreparation PreparationOf(const PictureWay& way, const std::string& input, const Shape& sample) {
  const TransformationParameter& fields = way.layer.transform_param();
  OnnxPreparation preparation{.input = input,
                              .reverses_channels = sample[0] == 3 && way.order == PictureReader::Order::kBgr};
  preparation.mean = MeanOf(fields, sample);
  preparation.factor = {.name = "prepare/factor", .dims = {1, sample[0], 1, 1}, .floats = {}};
  for (int c = 0; c < sample[0]; ++c) {
    const int count = fields.std_value_size();
    const float deviation = count == 0 ? 1 : fields.std_value(count == 1 ? 0 : c);
    preparation.factor.floats.push_back(fields.scale() / deviation);
  }
  return preparation;
}

nlohmann::json PreprocessingOf(const PictureWay& way, const std::string& input, const Shape& sample) {
  const TransformationParameter& fields = way.layer.transform_param();
  nlohmann::json json;
  json["input"] = input;
  json["pixels"] = "0..255";
  json["channels"] = sample[0] == 1 ? "grey" : way.order == PictureReader::Order::kBgr ? "BGR" : "RGB";
  json["formula"] = "(pixel - mean) / std * scale";
  const auto [height, width] = ListedSizeOf(way.layer);
  if (height > 0) json["resize"] = {height, width};
  if (fields.resize_short() > 0) json["resize_short"] = fields.resize_short();
  json["crop"] = {sample[1], sample[2]};
  if (fields.has_mean_file()) json["mean"] = "an image, which --with-preprocess puts into the file";
  if (fields.mean_value_size() > 0) json["mean"] = Numbers(fields.mean_value());
  if (fields.std_value_size() > 0) json["std"] = Numbers(fields.std_value());
  json["scale"] = fields.scale();
  return json;
}

bool DrawsNoise(const NetParameter& net) {
  return std::ranges::any_of(net.layer(),
                             [](const LayerParameter& layer) { return TraitsOf(layer).data == DataKind::kNoise; });
}

// How pictures go into a net whose first input is one.
struct PictureInputOf {
  std::string input;
  Shape sample;
  PictureWay way;
};

std::optional<PictureInputOf> ReadPictureWay(const InferSource& source, const NetParameter& net,
                                             const NetParameter& deploy, const BuiltNet& built) {
  const std::string input = ImageInput(deploy).top(0);
  if (!built.tops.contains(input)) return {};
  const Shape shape = built.data.empty() ? Shape{} : built.data.front().types.front().shape;
  if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3)) return {};
  const Shape sample = shape.Erased(0);
  return PictureInputOf{input, sample, PictureWayOf(source, net, deploy, sample)};
}

struct NetOfSource {
  NetParameter text;  // to be built by BuildFor
  bool is_generator = false;
};

// Whether the net learns vectors of words, which are what it is trained for, whatever its loss judges.
bool LearnsWordVectors(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    const LayerDef* def = FindLayer(layer.type());
    const DataKind kind = TraitsOf(layer).data;
    return def != nullptr && def->words != nullptr && kind != DataKind::kPairs && kind != DataKind::kStories;
  });
}

// A net that is trained has its answer, the scores of a loss, without labels: else only a part of it would be left.
// Errors: kConfig with the place of a loss.
void CheckAnswers(const NetParameter& net) {
  const auto loss = std::ranges::find_if(net.layer(), [](const LayerParameter& l) { return TraitsOf(l).is_loss; });
  if (loss == net.layer().end() || DeployedScoresOf(net) || LearnsWordVectors(net)) return;
  throw Error(ErrorKind::kConfig, PlaceOf(*loss),
              StrCat("net \"", net.name(), "\" cannot be exported: what loss \"", loss->name(),
                     "\" judges is not there without labels, so only a part of the net would be left"),
              "a net that is written for deployment says by Input layers what it is given");
}

NetOfSource NetForExport(const InferSource& source) {
  NetOfSource net{.text = InferNet(source)};
  CheckAnswers(net.text);
  net.is_generator = DrawsNoise(net.text);
  TakeNoiseFromOutside(net.text);
  return net;
}

// Builds the net for inputs of this shape and loads its weights. Returns how its pictures go in, as `out` says it.
std::optional<PictureInputOf> Load(const InferSource& source, const NetOfSource& net, const Shape& input,
                                   ExportedWeights& out) {
  out.net.emplace(BuildFor(net.text, input, input[0], true));
  AddBlobs(out.net->blobs, kExportSeed, out.store);
  LoadWeightsFor(source.compile, source.weights, out.net->blobs, out.store);
  if (net.is_generator) return {};
  std::optional<PictureInputOf> picture = ReadPictureWay(source, net.text, DeployNet(net.text, input), *out.net);
  if (picture) out.preprocessing = PreprocessingOf(picture->way, picture->input, picture->sample);
  return picture;
}

}  // namespace

ExportedNet ExportedModel::Net() const {
  return {.name = trained.net->param.name(),
          .graphs = {.graph = &trained.net->graph,
                     .batch = batch,
                     .other = other ? &other->graph : nullptr,
                     .other_batch = other_batch},
          .store = &trained.store};
}

std::unique_ptr<ExportedModel> ModelForExport(const InferSource& source, int64_t batch) {
  auto model = std::make_unique<ExportedModel>();
  const NetOfSource net = NetForExport(source);
  model->batch = batch > 0 ? batch : kTwoBatches[0];
  const Shape input = InputShapeOf(source, net.text, model->batch);
  const std::optional<PictureInputOf> picture = Load(source, net, input, model->trained);
  if (picture) model->preparation = PreparationOf(picture->way, picture->input, picture->sample);
  const ParameterStore& store = model->trained.store;
  for (const std::string& name : store.Names()) model->parameters += store.type(name).shape.Count();
  Graph& graph = model->trained.net->graph;
  PrepareForExport(graph, store, source.compile.quantization);
  model->integers = std::ranges::count(graph.TopologicalOrder(), "convolution_int8",
                                       [&](NodeId id) { return graph.node(id).op->name; });
  if (batch > 0) return model;
  model->other_batch = kTwoBatches[1];
  model->other.emplace(BuildFor(net.text, input, model->other_batch, false));
  PrepareForExport(model->other->graph, store, source.compile.quantization);
  if (!HaveOneStructure(graph, model->other->graph)) {
    throw Error(ErrorKind::kConfig, {},
                StrCat("net \"", net.text.name(), "\" computes otherwise for ", model->batch, " images than for ",
                       model->other_batch),
                "--batch N exports it for one number of images");
  }
  return model;
}

nlohmann::json PreparedPreprocessingOf(const nlohmann::json& preprocessing) {
  nlohmann::json json = preprocessing;
  for (const char* field : {"mean", "std", "scale", "formula"}) json.erase(field);
  if (json.at("channels") == "BGR") json["channels"] = "RGB";
  return json;
}

nlohmann::json TorchPreprocessingOf(const nlohmann::json& preprocessing) {
  if (preprocessing.is_null()) return preprocessing;
  nlohmann::json json = preprocessing;
  const bool is_gray = preprocessing.at("channels") == "grey";
  const bool is_bgr = preprocessing.at("channels") == "BGR";
  const double scale = preprocessing.at("scale").get<double>();
  // A number a channel of a field that may have one for all, or none; "mean" may be a text, of an image.
  const auto numbers_of = [&](const char* field, double none) {
    std::vector<double> numbers(is_gray ? 1 : 3, none);
    if (!json.contains(field) || !json[field].is_array()) return numbers;
    for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = json[field][json[field].size() == 1 ? 0 : c].get<double>();
    if (is_bgr) std::ranges::reverse(numbers);
    return numbers;
  };
  constexpr double kLargestPixel = 255;
  std::vector<double> means = numbers_of("mean", 0);
  std::vector<double> deviations = numbers_of("std", 1);
  for (double& mean : means) mean /= kLargestPixel;
  for (double& deviation : deviations) deviation /= kLargestPixel * scale;
  json["pixels"] = "0..1";
  if (!is_gray) json["channels"] = "RGB";
  json["formula"] = "(pixel - mean) / std";
  if (!json.contains("mean") || json["mean"].is_array()) json["mean"] = means;
  json["std"] = deviations;
  json.erase("scale");
  return json;
}

std::unique_ptr<ExportedWeights> WeightsForExport(const InferSource& source) {
  auto weights = std::make_unique<ExportedWeights>();
  const NetOfSource net = NetForExport(source);
  Load(source, net, InputShapeOf(source, net.text, 1), *weights);
  return weights;
}

}  // namespace moka
