#include "data/dummy_pipeline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "core/text.h"
#include "proto/places.h"

namespace moka {
namespace {

constexpr std::array<std::string_view, 7> kFillers = {"bilinear",          "constant", "gaussian", "msra",
                                                      "positive_unitball", "uniform",  "xavier"};

Shape ShapeOfTop(const LayerParameter& layer, int top) {
  const DummyDataParameter& param = layer.dummy_data_param();
  const int tops = layer.top_size();
  if (param.shape_size() > 0) {
    if (param.shape_size() != 1 && param.shape_size() != tops) {
      throw ErrorAt(layer, "dummy_data_param.shape",
                    StrCat("layer \"", layer.name(), "\" has ", tops, " tops but ", param.shape_size(),
                           " shapes, expected 1 or one a top"));
    }
    const BlobShape& shape = param.shape(param.shape_size() == 1 ? 0 : top);
    return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
  }
  const auto dim = [&](std::string_view field, const google::protobuf::RepeatedField<uint32_t>& dims) -> int64_t {
    if (dims.size() == 1 || dims.size() == tops) return dims[dims.size() == 1 ? 0 : top];
    throw ErrorAt(layer, StrCat("dummy_data_param.", field),
                  StrCat("layer \"", layer.name(), "\" has ", tops, " tops but ", dims.size(), " values of ", field,
                         ", expected 1 or one a top"),
                  "or give a `shape`");
  };
  return {dim("num", param.num()), dim("channels", param.channels()), dim("height", param.height()),
          dim("width", param.width())};
}

constexpr uint64_t kSparseSeed = 0x5AA25E;  // apart from the values' numbers

// The half-width or standard deviation that xavier (Glorot and Bengio, 2010) and msra (He et al., 2015) take from the
// numbers of inputs and outputs.
double FanScale(const FillerParameter& filler, const Shape& shape) {
  const double count = static_cast<double>(shape.Count());
  const double fan_in = count / static_cast<double>(std::max<int64_t>(1, shape.rank() > 0 ? shape[0] : 1));
  const double fan_out = count / static_cast<double>(std::max<int64_t>(1, shape.rank() > 1 ? shape[1] : 1));
  switch (filler.variance_norm()) {
    case FillerParameter::FAN_OUT: return fan_out;
    case FillerParameter::AVERAGE: return (fan_in + fan_out) / 2;
    default: return fan_in;
  }
}

// The kernel of bilinear upsampling in every square plane.
void FillBilinear(const Shape& shape, std::span<float> out) {
  const int64_t width = shape[3];
  const auto half = static_cast<double>((width + 1) / 2);
  const double centre = static_cast<double>(width - 1) / (2 * half);
  const auto slope = [&](int64_t i) { return 1 - std::abs(static_cast<double>(i) / half - centre); };
  int64_t at = 0;
  for (float& value : out) {
    value = static_cast<float>(slope(at % width) * slope(at / width % width));
    ++at;
  }
}

// Each row of uniform numbers is divided by its sum.
void NormalizeRows(const Shape& shape, std::span<float> out) {
  const size_t row = out.size() / static_cast<size_t>(shape.rank() > 0 ? shape[0] : 1);
  for (size_t begin = 0; begin < out.size(); begin += row) {
    double sum = 0;
    for (const float value : out.subspan(begin, row)) sum += double{value};
    for (float& value : out.subspan(begin, row)) value = static_cast<float>(double{value} / sum);
  }
}

// Keeps each value with probability sparse / dim 0.
void Thin(const FillerParameter& filler, const Shape& shape, RandomStream random, std::span<float> out) {
  const double kept = static_cast<double>(filler.sparse()) / static_cast<double>(shape.rank() > 0 ? shape[0] : 1);
  for (float& value : out) value = random.Uniform() < kept ? value : 0.0F;
}

void FillRandom(const FillerParameter& filler, const Shape& shape, RandomStream random, std::span<float> out) {
  const double fan = std::max(1.0, FanScale(filler, shape));
  const bool normal = filler.type() == "gaussian" || filler.type() == "msra";
  const double stddev = filler.type() == "gaussian" ? double{filler.std()} : std::sqrt(2.0 / fan);
  const double mean = filler.type() == "gaussian" ? double{filler.mean()} : 0.0;
  const double bound = std::sqrt(3.0 / fan);
  const bool is_unit = filler.type() == "positive_unitball";
  const double low = filler.type() == "uniform" ? double{filler.min()} : is_unit ? 0 : -bound;
  const double high = filler.type() == "uniform" ? double{filler.max()} : is_unit ? 1 : bound;
  for (float& value : out) {
    value = static_cast<float>(normal ? random.Normal(mean, stddev) : random.Uniform(low, high));
  }
  if (is_unit) NormalizeRows(shape, out);
}

}  // namespace

DummyPipeline::DummyPipeline(const LayerParameter& layer, uint64_t seed) : seed_(seed) {
  const DummyDataParameter& param = layer.dummy_data_param();
  const int fillers = param.data_filler_size();
  if (layer.top_size() < 1) throw ErrorAt(layer, "top", StrCat("layer \"", layer.name(), "\" has no top"));
  if (fillers > 1 && fillers != layer.top_size()) {
    throw ErrorAt(layer, "dummy_data_param.data_filler",
                  StrCat("layer \"", layer.name(), "\" has ", layer.top_size(), " tops but ", fillers,
                         " fillers, expected none, 1 or one a top"));
  }
  for (int i = 0; i < layer.top_size(); ++i) {
    const FillerParameter filler = fillers == 0 ? FillerParameter() : param.data_filler(fillers == 1 ? 0 : i);
    if (std::find(kFillers.begin(), kFillers.end(), filler.type()) == kFillers.end()) {
      throw ErrorAt(layer, StrCat("dummy_data_param.data_filler[", fillers == 1 ? 0 : i, "].type"),
                    StrCat("layer \"", layer.name(), "\": unknown filler \"", filler.type(), "\" for data"),
                    DidYouMean(filler.type(), {kFillers.begin(), kFillers.end()}));
    }
    fillers_.push_back(filler);
    top_names_.push_back(layer.top(i));
    types_.push_back({DType::kFloat32, ShapeOfTop(layer, i), {}});
    const Shape& shape = types_.back().shape;
    if (filler.type() == "bilinear" && (shape.rank() != 4 || shape[2] != shape[3])) {
      throw ErrorAt(layer, StrCat("dummy_data_param.data_filler[", fillers == 1 ? 0 : i, "]"),
                    StrCat("layer \"", layer.name(), "\": the bilinear filler needs square planes, the shape is ",
                           shape.ToString()));
    }
  }
}

// A batch's numbers depend on (seed, top, position) only, so Seek needs nothing. Writing constants again each time
// costs little and is right whatever memory the caller passes.
void DummyPipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& /*statistics*/) {
  for (size_t i = 0; i < tops.size(); ++i) {
    const std::span<float> out = tops[i].as<float>();
    if (fillers_[i].type() == "constant") {
      std::fill(out.begin(), out.end(), fillers_[i].value());
    } else if (fillers_[i].type() == "bilinear") {
      FillBilinear(types_[i].shape, out);
    } else {
      const uint64_t stream = static_cast<uint64_t>(position()) << 8U | i;
      FillRandom(fillers_[i], types_[i].shape, RandomStream(seed_, stream), out);
      if (fillers_[i].type() == "gaussian" && fillers_[i].sparse() >= 0) {
        Thin(fillers_[i], types_[i].shape, RandomStream(seed_ ^ kSparseSeed, stream), out);
      }
    }
  }
}

}  // namespace moka
