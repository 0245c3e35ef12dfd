#include "tools/classifier.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/net_weights.h"
#include "optim/precision.h"
#include "proto/filter.h"
#include "proto/net_file.h"
#include "tools/deploy_net.h"
#include "tools/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kClassifierSeed = 1;  // of blobs that no weights file fills; those are warned about

std::vector<std::string> ReadNames(const std::filesystem::path& path) {
  std::vector<std::string> names;
  if (path.empty()) return names;
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::kNoInput, StrCat("cannot open the label names ", path.string()));
  for (std::string line; std::getline(file, line);) names.emplace_back(Trim(line));
  return names;
}

// What the net's data layer gives a batch of one, in the test phase.
Shape InputShape(const NetParameter& net, int64_t batch, const std::filesystem::path& base_folder) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "Input") {
      if (layer.input_param().shape_size() == 0)
        throw Error(ErrorKind::kConfig, StrCat("layer \"", layer.name(), "\" has no shape"));
      const BlobShape& shape = layer.input_param().shape(0);
      return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end())).With(0, batch);
    }
    if (layer.top_size() > 0 && layer.bottom_size() == 0) {
      return ProbeDataTypes(TEST, base_folder)(layer)[0].shape.With(0, batch);
    }
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no input"));
}

}  // namespace

Classifier::Classifier(const ClassifierOptions& options)
    : batch_(options.batch), store_(options.compile.device), names_(ReadNames(options.labels)) {
  NetState state;
  state.set_phase(TEST);
  NetReadOptions read;
  read.overrides = options.overrides;
  const NetParameter net = FilterNet(ReadNet(options.net, read), state);
  const NetParameter deploy = DeployNet(net, InputShape(net, batch_, options.base_folder));
  NetOptions net_options;
  net_options.state = state;
  BuiltNet built = BuildNet(deploy, net_options);
  if (built.outputs.empty()) throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no output"));
  AddBlobs(built.blobs, kClassifierSeed, store_);
  AddKept(built, "classify", store_);
  LoadWeightFiles(options.weights, built.blobs, store_);

  const std::string output = built.outputs.back().name;
  built.graph.AddOutput(output, built.outputs.back().value);
  CompileOptions compile = options.compile;
  compile.name = net.name();
  compile.inference = true;
  if (!options.has_precision) compile.compute = PrecisionOf({}, deploy, compile.compute);
  compile.keep32_layers = LayersInFloat32(deploy);
  compile.releases_states = true;
  const std::string input = ImageInput(deploy).top(0);
  program_ = Compile(std::move(built.graph), store_, compile);
  if (!program_->HasInput(input))
    throw Error(ErrorKind::kConfig, StrCat("input \"", input, "\" does not reach the output"));
  input_ = program_->input(input);
  output_ = program_->output(output);
  if (input_.shape().rank() != 4) {
    throw Error(ErrorKind::kConfig,
                StrCat("input \"", input, "\" is ", input_.shape().ToString(), ", not pictures [N,C,H,W]"));
  }
  if (output_.shape().rank() < 2 || output_.shape()[0] != batch_) {
    throw Error(ErrorKind::kConfig,
                StrCat("output \"", output, "\" is ", output_.shape().ToString(), ", not [N,classes]"));
  }
  const LayerParameter& data = ImageInput(deploy);
  TransformationParameter param = data.transform_param();
  if (input_.shape()[1] == 1) param.set_force_gray(true);
  if (input_.shape()[1] == 3) param.set_force_color(true);
  transform_ = std::make_unique<Transform>(param, TEST, kClassifierSeed, options.base_folder);
}

void Classifier::LoadPicture(const std::filesystem::path& file, int64_t slot) {
  Image image;
  const int64_t height = input_.shape()[2];
  const int64_t width = input_.shape()[3];
  try {
    DecodeOptions decode;
    decode.channels = input_.shape()[1] == 1 ? ImageChannels::kGrey : ImageChannels::kColor;
    decode.damage = DecodeOptions::Damage::kLenient;  // a person's picture: show what there is
    decoder_.Decode(ReadFile(file), decode, image);
    Image sized;
    const Shape now = image.height >= height && image.width >= width ? transform_->OutputShape(ViewOf(image)) : Shape{};
    if (now != Shape{input_.shape()[1], height, width}) {
      ResizeImage(image, width, height, Interpolation::kArea, sized);
      std::swap(image, sized);
    }
    const int64_t count = input_.shape().Count(1, 4);
    transform_->Apply(ViewOf(image), {0, 0}, scratch_,
                      input_.as<float>().subspan(static_cast<size_t>(slot * count), static_cast<size_t>(count)));
  } catch (const Error& error) {
    if (error.text().find(file.string()) != std::string::npos) throw;
    throw Error(error.kind(), error.place(), StrCat(Printable(file.string()), ": ", error.text()), error.hint());
  }
}

std::vector<Prediction> Classifier::Rank(int64_t slot, int64_t top) const {
  const int64_t classes = output_.shape().Count(1, output_.shape().rank());
  const std::span<const float> scores =
      output_.as<const float>().subspan(static_cast<size_t>(slot * classes), static_cast<size_t>(classes));
  std::vector<int64_t> order(static_cast<size_t>(classes));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto best = static_cast<std::ptrdiff_t>(std::min(top, classes));
  std::partial_sort(order.begin(), order.begin() + best, order.end(), [&](int64_t a, int64_t b) {
    const float sa = scores[static_cast<size_t>(a)];
    const float sb = scores[static_cast<size_t>(b)];
    return sa != sb ? sa > sb : a < b;
  });
  std::vector<Prediction> predictions;
  for (std::ptrdiff_t i = 0; i < best; ++i) {
    const int64_t label = order[static_cast<size_t>(i)];
    const bool named = label < static_cast<int64_t>(names_.size());
    predictions.push_back({label, named ? names_[static_cast<size_t>(label)] : std::to_string(label),
                           static_cast<double>(scores[static_cast<size_t>(label)])});
  }
  return predictions;
}

std::vector<std::vector<Prediction>> Classifier::Classify(std::span<const std::filesystem::path> files, int64_t top) {
  std::vector<std::vector<Prediction>> results;
  for (size_t begin = 0; begin < files.size(); begin += static_cast<size_t>(batch_)) {
    const size_t count = std::min(files.size() - begin, static_cast<size_t>(batch_));
    for (size_t i = 0; i < count; ++i) LoadPicture(files[begin + i], static_cast<int64_t>(i));
    program_->Run();
    for (size_t i = 0; i < count; ++i) results.push_back(Rank(static_cast<int64_t>(i), top));
  }
  return results;
}

}  // namespace moka
