// .caffemodel files. Reading asks of a layer only its name, type, bottoms, tops and blobs and passes over the rest, for
// the forks number their fields alike and mean different messages by them; those few are the same everywhere.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "proto/weights/named_blob.h"

namespace moka {

// Layers of all three generations (`layer`, V1 `layers`, V0 in V1). Errors: kBadData naming the byte or the blob.
Weights ReadCaffemodel(std::string_view bytes, const std::string& file);

// A file that BVLC Caffe reads: the net's layers as far as its schema has them (proto/nets/caffe_net.h), with the blobs
// of the same layer name; blobs of layers the net does not have are put in layers of their own. Errors: kBadData over
// protobuf's 2 GiB.
void WriteCaffemodel(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs);

}  // namespace moka
