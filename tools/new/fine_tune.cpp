// A layer is between data and scores if it is in the test net and needs no label. The classifier is the layer that
// makes the scores; it gets another name, so that its old weights are not loaded.
#include "tools/new/fine_tune.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/net_file.h"
#include "proto/text/text_format.h"
#include "tools/infer/input_shape.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/deploy_net.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/nets/zoo_weights.h"
#include "tools/new/finer_net.h"
#include "tools/train/record_sizes.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr float kBodyRate = 0.1F;

bool ReadsData(const LayerParameter& layer) { return layer.bottom_size() == 0 && layer.top_size() > 0; }

// The one data layer of a phase. Errors: kConfig.
const LayerParameter& DataLayerOf(const NetParameter& net, const std::string& word) {
  const LayerParameter* found = nullptr;
  for (const LayerParameter& layer : net.layer()) {
    if (!ReadsData(layer)) continue;
    if (found != nullptr) {
      throw Error(ErrorKind::kConfig, StrCat("--from ", Printable(word), ": its net reads from several data layers, \"",
                                             Printable(found->name()), "\" and \"", Printable(layer.name()), "\""));
    }
    found = &layer;
  }
  if (found != nullptr) return *found;
  throw Error(ErrorKind::kConfig, StrCat("--from ", Printable(word), ": its net has no data layer"));
}

// The shape of a picture as the net's tests take it, [1,C,S,S]. Errors: kConfig where nothing says it, and for sides
// that differ.
Shape TakenBy(const TestSource& source, const NetParameter& test, const std::string& word) {
  InferSource infer;
  infer.net = source.net;
  infer.folder = source.net.parent_path();
  const Shape shape = [&] {
    try {
      return InputShapeOf(infer, test, 1);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoInput) throw;
      throw Error(ErrorKind::kConfig, {},
                  StrCat("--from ", Printable(word), ": nothing says how large the pictures are that its net takes"),
                  "a crop_size in its data layer's transform_param does");
    }
  }();
  if (shape.rank() == 4 && shape[2] == shape[3]) return shape;
  throw Error(ErrorKind::kConfig, {},
              StrCat("--from ", Printable(word), ": its net takes ", shape.ToString(), ", no square pictures"),
              "fine-tuning takes nets that classify square pictures");
}

bool SaysSize(const TransformationParameter& fields) {
  return fields.resize_short() > 0 || fields.has_rand_resized_crop() || fields.resize_param_size() > 0 ||
         fields.has_random_resize_param() || fields.img_rand_resize_lower() > 0 || fields.rand_resize_ratio_lower() > 0;
}

// Brings pictures of any size to what the layer's net had: where its fields do not say it, the size of its records did,
// which are not here.
void TakeAnyPicture(const StoredPictures& records, int64_t side, LayerParameter& layer) {
  TransformationParameter& fields = *layer.mutable_transform_param();
  const int64_t stored = records.short_side > 0 ? records.short_side : std::min(records.height, records.width);
  if (!SaysSize(fields)) fields.set_resize_short(static_cast<uint32_t>(std::max(stored, side)));
  if (fields.crop_size() == 0) fields.set_crop_size(static_cast<uint32_t>(side));
}

// Layers of the test net that need nothing of the data layer but its pictures, without losses.
NetParameter BodyOf(const NetParameter& test, const LayerParameter& data, const DeployedScores& scores) {
  std::set<std::string> known = {data.top(0)};
  NetParameter body;
  for (const LayerParameter& layer : test.layer()) {
    if (layer.bottom_size() == 0 || layer.name() == scores.loss) continue;
    if (!std::ranges::all_of(layer.bottom(), [&](const std::string& bottom) { return known.contains(bottom); }))
      continue;
    known.insert(layer.top().begin(), layer.top().end());
    LayerParameter* const kept = body.add_layer();
    *kept = layer;
    kept->clear_include();
    kept->clear_exclude();
    kept->clear_phase();
  }
  return body;
}

// Multiplies the rates of all parameters but the classifier's; running statistics have none. Returns the channels of
// the net's pictures.
int64_t SlowBody(const NetParameter& test, const LayerParameter& data, const Shape& taken,
                 const std::string& classifier, NetParameter& body) {
  const QuietScope quiet;  // its data need not be here any more
  NetOptions options;
  options.state.set_phase(TEST);
  std::map<std::string, Shape> of_one;  // picture and its labels
  for (const std::string& top : data.top()) of_one[top] = top == data.top(0) ? taken : Shape{1};
  options.data_types = ProbeDataTypes(TEST, {}, std::move(of_one));
  options.tells_fields = false;
  const BuiltNet built = BuildNet(test, options);
  for (const NetBlob& blob : built.blobs) {
    for (LayerParameter& layer : *body.mutable_layer()) {
      if (layer.name() != blob.layer || layer.name() == classifier || blob.role == ParameterRole::kStatistic) continue;
      while (layer.param_size() <= blob.index) layer.add_param();
      ParamSpec& param = *layer.mutable_param(blob.index);
      param.set_lr_mult(param.lr_mult() * kBodyRate);
    }
  }
  return built.data.at(0).types.at(0).shape[1];
}

std::string TransformText(const LayerParameter& layer) {
  const std::string text = ToText(layer.transform_param());
  std::string fields;
  for (const std::string& line : Split(text, '\n')) {
    if (!line.empty()) fields += StrCat(fields.empty() ? "" : "\n    ", line);
  }
  return fields;
}

// The fields of a transform that change values, without those of sizes; nothing where a mean is an image.
std::optional<std::string> ColorsOf(const LayerParameter& layer) {
  const TransformationParameter& fields = layer.transform_param();
  if (fields.has_mean_file()) return std::nullopt;
  LayerParameter kept;
  TransformationParameter& colors = *kept.mutable_transform_param();
  *colors.mutable_mean_value() = fields.mean_value();
  *colors.mutable_std_value() = fields.std_value();
  if (fields.has_scale()) colors.set_scale(fields.scale());
  if (fields.has_force_color()) colors.set_force_color(fields.force_color());
  if (fields.has_force_gray()) colors.set_force_gray(fields.force_gray());
  return TransformText(kept);
}

// Makes the classifier one of so many classes. Errors: kConfig where it is none.
std::string ReplaceClassifier(const std::string& scores, const std::string& name, int64_t classes,
                              const std::string& word, NetParameter& body) {
  LayerParameter* found = nullptr;
  for (LayerParameter& layer : *body.mutable_layer()) {
    if (std::ranges::find(layer.top(), scores) != layer.top().end()) found = &layer;
  }
  // Products and convolutions alone have these fields.
  const bool is_product = found != nullptr && found->has_inner_product_param();
  if (!is_product && (found == nullptr || !found->has_convolution_param())) {
    throw Error(ErrorKind::kConfig,
                StrCat("--from ", Printable(word), ": \"", Printable(scores),
                       "\" is not made by an InnerProduct or Convolution, so no classifier is there "
                       "to be replaced"));
  }
  std::string letters;
  for (const char c : name) letters += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  found->set_name(StrCat(found->name(), "_", letters));
  if (is_product)
    found->mutable_inner_product_param()->set_num_output(static_cast<uint32_t>(classes));
  else
    found->mutable_convolution_param()->set_num_output(static_cast<uint32_t>(classes));
  return found->name();
}

}  // namespace

TestSource FindStartNet(const std::string& word, const fs::path& runs) {
  std::error_code code;
  if (FindNamedRun(word, runs)) {
    TestSource source = SourceOfRun(word, runs);
    if (!source.weights.empty()) return source;
    throw Error(ErrorKind::kNoInput, StrCat("--from ", Printable(word), ": the run has no checkpoint yet"));
  }
  const fs::path path = PathOfWord(word);
  if (fs::is_regular_file(path, code)) {
    const fs::path folder = fs::absolute(path).parent_path();
    if (folder.filename() == "checkpoints" && IsRun(folder.parent_path())) {
      TestSource source = SourceOfRun(folder.parent_path().string(), runs);
      source.weights = path.string();
      return source;
    }
    if (!fs::exists(folder / "train_val.prototxt", code)) {
      throw Error(ErrorKind::kNoInput, {}, StrCat("--from ", Printable(word), ": no train_val.prototxt lies beside it"),
                  "weights need their net: a run, or a model's folder that holds both");
    }
    TestSource source;
    source.net = folder / "train_val.prototxt";
    source.weights = path.string();
    return source;
  }
  if (const std::optional<fs::path> model = ModelFolderOf(word)) {
    const ModelCard card = ModelCardOf(*model);
    if (OwnWeightsOf(card) != nullptr) return SourceOfModel(*model);
  }
  if (word.starts_with(kZooWord)) (void)ZooWeightsNamed(word);  // tells which models carry some
  if (!fs::exists(path / "train_val.prototxt", code)) throw NoRunError(word, runs);
  for (const char* ending : {".safetensors", ".caffemodel"}) {
    const std::vector<fs::path> files = ListFiles(path, ending);
    if (files.empty()) continue;
    TestSource source;
    source.net = path / "train_val.prototxt";
    source.weights = files.front().string();
    return source;
  }
  throw Error(ErrorKind::kNoInput, {}, StrCat("--from ", Printable(word), ": the model's folder has no weights"),
              "train it, and name its run");
}

StartNet MakeStart(const TestSource& source, const std::string& word, const std::string& name, int64_t classes,
                   std::optional<int64_t> small_side) {
  const QuietScope quiet;  // whoever trained it has heard
  const NetParameter net = ReadNet(source.net);
  const NetParameter train = FilterNet(net, TRAIN);
  const NetParameter test = FilterNet(net, TEST);
  LayerParameter trained = DataLayerOf(train, word);
  LayerParameter tested = DataLayerOf(test, word);
  const std::optional<DeployedScores> scores = DeployedScoresOf(test);
  if (!scores || scores->is_regression || trained.top(0) != tested.top(0)) {
    throw Error(ErrorKind::kConfig, StrCat("--from ", Printable(word), ": its net is no classifier of pictures"));
  }
  const Shape taken = TakenBy(source, test, word);
  const StoredPictures records = KeptRecordSize(source.net.parent_path(), tested.name()).value_or(StoredPictures());
  const auto cut = static_cast<int64_t>(trained.transform_param().crop_size());
  TakeAnyPicture(records, cut > 0 ? cut : taken[2], trained);
  TakeAnyPicture(records, taken[2], tested);
  NetParameter body = BodyOf(test, tested, *scores);
  StartNet start;
  start.word = word;
  start.weights = source.weights;
  start.classifier = ReplaceClassifier(scores->bottom, name, classes, word, body);
  start.channels = SlowBody(test, tested, taken, start.classifier, body);
  // Its old name stands in what the test net was built from.
  for (LayerParameter& layer : *body.mutable_layer()) {
    if (layer.name() == start.classifier) layer.clear_param();
  }
  body.clear_name();
  const std::optional<std::string> colors = ColorsOf(trained);
  const auto side = static_cast<int64_t>(trained.transform_param().crop_size());
  std::optional<NetParameter> finer;
  if (colors && small_side) finer = FinerNet(body, tested.top(0), {1, start.channels, side, side}, *small_side);
  start.is_finer = finer.has_value();
  start.colors = colors.value_or("");
  start.layers = NetToText(finer ? *finer : body);
  start.input = tested.top(0);
  start.scores = scores->bottom;
  start.train_transform = TransformText(trained);
  start.test_transform = TransformText(tested);
  start.train_side = finer ? *small_side : side;
  start.test_side = finer ? *small_side : static_cast<int64_t>(tested.transform_param().crop_size());
  return start;
}

}  // namespace moka
