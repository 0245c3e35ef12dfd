// Checks by reflection that a data layer is given only fields which its reader acts on; what data layers share besides:
// seeds, crops, lines of lists and their numbers.
#include "data/layer_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/files/list_text.h"
#include "data/image/picture_limits.h"
#include "proto/text/places.h"
#include "proto/upgrade/moved_fields.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDataStream = 0xDA7A;  // keeps the pipeline's random numbers apart from the net's

std::string NameOf(const LayerParameter& layer) { return StrCat("layer \"", layer.name(), "\""); }

void CheckLayerFields(const LayerParameter& layer, std::string_view name, const google::protobuf::Message& message,
                      std::span<const std::string_view> known, std::span<const std::string_view> harmless) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  const auto is_in = [](std::span<const std::string_view> names, std::string_view field) {
    return std::ranges::find(names, field) != names.end();
  };
  for (const auto* field : fields) {
    if (is_in(known, field->name()) || is_in(harmless, field->name())) continue;
    const std::string path = StrCat(name, ".", field->name());
    throw ErrorAt(layer, path, StrCat(NameOf(layer), ": ", layer.type(), " does not read ", path),
                  known.empty() ? std::string() : StrCat("it reads ", Join({known.begin(), known.end()}, ", ")));
  }
}

const ImageDataParameter& ListParameterOf(const LayerParameter& layer) {
  const bool has_own = DataRowOf(layer).reads_own_list && layer.has_multi_label_image_data_param();
  return has_own ? layer.multi_label_image_data_param() : layer.image_data_param();
}

}  // namespace

uint64_t DataSeed(uint64_t seed, std::string_view use) {
  const uint64_t stream = kDataStream ^ StableHash(use);
  return uint64_t{RandomWord(seed, stream, 0)} << 32U | RandomWord(seed, stream, 1);
}

void CheckTops(const LayerParameter& layer, int most) {
  if (layer.top_size() >= 1 && layer.top_size() <= most) return;
  throw ErrorAt(layer, "top",
                StrCat(NameOf(layer), " (", layer.type(), ") has ", layer.top_size(), " tops, expected ",
                       most == 2 ? "data and, if wanted, label" : StrCat("1 to ", most)));
}

void CheckSource(const LayerParameter& layer, std::string_view field, const std::string& source) {
  if (!source.empty()) return;
  throw ErrorAt(layer, field, StrCat(NameOf(layer), ": ", field, " is not set"), "name the list file");
}

int64_t CheckedBatch(const LayerParameter& layer, std::string_view field, int64_t batch) {
  constexpr int64_t kMaxBatch = int64_t{1} << 24U;
  if (batch >= 1 && batch <= kMaxBatch) return batch;
  throw ErrorAt(layer, field, StrCat(NameOf(layer), ": batch_size is ", batch, ", expected 1..", kMaxBatch));
}

void CheckNewSize(const LayerParameter& layer, std::string_view message, int64_t height, int64_t width) {
  if ((height == 0 && width == 0) || IsPictureSize(height, width)) return;
  throw ErrorAt(
      layer, StrCat(message, ".new_height"),
      StrCat(NameOf(layer), ": new_height ", height, " and new_width ", width, ", expected both 0 or both 1..",
             kMostPictureSide, ", at most ", kMostPicturePixels, " pixels together"));
}

void CheckTransformFields(const LayerParameter& layer, std::span<const std::string_view> known) {
  constexpr std::array<std::string_view, 5> kHarmless = {"forward_packing", "use_gpu_transform", "display",
                                                         "random_seed", "num_labels"};
  CheckLayerFields(layer, "transform_param", layer.transform_param(), known, kHarmless);
}

void CheckDataFields(const LayerParameter& layer, std::span<const std::string_view> known) {
  CheckLayerFields(layer, "data_param", layer.data_param(), known, {});
}

int64_t CheckedPrefetch(const LayerParameter& layer) {
  constexpr int64_t kMostAhead = 1024;
  const int64_t ahead = layer.data_param().prefetch();
  if (ahead >= 1 && ahead <= kMostAhead) return ahead;
  throw ErrorAt(layer, "data_param.prefetch",
                StrCat(NameOf(layer), ": prefetch is ", ahead, ", expected 1..", kMostAhead, " batches"));
}

CropSize CropOf(const LayerParameter& layer) {
  constexpr int64_t kMaxSide = 1 << 14;
  const TransformationParameter& t = layer.transform_param();
  const std::array<CropSize, 3> given = {CropSize{t.crop_size(), t.crop_size()},
                                         CropSize{t.crop_height(), t.crop_width()}, CropSize{t.crop_h(), t.crop_w()}};
  CropSize crop;
  for (const CropSize& size : given) {
    if (size.height == 0 && size.width == 0) continue;
    if (crop.height > 0 || size.height == 0 || size.width == 0 || std::max(size.height, size.width) > kMaxSide) {
      throw ErrorAt(
          layer, "transform_param",
          StrCat(NameOf(layer), ": the crop must be given by crop_size, or by crop_height and crop_width, in 1..",
                 kMaxSide, " pixels"));
    }
    crop = size;
  }
  return crop;
}

void RequireSameTransform(const LayerParameter& layer, const google::protobuf::Message& old) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() != old.GetDescriptor()) continue;
    if (&layer.GetReflection()->GetMessage(layer, field) != &old) continue;
    RequireSameTransform(layer.origin(), layer.name(), std::string(field->name()), old, layer.transform_param());
  }
}

TransformationParameter PictureFieldsOf(const LayerParameter& layer) {
  if (layer.has_data_param() && !DataRowOf(layer).reads_list) {
    TransformationParameter fields = TransformOf(layer, layer.data_param());
    if (layer.data_param().force_encoded_color()) fields.set_force_color(true);
    return fields;
  }
  const ImageDataParameter& list = ListParameterOf(layer);
  TransformationParameter fields = TransformOf(layer, list);
  // Two forks' names for one thing.
  if (list.short_side() > 0 && list.new_dim() > 0 && list.short_side() != list.new_dim()) {
    throw ErrorAt(layer, "image_data_param.short_side",
                  StrCat(NameOf(layer), ": short_side is ", list.short_side(), " and new_dim is ", list.new_dim(),
                         ", and the two are one thing"),
                  "keep one of them");
  }
  const uint32_t shorter = std::max(list.short_side(), list.new_dim());
  if (shorter > 0 && fields.has_resize_short() && fields.resize_short() != shorter) {
    throw ErrorAt(layer, "transform_param.resize_short",
                  StrCat(NameOf(layer), ": transform_param.resize_short is ", fields.resize_short(),
                         " and the shorter side is ", shorter, " by short_side or new_dim, and these are one thing"),
                  "keep one of them");
  }
  if (shorter > 0 && !fields.has_resize_short()) fields.set_resize_short(shorter);
  return fields;
}

std::pair<int64_t, int64_t> ListedSizeOf(const LayerParameter& layer) {
  if (layer.has_dense_image_data_param()) {
    return {layer.dense_image_data_param().new_height(), layer.dense_image_data_param().new_width()};
  }
  return {ListParameterOf(layer).new_height(), ListParameterOf(layer).new_width()};
}

void CheckWhole(int64_t number, std::string_view what, const SourcePlace& place) {
  if (IsExactFloat(number)) return;
  throw Error(ErrorKind::kBadData, place,
              StrCat(what, " is ", number, ", which a net's floats cannot hold: they have every whole number up to ",
                     kMostExactWhole));
}

std::vector<ListLine> ReadListLines(const fs::path& path) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const std::string text = ReadListText(path);
  std::vector<ListLine> lines;
  ListLine line{.number = 1, .words = {}};
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == '\n') {
      const int number = line.number;
      if (!line.words.empty()) lines.push_back(std::move(line));
      line = {.number = number + 1, .words = {}};
    } else if (!is_blank(text[i])) {
      if (i == 0 || is_blank(text[i - 1])) line.words.emplace_back();
      line.words.back() += text[i];
    }
  }
  if (lines.empty()) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the list is empty"));
  return lines;
}

int64_t NumberOf(const std::string& word, std::string_view what, const fs::path& list, int line) {
  int32_t number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec == std::errc() && read.ptr == word.data() + word.size()) return number;
  const bool is_larger = read.ec == std::errc::result_out_of_range && read.ptr == word.data() + word.size();
  throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = line},
              StrCat("expected a whole number ", is_larger ? "of 32 bits " : "", "as ", what, ", found \"",
                     Printable(word), "\""));
}

int64_t LabelOf(const std::string& word, const fs::path& list, int line) {
  const int64_t label = NumberOf(word, "the label", list, line);
  CheckWhole(label, "the label", SourcePlace{.file = list.string(), .line = line});
  return label;
}

}  // namespace moka
