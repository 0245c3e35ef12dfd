// Numbers go from the wire into a tensor as they lie there.
#include "tools/serve/wire_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are sent little endian");

constexpr std::array<std::string_view, 14> kDatatypes = {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64",
                                                         "INT8", "INT16", "INT32",  "INT64",  "FP16",
                                                         "BF16", "FP32",  "FP64",   "BYTES"};

std::string InputText(const WireTensor& tensor) { return StrCat("input \"", ShownName(tensor.name), "\""); }

std::string SidesText(const std::vector<int64_t>& shape) {
  std::vector<std::string> sides;
  sides.reserve(shape.size());
  for (const int64_t side : shape) sides.push_back(StrCat(side));
  return StrCat("[", Join(sides, ","), "]");
}

}  // namespace

std::string ShownName(std::string_view name) { return Printable(name.substr(0, 200)); }

void CheckDatatype(std::string_view datatype, const std::string& where) {
  if (std::ranges::find(kDatatypes, datatype) != kDatatypes.end()) return;
  throw Error(ErrorKind::kBadData, {}, StrCat(where, " has the datatype \"", ShownName(datatype), "\""),
              StrCat("there are ", Join({kDatatypes.begin(), kDatatypes.end()}, ", ")));
}

void CheckShape(const std::vector<int64_t>& shape, const std::string& where) {
  if (std::ssize(shape) > kMostAxes)
    throw Error(ErrorKind::kBadData, StrCat(where, " has more than ", kMostAxes, " dimensions"));
  int64_t count = 1;
  for (const int64_t side : shape) {
    if (side < 1) throw Error(ErrorKind::kBadData, StrCat(where, " has a dimension of ", side));
    if (__builtin_mul_overflow(count, side, &count) || count > kMostElements)
      throw Error(ErrorKind::kBadData, StrCat(where, " is of more than ", kMostElements, " elements"));
  }
}

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

void CheckElements(const WireTensor& tensor) {
  const auto found = static_cast<int64_t>(tensor.datatype == "BYTES" ? tensor.texts.size() : tensor.values.size());
  const int64_t wanted = ElementsOf(tensor.shape);
  if (found == wanted) return;
  throw Error(ErrorKind::kBadData, StrCat(InputText(tensor), ": data holds ", found, " values, and its shape ",
                                          SidesText(tensor.shape), " is of ", wanted));
}

void CheckSequenceId(const std::string& id, const std::string& where) {
  constexpr size_t kMostCharacters = 128;
  if (!id.empty() && id.size() <= kMostCharacters) return;
  throw Error(ErrorKind::kBadData, {}, StrCat(where, " names no sequence"),
              StrCat("expected a whole number from 1 or a text of 1 to ", kMostCharacters, " characters"));
}

void CheckOutputFits(const std::string& name, int64_t bytes, const SharedPlace& place) {
  if (bytes <= place.bytes) return;
  throw Error(ErrorKind::kBadData, StrCat("output \"", ShownName(name), "\" has ", bytes,
                                          " bytes, and shared_memory_byte_size is ", place.bytes));
}

void FillFromBytes(std::string_view bytes, std::string_view what, WireTensor& tensor) {
  if (tensor.datatype == "BYTES") {
    while (!bytes.empty()) {
      uint32_t length = 0;
      if (bytes.size() < sizeof(length))
        throw Error(ErrorKind::kBadData, StrCat(InputText(tensor), ": its last element has no length"));
      std::memcpy(&length, bytes.data(), sizeof(length));
      bytes.remove_prefix(sizeof(length));
      if (length > bytes.size()) {
        throw Error(ErrorKind::kBadData,
                    StrCat(InputText(tensor), ": an element of ", length, " bytes, of which ", bytes.size(), " came"));
      }
      if (std::ssize(tensor.texts) == kMostTexts)
        throw Error(ErrorKind::kBadData, StrCat(InputText(tensor), " has more than ", kMostTexts, " elements"));
      tensor.texts.emplace_back(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
    return CheckElements(tensor);
  }
  if (tensor.datatype != "FP32") return;
  const int64_t wanted = ElementsOf(tensor.shape) * static_cast<int64_t>(sizeof(float));
  if (std::ssize(bytes) != wanted) {
    throw Error(ErrorKind::kBadData, StrCat(InputText(tensor), ": ", what, " is ", bytes.size(),
                                            ", and its shape is of ", wanted, " bytes"));
  }
  tensor.values.resize(static_cast<size_t>(ElementsOf(tensor.shape)));
  std::memcpy(tensor.values.data(), bytes.data(), bytes.size());
}

}  // namespace moka
