// The header of .npy is parsed by hand, as it is a Python literal of three known keys, and values convert by dtype and
// byte order. Sizes of an archive's members are checked before any is unpacked.
#include "proto/weights/npz.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "core/open_file.h"
#include "core/size.h"
#include "core/text.h"
#include "core/unpacking.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/wide_numbers.h"

namespace moka {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy values are read as they lie in the file");

[[noreturn]] void Fail(const std::string& what, const std::string& text) {
  throw Error(ErrorKind::kBadData, StrCat(what, ": ", text));
}

// The text after `'key': ` in the header's dictionary.
std::string_view FieldOf(std::string_view header, std::string_view key, const std::string& what) {
  const size_t at = header.find(StrCat("'", key, "':"));
  if (at == std::string_view::npos) Fail(what, StrCat("the .npy header has no ", key));
  return Trim(header.substr(at + key.size() + 3));
}

Shape ShapeOf(std::string_view header, const std::string& what) {
  const std::string_view field = FieldOf(header, "shape", what);
  const size_t end = field.find(')');
  if (!field.starts_with("(") || end == std::string_view::npos) Fail(what, "the .npy header's shape is no tuple");
  std::vector<int64_t> dims;
  for (const std::string& part : Split(field.substr(1, end - 1), ',')) {
    const std::string_view digits = Trim(part);
    if (digits.empty()) continue;
    int64_t dim = -1;
    const auto [last, code] = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
    if (code != std::errc() || last != digits.data() + digits.size() || dim < 0 || dims.size() >= Shape::kMaxRank) {
      Fail(what, StrCat("the shape ", Printable(field.substr(0, end + 1)), " is not one of at most ", Shape::kMaxRank,
                        " whole numbers"));
    }
    dims.push_back(dim);
  }
  return Shape(dims);
}

// The bytes of number i, those of the other byte order turned round.
template <class T>
T NumberAt(std::string_view bytes, size_t i, bool is_big_endian) {
  std::array<char, sizeof(T)> number;
  std::memcpy(number.data(), bytes.data() + i * sizeof(T), sizeof(T));
  if (is_big_endian) std::ranges::reverse(number);
  return std::bit_cast<T>(number);
}

// Numbers of types whose every value a float holds.
template <class T>
void ConvertValues(std::string_view bytes, bool is_big_endian, const std::string& /*what*/,
                   std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(NumberAt<T>(bytes, i, is_big_endian));
}

// Numbers of more bits than a float has, as a type of 64 bits.
template <class T, class Wide>
void ConvertWide(std::string_view bytes, bool is_big_endian, const std::string& what, std::vector<float>& values) {
  std::vector<Wide> numbers(values.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = NumberAt<T>(bytes, i, is_big_endian);
  CopyWide(std::span<const Wide>(numbers), what, 0, values);
}

void ConvertHalf(std::string_view bytes, bool is_big_endian, const std::string& /*what*/, std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = FloatOfHalf(NumberAt<uint16_t>(bytes, i, is_big_endian));
}

// A number type as NumPy names it behind the mark of the byte order.
struct NumberType {
  std::string_view name;
  int64_t bytes;
  void (*convert)(std::string_view, bool is_big_endian, const std::string& what, std::vector<float>&);
};

constexpr NumberType kTypes[] = {
    {"f4", 4, ConvertValues<float>},
    {"f8", 8, ConvertWide<double, double>},
    {"f2", 2, ConvertHalf},
    {"i1", 1, ConvertValues<int8_t>},
    {"i2", 2, ConvertValues<int16_t>},
    {"i4", 4, ConvertWide<int32_t, int64_t>},
    {"i8", 8, ConvertWide<int64_t, int64_t>},
    {"u1", 1, ConvertValues<uint8_t>},
    {"u2", 2, ConvertValues<uint16_t>},
    {"u4", 4, ConvertWide<uint32_t, uint64_t>},
    {"u8", 8, ConvertWide<uint64_t, uint64_t>},
    {"b1", 1, ConvertValues<uint8_t>},
};

// "'<f4'" and the like: the byte order is little, big or, of single bytes, none.
bool IsType(std::string_view descr, const NumberType& type) {
  constexpr std::string_view kOrders = "<>|";
  return descr.size() >= 3 + type.name.size() && descr[0] == '\'' && kOrders.find(descr[1]) != std::string_view::npos &&
         descr.substr(2, type.name.size()) == type.name && descr[2 + type.name.size()] == '\'';
}

// Texts and Python objects: notes beside the numbers.
bool HoldsText(std::string_view npy) {
  const std::string_view head = npy.substr(0, 64);
  for (const std::string_view kind : {"'<U", "'|S", "'|O"}) {
    if (head.find(StrCat("'descr': ", kind)) != std::string_view::npos) return true;
  }
  return false;
}

struct ZipCloser {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

// A file without the directory at its end is cut, or no zip archive at all.
[[noreturn]] void FailToOpen(int status, int64_t bytes, const std::string& path) {
  if (status == ZIP_ER_NOZIP || status == ZIP_ER_INCONS) {
    Fail(path, StrCat("not a .npz (it is no zip archive, or is cut short: it has ", bytes,
                      " bytes and no directory at their end)"));
  }
  zip_error_t error;
  zip_error_init_with_code(&error, status);
  const std::string reason = Printable(zip_error_strerror(&error));
  zip_error_fini(&error);
  Fail(path, StrCat("not a .npz (a damaged zip archive: ", reason, ")"));
}

// Checks the size of all members together, as the archive's directory gives it.
void CheckDirectory(zip_t* zip, int64_t bytes, const std::string& path) {
  Size unpacked = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip, static_cast<zip_uint64_t>(i), 0, &stat) != 0) continue;  // told when it is read
    if (stat.size > INT64_MAX / 2) Fail(path, "the sizes that its directory states are no sizes");
    unpacked += static_cast<int64_t>(stat.size);
  }
  CheckUnpackedBytes(path, bytes, unpacked.value());
}

// The size is what the directory claims: memory grows with what is really there.
std::string ReadMember(zip_t* zip, zip_uint64_t index, int64_t bytes, const std::string& what) {
  constexpr int64_t kStepBytes = int64_t{16} << 20;
  const std::unique_ptr<zip_file_t, ZipCloser> file(zip_fopen_index(zip, index, 0));
  if (file == nullptr) Fail(what, Printable(zip_strerror(zip)));
  std::string content;
  for (int64_t have = 0; have < bytes;) {
    content.resize(static_cast<size_t>(std::min(bytes, have + kStepBytes)));
    const zip_int64_t got = zip_fread(file.get(), content.data() + have, content.size() - static_cast<size_t>(have));
    if (got <= 0) Fail(what, StrCat("the zip ends inside it, after ", have, " of ", bytes, " bytes"));
    have += got;
  }
  // The library holds the member to its checksum when it meets the end.
  char more = 0;
  const zip_int64_t got = zip_fread(file.get(), &more, 1);
  if (got != 0) Fail(what, got > 0 ? "it is longer than the zip says" : Printable(zip_file_strerror(file.get())));
  return content;
}

std::map<std::string, NumpyArray> ArraysOf(zip_t* zip, int64_t bytes, const std::string& path) {
  CheckDirectory(zip, bytes, path);
  std::map<std::string, NumpyArray> arrays;
  const zip_int64_t entries = zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    zip_stat_t stat;
    const auto index = static_cast<zip_uint64_t>(i);
    if (zip_stat_index(zip, index, 0, &stat) != 0) Fail(path, Printable(zip_strerror(zip)));
    std::string name = stat.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (IsTorchCounter(name)) continue;
    const std::string what = StrCat(path, ":", Printable(stat.name));
    const std::string content = ReadMember(zip, index, static_cast<int64_t>(stat.size), what);
    if (HoldsText(content)) continue;
    NumpyArray array = ParseNpy(content, what);
    if (!arrays.emplace(name, std::move(array)).second) Fail(what, "the array is there twice");
  }
  return arrays;
}

}  // namespace

NumpyArray ParseNpy(std::string_view bytes, const std::string& what) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  constexpr size_t kFixed = 10;  // magic, version, 2 bytes of length
  if (!bytes.starts_with(kMagic) || bytes.size() < kFixed) Fail(what, "not a .npy: the magic number is missing");
  const bool is_long = bytes[6] >= 2;
  const size_t length_bytes = is_long ? 4 : 2;
  if (bytes.size() < 8 + length_bytes) Fail(what, "the .npy header is cut");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  }
  if (bytes.size() - 8 - length_bytes < length) Fail(what, "the .npy header is cut");
  const std::string_view header = bytes.substr(8 + length_bytes, length);
  if (FieldOf(header, "fortran_order", what).starts_with("True")) {
    Fail(what, "the array is in Fortran order; save it after numpy.ascontiguousarray");
  }
  NumpyArray array{ShapeOf(header, what), {}};
  const std::string_view name = FieldOf(header, "descr", what);
  for (const NumberType& type : kTypes) {
    if (!IsType(name, type)) continue;
    const int64_t count = array.shape.Count();
    const std::string_view data = bytes.substr(8 + length_bytes + length);
    if ((Size(count) * type.bytes).value() != static_cast<int64_t>(data.size())) {
      Fail(what, StrCat("shape ", array.shape.ToString(), " of ", type.name, " needs ",
                        (Size(count) * type.bytes).value(), " bytes and has ", data.size()));
    }
    array.values.resize(static_cast<size_t>(count));
    type.convert(data, name[1] == '>', what, array.values);
    return array;
  }
  Fail(what, StrCat("values of type ", Printable(name.substr(0, name.find(','))), " are not read"));
}

std::map<std::string, NumpyArray> ReadNpz(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, code))) {
    throw Error(ErrorKind::kNoInput, StrCat("no file ", Printable(path.string())));
  }
  OpenFile file = OpenFile::ForReading(path);
  int status = 0;
  const std::unique_ptr<zip_t, ZipCloser> zip(zip_fdopen(file.fd(), 0, &status));
  const int64_t bytes = file.bytes();
  if (zip != nullptr) file.Release();
  if (zip == nullptr) FailToOpen(status, bytes, path.string());
  return ArraysOf(zip.get(), bytes, path.string());
}

std::map<std::string, NumpyArray> NpzFromBytes(std::string_view bytes, const std::string& file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  const std::unique_ptr<zip_t, ZipCloser> zip(source == nullptr ? nullptr
                                                                : zip_open_from_source(source, ZIP_RDONLY, &error));
  const int status = zip_error_code_zip(&error);
  zip_error_fini(&error);
  if (zip == nullptr) {
    zip_source_free(source);
    FailToOpen(status, std::ssize(bytes), file);
  }
  return ArraysOf(zip.get(), std::ssize(bytes), file);
}

}  // namespace moka
