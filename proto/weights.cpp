#include "proto/weights.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/origins.h"
#include "proto/safetensors.h"
#include "proto/upgrade.h"
#include "proto/wire.h"

namespace moka {
namespace {

constexpr int64_t kWeightsLimitBytes = int64_t{64} << 30;
constexpr size_t kHeadBytes = 4096;

[[noreturn]] void ThrowBadBlob(std::string_view what, std::string_view problem) {
  throw Error(ErrorKind::kBadData, StrCat(what, ": ", problem));
}

Shape ShapeOf(const BlobProto& proto, int64_t values) {
  std::vector<int64_t> dims;
  const bool is_old = proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width();
  if (is_old) {
    dims = {proto.num(), proto.channels(), proto.height(), proto.width()};
  } else if (proto.has_shape()) {
    dims.assign(proto.shape().dim().begin(), proto.shape().dim().end());
  } else {
    dims = {values};
  }
  return Shape(dims);
}

int64_t CountNonFinite(const std::vector<NamedBlob>& blobs) {
  int64_t count = 0;
  for (const NamedBlob& blob : blobs) {
    count += std::count_if(blob.values.begin(), blob.values.end(), [](float v) { return !std::isfinite(v); });
  }
  return count;
}

Weights ReadCaffemodel(std::string_view bytes, const std::string& file) {
  NetParameter net;
  Weights weights;
  weights.format = "caffemodel";
  weights.unknown_fields = ParseWire(bytes, file, "weights (.caffemodel or .safetensors)", net);
  ClearOrigins(net);
  try {
    UpgradeNet(net, file);
  } catch (const Error& error) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, error.text(), error.hint());
  }
  if (net.has_name()) weights.metadata["name"] = net.name();
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      try {
        weights.blobs.push_back(BlobFromProto(layer.blobs(i), StrCat("blob ", i, " of layer \"", layer.name(), "\"")));
      } catch (const Error& error) {
        throw Error(error.kind(), SourcePlace{.file = file}, error.text(), error.hint());
      }
      weights.blobs.back().layer = layer.name();
      weights.blobs.back().index = i;
      layer.mutable_blobs(i)->Clear();  // halves the peak memory of a large file
    }
  }
  return weights;
}

}  // namespace

NamedBlob BlobFromProto(const BlobProto& proto, std::string_view what) {
  NamedBlob blob;
  if (proto.data_size() > 0 && proto.double_data_size() > 0) ThrowBadBlob(what, "has both data and double_data");
  const int64_t count = std::max(proto.data_size(), proto.double_data_size());
  int64_t needed = 0;
  try {
    blob.shape = ShapeOf(proto, count);
    needed = blob.shape.Count();
  } catch (const Error& error) {
    ThrowBadBlob(what, error.text());
  }
  if (needed != count) {
    ThrowBadBlob(what, StrCat("shape ", blob.shape.ToString(), " needs ", needed, " values but there are ", count));
  }
  blob.values.reserve(static_cast<size_t>(count));
  if (proto.data_size() > 0) {
    blob.values.assign(proto.data().begin(), proto.data().end());
  } else {
    for (const double value : proto.double_data()) blob.values.push_back(static_cast<float>(value));
  }
  return blob;
}

void BlobToProto(const Shape& shape, std::span<const float> values, BlobProto* proto) {
  Require(shape.Count() == static_cast<int64_t>(values.size()), "BlobToProto: the values fill the shape");
  proto->Clear();
  for (const int64_t dim : shape.dims()) proto->mutable_shape()->add_dim(dim);
  proto->mutable_shape();  // present for a scalar too
  proto->mutable_data()->Add(values.begin(), values.end());
}

Weights WeightsFromBytes(std::string_view bytes, const std::string& file) {
  const Content content = RecogniseContent(bytes.substr(0, kHeadBytes));
  Weights weights = content == Content::kSafetensors ? ReadSafetensors(bytes, file) : ReadCaffemodel(bytes, file);
  weights.non_finite = CountNonFinite(weights.blobs);
  if (weights.blobs.empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, "the file holds no weights");
  }
  if (weights.unknown_fields > 0) {
    LogWarning(StrCat(file, ": skipped ", weights.unknown_fields, " fields that are not in the schema"));
  }
  if (weights.non_finite > 0) LogWarning(StrCat(file, ": ", weights.non_finite, " weights are NaN or infinite"));
  return weights;
}

Weights ReadWeights(const std::filesystem::path& path) {
  return WeightsFromBytes(ReadFile(path, kWeightsLimitBytes), path.string());
}

void WriteCaffemodel(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs) {
  NetParameter file = net;
  ClearOrigins(file);
  file.clear_block();
  std::map<std::string, LayerParameter*, std::less<>> layers;
  for (LayerParameter& layer : *file.mutable_layer()) {
    layer.clear_blobs();
    layers.emplace(layer.name(), &layer);
  }
  for (const NamedBlob& blob : blobs) {
    LayerParameter*& layer = layers[blob.layer];
    if (layer == nullptr) {
      layer = file.add_layer();
      layer->set_name(blob.layer);
    }
    if (blob.index != layer->blobs_size()) {
      throw Error(ErrorKind::kBadData, StrCat("blobs of layer \"", blob.layer, "\" are not in order: expected index ",
                                              layer->blobs_size(), ", found ", blob.index));
    }
    BlobToProto(blob.shape, blob.values, layer->add_blobs());
  }
  WriteFileAtomically(path, WireBytes(file));
}

NamedBlob ReadBlobProtoFile(const std::filesystem::path& path) {
  const std::string file = path.string();
  BlobProto proto;
  ParseWire(ReadFile(path, kWireLimitBytes), file, "a blob (.binaryproto)", proto);
  try {
    NamedBlob blob = BlobFromProto(proto, "the blob");
    if (blob.values.empty()) ThrowBadBlob("the blob", "has no values");
    return blob;
  } catch (const Error& error) {
    throw Error(error.kind(), SourcePlace{.file = file}, error.text(), error.hint());
  }
}

void WriteBlobProtoFile(const std::filesystem::path& path, const Shape& shape, std::span<const float> values) {
  BlobProto proto;
  BlobToProto(shape, values, &proto);
  WriteFileAtomically(path, WireBytes(proto));
}

}  // namespace moka
