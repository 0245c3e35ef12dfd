// Trained values in files: .caffemodel and .safetensors, told apart by content, and .binaryproto means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// One parameter blob: the index-th of a layer, row-major.
struct NamedBlob {
  std::string layer;
  int index = 0;
  Shape shape;
  std::vector<float> values;  // shape.Count() of them
};

struct Weights {
  std::vector<NamedBlob> blobs;
  std::map<std::string, std::string> metadata;  // safetensors' __metadata__; a caffemodel has only "name"
  std::string format;                           // "caffemodel" or "safetensors"
  int64_t non_finite = 0;                       // values that are NaN or infinite
  int64_t unknown_fields = 0;                   // skipped: fields this schema does not have
};

// Errors: kNoInput; kBadData naming the file, what it is if recognised, and the byte offset or the tensor.
Weights ReadWeights(const std::filesystem::path& path);
Weights WeightsFromBytes(std::string_view bytes, const std::string& file);

// A Caffe-readable file: the net's layers (its blobs, if any, are replaced) with the blobs of the same layer name;
// blobs of layers the net does not have are put in layers of their own. Errors: kBadData over protobuf's 2 GiB.
void WriteCaffemodel(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs);
// Tensors "layer/index" of dtype F32, in the order given. Errors: kBadData on duplicate names.
void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata = {});

// A .binaryproto (a mean image, an infogain matrix). Errors: as ReadWeights.
NamedBlob ReadBlobProtoFile(const std::filesystem::path& path);
void WriteBlobProtoFile(const std::filesystem::path& path, const Shape& shape, std::span<const float> values);

// Between a message and values. Errors: kBadData when the shape and the values disagree; `what` names the blob.
NamedBlob BlobFromProto(const BlobProto& proto, std::string_view what);
void BlobToProto(const Shape& shape, std::span<const float> values, BlobProto* proto);

}  // namespace moka
