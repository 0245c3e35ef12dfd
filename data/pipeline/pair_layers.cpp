// The layers of images with label images, each with the rules of its fork:
//   DenseImageData     SegNet's, with ENet's label_divide_factor: mirror and random crop in both phases
//   ImageLabelmapData  HED's: edges are labels from 128 up, or with DSS's `normalize: false` labels as they are; random
//                      crop in both phases
//   ImageSegData       DeepLab's, DeconvNet's and PSPNet's: random scale, margin, crop (random in TRAIN), mirror
//   WindowSegData      DeconvNet's: as ImageSegData of a window of the image
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/pair_maker.h"
#include "data/transform/pixel_mean.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int kTops = 3;

template <class Parameter>
PairOptions CommonPairOptions(const LayerParameter& layer, const Parameter& param, std::string_view message,
                              const PipelineOptions& options) {
  CheckSource(layer, StrCat(message, ".source"), param.source());
  CheckNewSize(layer, message, param.new_height(), param.new_width());
  PairOptions pair;
  pair.list = options.base_folder / param.source();
  pair.base = options.base_folder;
  pair.prefix = param.root_folder();
  pair.seed = DataSeed(options.seed, "augment");
  pair.channels = param.is_color() ? ImageChannels::kColor : ImageChannels::kGray;
  pair.height = param.new_height();
  pair.width = param.new_width();
  pair.mean = ReadPixelMean(layer.transform_param(), options.base_folder);
  pair.scale = layer.transform_param().scale();
  pair.augment = layer.transform_param();
  pair.phase = options.phase;
  return pair;
}

template <class Parameter>
std::unique_ptr<Pipeline> OpenPairs(const LayerParameter& layer, const PipelineOptions& options, const Parameter& param,
                                    std::string_view message, PairOptions pair) {
  const int64_t batch = CheckedBatch(layer, StrCat(message, ".batch_size"), param.batch_size());
  return OpenListed(layer, options, {.batch = batch, .shuffle = param.shuffle(), .rand_skip = param.rand_skip()},
                    std::make_unique<PairMaker>(std::move(pair)));
}

std::unique_ptr<Pipeline> OpenDense(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kKnown[] = {"scale", "mean_file", "mean_value", "augment"};
  const DenseImageDataParameter& param = layer.dense_image_data_param();
  CheckTops(layer);
  // A crop or mirror of transform_param would be drawn for the image and its labels apart.
  CheckTransformFields(layer, kKnown);
  const auto fail = [&](std::string_view field, const std::string& text) {
    throw ErrorAt(layer, StrCat("dense_image_data_param.", field), StrCat("layer \"", layer.name(), "\": ", text));
  };
  if (!param.mean_file().empty()) fail("mean_file", "mean_file is not read here; set transform_param.mean_file");
  if ((param.crop_height() > 0) != (param.crop_width() > 0)) {
    fail("crop_height", "crop_height and crop_width must be set together");
  }
  const float divide = param.label_divide_factor();
  if (!(divide >= 1 && divide <= 1024 && divide == std::floor(divide))) {
    fail("label_divide_factor", StrCat("label_divide_factor is ", divide, ", expected a whole number in 1..1024"));
  }
  if (divide > 1 && param.crop_height() > 0) fail("label_divide_factor", "does not go with a crop");
  PairOptions pair = CommonPairOptions(layer, param, "dense_image_data_param", options);
  if (pair.height > 0 && std::min(pair.height, pair.width) < static_cast<int64_t>(divide)) {
    fail("label_divide_factor", "label_divide_factor leaves no pixel of new_height and new_width");
  }
  pair.label_divide = static_cast<int64_t>(divide);
  pair.crop = {param.crop_height(), param.crop_width()};
  pair.place = PairOptions::Place::kRandom;
  pair.mirror = param.mirror();
  pair.mean_of = PairOptions::MeanOf::kCrop;
  return OpenPairs(layer, options, param, "dense_image_data_param", std::move(pair));
}

std::unique_ptr<Pipeline> OpenLabelmap(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kKnown[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value", "augment"};
  const ImageDataParameter& param = layer.image_data_param();
  CheckTops(layer);
  CheckTransformFields(layer, kKnown);
  PairOptions pair = CommonPairOptions(layer, param, "image_data_param", options);
  pair.label_interpolation = Interpolation::kLinear;
  pair.makes_edges = param.normalize();
  pair.crop = CropOf(layer);
  pair.place = PairOptions::Place::kRandom;
  pair.mirror = layer.transform_param().mirror();
  return OpenPairs(layer, options, param, "image_data_param", std::move(pair));
}

std::unique_ptr<Pipeline> OpenSegments(const LayerParameter& layer, const PipelineOptions& options, bool has_windows) {
  constexpr std::string_view kKnown[] = {"scale",       "mirror",     "crop_size", "mean_value", "scale_factors",
                                         "crop_height", "crop_width", "crop_h",    "crop_w",     "augment"};
  const ImageDataParameter& param = layer.image_data_param();
  CheckTops(layer, kTops);
  CheckTransformFields(layer, kKnown);
  PairOptions pair = CommonPairOptions(layer, param, "image_data_param", options);
  pair.has_windows = has_windows;
  pair.sizes = pair.has_windows ? PairOptions::Sizes::kOriginal : PairOptions::Sizes::kResized;
  pair.label = PairOptions::Label::kPicture;
  if (param.label_type() == ImageDataParameter::IMAGE) pair.label = PairOptions::Label::kNumber;
  if (param.label_type() == ImageDataParameter::NONE || !param.has_label()) pair.label = PairOptions::Label::kNone;
  pair.ignore_label = param.ignore_label();
  pair.outside_label = param.ignore_label();
  pair.crop = CropOf(layer);
  pair.small = PairOptions::Small::kPadded;
  pair.place = options.phase == TRAIN ? PairOptions::Place::kRandom : PairOptions::Place::kCenter;
  pair.mirror = layer.transform_param().mirror();
  const auto& factors = layer.transform_param().scale_factors();
  pair.scale_factors.assign(factors.begin(), factors.end());
  for (const float factor : factors) {
    if (factor > 0 && factor <= 64) continue;
    throw ErrorAt(layer, "transform_param.scale_factors",
                  StrCat("layer \"", layer.name(), "\": scale factor ", factor, " is not in (0, 64]"));
  }
  if (!factors.empty() && pair.crop.height == 0) {
    throw ErrorAt(layer, "transform_param.scale_factors",
                  StrCat("layer \"", layer.name(), "\": scale_factors make images of several sizes"),
                  "set a crop, so that samples have one shape");
  }
  return OpenPairs(layer, options, param, "image_data_param", std::move(pair));
}

std::unique_ptr<Pipeline> OpenImageSegData(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenSegments(layer, options, false);
}

std::unique_ptr<Pipeline> OpenWindowSegData(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenSegments(layer, options, true);
}

}  // namespace

DataLayerRow DenseImageDataRow() { return {.type = "DenseImageData", .open = OpenDense, .augments = true}; }

DataLayerRow ImageLabelmapDataRow() { return {.type = "ImageLabelmapData", .open = OpenLabelmap, .augments = true}; }

DataLayerRow ImageSegDataRow() { return {.type = "ImageSegData", .open = OpenImageSegData, .augments = true}; }

DataLayerRow WindowSegDataRow() { return {.type = "WindowSegData", .open = OpenWindowSegData, .augments = true}; }

}  // namespace moka
