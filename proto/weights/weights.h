// Trained values in files: .caffemodel, .caffemodel.h5, .safetensors and .npz, told apart by content, and .binaryproto
// means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/weights/caffemodel.h"
#include "proto/weights/named_blob.h"
#include "proto/weights/safetensors.h"

namespace moka {

// Values that are NaN or infinite are told in a warning that counts them, or in an error that does.
enum class BadNumbers : uint8_t { kWarned, kRefused };

// Errors: kNoInput; kBadData naming the file, what it is if recognised, and the byte offset or the tensor; a
// .caffemodel over protobuf's 2 GiB; for a checkpoint of PyTorch, with the lines of Python that convert it.
Weights ReadWeights(const std::filesystem::path& path, BadNumbers bad_numbers = BadNumbers::kWarned);
Weights WeightsFromBytes(std::string_view bytes, const std::string& file, BadNumbers bad_numbers = BadNumbers::kWarned);

// Caffe's HDF5 layout: float datasets data/LAYER/INDEX, and an empty group for a layer without blobs. A "/" in a
// layer's name makes a group in a group. Errors: kBadData for a name HDF5 cannot hold.
void WriteHdf5Weights(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs);
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
