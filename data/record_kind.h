// The kinds of records that databases hold.
#pragma once

#include <string_view>

namespace moka {

// Caffe's Datum, SSD's AnnotatedDatum, Moka's SampleRecord (which a schema beside the records tells).
enum class RecordKind { kDatum, kAnnotated, kSample };

// Returns which of Caffe's two kinds the bytes are: an AnnotatedDatum begins with its Datum, field 1 of bytes; a
// Datum's field 1 is a number.
inline RecordKind KindOf(std::string_view wire) {
  constexpr char kBytesOfFieldOne = 0x0A;
  return wire.starts_with(kBytesOfFieldOne) ? RecordKind::kAnnotated : RecordKind::kDatum;
}

}  // namespace moka
