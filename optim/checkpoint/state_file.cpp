// Little-endian sections of (name, length, bytes, CRC-32C); a reader checks each length against the file's end before
// it takes memory.
#include "optim/checkpoint/state_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <type_traits>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::string_view kMagic = "MOKASTAT";
constexpr uint32_t kVersion = 1;

template <class T>
void AppendNumber(std::string& bytes, T value) {
  static_assert(std::is_integral_v<T>);
  std::array<char, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  bytes.append(raw.data(), raw.size());
}

// Takes numbers and bytes from the front of a file, knowing where it stands.
class Cursor {
 public:
  Cursor(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::string_view Take(uint64_t count, std::string_view part) {
    const uint64_t left = bytes_.size() - offset_;
    if (count > left) {
      Fail(part, StrCat("needs ", count, " bytes and only ", left, " are left: the file is cut short or damaged"));
    }
    const std::string_view taken = bytes_.substr(offset_, count);
    offset_ += count;
    return taken;
  }

  template <class T>
  T Number(std::string_view part) {
    T value{};
    std::memcpy(&value, Take(sizeof(T), part).data(), sizeof(T));
    return value;
  }

  std::string_view Since(size_t begin) const { return bytes_.substr(begin, offset_ - begin); }
  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }

  [[noreturn]] void Fail(std::string_view part, std::string_view text) const {
    throw Error(ErrorKind::kBadData, StrCat(file_, ": ", part, " at byte ", offset_, ": ", text));
  }

 private:
  std::string_view bytes_;
  const std::string& file_;
  size_t offset_ = 0;
};

void ReadEnd(Cursor& cursor, uint64_t sections) {
  constexpr std::string_view kPart = "end mark";
  const auto count = cursor.Number<uint64_t>(kPart);
  const uint32_t crc = Crc32c(cursor.Since(0));
  if (cursor.Number<uint32_t>(kPart) != crc) cursor.Fail(kPart, "the checksum of the whole file does not match");
  if (count != sections) cursor.Fail(kPart, StrCat("counts ", count, " sections and there are ", sections));
  if (cursor.left() != 0) cursor.Fail(kPart, StrCat(cursor.left(), " bytes follow the end of the state"));
}

StateSection ReadSection(Cursor& cursor, size_t begin, uint32_t name_bytes, uint64_t number) {
  const std::string head = StrCat("head of section ", number);
  if (name_bytes > kStateNameLimit) cursor.Fail(head, StrCat("a name of ", name_bytes, " bytes is damaged"));
  StateSection section{std::string(cursor.Take(name_bytes, head)), {}};
  const auto body_bytes = cursor.Number<uint64_t>(head);
  const uint32_t crc = Crc32c(cursor.Since(begin));
  if (cursor.Number<uint32_t>(head) != crc) cursor.Fail(head, "its checksum does not match");
  const std::string part = StrCat("section \"", Printable(section.name), "\"");
  section.body = cursor.Take(body_bytes, part);
  const uint32_t body_crc = Crc32c(section.body);
  if (cursor.Number<uint32_t>(part) != body_crc) cursor.Fail(part, "its checksum does not match");
  return section;
}

}  // namespace

StateWriter::StateWriter(AtomicFile& file) : file_(file) {
  std::string head(kMagic);
  AppendNumber(head, kVersion);
  file_.Append(head);
}

void StateWriter::AddSection(std::string_view name, std::string_view body) {
  Require(!name.empty() && name.size() <= kStateNameLimit, "a state section has a name of 1 to 4096 bytes");
  std::string head;
  AppendNumber(head, static_cast<uint32_t>(name.size()));
  head += name;
  AppendNumber(head, static_cast<uint64_t>(body.size()));
  AppendNumber(head, Crc32c(head));
  file_.Append(head);
  file_.Append(body);
  std::string tail;
  AppendNumber(tail, Crc32c(body));
  file_.Append(tail);
  ++sections_;
}

void StateWriter::AddTensor(std::string_view name, const Shape& shape, std::span<const float> values) {
  Require(static_cast<int64_t>(values.size()) == shape.Count(), "a state tensor has as many values as its shape");
  std::string body;
  body.reserve(sizeof(uint32_t) + static_cast<size_t>(shape.rank()) * sizeof(int64_t) + values.size_bytes());
  AppendNumber(body, static_cast<uint32_t>(shape.rank()));
  for (const int64_t dim : shape.dims()) AppendNumber(body, dim);
  body.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  AddSection(name, body);
}

void StateWriter::Finish() {
  std::string end;
  AppendNumber(end, uint32_t{0});
  AppendNumber(end, sections_);
  file_.Append(end);
  std::string crc;
  AppendNumber(crc, file_.crc32c());
  file_.Append(crc);
}

std::vector<StateSection> ReadState(std::string_view bytes, const std::string& file) {
  Cursor cursor(bytes, file);
  if (cursor.Take(kMagic.size(), "header") != kMagic) {
    throw Error(ErrorKind::kBadData, StrCat(file, ": header: this is not the state of a Moka checkpoint"));
  }
  const auto version = cursor.Number<uint32_t>("header");
  if (version != kVersion) {
    throw Error(ErrorKind::kBadData,
                StrCat(file, ": header: format version ", version, ", and this Moka reads version ", kVersion));
  }
  std::vector<StateSection> sections;
  std::set<std::string> names;
  for (;;) {
    const size_t begin = cursor.offset();
    const auto name_bytes = cursor.Number<uint32_t>(StrCat("head of section ", sections.size()));
    if (name_bytes == 0) break;
    sections.push_back(ReadSection(cursor, begin, name_bytes, sections.size()));
    if (!names.insert(sections.back().name).second) {
      cursor.Fail(StrCat("section \"", Printable(sections.back().name), "\""), "there are two of this name");
    }
  }
  ReadEnd(cursor, sections.size());
  return sections;
}

StateTensor TensorOf(const StateSection& section, const std::string& file) {
  const std::string where = StrCat(file, ": section \"", Printable(section.name), "\"");
  Cursor cursor(section.body, where);
  const auto rank = cursor.Number<uint32_t>("rank");
  if (rank > Shape::kMaxRank) cursor.Fail("rank", StrCat("is ", rank, ", more than ", Shape::kMaxRank));
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (uint32_t axis = 0; axis < rank; ++axis) {
    dims.at(axis) = cursor.Number<int64_t>("shape");
    if (dims.at(axis) < 0) cursor.Fail("shape", StrCat("has a dimension of ", dims.at(axis)));
  }
  StateTensor tensor;
  tensor.shape = Shape(std::span<const int64_t>(dims.data(), rank));
  int64_t bytes = 0;
  try {
    bytes = (Size(tensor.shape.Count()) * int64_t{sizeof(float)}).value();
  } catch (const Error&) {
    cursor.Fail("shape", StrCat(tensor.shape.ToString(), " is too large"));
  }
  if (bytes != static_cast<int64_t>(cursor.left())) {
    cursor.Fail("values",
                StrCat("shape ", tensor.shape.ToString(), " needs ", bytes, " bytes and there are ", cursor.left()));
  }
  tensor.values.resize(static_cast<size_t>(tensor.shape.Count()));
  const std::string_view raw = cursor.Take(static_cast<uint64_t>(bytes), "values");
  if (!raw.empty()) std::memcpy(tensor.values.data(), raw.data(), raw.size());
  return tensor;
}

}  // namespace moka
