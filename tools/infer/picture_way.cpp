// Joins three sources field by field (the net's data layer, the card, the flags), the later over the earlier, and warns
// where none says how pictures were normalised.
#include "tools/infer/picture_way.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/image/picture_limits.h"
#include "data/layer_fields.h"
#include "data/pipeline/open_pipeline.h"
#include "data/transform/transform.h"
#include "layers/net/layer.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "proto/text/places.h"
#include "tools/nets/deploy_net.h"
#include "tools/train/record_sizes.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Whether the layer says how its pictures become its top. HDF5's numbers, memory's and others were made elsewhere.
bool SaysHow(const LayerParameter& layer) {
  if (layer.has_transform_param() || layer.has_record_data_param()) return true;
  const DataKind kind = TraitsOf(layer).data;
  const bool is_elsewhere = kind == DataKind::kFillers || kind == DataKind::kRows || kind == DataKind::kProgram;
  return IsPipelineLayer(layer.type()) && !is_elsewhere;
}

// The layer of the net that became the input.
LayerParameter InputLayerOf(const NetParameter& net, const NetParameter& deploy) {
  const LayerParameter& input = ImageInput(deploy);
  for (const LayerParameter& layer : net.layer()) {
    if (layer.name() == input.name() && layer.top_size() > 0 && layer.top(0) == input.top(0)) return layer;
  }
  return input;
}

// The layer that tests the training net beside a net for deployment.
std::optional<LayerParameter> TrainedBeside(const InferSource& source, const std::string& top) {
  std::error_code code;
  const fs::path file = source.folder / "train_val.prototxt";
  if (!fs::is_regular_file(file, code) || fs::equivalent(file, source.net, code)) return std::nullopt;
  const NetParameter net = FilterNet(ReadNet(file), TEST);
  for (const LayerParameter& layer : net.layer()) {
    if (layer.top_size() == 0 || layer.bottom_size() > 0 || !SaysHow(layer)) continue;
    if (layer.top(0) == top) return layer;
  }
  return std::nullopt;
}

// The words on the command line or in a model's card about pictures.
struct PictureWords {
  const PictureInput& input;
  const ModelCard* card = nullptr;  // null: the flags of these names

  // An error about one of the fields, or all of them.
  Error Fault(std::string_view field, const std::string& text) const {
    if (card == nullptr) return {ErrorKind::kUsage, StrCat("--", field, " ", text)};
    const std::string path = field.empty() ? "input" : StrCat("input.", field);
    return {ErrorKind::kConfig, PlaceOf(card->origin(), path), StrCat(path, field.empty() ? ": " : " ", text)};
  }
};

bool IsEmpty(const PictureInput& input) { return input.ByteSizeLong() == 0; }

// Another size takes the place of all that the layer says of sizes.
void SetSize(const PictureWords& words, LayerParameter& layer) {
  const PictureInput& input = words.input;
  if (!input.has_resize_height() && !input.has_resize_width() && !input.has_resize_short()) return;
  if (input.has_resize_height() != input.has_resize_width() ||
      (input.has_resize_height() && input.has_resize_short())) {
    throw words.Fault("", "give resize_height with resize_width, or resize_short alone");
  }
  const bool is_size = input.has_resize_short() ? input.resize_short() <= kMostPictureSide
                                                : IsPictureSize(input.resize_height(), input.resize_width());
  if (!is_size) {
    const std::string found = input.has_resize_short()
                                  ? StrCat("is ", input.resize_short())
                                  : StrCat("is ", input.resize_height(), " and resize_width ", input.resize_width());
    throw words.Fault(input.has_resize_short() ? "resize_short" : "resize_height",
                      StrCat(found, "; sizes are 1 to ", kMostPictureSide, " pixels a side and at most ",
                             kMostPicturePixels, " together"));
  }
  layer.clear_record_data_param();
  layer.clear_multi_label_image_data_param();
  layer.clear_dense_image_data_param();
  ImageDataParameter& list = *layer.mutable_image_data_param();
  list.clear_short_side();
  list.clear_new_dim();
  list.set_new_height(input.resize_height());
  list.set_new_width(input.resize_width());
  TransformationParameter& fields = *layer.mutable_transform_param();
  fields.clear_resize_param();
  fields.clear_resize_short();
  if (input.resize_short() > 0) fields.set_resize_short(input.resize_short());
  // No record says any more how large pictures are.
  if (layer.has_data_param()) layer.mutable_data_param()->clear_source();
}

// Errors: those of a mean, deviation or scale that is no such, or not of the sample's channels.
void CheckValues(const PictureWords& words, const Shape& sample) {
  const PictureInput& input = words.input;
  const auto check_count = [&](std::string_view field, int count) {
    if (count <= 1 || count == sample[0]) return;
    throw words.Fault(field,
                      StrCat("has ", count, " values, and the net's input ", sample.ToString(), " has ", sample[0],
                             sample[0] == 1 ? " channel" : " channels; give one value, or one a channel"));
  };
  check_count("mean", input.mean_size());
  check_count("std", input.std_size());
  for (const float value : input.mean()) {
    if (!std::isfinite(value)) throw words.Fault("mean", StrCat("holds ", value, ", which is not finite"));
  }
  for (const float value : input.std()) {
    if (!(value > 0) || !std::isfinite(value))
      throw words.Fault("std", StrCat("holds ", value, ", which is no positive number"));
  }
  if (!std::isfinite(input.scale())) throw words.Fault("scale", StrCat("is ", input.scale(), ", which is not finite"));
  if (input.mean_size() > 0 && input.has_mean_file()) throw words.Fault("", "give mean or mean_file, not both");
}

// The file of a mean image, which can be read.
std::string MeanFileOf(const PictureWords& words, const fs::path& folder) {
  const fs::path file = folder / words.input.mean_file();
  Shape shape;
  std::vector<float> values;
  try {
    ReadMeanImage(file, shape, values);
  } catch (Error& error) {
    if (words.card != nullptr) error.SetPlace(PlaceOf(words.card->origin(), "input.mean_file"));
    throw;
  }
  return file.string();
}

void Overlay(const PictureWords& words, const fs::path& folder, const Shape& sample, LayerParameter& layer) {
  const PictureInput& input = words.input;
  SetSize(words, layer);
  CheckValues(words, sample);
  TransformationParameter& fields = *layer.mutable_transform_param();
  if (input.mean_size() > 0 || input.has_mean_file()) {
    fields.clear_mean_file();
    fields.clear_mean_value();
    fields.mutable_mean_value()->CopyFrom(input.mean());
    if (input.has_mean_file()) fields.set_mean_file(MeanFileOf(words, folder));
  }
  if (input.std_size() > 0) fields.mutable_std_value()->CopyFrom(input.std());
  if (input.has_scale()) fields.set_scale(input.scale());
}

// A picture larger than the input is cut to it about its middle; a smaller one does not fit.
void CutToSample(const Shape& sample, LayerParameter& layer) {
  TransformationParameter& fields = *layer.mutable_transform_param();
  const int64_t height = sample[1];
  const int64_t width = sample[2];
  const auto [listed_height, listed_width] = ListedSizeOf(layer);
  const int64_t short_side = fields.resize_short();
  const bool is_small = (listed_height > 0 && (listed_height < height || listed_width < width)) ||
                        (short_side > 0 && short_side < std::min(height, width));
  if (is_small) {
    throw Error(ErrorKind::kConfig, StrCat("pictures are resized to ",
                                           short_side > 0 ? StrCat("a shorter side of ", short_side)
                                                          : StrCat(listed_height, "x", listed_width),
                                           ", less than the input's ", height, "x", width));
  }
  fields.clear_crop_size();
  fields.clear_crop_height();
  fields.clear_crop_width();
  fields.set_crop_h(static_cast<uint32_t>(height));
  fields.set_crop_w(static_cast<uint32_t>(width));
}

// A mean image that lies beside the net and not where the training found it.
void FindMeanFile(const fs::path& folder, LayerParameter& layer) {
  std::error_code code;
  TransformationParameter& fields = *layer.mutable_transform_param();
  if (!fields.has_mean_file() || fs::exists(fields.mean_file(), code)) return;
  for (const fs::path& file : {folder / fields.mean_file(), folder / fs::path(fields.mean_file()).filename()}) {
    if (fs::exists(file, code)) return fields.set_mean_file(file.string());
  }
}

template <class Parameter>
void ClearOldFields(Parameter& param) {
  param.clear_scale();
  param.clear_mean_file();
  param.clear_crop_size();
  param.clear_mirror();
}

// The fields of Caffe's first days (data_param's and image_data_param's scale, mean_file, crop_size and mirror) go
// where those of today stand, so that card and flags take the place of both.
void GatherFields(LayerParameter& layer) {
  *layer.mutable_transform_param() = PictureFieldsOf(layer);
  if (layer.has_data_param()) ClearOldFields(*layer.mutable_data_param());
  if (layer.has_image_data_param()) ClearOldFields(*layer.mutable_image_data_param());
  if (layer.has_multi_label_image_data_param()) ClearOldFields(*layer.mutable_multi_label_image_data_param());
}

// The layer's records, or where they cannot be looked at, as those of a run that was moved, what it kept of them.
std::optional<StoredPictures> StoredOf(const fs::path& folder, const LayerParameter& layer) {
  if (!HasRecords(layer)) return {};
  std::error_code code;
  if (!fs::exists(layer.data_param().source(), code)) return KeptRecordSize(folder, layer.name());
  return NeededPicturesOf(layer, {});
}

// Says that pictures are cut as they are where nothing tells how large they should be.
void TellUnknownSize(const PictureWay& way) {
  std::error_code code;
  const std::string& source = way.layer.data_param().source();
  if (!NeedsRecordSize(way.layer)) return;
  if (way.stored && way.stored->height == 0 && !way.stored->are_sides_known) {
    LogWarning(StrCat("the records of layer \"", way.layer.name(), "\" (", Printable(source),
                      ") have several sizes, and nothing says how they came to them: pictures are cut at their own ",
                      "size; --resize-short N, or --resize HxW, says another"));
  }
  if (way.stored || fs::exists(source, code)) return;
  LogWarning(StrCat("the records of layer \"", way.layer.name(), "\" (", Printable(source),
                    ") are not there to tell how large pictures are before the crop: they are cut at their own size; ",
                    "--resize HxW says another"));
}

void CheckChannels(const PictureWords& words, const Shape& sample) {
  const PictureInput::Channels channels = words.input.channels();
  if ((channels == PictureInput::GREY) == (sample[0] == 1)) return;
  throw words.Fault("channels", StrCat("is ", PictureInput::Channels_Name(channels), ", and the net's input ",
                                       sample.ToString(), " has ", sample[0]));
}

// A server makes several programs of a net; the same words are said once.
bool IsNews(const std::string& text) {
  static std::mutex mutex;
  static std::string last;
  const std::lock_guard lock(mutex);
  return std::exchange(last, text) != text;
}

}  // namespace

PictureWay PictureWayOf(const InferSource& source, const NetParameter& net, const NetParameter& deploy,
                        const Shape& sample) {
  PictureWay way;
  way.layer = InputLayerOf(net, deploy);
  const std::string top = way.layer.top_size() > 0 ? way.layer.top(0) : "";
  const bool has_card = source.card.has_input() && !IsEmpty(source.card.input());
  if (!SaysHow(way.layer)) {
    if (const std::optional<LayerParameter> trained = TrainedBeside(source, top)) {
      way.layer = *trained;
      const std::string told = StrCat("pictures go in as layer \"", trained->name(), "\" of ",
                                      (source.folder / "train_val.prototxt").string(), " tests them");
      if (IsNews(told)) LogInfo(told);
    } else if (!has_card && IsEmpty(source.flags)) {
      const std::string told =
          StrCat("nothing says how pictures become the input \"", top, "\": they are resized to ", sample[1], "x",
                 sample[2], " and go in as ", sample[0] == 1 ? "grey" : "B,G,R", " of 0..255 (--mean, --scale, ",
                 "--resize, --resize-short, or input { } in a model.prototxt beside the net)");
      if (IsNews(told)) LogWarning(told);
    }
  }
  GatherFields(way.layer);
  way.stored = StoredOf(source.folder, way.layer);
  if (has_card) {
    const PictureWords words{source.card.input(), &source.card};
    if (source.card.input().has_channels()) CheckChannels(words, sample);
    if (source.card.input().channels() == PictureInput::RGB) way.order = PictureReader::Order::kRgb;
    Overlay(words, source.folder, sample, way.layer);
  }
  Overlay({.input = source.flags}, {}, sample, way.layer);
  FindMeanFile(source.folder, way.layer);
  TellUnknownSize(way);
  const auto resizes = [](const PictureInput& input) { return input.has_resize_height() || input.has_resize_short(); };
  const bool has_mean_image =
      way.layer.transform_param().has_mean_file() && TraitsOf(way.layer).data == DataKind::kInput;
  if ((has_card && resizes(source.card.input())) || resizes(source.flags) || has_mean_image) {
    CutToSample(sample, way.layer);
  }
  return way;
}

}  // namespace moka
