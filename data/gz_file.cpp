#include "data/gz_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 512;
constexpr int64_t kMemberLimit = int64_t{1} << 30U;

// A number in octal digits, or -1.
int64_t Octal(std::string_view field) {
  int64_t value = 0;
  bool any = false;
  for (const char c : field) {
    if (c == ' ' && !any) continue;
    if (c == '\0' || c == ' ') break;
    if (c < '0' || c > '7') return -1;
    value = value * 8 + (c - '0');  // 12 digits: below 2^36
    any = true;
  }
  return any ? value : -1;
}

std::string_view Terminated(std::string_view field) { return field.substr(0, field.find('\0')); }

}  // namespace

void GzFile::Close::operator()(void* file) const { gzclose_r(static_cast<gzFile>(file)); }

GzFile::GzFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_ != "/dev/stdin" && !fs::is_regular_file(path_, ignored)) {  // which may be a pipe
    throw Error(ErrorKind::kNoInput, StrCat("cannot open ", path_.string(), ": no such regular file"));
  }
  file_.reset(gzopen(path_.c_str(), "rbe"));
  if (!file_) {
    const ErrorKind kind = errno == EACCES ? ErrorKind::kNotAllowed : ErrorKind::kNoInput;
    throw Error(kind,
                StrCat("cannot open ", path_.string(), ": ", std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
  }
  constexpr unsigned kBuffer = 1U << 17U;
  gzbuffer(static_cast<gzFile>(file_.get()), kBuffer);
}

int64_t GzFile::Read(char* data, int64_t bytes) {
  auto* file = static_cast<gzFile>(file_.get());
  int64_t done = 0;
  while (done < bytes) {
    constexpr int64_t kMost = 1 << 30;
    const int n = gzread(file, data + done, static_cast<unsigned>(std::min(bytes - done, kMost)));
    int code = Z_OK;
    const char* reason = gzerror(file, &code);
    // A truncated gzip stream reads short with Z_BUF_ERROR, not with a negative count.
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw Error(ErrorKind::kBadData, StrCat(path_.string(), ": damaged or truncated gzip data: ", reason));
    }
    if (n == 0) break;
    done += n;
  }
  return done;
}

void GzFile::ReadExactly(char* data, int64_t bytes, std::string_view what) {
  const int64_t got = Read(data, bytes);
  if (got == bytes) return;
  throw Error(ErrorKind::kBadData, StrCat(path_.string(), ": ends inside ", what, " (", got, " of ", bytes, " bytes)"));
}

void GzFile::Skip(int64_t bytes) {
  std::array<char, 1 << 16> scratch;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
  while (bytes > 0) {
    const int64_t part = std::min<int64_t>(bytes, scratch.size());
    ReadExactly(scratch.data(), part, "a member");
    bytes -= part;
  }
}

int64_t GzFile::offset() const { return gztell(static_cast<gzFile>(file_.get())); }

bool GzFile::is_plain() const { return gzdirect(static_cast<gzFile>(file_.get())) == 1; }

bool TarReader::ReadHeader(char& type) {
  file_.Skip(pending_);
  pending_ = 0;
  std::array<char, kBlock> block{};
  const int64_t got = file_.Read(block.data(), kBlock);
  if (got == 0 || std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) return false;
  const auto field = [&](size_t at, size_t bytes) { return std::string_view(block.data() + at, bytes); };
  int64_t sum = 8 * ' ';  // the checksum's own field counts as blanks
  for (size_t i = 0; i < block.size(); ++i) {
    if (i < 148 || i >= 156) sum += static_cast<uint8_t>(block[i]);
  }
  if (got != kBlock || Octal(field(148, 8)) != sum) {
    throw Error(ErrorKind::kBadData,
                StrCat(file_.path().string(), ": not a tar archive, or damaged (after \"", Printable(name_), "\")"));
  }
  bytes_ = Octal(field(124, 12));
  if (bytes_ < 0 || bytes_ > kMemberLimit) {
    throw Error(ErrorKind::kBadData,
                StrCat(file_.path().string(), ": a tar member of more than ", BytesText(kMemberLimit)));
  }
  pending_ = (bytes_ + kBlock - 1) / kBlock * kBlock;
  const std::string_view prefix = field(257, 5) == "ustar" ? Terminated(field(345, 155)) : std::string_view();
  name_ = prefix.empty() ? std::string(Terminated(field(0, 100))) : StrCat(prefix, "/", Terminated(field(0, 100)));
  type = block[156];
  return true;
}

std::string TarReader::ReadLongName() {
  constexpr int64_t kNameLimit = 4096;
  if (bytes_ > kNameLimit)
    throw Error(ErrorKind::kBadData, StrCat(file_.path().string(), ": a tar name of ", bytes_, " bytes"));
  return std::string(Terminated(Read()));
}

bool TarReader::Next() {
  char type = 0;
  while (ReadHeader(type)) {
    if (type == 'L') {  // GNU: the next member's name
      long_name_ = ReadLongName();
    } else if (type == '0' || type == '\0') {
      if (!long_name_.empty()) name_ = std::exchange(long_name_, {});
      return true;
    } else {
      long_name_.clear();
    }
  }
  return false;
}

std::string TarReader::Read() {
  std::string data(static_cast<size_t>(bytes_), '\0');
  file_.ReadExactly(data.data(), bytes_, StrCat("member \"", Printable(name_), "\""));
  pending_ -= bytes_;
  return data;
}

}  // namespace moka
