// Finds the folder by the XDG rules. A file begins with the SHA-256 of its contents, so that a torn or damaged one
// reads as absent, and only files of this user's are read.
#include "core/cache.h"

#include <algorithm>
#include <cstdlib>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kDigest = 64;  // hex digits of SHA-256, first in a file

}  // namespace

std::filesystem::path CacheFolder() {
  // A relative one would be another folder in each working folder; XDG's specification says to ignore it.
  const auto folder_of = [](const char* variable) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
    const std::filesystem::path folder = value == nullptr ? "" : value;
    return folder.is_absolute() ? folder : std::filesystem::path();
  };
  if (const std::filesystem::path cache = folder_of("XDG_CACHE_HOME"); !cache.empty()) return cache / "moka";
  if (const std::filesystem::path home = folder_of("HOME"); !home.empty()) return home / ".cache" / "moka";
  return {};
}

std::optional<std::string> ReadKept(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  try {
    const OpenFile own = OpenFile::ForReadingOwn(file);  // nobody else may have put anything there
    std::string kept(static_cast<size_t>(std::clamp<int64_t>(own.bytes(), 0, kFileLimitBytes)), '\0');
    kept.resize(static_cast<size_t>(own.ReadAt(0, kept.data(), std::ssize(kept), file)));
    std::string bytes = kept.substr(std::min(kept.size(), kDigest));
    if (kept.substr(0, kDigest) == Sha256(bytes)) return bytes;
  } catch (const Error&) {
    // Cannot be read: made again.
  }
  return std::nullopt;
}

void Keep(const std::filesystem::path& file, std::string_view bytes) {
  if (file.empty()) return;
  try {
    CreateFolders(file.parent_path());
    WriteFileAtomically(file, StrCat(Sha256(bytes), bytes));
  } catch (const Error&) {
    // It is made again the next time, no more.
  }
}

}  // namespace moka
