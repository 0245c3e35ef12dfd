// Trained values in files: .caffemodel, .caffemodel.h5 and .safetensors, told apart by content, and .binaryproto means.
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
  std::map<std::string, std::string> metadata{};  // safetensors' __metadata__; a caffemodel has only "name"
  std::string format{};                           // "caffemodel", "hdf5" or "safetensors"
  // Of a caffemodel: the net's name, and of each layer, in order, name, type, bottoms and tops.
  NetParameter net{};
  int64_t non_finite = 0;  // values that are NaN or infinite
};

// Errors: kNoInput; kBadData naming the file, what it is if recognised, and the byte offset or the tensor; a
// .caffemodel over protobuf's 2 GiB.
Weights ReadWeights(const std::filesystem::path& path);
Weights WeightsFromBytes(std::string_view bytes, const std::string& file);

// A file that BVLC Caffe reads: the net's layers as far as its schema has them (proto/nets/caffe_net.h), with the blobs
// of the same layer name; blobs of layers the net does not have are put in layers of their own. Errors: kBadData over
// protobuf's 2 GiB.
void WriteCaffemodel(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs);
// Caffe's HDF5 layout: float datasets data/LAYER/INDEX, and an empty group for a layer without blobs. A "/" in a
// layer's name makes a group in a group. Errors: kBadData for a name HDF5 cannot hold.
void WriteHdf5Weights(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs);
// Tensors "layer/index" of dtype F32, in the order given. Errors: kBadData on duplicate names.
void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata = {});

// Metadata that carries a net's layers (as Weights.net has them) through a safetensors file, and the layers it carries
// or the file itself has; empty if there are none or they cannot be read.
void AddNetToMetadata(const NetParameter& net, std::map<std::string, std::string>& metadata);
NetParameter NetOf(const Weights& weights);

// A .binaryproto (a mean image, an infogain matrix), or the same as a .npy. Errors: as ReadWeights; kBadData for a
// value that is not finite.
NamedBlob ReadBlobProtoFile(const std::filesystem::path& path);
void WriteBlobProtoFile(const std::filesystem::path& path, const Shape& shape, std::span<const float> values);

// Fills a message. Requires: the values fill the shape.
void BlobToProto(const Shape& shape, std::span<const float> values, BlobProto* proto);

}  // namespace moka
