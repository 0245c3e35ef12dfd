// Hashes a small file whole and a large one at some places with its size, a list also by some of the files it names:
// enough to tell sets apart, and quick on a network disk.
#include "tools/train/content_identity.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/records/lmdb_file.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWholeBytes = int64_t{32} << 20;  // read in a few ms
constexpr int64_t kPartBytes = int64_t{64} << 10;
constexpr int64_t kParts = 64;
constexpr int64_t kListBytes = int64_t{16} << 20;
constexpr size_t kNamedFiles = 64;
constexpr int64_t kSampledRecords = 256;

std::string PartAt(const OpenFile& file, int64_t begin, int64_t bytes, const fs::path& path) {
  std::string part(static_cast<size_t>(bytes), '\0');
  part.resize(static_cast<size_t>(file.ReadAt(begin, part.data(), bytes, path)));
  return part;
}

uint64_t HashOfFile(const fs::path& path, int64_t bytes, int64_t parts) {
  const OpenFile file = OpenFile::ForReading(path);
  uint64_t hash = Hash64(std::to_string(bytes));
  if (bytes <= parts * kPartBytes) return Hash64(PartAt(file, 0, bytes, path), hash);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = parts == 1 ? 0 : i * ((bytes - kPartBytes) / (parts - 1));
    hash = Hash64(PartAt(file, begin, kPartBytes, path), hash);
  }
  return hash;
}

// Returns an identity of the files that the lines of a list begin with: of some of them, by their beginnings.
std::string NamedFiles(const fs::path& path, int64_t bytes, const std::string& root) {
  if (bytes > kListBytes) return {};
  const std::string text = ReadFile(path, kListBytes);
  if (text.find('\0') != std::string::npos) return {};
  const std::vector<std::string> lines = Split(text, '\n');
  const size_t step = std::max<size_t>(1, lines.size() / kNamedFiles);
  uint64_t hash = 0;
  int64_t found = 0;
  for (size_t i = 0; i < lines.size(); i += step) {
    const std::string line(Trim(lines[i]));
    // A name may have spaces, and a label may follow it.
    for (const std::string& name : {line, line.substr(0, line.rfind(' ')), line.substr(0, line.find(' '))}) {
      if (name.empty()) continue;
      const fs::path file = fs::path(root + name);
      std::error_code code;
      if (!fs::is_regular_file(file, code)) continue;
      hash = Hash64(std::to_string(HashOfFile(file, static_cast<int64_t>(fs::file_size(file, code)), 1)), hash);
      ++found;
      break;
    }
  }
  return found == 0 ? std::string() : fmt::format("; {} of the files it names, checksum {:016x}", found, hash);
}

std::string Database(const fs::path& folder) {
  const RecordDatabase database(folder);
  uint64_t hash = database.Checksum();
  // A database without checksums of its own: the records' contents are looked at here and there.
  const int64_t step = std::max<int64_t>(1, database.size() / kSampledRecords);
  for (int64_t i = 0; database.reader().checksums().empty() && i < database.size(); i += step) {
    hash = Hash64(database.reader().value(i).substr(0, static_cast<size_t>(kPartBytes)), hash);
  }
  return fmt::format("{} records, checksum {:x}", database.size(), hash);
}

}  // namespace

std::string ContentOf(const fs::path& path, const std::string& root) {
  std::error_code code;
  try {
    if (fs::is_directory(path, code)) {
      return fs::is_regular_file(path / "data.mdb", code) ? Database(path) : std::string("a folder");
    }
    if (!fs::is_regular_file(path, code)) return {};
    if (path.extension() == ".mdb") return Database(path);
    const auto bytes = static_cast<int64_t>(fs::file_size(path, code));
    const int64_t parts = bytes <= kWholeBytes ? kWholeBytes / kPartBytes : kParts;
    return fmt::format("{} bytes, checksum {:016x}{}", bytes, HashOfFile(path, bytes, parts),
                       NamedFiles(path, bytes, root));
  } catch (const Error&) {
    return {};
  }
}

bool IsNeverAFile(std::string_view field) {
  constexpr std::array<std::string_view, 6> kWords = {"name", "type", "top", "bottom", "stage", "not_stage"};
  return std::ranges::find(kWords, field) != kWords.end();
}

std::string RootBeside(const google::protobuf::Message& message, std::string_view field) {
  constexpr const char* kRoot = "root_folder";
  const auto* root = message.GetDescriptor()->FindFieldByName(kRoot);
  if (field == kRoot || root == nullptr || root->is_repeated() ||
      root->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING)
    return {};
  return message.GetReflection()->GetString(message, root);
}

}  // namespace moka
