// A SAX reader keeps the header's names and ranges without a tree; ranges must cover the data without gaps or overlaps,
// as the format demands. Values convert by dtype straight from the mapped file.
#include "proto/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/half.h"
#include "core/size.h"
#include "core/text.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/wide_numbers.h"

namespace moka {
namespace {

constexpr uint64_t kHeaderLimitBytes = 100'000'000;
constexpr size_t kTensorLimit = 100'000;  // and texts of the metadata
constexpr size_t kPrefixBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct Entry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Reads the header event by event: no tree is built, nesting is at most three, and a repeated key is seen.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool null() override { return Stop("null"); }
  bool boolean(bool /*value*/) override { return Stop("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return Stop("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return Stop("a number with a fraction");
  }
  bool binary(binary_t& /*value*/) override { return Stop("binary data"); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    if (problem.empty()) problem = StrCat("the header is not JSON, at its byte ", position);
    return false;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) return Stop("a number");
    Entry& entry = entries.back();
    if (key_ == "data_offsets") {
      entry.offsets.push_back(value);
      return entry.offsets.size() <= 2 || Stop("more than two offsets");
    }
    if (value > static_cast<uint64_t>(INT64_MAX)) return Stop("a dimension beyond 2^63");
    entry.shape.push_back(static_cast<int64_t>(value));
    return entry.shape.size() <= static_cast<size_t>(Shape::kMaxRank) || Stop("more than 8 dimensions");
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_ && !in_list_) {
      metadata[key_] = value;
      return true;
    }
    if (depth_ != 2 || in_list_ || key_ != "dtype") return Stop("a text");
    entries.back().dtype = value;
    return true;
  }

  bool start_object(size_t /*count*/) override {
    if (depth_ == 2 || in_list_) return Stop("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    const bool was_metadata = std::exchange(in_metadata_, false);
    if (was_metadata) return true;
    const Entry& entry = entries.back();
    if (entry.has_dtype && entry.has_shape && entry.has_offsets && entry.offsets.size() == 2) return true;
    return Fail(StrCat("tensor \"", Printable(entry.name), "\" lacks dtype, shape or two data_offsets"));
  }

  bool start_array(size_t /*count*/) override {
    if (depth_ != 2 || in_metadata_ || in_list_ || (key_ != "shape" && key_ != "data_offsets")) return Stop("a list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }

  bool key(string_t& name) override {
    key_ = name;
    if (depth_ == 1) return TopKey(name);
    if (in_metadata_ && metadata.size() == kTensorLimit)
      return Fail(StrCat("more than ", kTensorLimit, " texts of metadata"));
    if (in_metadata_)
      return metadata.emplace(name, "").second || Fail(StrCat("metadata key \"", Printable(name), "\" is given twice"));
    Entry& entry = entries.back();
    bool* seen = name == "dtype"          ? &entry.has_dtype
                 : name == "shape"        ? &entry.has_shape
                 : name == "data_offsets" ? &entry.has_offsets
                                          : nullptr;
    if (seen == nullptr)
      return Fail(StrCat("tensor \"", Printable(entry.name), "\" has an unknown key \"", Printable(name), "\""));
    if (std::exchange(*seen, true))
      return Fail(StrCat("tensor \"", Printable(entry.name), "\" has two keys \"", name, "\""));
    return true;
  }

 private:
  bool TopKey(const std::string& name) {
    if (!names_.insert(name).second) return Fail(StrCat("the name \"", Printable(name), "\" is given twice"));
    if (name == kMetadata) {
      in_metadata_ = true;
      return true;
    }
    if (entries.size() == kTensorLimit) return Fail(StrCat("more than ", kTensorLimit, " tensors"));
    entries.emplace_back().name = name;
    return true;
  }
  bool Fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }
  bool Stop(std::string_view found) {
    return Fail(StrCat("the header holds ", found, " at key \"", Printable(key_), "\", where none belongs"));
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  bool in_list_ = false;
  std::string key_;
  std::set<std::string> names_;
};

// Bytes of one value; empty for a dtype the format does not know.
std::optional<uint64_t> DtypeBytes(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kDtypes{{
      {"BOOL", 1},
      {"U8", 1},
      {"I8", 1},
      {"F8_E5M2", 1},
      {"F8_E4M3", 1},
      {"I16", 2},
      {"U16", 2},
      {"F16", 2},
      {"BF16", 2},
      {"I32", 4},
      {"U32", 4},
      {"F32", 4},
      {"F64", 8},
      {"I64", 8},
      {"U64", 8},
  }};
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

template <class T>
T LoadNumberAt(std::string_view data, size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Requires: data holds values.size() values of the dtype. False for dtypes that are no weights. Errors: kBadData for a
// number beyond all floats, with `what`.
bool ConvertValues(std::string_view dtype, std::string_view data, const std::string& what, std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little, "the format is little endian");
  if (dtype == "F32") {
    if (!values.empty()) std::memcpy(values.data(), data.data(), data.size());
    return true;
  }
  if (dtype == "F64") {
    std::vector<double> numbers(values.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = LoadNumberAt<double>(data, i);
    CopyWide(std::span<const double>(numbers), what, 0, values);
    return true;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == "F16") {
      values[i] = FloatOfHalf(LoadNumberAt<uint16_t>(data, i));
    } else if (dtype == "BF16") {
      values[i] = FloatOfBFloat16(LoadNumberAt<uint16_t>(data, i));
    } else {
      return false;
    }
  }
  return dtype == "F16" || dtype == "BF16";
}

class SafetensorsReader {
 public:
  SafetensorsReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Weights Run() {
    HeaderReader header = ReadHeader();
    CheckSpans(header.entries);
    Weights weights;
    weights.format = "safetensors";
    weights.metadata = std::move(header.metadata);
    for (const Entry& entry : header.entries) {
      if (!IsTorchCounter(entry.name)) weights.blobs.push_back(ReadTensor(entry));
    }
    return weights;
  }

 private:
  [[noreturn]] void Fail(std::string text) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file_}, std::move(text));
  }

  HeaderReader ReadHeader() {
    if (bytes_.size() < kPrefixBytes)
      Fail(StrCat("expected a safetensors file, but it has only ", bytes_.size(), " bytes"));
    const auto length = LoadNumberAt<uint64_t>(bytes_, 0);
    if (length > kHeaderLimitBytes)
      Fail(StrCat("the header claims ", length, " bytes, at most ", kHeaderLimitBytes, " are allowed"));
    if (length > bytes_.size() - kPrefixBytes) {
      Fail(StrCat("the file is cut short: the header claims ", length, " bytes but ", bytes_.size() - kPrefixBytes,
                  " are left"));
    }
    const std::string_view text = bytes_.substr(kPrefixBytes, static_cast<size_t>(length));
    if (!text.starts_with('{')) Fail("the header does not begin with \"{\"");
    HeaderReader header;
    const bool read = nlohmann::json::sax_parse(text.begin(), text.end(), &header);
    if (!read || !header.problem.empty()) Fail(header.problem.empty() ? "the header is not JSON" : header.problem);
    data_ = bytes_.substr(kPrefixBytes + static_cast<size_t>(length));
    return header;
  }

  // Sorted by offset, tensors follow each other exactly, from 0 to the end of the file.
  void CheckSpans(const std::vector<Entry>& entries) const {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries) {
      CheckSpan(entry);
      order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
    uint64_t end = 0;
    for (const Entry* entry : order) {
      if (entry->offsets[0] != end) {
        Fail(StrCat("tensor \"", Printable(entry->name), "\" begins at ", entry->offsets[0],
                    " but the one before it ends at ", end,
                    entry->offsets[0] < end ? ": they overlap" : ": there is a hole"));
      }
      end = entry->offsets[1];
    }
    if (end != data_.size()) Fail(StrCat("tensors end at byte ", end, " of ", data_.size(), " bytes of values"));
  }

  void CheckSpan(const Entry& entry) const {
    const std::string name = StrCat("tensor \"", Printable(entry.name), "\"");
    const std::optional<uint64_t> size = DtypeBytes(entry.dtype);
    if (!size) Fail(StrCat(name, " has the unknown dtype \"", Printable(entry.dtype), "\""));
    const uint64_t begin = entry.offsets[0];
    const uint64_t end = entry.offsets[1];
    if (begin > end || end > data_.size()) {
      Fail(StrCat(name, " lies at bytes ", begin, " to ", end, " of ", data_.size(),
                  end > data_.size() ? " (the file is cut short)" : ""));
    }
    Size count = static_cast<int64_t>(*size);
    try {
      // Zeros first: a dimension 0 makes any shape empty, whatever the others are.
      if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) count = 0;
      for (const int64_t dim : entry.shape) count *= dim == 0 || count == Size(0) ? Size(0) : Size(dim);
    } catch (const Error& error) {
      Fail(StrCat(name, ": ", error.text()));
    }
    if (count.value() != static_cast<int64_t>(end - begin)) {
      Fail(StrCat(name, " has shape ", Shape(entry.shape).ToString(), " of ", entry.dtype, ", ", count.value(),
                  " bytes, but spans ", end - begin));
    }
  }

  NamedBlob ReadTensor(const Entry& entry) const {
    NamedBlob blob;
    SplitBlobName(entry.name, blob);
    blob.shape = Shape(entry.shape);
    const std::string_view data =
        data_.substr(static_cast<size_t>(entry.offsets[0]), static_cast<size_t>(entry.offsets[1] - entry.offsets[0]));
    blob.values.resize(data.size() / static_cast<size_t>(*DtypeBytes(entry.dtype)));
    if (!ConvertValues(entry.dtype, data, StrCat("tensor \"", Printable(entry.name), "\""), blob.values)) {
      Fail(StrCat("tensor \"", Printable(entry.name), "\" has dtype ", entry.dtype,
                  "; weights are F32, F64, F16 or BF16"));
    }
    return blob;
  }

  std::string_view bytes_;
  const std::string& file_;
  std::string_view data_;
};

}  // namespace

Weights ReadSafetensors(std::string_view bytes, const std::string& file) {
  return SafetensorsReader(bytes, file).Run();
}

namespace {

constexpr float kLargestHalf = 65504;

bool StandsAsHalf(const NamedBlob& blob, StoredNumbers numbers) {
  if (numbers == StoredNumbers::kFloat32 || blob.shape.rank() < 2) return false;
  return std::ranges::all_of(blob.values, [](float value) { return std::abs(value) <= kLargestHalf; });
}

int64_t BytesOf(const NamedBlob& blob, bool is_half) {
  return (Size(std::ssize(blob.values)) * static_cast<int64_t>(is_half ? sizeof(uint16_t) : sizeof(float))).value();
}

std::vector<uint16_t> HalvesOf(const NamedBlob& blob) {
  std::vector<uint16_t> halves(blob.values.size());
  std::ranges::transform(blob.values, halves.begin(), HalfOfFloat);
  return halves;
}

}  // namespace

void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata, StoredNumbers numbers) {
  WriteSafetensors(path, BlobNames(blobs), blobs, metadata, numbers);
}

void WriteSafetensors(const std::filesystem::path& path, std::span<const std::string> tensors,
                      std::span<const NamedBlob> blobs, const std::map<std::string, std::string>& metadata,
                      StoredNumbers numbers) {
  Require(tensors.size() == blobs.size(), "WriteSafetensors: a name a blob");
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  // Wider numbers come first, so that each tensor begins at a multiple of its numbers' size.
  std::vector<bool> are_half;
  for (const NamedBlob& blob : blobs) are_half.push_back(StandsAsHalf(blob, numbers));
  std::vector<size_t> order(blobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return static_cast<bool>(are_half[i]); });
  std::vector<int64_t> begins(blobs.size());
  Size offset = 0;
  for (const size_t i : order) {
    begins[i] = offset.value();
    offset += BytesOf(blobs[i], are_half[i]);
  }
  std::set<std::string> names;
  for (size_t i = 0; i < blobs.size(); ++i) {
    const NamedBlob& blob = blobs[i];
    const std::string& name = tensors[i];
    if (!names.insert(name).second) throw Error(ErrorKind::kBadData, StrCat("two blobs are named \"", name, "\""));
    Require(blob.shape.Count() == static_cast<int64_t>(blob.values.size()),
            "WriteSafetensors: a blob's values fill its shape");
    header[name] = {{"dtype", are_half[i] ? "F16" : "F32"},
                    {"shape", std::vector<int64_t>(blob.shape.dims().begin(), blob.shape.dims().end())},
                    {"data_offsets", {begins[i], begins[i] + BytesOf(blob, are_half[i])}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::kBadData, SourcePlace{}, "a layer's name or the metadata is not valid UTF-8",
                "safetensors cannot store it");
  }
  // Spaces align the values to 8 bytes.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.Append(&length, sizeof length);
  file.Append(text);
  for (const size_t i : order) {
    const int64_t bytes = BytesOf(blobs[i], are_half[i]);
    are_half[i] ? file.Append(HalvesOf(blobs[i]).data(), bytes) : file.Append(blobs[i].values.data(), bytes);
  }
  file.Commit();
}

}  // namespace moka
