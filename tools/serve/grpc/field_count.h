// How many texts and messages one message holds, before it is read: each takes up to a hundred times the bytes in
// memory that it takes on the wire.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>

namespace moka {

// More than a request of the most tensors and elements of BYTES has (tools/serve/wire_check.h).
inline constexpr int64_t kMostFields = int64_t{1} << 17;

// Counts texts, bytes, messages and fields that the protocol does not know, in all messages within; numbers of the
// protocol's own fields are as many as there are bytes. Errors: kBadData for more than kMostFields, and for bytes that
// are no such message.
void CheckFieldCount(const google::protobuf::Descriptor& message, google::protobuf::io::ZeroCopyInputStream& bytes);

}  // namespace moka
