// Packed files through zlib or another program's stream (packed_stream.h); tar archives in blocks of 512 bytes: ustar
// with GNU's and pax's extensions for long names and large sizes. Headers are checked before anything is believed; only
// regular files come out.
#include "data/files/packed_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "core/unpacking.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 512;
constexpr int64_t kMemberLimit = int64_t{1} << 30U;
constexpr int64_t kNameLimit = 4096;
constexpr int64_t kExtendedLimit = int64_t{1} << 20U;

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

// GNU writes a number that octal digits cannot hold as a big-endian one, the first byte's highest bit set.
int64_t NumberOf(std::string_view field) {
  constexpr uint8_t kBinary = 0x80;
  if ((static_cast<uint8_t>(field[0]) & kBinary) == 0) return Octal(field);
  int64_t value = static_cast<uint8_t>(field[0]) & 0x7FU;
  for (const char c : field.substr(1)) {
    if (value > (INT64_MAX >> 8U)) return -1;
    value = value * 256 + static_cast<uint8_t>(c);
  }
  return value;
}

// The first bytes of a file; none of one that cannot be read, or only once.
std::string BeginOf(const fs::path& path) {
  constexpr int64_t kBytes = 8;
  std::string begin(kBytes, '\0');
  try {
    begin.resize(static_cast<size_t>(OpenFile::ForReading(path).ReadAt(0, begin.data(), kBytes, path)));
  } catch (const Error&) {
    return {};
  }
  return begin;
}

// Archives of other programs, which are not read.
std::string_view UnreadArchiveOf(std::string_view begin) {
  if (begin.starts_with("7z\xBC\xAF")) return ", but a 7z archive";
  if (begin.starts_with("Rar!")) return ", but a RAR archive";
  return "";
}

std::string_view Terminated(std::string_view field) { return field.substr(0, field.find('\0')); }

}  // namespace

void PackedFile::Close::operator()(void* file) const { gzclose_r(static_cast<gzFile>(file)); }

PackedFile::PackedFile(fs::path path) : path_(std::move(path)) {
  if (path_ == kStandardInput) {
    file_.reset(gzopen(path_.c_str(), "rbe"));
  } else if (const std::string_view packer = PackedStream::PackerOf(BeginOf(path_)); !packer.empty()) {
    packed_ = std::make_unique<PackedStream>(path_, packer);
    return;
  } else {
    OpenFile file = OpenFile::ForReading(path_);
    file_.reset(gzdopen(file.fd(), "rb"));
    if (file_) file.Release();
  }
  if (!file_) {
    throw Error(ErrorKind::kNoInput, StrCat("cannot open ", path_.string(), ": ", SystemReason()));
  }
  constexpr unsigned kBuffer = 1U << 17U;
  gzbuffer(static_cast<gzFile>(file_.get()), kBuffer);
}

PackedFile::PackedFile(fs::path path, const FileRange& range)
    : path_(std::move(path)), whole_(OpenFile::ForReading(path_)), rest_(range) {}

int64_t PackedFile::Read(char* data, int64_t bytes) {
  if (whole_) {
    const int64_t got = whole_->ReadAt(rest_.offset, data, std::min(bytes, rest_.bytes), path_);
    rest_ = {rest_.offset + got, rest_.bytes - got};
    return got;
  }
  if (packed_) {
    const int64_t got = packed_->Read(data, bytes);
    packed_offset_ += got;
    CheckUnpackedBytes(path_.native(), packed_->packed_bytes(), packed_offset_, kUnpackByHand);
    return got;
  }
  auto* file = static_cast<gzFile>(file_.get());
  int64_t done = 0;
  while (done < bytes) {
    constexpr int64_t kMost = 1 << 24;  // so that what is unpacked is looked at in between
    const int n = gzread(file, data + done, static_cast<unsigned>(std::min(bytes - done, kMost)));
    int code = Z_OK;
    const char* reason = gzerror(file, &code);
    // A truncated gzip stream reads short with Z_BUF_ERROR, not with a negative count.
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw Error(ErrorKind::kBadData, StrCat(path_.string(), ": damaged or truncated gzip data: ", reason));
    }
    if (n == 0) break;
    done += n;
    const int64_t packed = gzoffset(file);  // negative for a pipe
    if (packed >= 0 && !is_plain()) CheckUnpackedBytes(path_.native(), packed, gztell(file), kUnpackByHand);
  }
  return done;
}

void PackedFile::ReadExactly(char* data, int64_t bytes, std::string_view what) {
  const int64_t got = Read(data, bytes);
  if (got == bytes) return;
  throw Error(ErrorKind::kBadData, StrCat(path_.string(), ": ends inside ", what, " (", got, " of ", bytes, " bytes)"));
}

void PackedFile::Skip(int64_t bytes) {
  if (whole_ && bytes <= rest_.bytes && rest_.offset + bytes <= whole_->bytes()) {
    rest_ = {rest_.offset + bytes, rest_.bytes - bytes};
    return;
  }
  std::array<char, 1 << 16> scratch;  // NOLINT(cppcoreguidelines-pro-type-member-init): only written
  while (bytes > 0) {
    const int64_t part = std::min<int64_t>(bytes, scratch.size());
    ReadExactly(scratch.data(), part, "a member");
    bytes -= part;
  }
}

int64_t PackedFile::offset() const {
  if (whole_) return rest_.offset;
  return packed_ ? packed_offset_ : int64_t{gztell(static_cast<gzFile>(file_.get()))};
}

bool PackedFile::is_plain() const { return whole_ || (!packed_ && gzdirect(static_cast<gzFile>(file_.get())) == 1); }

ArchiveReader::ArchiveReader(const fs::path& path) : file_(path) {
  if (ZipMembers::IsZip(BeginOf(path))) zip_ = std::make_unique<ZipMembers>(path);
}

void ArchiveReader::SetBytes(int64_t bytes) {
  if (bytes < 0 || bytes > kMemberLimit) {
    throw Error(ErrorKind::kBadData,
                StrCat(file_.path().string(), ": a tar member of more than ", BytesText(kMemberLimit)));
  }
  bytes_ = bytes;
  pending_ = (bytes_ + kBlock - 1) / kBlock * kBlock;
}

bool ArchiveReader::ReadHeader(char& type) {
  file_.Skip(pending_);
  pending_ = 0;
  std::array<char, kBlock> block{};
  const int64_t got = file_.Read(block.data(), kBlock);
  if (got == 0) {
    has_end_ = false;
    return false;
  }
  if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
    LookBehindEnd();
    return false;
  }
  const auto field = [&](size_t at, size_t bytes) { return std::string_view(block.data() + at, bytes); };
  int64_t sum = 8 * ' ';  // the checksum's own field counts as blanks
  for (size_t i = 0; i < block.size(); ++i) {
    if (i < 148 || i >= 156) sum += static_cast<uint8_t>(block[i]);
  }
  if (got != kBlock || Octal(field(148, 8)) != sum) {
    throw Error(ErrorKind::kBadData,
                StrCat(file_.path().string(), ": not a tar archive", UnreadArchiveOf({block.data(), block.size()}),
                       ", or damaged (after \"", Printable(name_), "\")"));
  }
  SetBytes(NumberOf(field(124, 12)));
  const std::string_view prefix = field(257, 5) == "ustar" ? Terminated(field(345, 155)) : std::string_view();
  name_ = prefix.empty() ? std::string(Terminated(field(0, 100))) : StrCat(prefix, "/", Terminated(field(0, 100)));
  type = block[156];
  return true;
}

std::string ArchiveReader::ReadLongName() {
  if (bytes_ > kNameLimit)
    throw Error(ErrorKind::kBadData, StrCat(file_.path().string(), ": a tar name of ", bytes_, " bytes"));
  return std::string(Terminated(Read()));
}

// Records of "LENGTH KEYWORD=VALUE\n", the length in decimal digits and of the whole record.
void ArchiveReader::ReadExtended(Extended& extended) {
  const auto fail = [&](std::string_view why) {
    throw Error(ErrorKind::kBadData, StrCat(file_.path().string(), ": an extended tar header ", why));
  };
  if (bytes_ > kExtendedLimit) fail(StrCat("of ", bytes_, " bytes"));
  const std::string text = Read();
  for (std::string_view rest = text; !rest.empty();) {
    int64_t length = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<int64_t>(end - rest.data());
    const bool is_record = code == std::errc() && length > digits + 1 && length <= std::ssize(rest) && *end == ' ' &&
                           rest[static_cast<size_t>(length - 1)] == '\n';
    if (!is_record) fail("that is no list of records");
    const std::string_view record =
        rest.substr(static_cast<size_t>(digits) + 1, static_cast<size_t>(length - digits) - 2);
    rest.remove_prefix(static_cast<size_t>(length));
    const std::string_view key = record.substr(0, record.find('='));
    const std::string_view value = record.substr(std::min(record.size(), key.size() + 1));
    if (key == "path") {
      if (std::ssize(value) > kNameLimit) fail(StrCat("with a name of ", value.size(), " bytes"));
      extended.path = value;
    }
    if (key.starts_with("GNU.sparse.")) extended.is_sparse = true;
    if (key != "size") continue;
    const auto number = std::from_chars(value.data(), value.data() + value.size(), extended.bytes);
    if (number.ec != std::errc() || number.ptr != value.data() + value.size() || extended.bytes < 0)
      fail(StrCat("with a size of \"", Printable(value.substr(0, 40)), "\""));
  }
}

bool ArchiveReader::TakeMember(char type, Extended own) {
  if (own.path.empty()) own.path = global_.path;
  if (own.bytes < 0) own.bytes = global_.bytes;
  if (!long_name_.empty()) name_ = std::exchange(long_name_, {});
  if (!own.path.empty()) name_ = std::move(own.path);
  const bool is_file = type == '0' || type == '\0' || type == '7';     // '7': contiguous, of systems that had such
  if (type == '5' || (is_file && name_.ends_with('/'))) return false;  // a folder; v7 knows them by the slash
  if (is_file && !own.is_sparse) {
    if (own.bytes >= 0) SetBytes(own.bytes);
    return true;
  }
  left_out_.Add(type == '1' || type == '2'                  ? "links"
                : type == '3' || type == '4' || type == '6' ? "devices"
                : type == 'S' || own.is_sparse              ? "sparse files"
                                                            : "members of an unknown kind",
                name_);
  return false;
}

bool ArchiveReader::Next() {
  if (!NextFile()) return false;
  TakeName();
  return true;
}

void ArchiveReader::TakeName() {
  std::string raw = zip_ ? zip_->name() : name_;
  if (zip_ && raw.find('/') == std::string::npos) std::ranges::replace(raw, '\\', '/');
  plain_name_.clear();
  for (const std::string& part : Split(raw, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      throw Error(ErrorKind::kBadData, StrCat(file_.path().string(), ": member \"", Printable(raw),
                                              "\" has .. in its name, expected one without"));
    }
    plain_name_ += StrCat(plain_name_.empty() ? "" : "/", part);
  }
  if (!names_met_.insert(StableHash(plain_name_)).second) repeated_.Add("members of one name", plain_name_);
}

bool ArchiveReader::NextFile() {
  if (zip_) return zip_->Next();
  char type = 0;
  Extended own;
  while (ReadHeader(type)) {
    if (type == 'L') {  // GNU: the next member's name
      long_name_ = ReadLongName();
    } else if (type == 'x' || type == 'X') {  // pax, and Solaris' of before
      ReadExtended(own);
    } else if (type == 'g') {
      ReadExtended(global_);
    } else if (type != 'K' && type != 'V') {  // the target of a long link, an archive's label
      if (TakeMember(type, std::exchange(own, {}))) return true;
    }
  }
  return false;
}

// Two blocks of zeros end an archive, and zeros fill it up to a multiple of 20 blocks. Anything else behind them is
// another archive, which was joined to this one.
void ArchiveReader::LookBehindEnd() {
  constexpr int kMostBlocks = 40;
  std::array<char, kBlock> block{};
  for (int i = 0; i < kMostBlocks; ++i) {
    const int64_t got = file_.Read(block.data(), kBlock);
    if (std::any_of(block.begin(), block.begin() + got, [](char c) { return c != '\0'; })) {
      is_joined_ = true;
      return;
    }
    if (got < kBlock) return;
  }
}

std::vector<std::string> ArchiveReader::Warnings(std::string_view repeated) const {
  std::vector<std::string> warnings;
  const std::string archive = file_.path().string();
  const LeftOut& left_out = zip_ ? zip_->left_out() : left_out_;
  for (const std::string& sentence : left_out.Sentences()) warnings.push_back(StrCat(archive, ": ", sentence));
  for (const std::string& sentence : repeated_.Sentences("met again")) {
    warnings.push_back(StrCat(archive, ": ", sentence, "; ", repeated));
  }
  if (!has_end_) warnings.push_back(StrCat(archive, ": ends without its end mark: it may have been cut"));
  if (is_joined_) warnings.push_back(StrCat(archive, ": what is joined behind its end is not read"));
  return warnings;
}

std::string ArchiveReader::Read() {
  if (bytes() > kFileLimitBytes) {
    throw Error(ErrorKind::kBadData,
                StrCat(file_.path().string(), ": member \"", Printable(name()), "\" has ", BytesText(bytes()),
                       ", more than the limit of ", BytesText(kFileLimitBytes)));
  }
  return ReadPart(bytes());
}

std::string ArchiveReader::ReadPart(int64_t bytes) {
  if (zip_) return zip_->ReadPart(bytes);
  std::string data(static_cast<size_t>(bytes), '\0');
  file_.ReadExactly(data.data(), bytes, StrCat("member \"", Printable(name_), "\""));
  pending_ -= bytes;
  return data;
}

}  // namespace moka
