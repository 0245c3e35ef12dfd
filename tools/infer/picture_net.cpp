#include "tools/infer/picture_net.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "layers/net.h"
#include "optim/net_weights.h"
#include "optim/precision.h"
#include "tools/deploy_net.h"
#include "tools/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kPictureNetSeed = 1;  // of blobs that no weights file fills; those are warned about

// What the net's data layer gives a batch of one, in the test phase.
Shape InputShape(const NetParameter& net, int64_t batch) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "Input") {
      if (layer.input_param().shape_size() == 0)
        throw Error(ErrorKind::kConfig, StrCat("layer \"", layer.name(), "\" has no shape"));
      const BlobShape& shape = layer.input_param().shape(0);
      return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end())).With(0, batch);
    }
    if (layer.top_size() > 0 && layer.bottom_size() == 0) {
      return ProbeDataTypes(TEST, {})(layer)[0].shape.With(0, batch);
    }
  }
  throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no input"));
}

}  // namespace

PictureNet::PictureNet(const InferSource& source, int64_t batch) : batch_(batch), store_(source.compile.device) {
  const NetParameter net = InferNet(source);
  const NetParameter deploy = DeployNet(net, InputShape(net, batch_));
  NetOptions net_options;
  net_options.state.set_phase(TEST);
  net_options.state.add_stage("deploy");
  BuiltNet built = BuildNet(deploy, net_options);
  if (built.outputs.empty()) throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no output"));
  AddBlobs(built.blobs, kPictureNetSeed, store_);
  AddKept(built, "infer", store_);
  LoadInferWeights(source, built.blobs, store_);

  for (const BuiltNet::Output& output : built.outputs) {
    outputs_.push_back(output.name);
    built.graph.AddOutput(output.name, output.value);
  }
  CompileOptions compile = source.compile;
  compile.name = net.name();
  compile.inference = true;
  if (!source.has_precision) compile.compute = PrecisionOf({}, deploy, compile.compute);
  compile.keep32_layers = LayersInFloat32(deploy);
  compile.releases_states = true;
  const std::string input = ImageInput(deploy).top(0);
  program_ = Compile(std::move(built.graph), store_, compile);
  if (!program_->HasInput(input))
    throw Error(ErrorKind::kConfig, StrCat("input \"", input, "\" does not reach the output"));
  input_ = program_->input(input);
  if (input_.shape().rank() != 4) {
    throw Error(ErrorKind::kConfig,
                StrCat("input \"", input, "\" is ", input_.shape().ToString(), ", not pictures [N,C,H,W]"));
  }
  const LayerParameter& data = ImageInput(deploy);
  TransformationParameter param = data.transform_param();
  if (input_.shape()[1] == 1) param.set_force_gray(true);
  if (input_.shape()[1] == 3) param.set_force_color(true);
  transform_ = std::make_unique<Transform>(param, TEST, kPictureNetSeed, std::filesystem::path{});
}

Image PictureNet::Load(const std::filesystem::path& file, int64_t slot) {
  Image image;
  try {
    DecodeOptions decode;
    decode.channels = input_.shape()[1] == 1 ? ImageChannels::kGrey : ImageChannels::kColor;
    decode.damage = DecodeOptions::Damage::kLenient;  // a person's picture: show what there is
    decoder_.Decode(ReadFile(file), decode, image);
    Put(image, slot);
  } catch (const Error& error) {
    if (error.text().find(file.string()) != std::string::npos) throw;
    throw Error(error.kind(), error.place(), StrCat(Printable(file.string()), ": ", error.text()), error.hint());
  }
  return image;
}

void PictureNet::Put(Image image, int64_t slot) {
  const int64_t height = input_.shape()[2];
  const int64_t width = input_.shape()[3];
  if (image.channels != input_.shape()[1] && (input_.shape()[1] == 1 || input_.shape()[1] == 3)) {
    ConvertChannels(input_.shape()[1], image);
  }
  Image sized;
  const Shape now = image.height >= height && image.width >= width ? transform_->OutputShape(ViewOf(image)) : Shape{};
  if (now != Shape{input_.shape()[1], height, width}) {
    ResizeImage(image, width, height, Interpolation::kArea, sized);
    std::swap(image, sized);
  }
  const int64_t count = input_.shape().Count(1, 4);
  transform_->Apply(ViewOf(image), {0, 0}, scratch_,
                    input_.as<float>().subspan(static_cast<size_t>(slot * count), static_cast<size_t>(count)));
}

}  // namespace moka
