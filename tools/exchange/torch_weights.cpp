// Rows are met by name on both sides. Channels are swapped by reversing the second axis of a blob, which is exact and
// its own inverse.
#include "tools/exchange/torch_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/layer_traits.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"
#include "proto/weights/blob_name.h"

namespace moka {
namespace {

constexpr double kLargestPixel = 255;

std::string TensorNameOf(const NamedBlob& blob) {
  return blob.index == 0 ? blob.layer : BlobName(blob.layer, blob.index);
}

using Tensors = std::map<std::string, const NamedBlob*>;

Tensors TensorsOf(const Weights& weights) {
  Tensors tensors;
  for (const NamedBlob& blob : weights.blobs) tensors.emplace(TensorNameOf(blob), &blob);
  return tensors;
}

std::map<std::string, const NetBlob*> BlobsByName(std::span<const NetBlob> blobs) {
  std::map<std::string, const NetBlob*> names;
  for (const NetBlob& blob : blobs) {
    if (!blob.shared) names.emplace(BlobName(blob.layer, blob.index), &blob);
  }
  return names;
}

const NetBlob& BlobOf(const TorchNames& names, const TorchNames::Row& row,
                      const std::map<std::string, const NetBlob*>& blobs) {
  const std::string name = BlobName(row.layer, row.index);
  const auto found = blobs.find(name);
  if (found != blobs.end()) return *found->second;
  std::vector<std::string> known;
  for (const auto& [each, blob] : blobs) known.push_back(each);
  throw Error(ErrorKind::kConfig, {names.file, row.line, 0}, StrCat("the net has no blob \"", Printable(name), "\""),
              DidYouMean(name, known));
}

// The weight of running sums, which PyTorch does not have: it keeps means.
bool IsSumWeight(const NetBlob& blob) { return blob.role == ParameterRole::kStatistic && blob.shape.Count() == 1; }

// Whether a tensor differs in its number of classes alone.
bool HasOtherClasses(const Shape& tensor, const Shape& blob) {
  return tensor.rank() == blob.rank() && tensor.rank() > 0 && tensor.With(0, 1) == blob.With(0, 1);
}

std::string DifferenceOf(const TorchNames::Row& row, const Shape& tensor, const Shape& blob) {
  const bool is_transposed = tensor.rank() == 2 && blob.rank() == 2 && tensor[0] == blob[1] && tensor[1] == blob[0];
  return StrCat(Printable(row.tensor), " is ", tensor.ToString(), ", and ", BlobName(row.layer, row.index), " is ",
                blob.ToString(), is_transposed ? ": it is transposed" : "");
}

void CheckAllNamed(const TorchNames& names, std::span<const NetBlob> blobs) {
  std::set<std::string> named;
  for (const TorchNames::Row& row : names.rows) named.insert(BlobName(row.layer, row.index));
  for (const NetBlob& blob : blobs) {
    const std::string name = BlobName(blob.layer, blob.index);
    if (blob.shared || IsSumWeight(blob) || named.contains(name)) continue;
    throw Error(ErrorKind::kConfig, {.file = names.file},
                StrCat("the table has no row for the net's blob \"", name, "\""));
  }
}

void ReverseChannels(const Shape& shape, std::vector<float>& values) {
  Require(shape.rank() >= 2, "ReverseChannels: [out,in,...]");
  const int64_t channels = shape[1];
  const int64_t area = channels == 0 ? 0 : shape.Count() / std::max<int64_t>(1, shape[0]) / channels;
  for (int64_t out = 0; out < shape[0]; ++out) {
    const auto first = values.begin() + out * channels * area;
    for (int64_t c = 0; c < channels / 2; ++c)
      std::swap_ranges(first + c * area, first + (c + 1) * area, first + (channels - 1 - c) * area);
  }
}

}  // namespace

TorchMatch MatchTorch(const TorchNames& names, const Weights& weights, std::span<const NetBlob> blobs) {
  const Tensors tensors = TensorsOf(weights);
  const std::map<std::string, const NetBlob*> known = BlobsByName(blobs);
  TorchMatch match;
  match.tensors = std::ssize(tensors);
  std::set<std::string> rows;
  for (const TorchNames::Row& row : names.rows) {
    rows.insert(row.tensor);
    const auto tensor = tensors.find(row.tensor);
    if (tensor == tensors.end()) {
      if (!row.is_of_classes) match.missing.push_back(row.tensor);
      continue;
    }
    const Shape& shape = tensor->second->shape;
    const Shape& wanted = BlobOf(names, row, known).shape;
    if (shape == wanted || (row.is_of_classes && HasOtherClasses(shape, wanted))) continue;
    match.other_shapes.push_back(DifferenceOf(row, shape, wanted));
  }
  for (const auto& [name, blob] : tensors) {
    if (rows.contains(name)) continue;
    const bool is_left_out = std::ranges::any_of(
        names.left_out, [&name = name](const std::string& beginning) { return name.starts_with(beginning); });
    (is_left_out ? match.left_out : match.strangers).push_back(name);
  }
  return match;
}

FromTorch BlobsFromTorch(const TorchNames& names, const Weights& weights, std::span<const NetBlob> blobs) {
  CheckAllNamed(names, blobs);
  const Tensors tensors = TensorsOf(weights);
  const std::map<std::string, const NetBlob*> known = BlobsByName(blobs);
  std::map<std::string, const TorchNames::Row*> rows;
  std::set<std::string> fresh;
  for (const TorchNames::Row& row : names.rows) {
    rows.emplace(BlobName(row.layer, row.index), &row);
    const auto tensor = tensors.find(row.tensor);
    if (tensor == tensors.end() || tensor->second->shape != BlobOf(names, row, known).shape) fresh.insert(row.layer);
  }
  FromTorch result;
  result.fresh.assign(fresh.begin(), fresh.end());
  for (const NetBlob& blob : blobs) {
    if (blob.shared || fresh.contains(blob.layer)) continue;
    const auto row = rows.find(BlobName(blob.layer, blob.index));
    NamedBlob value{blob.layer, blob.index, blob.shape, {1}};  // of a sum's weight
    if (row != rows.end()) value.values = tensors.at(row->second->tensor)->values;
    if (row != rows.end() && row->second->is_rgb) {
      ReverseChannels(value.shape, value.values);
      result.swapped.push_back(row->first);
    }
    result.blobs.push_back(std::move(value));
  }
  return result;
}

ToTorch BlobsToTorch(const TorchNames& names, std::span<const NamedBlob> values, std::span<const NetBlob> blobs) {
  CheckAllNamed(names, blobs);
  const std::map<std::string, const NetBlob*> known = BlobsByName(blobs);
  std::map<std::string, const NamedBlob*> by_name;
  std::map<std::string, float> sum_weights;  // of layers
  for (const NamedBlob& value : values) by_name.emplace(BlobName(value.layer, value.index), &value);
  for (const NetBlob& blob : blobs) {
    if (!blob.shared && IsSumWeight(blob))
      sum_weights.emplace(blob.layer, by_name.at(BlobName(blob.layer, blob.index))->values[0]);
  }
  ToTorch result;
  for (const TorchNames::Row& row : names.rows) {
    const NetBlob& blob = BlobOf(names, row, known);
    NamedBlob value = *by_name.at(BlobName(row.layer, row.index));
    const auto weight = sum_weights.find(row.layer);
    // Before the first batch sums and weight are 0.
    if (blob.role == ParameterRole::kStatistic && weight != sum_weights.end() && weight->second != 0) {
      for (float& each : value.values) each /= weight->second;
    }
    if (row.is_rgb) ReverseChannels(value.shape, value.values);
    result.tensors.push_back(row.tensor);
    result.blobs.push_back(std::move(value));
  }
  return result;
}

std::vector<std::string> SetTorchInput(const TorchNames& names, NetParameter& net) {
  std::set<std::string> pictures;  // blobs
  for (const TorchNames::Row& row : names.rows) {
    if (!row.is_rgb) continue;
    for (const LayerParameter& layer : net.layer()) {
      if (layer.name() == row.layer && layer.bottom_size() > 0) pictures.insert(layer.bottom(0));
    }
  }
  std::vector<std::string> changed;
  for (LayerParameter& layer : *net.mutable_layer()) {
    const bool gives = std::ranges::any_of(layer.top(), [&](const std::string& top) { return pictures.contains(top); });
    if (layer.bottom_size() > 0 || !gives) continue;
    TransformationParameter& fields = *layer.mutable_transform_param();
    fields.clear_mean_file();
    fields.clear_mean_value();
    fields.clear_std_value();
    fields.clear_scale();
    for (size_t c = names.means.size(); c-- > 0;) {
      fields.add_mean_value(static_cast<float>(names.means[c] * kLargestPixel));
      fields.add_std_value(static_cast<float>(names.deviations[c] * kLargestPixel));
    }
    if (std::ranges::find(changed, layer.name()) == changed.end()) changed.push_back(layer.name());
  }
  if (changed.empty() && !pictures.empty()) {
    throw Error(ErrorKind::kConfig,
                StrCat("no data layer or input of net \"", net.name(), "\" gives \"", *pictures.begin(),
                       "\", which the table ", names.file, " says takes pictures"));
  }
  return changed;
}

}  // namespace moka
