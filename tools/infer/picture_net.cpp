#include "tools/infer/picture_net.h"

#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/augment/cut.h"
#include "data/canvas.h"
#include "tools/deploy_net.h"
#include "tools/infer/infer_program.h"
#include "tools/net_source.h"

namespace moka {
namespace {

constexpr uint64_t kPictureNetSeed = 1;  // of the transform, which draws nothing in the test phase

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

PictureNet::PictureNet(const InferSource& source, int64_t batch, const std::string& blob)
    : batch_(batch), store_(source.compile.device) {
  const NetParameter net = InferNet(source);
  const NetParameter deploy = DeployNet(net, InputShape(net, batch_));
  InferProgram made =
      CompileForInference(source, deploy, blob.empty() ? std::vector<std::string>{} : std::vector{blob}, store_);
  outputs_ = blob.empty() ? std::move(made.outputs) : std::vector{blob};
  program_ = std::move(made.program);
  const std::string input = ImageInput(deploy).top(0);
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
  has_canvas_ = data.record_data_param().canvas_height() > 0;
  if (has_canvas_ && (param.pad() > 0 || param.has_mean_file())) {
    throw Error(ErrorKind::kConfig, StrCat("layer \"", data.name(),
                                           "\": pad and mean_file do not go with record_data_param.canvas_height"));
  }
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

void PictureNet::PutOnCanvas(Image& image, int64_t slot) {
  const int64_t height = input_.shape()[2];
  const int64_t width = input_.shape()[3];
  // Without padding and a mean image, which do not go with a canvas, there is a part.
  const ResamplePart part = FittedTo(transform_->PartOf(SizeOf(ViewOf(image)), {0, 0}).value(), height, width);
  shown_.resize(static_cast<size_t>(batch_));
  shown_[static_cast<size_t>(slot)] = {static_cast<double>(width) / static_cast<double>(part.width),
                                       static_cast<double>(height) / static_cast<double>(part.height)};
  Image fitted;
  ResampleToImage(ViewOf(image), part, scratch_.resample, fitted);
  CutPicture(ViewOf(fitted), {.window = {0, 0, width, height}}, image);
}

void PictureNet::Put(Image image, int64_t slot) {
  const int64_t height = input_.shape()[2];
  const int64_t width = input_.shape()[3];
  if (image.channels != input_.shape()[1] && (input_.shape()[1] == 1 || input_.shape()[1] == 3)) {
    ConvertChannels(input_.shape()[1], image);
  }
  const int64_t count = input_.shape().Count(1, 4);
  const std::span<float> out =
      input_.as<float>().subspan(static_cast<size_t>(slot * count), static_cast<size_t>(count));
  if (has_canvas_) {
    PutOnCanvas(image, slot);
    return transform_->Normalise(image, out);
  }
  Image sized;
  const Shape now = image.height >= height && image.width >= width ? transform_->OutputShape(ViewOf(image)) : Shape{};
  if (now != Shape{input_.shape()[1], height, width}) {
    ResizeImage(image, width, height, Interpolation::kArea, sized);
    std::swap(image, sized);
  }
  transform_->Apply(ViewOf(image), {0, 0}, scratch_, out);
}

}  // namespace moka
