// Rules for a tensor of a request, whether it comes as JSON, as bytes behind it or as a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/wire_tensor.h"

namespace moka {

inline constexpr size_t kMostTensors = 256;  // inputs, and outputs, of a request
inline constexpr int64_t kMostAxes = 32;
inline constexpr int64_t kMostElements = int64_t{1} << 28;  // of a tensor
inline constexpr int64_t kMostTexts = int64_t{1} << 16;     // of a tensor of BYTES: each takes more than its bytes

// A name as an error shows it.
std::string ShownName(std::string_view name);
// `where` is what an error calls the tensor. Errors: kBadData for what the protocol does not have, with what it has.
void CheckDatatype(std::string_view datatype, const std::string& where);
// Errors: kBadData for a dimension below 1, more than kMostAxes of them and more than kMostElements.
void CheckShape(const std::vector<int64_t>& shape, const std::string& where);
// Requires: CheckShape.
int64_t ElementsOf(const std::vector<int64_t>& shape);
// Errors: kBadData where the tensor holds more or fewer elements than its shape has.
void CheckElements(const WireTensor& tensor);
// Errors: kBadData for a name of a sequence that is empty or longer than 128 characters.
void CheckSequenceId(const std::string& id, const std::string& where);
// Errors: kBadData where so many bytes of an output are more than its place has.
void CheckOutputFits(const std::string& name, int64_t bytes, const SharedPlace& place);
// Fills a tensor of FP32 from its little-endian numbers, of BYTES from elements that begin with their length in 4
// bytes. Others stay empty: no input takes them, which is said where inputs are known. Errors: kBadData where the bytes
// do not fit the shape; `what` is how the request calls their number.
void FillFromBytes(std::string_view bytes, std::string_view what, WireTensor& tensor);

}  // namespace moka
