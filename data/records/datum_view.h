// A Datum read in place: the fields of Caffe's record message straight from its wire bytes, without a copy and without
// heap allocation. Accepts exactly what protobuf's own parser accepts (a test compares the two).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moka {

struct DatumView {
  int32_t channels = 0;
  int32_t height = 0;
  int32_t width = 0;
  int32_t label = 0;
  bool has_label = false;
  bool encoded = false;
  std::string_view data = {};  // C*H*W bytes, or a whole image file when encoded
  int64_t float_count = 0;     // float_data, which CopyFloats reads
  std::string_view wire = {};  // the bytes parsed

  // C*H*W, or -1 when a dimension is negative or the product passes 2^31.
  int64_t Count() const;
  // Requires: out.size() == float_count.
  void CopyFloats(std::span<float> out) const;
};

// The end of a message on a value of a database that is no record but what other programs store there: "; the value is
// a PNG file, .."; empty for anything else.
std::string WhatValueIs(std::string_view value);

// Views live as long as `wire`. Errors: kBadData naming the byte.
DatumView ParseDatum(std::string_view wire);

}  // namespace moka
