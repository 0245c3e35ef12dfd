// Elements are read one after another with their lengths checked against what holds them. Nesting is bounded, and over
// the whole file what compressed elements may unpack to and what values may take: a number of one byte in the file is
// one of eight in memory.
#include "data/files/mat_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kHeaderBytes = 128;
constexpr size_t kMostUnpackedBytes = size_t{64} << 20;
constexpr size_t kMostValueBytes = size_t{128} << 20;
constexpr int kMostNested = 4;
constexpr size_t kMostCells = 1 << 20;

// Types of an element's data.
constexpr uint32_t kInt8 = 1;
constexpr uint32_t kUint8 = 2;
constexpr uint32_t kInt16 = 3;
constexpr uint32_t kUint16 = 4;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kUint32 = 6;
constexpr uint32_t kSingle = 7;
constexpr uint32_t kDouble = 9;
constexpr uint32_t kMatrix = 14;
constexpr uint32_t kCompressed = 15;
constexpr uint32_t kUtf8 = 16;

// Classes of a matrix.
constexpr uint32_t kStructure = 2;
constexpr uint32_t kCharacters = 4;
constexpr uint32_t kFirstNumbers = 6;
constexpr uint32_t kLastNumbers = 15;

struct MatElement {
  uint32_t type = 0;
  std::string_view data;
};

class MatReader {
 public:
  explicit MatReader(const std::string& file) : file_(file) {}

  std::vector<MatValue> Run(std::string_view bytes) {
    // "IM": the two letters of a little-endian file.
    if (bytes.size() < kHeaderBytes || bytes.substr(126, 2) != "IM" ||
        bytes.substr(124, 2) != std::string_view("\0\1", 2))
      Fail("is no MATLAB file of version 5, little endian");
    std::vector<MatValue> values;
    std::string_view rest = bytes.substr(kHeaderBytes);
    while (!rest.empty()) {
      const MatElement element = Next(rest);
      if (element.type == kCompressed) {
        const std::string unpacked = Unpacked(element.data);
        std::string_view inside = unpacked;
        AddVariable(Next(inside), values);
      } else {
        AddVariable(element, values);
      }
    }
    return values;
  }

 private:
  [[noreturn]] void Fail(std::string_view why) const {
    throw Error(ErrorKind::kBadData, StrCat(Printable(file_), ": ", why));
  }

  template <class T>
  static T NumberAt(std::string_view data, size_t i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  // Takes the next element from the front. Short ones have their length and data in the eight bytes of the tag.
  MatElement Next(std::string_view& rest) const {
    if (rest.size() < 8) Fail("ends inside an element");
    const auto first = NumberAt<uint32_t>(rest, 0);
    if (first >> 16U != 0) {
      const size_t bytes = first >> 16U;
      if (bytes > 4) Fail("has a short element of more than 4 bytes");
      const MatElement element{first & 0xFFFFU, rest.substr(4, bytes)};
      rest.remove_prefix(8);
      return element;
    }
    const size_t bytes = NumberAt<uint32_t>(rest, 1);
    if (bytes > rest.size() - 8) Fail("ends inside an element");
    const MatElement element{first, rest.substr(8, bytes)};
    const size_t padded = first == kCompressed ? bytes : (bytes + 7) / 8 * 8;
    rest.remove_prefix(std::min(rest.size(), 8 + padded));
    return element;
  }

  std::string Unpacked(std::string_view packed) {
    std::string bytes;
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) Fail("cannot be unpacked");
    // zlib's field is not const, and what it points at is not written.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    int code = Z_OK;
    while (code == Z_OK && unpacked_bytes_ + bytes.size() <= kMostUnpackedBytes) {
      constexpr size_t kStep = 1 << 18;
      const size_t before = bytes.size();
      bytes.resize(before + kStep);
      stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
      stream.avail_out = kStep;
      code = inflate(&stream, Z_NO_FLUSH);
      bytes.resize(before + kStep - stream.avail_out);
    }
    inflateEnd(&stream);
    unpacked_bytes_ += bytes.size();
    if (unpacked_bytes_ > kMostUnpackedBytes) Fail(StrCat("unpacks to more than ", BytesText(kMostUnpackedBytes)));
    if (code != Z_STREAM_END) Fail("has damaged compressed data");
    return bytes;
  }

  // Books memory of values before it is taken.
  void Take(size_t bytes) {
    value_bytes_ += bytes;
    if (value_bytes_ > kMostValueBytes) Fail(StrCat("has values of more than ", BytesText(kMostValueBytes)));
  }

  void AddVariable(const MatElement& element, std::vector<MatValue>& values) {
    if (element.type == kMatrix) values.push_back(ReadMatrix(element.data, 0));
  }

  std::vector<double> Numbers(const MatElement& element) {
    switch (element.type) {
      case kInt8: return NumbersAs<int8_t>(element.data);
      case kUint8:
      case kUtf8: return NumbersAs<uint8_t>(element.data);
      case kInt16: return NumbersAs<int16_t>(element.data);
      case kUint16: return NumbersAs<uint16_t>(element.data);
      case kInt32: return NumbersAs<int32_t>(element.data);
      case kUint32: return NumbersAs<uint32_t>(element.data);
      case kSingle: return NumbersAs<float>(element.data);
      case kDouble: return NumbersAs<double>(element.data);
      default: Fail(StrCat("has numbers of the unknown type ", element.type));
    }
  }
  template <class T>
  std::vector<double> NumbersAs(std::string_view data) {
    Take(data.size() / sizeof(T) * sizeof(double));
    std::vector<double> numbers;
    numbers.reserve(data.size() / sizeof(T));
    for (size_t i = 0; i < data.size() / sizeof(T); ++i) numbers.push_back(static_cast<double>(NumberAt<T>(data, i)));
    return numbers;
  }

  // Characters beyond ASCII become "?": what is looked for are identifiers and English words.
  std::string Text(const MatElement& element) {
    Take(element.data.size());
    if (element.type == kUtf8 || element.type == kInt8) return std::string(element.data);
    std::string text;
    for (const double code : Numbers(element)) text += code > 0 && code < 128 ? static_cast<char>(code) : '?';
    return text;
  }

  MatValue ReadMatrix(std::string_view rest, int depth) {
    MatValue value;
    Take(sizeof(MatValue));
    if (rest.empty()) return value;  // an empty cell
    if (depth > kMostNested) Fail("nests deeper than lists do");
    const MatElement flags = Next(rest);
    if (flags.type != kUint32 || flags.data.size() != 8) Fail("has a matrix without flags");
    const uint32_t kind = NumberAt<uint32_t>(flags.data, 0) & 0xFFU;
    double elements = 1;
    for (const double dim : Numbers(Next(rest))) elements *= dim;
    value.name = std::string(Next(rest).data);
    if (kind == kStructure) {
      ReadFields(rest, elements, depth, value);
    } else if (kind == kCharacters && !rest.empty()) {
      value.text = Text(Next(rest));
    } else if (kind >= kFirstNumbers && kind <= kLastNumbers && !rest.empty()) {
      value.numbers = Numbers(Next(rest));
    }
    return value;
  }

  void ReadFields(std::string_view rest, double elements, int depth, MatValue& value) {
    const std::vector<double> length = Numbers(Next(rest));
    const std::string_view names = Next(rest).data;
    const auto step = static_cast<size_t>(length.size() == 1 && length[0] >= 1 && length[0] <= 64 ? length[0] : 0);
    if (step == 0 || names.size() % step != 0) Fail("has a structure without names of its fields");
    for (size_t at = 0; at < names.size(); at += step) {
      const std::string_view name = names.substr(at, step);
      value.fields.emplace_back(name.substr(0, name.find('\0')));
    }
    const double cells = elements * static_cast<double>(value.fields.size());
    if (!(cells >= 0 && cells <= static_cast<double>(kMostCells))) Fail("has a structure of too many elements");
    for (auto i = static_cast<int64_t>(cells); i > 0; --i) {
      const MatElement cell = Next(rest);
      if (cell.type != kMatrix) Fail("has a cell that is no matrix");
      value.cells.push_back(ReadMatrix(cell.data, depth + 1));
    }
  }

  const std::string& file_;
  size_t unpacked_bytes_ = 0;  // of all elements so far
  size_t value_bytes_ = 0;
};

}  // namespace

const MatValue& MatValue::At(int64_t element, std::string_view field) const {
  const auto found = std::ranges::find(fields, field);
  if (found == fields.end() || element < 0 || element >= elements())
    throw Error(ErrorKind::kBadData, StrCat("there is no field ", field, " of element ", element));
  return cells[static_cast<size_t>(element) * fields.size() + static_cast<size_t>(found - fields.begin())];
}

std::vector<MatValue> ReadMatFile(std::string_view bytes, const std::string& file) {
  return MatReader(file).Run(bytes);
}

}  // namespace moka
