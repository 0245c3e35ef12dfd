// The fields that data layers read and the checks that they share: fields that are read, batches, sizes, lists; seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "proto/moka.pb.h"

namespace moka {

// A seed of its own for each use of random numbers ("order", "augment"), apart from the net's.
uint64_t DataSeed(uint64_t seed, std::string_view use);

// Errors: kConfig unless the layer has 1..most tops.
void CheckTops(const LayerParameter& layer, int most = 2);
// Errors: kConfig at the field, naming it, when a text that must be there is empty.
void CheckSource(const LayerParameter& layer, std::string_view field, const std::string& source);
int64_t CheckedBatch(const LayerParameter& layer, std::string_view field, int64_t batch);
// The batches that data_param has prepared ahead. Errors: kConfig beyond 1..1024.
int64_t CheckedPrefetch(const LayerParameter& layer);
// Errors: kConfig unless both sides are 0 or both are possible sizes of an image.
void CheckNewSize(const LayerParameter& layer, std::string_view message, int64_t height, int64_t width);
// Errors: kConfig at the first field of transform_param that is set and is not one of these, nor one without effect.
void CheckTransformFields(const LayerParameter& layer, std::span<const std::string_view> known);
// Errors: kConfig at the first field of data_param that is set and is not one of these.
void CheckDataFields(const LayerParameter& layer, std::span<const std::string_view> known);
// Height and width of the crop, {0, 0} for none, from crop_size, crop_height and crop_width, or crop_h and crop_w.
struct CropSize {
  int64_t height = 0;
  int64_t width = 0;
};
CropSize CropOf(const LayerParameter& layer);

// Errors: kConfig at a field of `old`, one of the layer's messages, of which transform_param has another value.
void RequireSameTransform(const LayerParameter& layer, const google::protobuf::Message& old);

// Fields that Caffe moved into transform_param; the net's reader upgrades them, other callers may not have. Errors: as
// RequireSameTransform.
template <class Parameter>
TransformationParameter TransformOf(const LayerParameter& layer, const Parameter& old) {
  RequireSameTransform(layer, old);
  TransformationParameter transform = layer.transform_param();
  if (old.has_scale() && !transform.has_scale()) transform.set_scale(old.scale());
  if (old.has_mean_file() && !transform.has_mean_file()) transform.set_mean_file(old.mean_file());
  if (old.has_crop_size() && !transform.has_crop_size()) transform.set_crop_size(old.crop_size());
  if (old.has_mirror() && !transform.has_mirror()) transform.set_mirror(old.mirror());
  return transform;
}

// transform_param with the fields that other messages of the layer say the same with.
TransformationParameter PictureFieldsOf(const LayerParameter& layer);
// Height and width that a layer of listed pictures resizes them to; 0 and 0: as they are.
std::pair<int64_t, int64_t> ListedSizeOf(const LayerParameter& layer);

// The words of each line that has some, with the line's number from 1.
struct ListLine {
  int number = 0;
  std::vector<std::string> words;
};
// Errors: kNoInput; kBadData when no line has a word.
std::vector<ListLine> ReadListLines(const std::filesystem::path& path);
// Errors: kBadData for a number that a net's floats would change into another one.
void CheckWhole(int64_t number, std::string_view what, const SourcePlace& place);
// A whole number of 32 bits. Errors: kBadData at file:line, for larger ones too, saying what the word is.
int64_t NumberOf(const std::string& word, std::string_view what, const std::filesystem::path& list, int line);
// The same of a label, which a net's float must hold.
int64_t LabelOf(const std::string& word, const std::filesystem::path& list, int line);

}  // namespace moka
