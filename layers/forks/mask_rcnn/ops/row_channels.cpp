// y[m] = m * channels + class[m]: of maps [M,channels,..] taken as rows, the one of each region's class.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferRowChannels(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("row_channels", in, 1, 1);
  CheckFloat("row_channels", "classes", in[0]);
  const int64_t channels = attributes.Int("channels");
  if (in[0].shape.rank() != 1 || channels < 1) {
    throw Error(ErrorKind::kConfig, StrCat("row_channels: classes must be [M] and channels at least 1, found ",
                                           in[0].shape.ToString(), " and ", channels));
  }
  // Whole numbers above 2^24 would be rounded.
  if ((Size(in[0].shape[0]) * channels).value() > (int64_t{1} << 24U)) {
    throw Error(ErrorKind::kConfig,
                StrCat("row_channels: ", in[0].shape[0], " rows of ", channels, " channels are more than 2^24"));
  }
  return {PlainType(DType::kFloat32, in[0].shape)};
}

void RowChannelsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto channels = static_cast<double>(attributes.Int("channels"));
  for (size_t m = 0; m < in[0].values.size(); ++m) {
    // One channel is that of all classes.
    const double channel = channels == 1 && in[0].values[m] >= 0 ? 0 : in[0].values[m];
    const bool is_there = channel >= 0 && channel < channels;
    out[0].values[m] = is_there ? static_cast<double>(m) * channels + std::floor(channel) : -1;
  }
}

std::vector<OpCase> RowChannelsCases() {
  return {
      {.name = "classes", .inputs = {Float32({9})}, .attributes = {{"channels", int64_t{3}}}, .ranges = {{0, -1, 4}}},
      {.name = "one", .inputs = {Float32({9})}, .attributes = {{"channels", int64_t{1}}}, .ranges = {{0, -1, 4}}}};
}

}  // namespace

OpDef RowChannelsOp() {
  return {.name = "row_channels",
          .doc = "(classes [M]) -> [M]: m * channels + class, -1 for a class that is none.",
          .attributes = {{"channels", {}, "of a row; 1: that of all classes"}},
          .infer = InferRowChannels,
          .reference = RowChannelsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kChooses,
          .cases = RowChannelsCases};
}

}  // namespace moka
