// The number of elements is known from the shape before anything is allocated, and must be that of the values that are
// there, so that a tensor takes no more memory than a multiple of its bytes in the file.
#include "tools/exchange/import/onnx_tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Type = onnx::TensorProto;

// Several tensors may share values beside the file, but a small file is not read again and again.
constexpr int64_t kMostReadings = 4;

// Bytes of an element in raw data; 0 for what is no number.
int64_t BytesOfType(int type) {
  switch (type) {
    case Type::UINT8:
    case Type::INT8:
    case Type::BOOL: return 1;
    case Type::UINT16:
    case Type::INT16:
    case Type::FLOAT16:
    case Type::BFLOAT16: return 2;
    case Type::FLOAT:
    case Type::INT32:
    case Type::UINT32: return 4;
    case Type::DOUBLE:
    case Type::INT64:
    case Type::UINT64: return 8;
    default: return 0;
  }
}

bool IsFloatType(int type) {
  return type == Type::FLOAT || type == Type::DOUBLE || type == Type::FLOAT16 || type == Type::BFLOAT16;
}

// The type that a written file would have the whole numbers in.
DType StoredType(int type) {
  if (type == Type::UINT8) return DType::kUInt8;
  if (type == Type::INT8) return DType::kInt8;
  return type == Type::INT32 ? DType::kInt32 : DType::kInt64;
}

template <class T>
T At(const char* raw, size_t i) {
  T value;
  std::memcpy(&value, raw + i * sizeof(T), sizeof(T));
  return value;
}

template <class T, class To, class Convert>
void Fill(const std::string& raw, std::vector<To>& values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<To>(convert(At<T>(raw.data(), i)));
}

void FillFloats(int type, const std::string& raw, std::vector<float>& values) {
  const auto same = [](auto value) { return value; };
  if (type == Type::FLOAT) return Fill<float>(raw, values, same);
  if (type == Type::DOUBLE) return Fill<double>(raw, values, same);
  if (type == Type::FLOAT16) return Fill<uint16_t>(raw, values, FloatOfHalf);
  Fill<uint16_t>(raw, values, FloatOfBFloat16);
}

void FillInts(int type, const std::string& raw, Ints& values) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case Type::UINT8: return Fill<uint8_t>(raw, values, same);
    case Type::INT8: return Fill<int8_t>(raw, values, same);
    case Type::BOOL: return Fill<uint8_t>(raw, values, [](uint8_t value) { return value != 0; });
    case Type::UINT16: return Fill<uint16_t>(raw, values, same);
    case Type::INT16: return Fill<int16_t>(raw, values, same);
    case Type::INT32: return Fill<int32_t>(raw, values, same);
    case Type::UINT32: return Fill<uint32_t>(raw, values, same);
    default: return Fill<int64_t>(raw, values, same);  // uint64 too: Read refuses what is above 2^63
  }
}

// Values that are listed in a field of their type.
int64_t ListedCount(const onnx::TensorProto& t) {
  switch (t.data_type()) {
    case Type::FLOAT: return t.float_data_size();
    case Type::DOUBLE: return t.double_data_size();
    case Type::INT64: return t.int64_data_size();
    case Type::UINT32:
    case Type::UINT64: return t.uint64_data_size();
    default: return t.int32_data_size();
  }
}

void CopyListed(const onnx::TensorProto& t, OnnxTensor& out) {
  const auto ints = [&](const auto& list) { out.ints.assign(list.begin(), list.end()); };
  switch (t.data_type()) {
    case Type::FLOAT: out.floats.assign(t.float_data().begin(), t.float_data().end()); return;
    case Type::DOUBLE:
      for (const double value : t.double_data()) out.floats.push_back(static_cast<float>(value));
      return;
    case Type::FLOAT16:
      for (const int32_t bits : t.int32_data()) out.floats.push_back(FloatOfHalf(static_cast<uint16_t>(bits)));
      return;
    case Type::BFLOAT16:
      for (const int32_t bits : t.int32_data()) out.floats.push_back(FloatOfBFloat16(static_cast<uint16_t>(bits)));
      return;
    case Type::INT64: return ints(t.int64_data());
    case Type::UINT32:
    case Type::UINT64: return ints(t.uint64_data());
    default: return ints(t.int32_data());
  }
}

// The first listed number that the tensor's type does not have; empty if it has all.
std::string StrangerIn(const onnx::TensorProto& t) {
  const auto first = [](const auto& list, auto is_one) {
    const auto found = std::ranges::find_if_not(list, is_one);
    return found == list.end() ? std::string() : std::to_string(*found);
  };
  switch (t.data_type()) {
    case Type::UINT8: return first(t.int32_data(), [](int32_t value) { return std::in_range<uint8_t>(value); });
    case Type::INT8: return first(t.int32_data(), [](int32_t value) { return std::in_range<int8_t>(value); });
    case Type::BOOL: return first(t.int32_data(), [](int32_t value) { return value == 0 || value == 1; });
    case Type::INT16: return first(t.int32_data(), [](int32_t value) { return std::in_range<int16_t>(value); });
    case Type::UINT16:
    case Type::FLOAT16:
    case Type::BFLOAT16: return first(t.int32_data(), [](int32_t value) { return std::in_range<uint16_t>(value); });
    case Type::UINT32: return first(t.uint64_data(), [](uint64_t value) { return std::in_range<uint32_t>(value); });
    default: return {};
  }
}

std::optional<int64_t> WholeNumber(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

// Where values lie beside the file.
struct PlaceBeside {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

}  // namespace

std::string OnnxTypeName(int type) {
  static const char* const kNames[] = {"no type", "float32", "uint8",     "int8",       "uint16",  "int16",
                                       "int32",   "int64",   "string",    "bool",       "float16", "float64",
                                       "uint32",  "uint64",  "complex64", "complex128", "bfloat16"};
  return type >= 0 && type < static_cast<int>(std::size(kNames)) ? kNames[type] : StrCat("type ", type);
}

OnnxTensorReader::OnnxTensorReader(std::string file, fs::path folder)
    : file_(std::move(file)), folder_(std::move(folder)) {
  if (folder_.empty()) folder_ = ".";
}

void OnnxTensorReader::Fail(const std::string& name, const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file_}, StrCat("tensor \"", Printable(name), "\" ", what), hint);
}

OnnxTensorReader::Beside& OnnxTensorReader::FileBeside(const std::string& name, const std::string& location) {
  const auto found = beside_.find(location);
  if (found != beside_.end()) return found->second;
  const std::string quoted = StrCat("\"", Printable(location), "\"");
  const fs::path relative(location);
  if (location.empty() || !relative.has_filename() || location.find('\0') != std::string::npos)
    Fail(name, StrCat("lies in the file ", quoted, ", which is no name"));
  if (relative.is_absolute()) Fail(name, StrCat("lies in the file ", quoted, ": only files beside the model are read"));
  if (std::ranges::find(relative, "..") != relative.end())
    Fail(name, StrCat("lies in the file ", quoted, ", which leads out of the model's folder"));
  std::error_code code;
  const fs::path root = fs::canonical(folder_, code);
  const fs::path real = fs::canonical(folder_ / relative, code);
  if (code) {
    throw Error(ErrorKind::kNoInput, SourcePlace{.file = file_},
                StrCat("tensor \"", Printable(name), "\" lies in the file ", quoted, ", which is not beside the model"),
                "copy it there: the model is no use without it");
  }
  if (!IsBelow(real, root)) Fail(name, StrCat("lies in the file ", quoted, ", a link that leads out of the folder"));
  try {
    return beside_.emplace(location, Beside{OpenFile::ForReading(real), real}).first->second;
  } catch (Error& error) {
    error.SetPlace({.file = file_});
    throw;
  }
}

std::string OnnxTensorReader::BytesBeside(const onnx::TensorProto& tensor, const std::string& name, int64_t expected) {
  PlaceBeside place;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") place.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const std::optional<int64_t> number = WholeNumber(entry.value());
    if (!number) Fail(name, StrCat("has the ", entry.key(), " \"", Printable(entry.value()), "\", which is no number"));
    if (entry.key() == "offset") place.offset = *number;
    if (entry.key() == "length") place.length = number;
  }
  Beside& beside = FileBeside(name, place.location);
  const int64_t bytes = beside.file.bytes();
  if (place.length.value_or(expected) != expected)
    Fail(name, StrCat("has ", *place.length, " bytes beside the file, and its shape wants ", expected));
  if (place.offset > bytes || expected > bytes - place.offset) {
    Fail(name, StrCat("lies at byte ", place.offset, " of \"", Printable(place.location), "\" with ", expected,
                      " bytes, but the file has ", bytes));
  }
  beside.read_bytes = (Size(beside.read_bytes) + expected).value();
  if (beside.read_bytes > (Size(bytes) * kMostReadings).value())
    Fail(name, StrCat("and others read \"", Printable(place.location), "\" more than ", kMostReadings, " times over"));
  std::string raw(static_cast<size_t>(expected), '\0');
  if (beside.file.ReadAt(place.offset, raw.data(), expected, beside.path) != expected)
    Fail(name, StrCat("lies in \"", Printable(place.location), "\", which was cut while it was read"));
  return raw;
}

OnnxTensor OnnxTensorReader::Read(onnx::TensorProto& tensor, const std::string& name) {
  OnnxTensor out{.name = name, .dims = Ints(tensor.dims().begin(), tensor.dims().end())};
  if (tensor.has_segment()) Fail(name, "is a part of a tensor, which Moka does not read");
  const int type = tensor.data_type();
  const int64_t size = BytesOfType(type);
  if (size == 0) Fail(name, StrCat("has values of ", OnnxTypeName(type), ", which Moka does not read"));
  if (out.dims.size() > Shape::kMaxRank)
    Fail(name, StrCat("has ", out.dims.size(), " dimensions; the limit is ", Shape::kMaxRank));
  Size count = 1;
  for (const int64_t dim : out.dims) {
    if (dim < 0) Fail(name, StrCat("has a dimension of ", dim));
  }
  int64_t bytes = 0;
  try {
    for (const int64_t dim : out.dims) count = count * dim;
    bytes = (count * size).value();
  } catch (const SizeOverflow&) {
    Fail(name, "has more than 2^63 bytes by its dimensions");
  }
  out.is_whole = !IsFloatType(type);
  out.stored = StoredType(type);
  const bool is_beside = tensor.data_location() == Type::EXTERNAL;
  const int64_t listed = ListedCount(tensor);
  if (!is_beside && !tensor.has_raw_data()) {
    if (listed != count.value()) Fail(name, StrCat("lists ", listed, " values, and its shape wants ", count.value()));
    const std::string stranger = StrangerIn(tensor);
    if (!stranger.empty()) Fail(name, StrCat("lists the value ", stranger, ", which no ", OnnxTypeName(type), " is"));
    CopyListed(tensor, out);
  } else {
    if (listed > 0) Fail(name, "has values in two places");
    if (!is_beside && std::ssize(tensor.raw_data()) != bytes)
      Fail(name, StrCat("has ", tensor.raw_data().size(), " bytes, and its shape wants ", bytes));
    const std::string raw = is_beside ? BytesBeside(tensor, name, bytes) : std::move(*tensor.mutable_raw_data());
    if (out.is_whole) out.ints.resize(static_cast<size_t>(count.value()));
    if (!out.is_whole) out.floats.resize(static_cast<size_t>(count.value()));
    if (out.is_whole) FillInts(type, raw, out.ints);
    if (!out.is_whole) FillFloats(type, raw, out.floats);
  }
  if (type == Type::UINT64 && std::ranges::any_of(out.ints, [](int64_t value) { return value < 0; }))
    Fail(name, "has a value of 2^63 or more, which Moka does not read");
  if (type == Type::DOUBLE) ++rounded_;
  tensor.clear_raw_data();
  return out;
}

}  // namespace moka
