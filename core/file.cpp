// Writes follow the only order that survives a power cut: temporary file, fsync, read back and compare, rename, fsync
// of the folder (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014). Reads are bounded before memory
// is taken.
#include "core/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "core/checksum.h"
#include "core/error.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostHoles = int64_t{64} << 20;  // a file of fewer bytes may have them

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void RefuseOver(int64_t limit_bytes, const OpenFile& file, const fs::path& path) {
  if (file.bytes() <= limit_bytes) return;
  throw Error(ErrorKind::kBadData, StrCat(path.string(), " has ", BytesText(file.bytes()), ", more than the limit of ",
                                          BytesText(limit_bytes)));
}

// Reading makes memory of holes. File systems that know of none say that all is written.
void RefuseHoles(const OpenFile& file, const fs::path& path) {
  if (file.bytes() <= kMostHoles) return;
  int64_t written = 0;
  for (int64_t end = 0; end < file.bytes();) {
    const int64_t begin = lseek(file.fd(), end, SEEK_DATA);
    if (begin < 0 && errno != ENXIO) return;
    if (begin < 0) break;  // holes to the end
    end = lseek(file.fd(), begin, SEEK_HOLE);
    if (end < 0) return;
    written += end - begin;
  }
  constexpr int64_t kLeastPart = 16;
  if (written >= file.bytes() / kLeastPart) return;
  throw Error(
      ErrorKind::kBadData, {},
      StrCat(path.string(), " has ", BytesText(file.bytes()), ", of which ", BytesText(written), " were ever written"),
      "it was cut off while it was copied: copy it again");
}

// As many bytes as come before the end, at most `bytes`.
int64_t ReadStandardInput(char* data, int64_t bytes) {
  const auto got = static_cast<int64_t>(std::fread(data, 1, static_cast<size_t>(bytes), stdin));
  if (got < bytes && std::ferror(stdin) != 0)
    throw Error(ErrorKind::kNoInput, StrCat("cannot read the standard input: ", SystemReason()));
  return got;
}

}  // namespace

std::string ReadFile(const fs::path& path, int64_t limit_bytes) {
  const OpenFile file = OpenFile::ForReading(path);
  RefuseOver(limit_bytes, file, path);
  RefuseHoles(file, path);
  std::string bytes(static_cast<size_t>(file.bytes()), '\0');
  bytes.resize(static_cast<size_t>(file.ReadAt(0, bytes.data(), file.bytes(), path)));
  return bytes;
}

std::string ReadLinesFile(const fs::path& path, const TextLimits& limits) {
  constexpr int64_t kStep = int64_t{1} << 20;
  std::optional<OpenFile> file;
  if (path != kStandardInput) {
    file = OpenFile::ForReading(path);
    RefuseOver(limits.bytes, *file, path);
  }
  std::string text;
  int64_t line_begin = 0;
  for (int64_t got = kStep; got == kStep;) {
    const auto at = std::ssize(text);
    text.resize(static_cast<size_t>(at + kStep));
    got = file ? file->ReadAt(at, text.data() + at, kStep, path) : ReadStandardInput(text.data() + at, kStep);
    text.resize(static_cast<size_t>(at + got));
    const std::string_view step = std::string_view(text).substr(static_cast<size_t>(at));
    if (step.find('\0') != std::string_view::npos) {
      const auto lines = std::count(text.begin(), text.begin() + at + static_cast<int64_t>(step.find('\0')), '\n');
      throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string(), .line = static_cast<int>(lines) + 1},
                  "expected lines of text, found a zero byte");
    }
    if (std::ssize(text) > limits.bytes) {
      throw Error(ErrorKind::kBadData,
                  StrCat(path.string(), " has more than ", BytesText(limits.bytes), ", the limit for lines of text"));
    }
    const size_t last = step.rfind('\n');
    if (last != std::string_view::npos) line_begin = at + static_cast<int64_t>(last) + 1;
    if (std::ssize(text) - line_begin > limits.line_bytes) {
      throw Error(ErrorKind::kBadData,
                  StrCat(path.string(), " is no list of lines: one has more than ", BytesText(limits.line_bytes)));
    }
  }
  return text;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  CheckReplaceable(path_);
  temporary_ = path_;
  temporary_ += StrCat(".tmp", getpid());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  constexpr mode_t kMode = 0644;
  fd_ = open(temporary_.c_str(), kFlags, kMode);
  if (fd_ < 0 && errno == EEXIST) {  // left by a killed process that had our pid
    unlink(temporary_.c_str());
    fd_ = open(temporary_.c_str(), kFlags, kMode);
  }
  if (fd_ < 0) throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", path_.string(), ": ", SystemReason()));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::Append(std::string_view bytes) { Append(bytes.data(), static_cast<int64_t>(bytes.size())); }

void AtomicFile::Append(const void* data, int64_t bytes) {
  const char* next = static_cast<const char*>(data);
  crc_ = Crc32c(std::string_view(next, static_cast<size_t>(bytes)), crc_);
  bytes_ += bytes;
  while (bytes > 0) {
    const ssize_t n = write(fd_, next, static_cast<size_t>(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(ErrorKind::kIo, StrCat("cannot write ", path_.string(), ": ", SystemReason()));
    next += n;
    bytes -= n;
  }
}

void AtomicFile::Commit() {
  const auto fail = [&](std::string_view step) {
    return Error(ErrorKind::kIo, StrCat("cannot write ", path_.string(), ": ", step, ": ", SystemReason()));
  };
  // After a failed fsync the kernel may have dropped the pages, so there is no second try.
  if (fsync(fd_) != 0) throw fail("fsync");
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) throw fail("close");
  {
    const Descriptor file(open(temporary_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0) throw fail("re-open");
    constexpr int64_t kChunk = int64_t{1} << 20;
    std::string chunk(kChunk, '\0');
    uint32_t crc = 0;
    int64_t bytes = 0;
    for (;;) {
      const int64_t n = ReadAt(file.get(), bytes, chunk.data(), kChunk, temporary_);
      if (n == 0) break;
      crc = Crc32c(std::string_view(chunk.data(), static_cast<size_t>(n)), crc);
      bytes += n;
    }
    if (crc != crc_ || bytes != bytes_) {
      throw Error(ErrorKind::kIo, StrCat("cannot write ", path_.string(), ": what was read back differs"));
    }
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) throw fail("rename");
  temporary_.clear();
  SyncFolder(path_.parent_path().empty() ? fs::path(".") : path_.parent_path());
}

void AtomicFile::Place() {
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw Error(ErrorKind::kIo, StrCat("cannot write ", path_.string(), ": ", SystemReason()));
  }
  temporary_.clear();
}

void WriteFileAtomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Append(bytes);
  file.Commit();
}

void PlaceFile(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Append(bytes);
  file.Place();
}

void CommitFile(const fs::path& temporary, const fs::path& path) {
  const auto fail = [&](std::string_view step) {
    return Error(ErrorKind::kIo, StrCat("cannot write ", path.string(), ": ", step, ": ", SystemReason()));
  };
  {
    const Descriptor file(open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0) throw fail("re-open");
    if (fsync(file.get()) != 0) throw fail("fsync");
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) throw fail("rename");
  SyncFolder(path.parent_path().empty() ? fs::path(".") : path.parent_path());
}

void ReplaceSymlink(const fs::path& link, const fs::path& target) {
  fs::path temporary = link;
  temporary += StrCat(".tmp", getpid());
  unlink(temporary.c_str());
  if (symlink(target.c_str(), temporary.c_str()) != 0 || rename(temporary.c_str(), link.c_str()) != 0) {
    const std::string reason = SystemReason();
    unlink(temporary.c_str());
    throw Error(ErrorKind::kCantCreate, StrCat("cannot point ", link.string(), " at ", target.string(), ": ", reason));
  }
}

void SyncFolder(const fs::path& folder) {
  const Descriptor directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || fsync(directory.get()) != 0) {
    throw Error(ErrorKind::kIo, StrCat("cannot sync folder ", folder.string(), ": ", SystemReason()));
  }
}

void CreateFolders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw Error(ErrorKind::kCantCreate, StrCat("cannot create folder ", folder.string(), ": ", code.message()));
}

std::vector<fs::path> ListFiles(const fs::path& folder, std::string_view suffix) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file(code) && name.ends_with(suffix)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace moka
