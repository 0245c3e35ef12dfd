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
#include "layers/net/layer.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/trained_weights.h"
#include "tools/infer/input_shape.h"
#include "tools/infer/picture_way.h"
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

void ReadPictureWay(const InferSource& source, const NetParameter& net, const NetParameter& deploy,
                    ExportedModel& model) {
  const std::string input = ImageInput(deploy).top(0);
  const auto top = model.net->tops.find(input);
  if (top == model.net->tops.end()) return;
  const Shape shape = model.net->data.empty() ? Shape{} : model.net->data.front().types.front().shape;
  if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3)) return;
  const Shape sample = shape.Erased(0);
  const PictureWay way = PictureWayOf(source, net, deploy, sample);
  model.preprocessing = PreprocessingOf(way, input, sample);
  model.preparation = PreparationOf(way, input, sample);
}

}  // namespace

ExportedNet ExportedModel::Net() const {
  return {.name = net->param.name(),
          .graphs = {.graph = &net->graph,
                     .batch = batch,
                     .other = other ? &other->graph : nullptr,
                     .other_batch = other_batch},
          .store = &store};
}

std::unique_ptr<ExportedModel> ModelForExport(const InferSource& source, int64_t batch) {
  auto model = std::make_unique<ExportedModel>();
  NetParameter net = InferNet(source);
  const auto draws = [](const LayerParameter& layer) { return TraitsOf(layer).data == DataKind::kNoise; };
  const bool is_generator = std::ranges::any_of(net.layer(), draws);
  TakeNoiseFromOutside(net);
  model->batch = batch > 0 ? batch : kTwoBatches[0];
  const Shape input = InputShapeOf(source, net, model->batch);
  model->net.emplace(BuildFor(net, input, model->batch, true));
  if (batch == 0) {
    model->other_batch = kTwoBatches[1];
    model->other.emplace(BuildFor(net, input, model->other_batch, false));
  }
  AddBlobs(model->net->blobs, kExportSeed, model->store);
  LoadTrainedWeights(source.weights, model->net->blobs, model->store);
  for (const std::string& name : model->store.Names()) model->parameters += model->store.type(name).shape.Count();
  if (!is_generator) ReadPictureWay(source, net, DeployNet(net, input), *model);
  PrepareForExport(model->net->graph, model->store);
  if (model->other) PrepareForExport(model->other->graph, model->store);
  if (model->other && !HaveOneStructure(model->net->graph, model->other->graph)) {
    throw Error(ErrorKind::kConfig, {},
                StrCat("net \"", net.name(), "\" computes otherwise for ", model->batch, " images than for ",
                       model->other_batch),
                "--batch N exports it for one number of images");
  }
  return model;
}

}  // namespace moka
