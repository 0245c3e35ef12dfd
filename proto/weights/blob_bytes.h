// One BlobProto between bytes and values, without a message in between: a file's values are copied once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/file.h"
#include "core/types.h"
#include "proto/weights/named_blob.h"
#include "proto/wire_reader.h"

namespace moka {

// Values from `double_data`, `data` or NVIDIA's `raw_data`, the first of them that is there; gradients are passed over.
// The old four dimensions stay four. Errors: kBadData; `what` names the blob.
NamedBlob BlobFromWire(WireReader message, std::string_view what);

// Size of the blob as a message.
int64_t BlobMessageBytes(const Shape& shape);
// Size of a field of `bytes` bytes with its tag and length.
int64_t FieldBytes(int number, int64_t bytes);
// The tag and length of such a field.
std::string FieldHead(int number, int64_t bytes);
// Appends the blob as a message: `shape` and packed `data`, as Caffe writes it. Requires: the values fill the shape.
void AppendBlob(const Shape& shape, std::span<const float> values, AtomicFile& file);

}  // namespace moka
