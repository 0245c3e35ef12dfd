// Layout: RIFF "AVI " { LIST hdrl { avih, LIST strl { strh, strf } }, LIST movi { 00dc.. }, idx1 }, all little endian,
// chunks padded to even sizes.
#include "tools/track/avi_file.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kChunkHeadBytes = 8;
constexpr int64_t kIndexEntryBytes = 16;

std::string Bytes(uint32_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8U * static_cast<uint32_t>(i)) & 0xFFU);
  return bytes;
}
std::string Word(int64_t value) { return Bytes(static_cast<uint32_t>(value), 4); }

std::string Chunk(const char* id, const std::string& contents) {
  return StrCat(id, Word(std::ssize(contents)), contents);
}

// Headers of one stream of so many pictures.
std::string HeadersOf(int64_t pictures, double fps, int64_t width, int64_t height, int64_t largest) {
  constexpr int64_t kHasIndex = 0x10;
  constexpr int64_t kScale = 1000;
  const auto micros = static_cast<int64_t>(std::lround(1e6 / fps));
  std::string avih = Word(micros) + Word(0) + Word(0) + Word(kHasIndex) + Word(pictures) + Word(0) + Word(1) +
                     Word(largest) + Word(width) + Word(height);
  for (int i = 0; i < 4; ++i) avih += Word(0);
  const std::string strh = "vidsMJPG" + Word(0) + Word(0) + Word(0) + Word(kScale) +
                           Word(std::max<int64_t>(1, std::lround(fps * kScale))) + Word(0) + Word(pictures) +
                           Word(largest) + Word(-1) + Word(0) + Bytes(0, 4) + Bytes(static_cast<uint32_t>(width), 2) +
                           Bytes(static_cast<uint32_t>(height), 2);
  const std::string strf = Word(40) + Word(width) + Word(height) + Bytes(1, 2) + Bytes(24, 2) + "MJPG" +
                           Word(width * height * 3) + Word(0) + Word(0) + Word(0) + Word(0);
  const std::string strl = Chunk("LIST", "strl" + Chunk("strh", strh) + Chunk("strf", strf));
  return Chunk("LIST", "hdrl" + Chunk("avih", avih) + strl);
}

}  // namespace

double FrameRateOfAvi(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return 0;
  const OpenFile file = OpenFile::ForReading(path);
  constexpr int64_t kHead = 36;
  constexpr size_t kMicros = 32;
  std::string head(kHead, '\0');
  if (file.ReadAt(0, head.data(), kHead, path) != kHead) return 0;
  if (!head.starts_with("RIFF") || head.substr(8, 4) != "AVI " || head.substr(24, 4) != "avih") return 0;
  uint32_t micros = 0;
  for (size_t i = 0; i < 4; ++i) micros |= uint32_t{static_cast<unsigned char>(head[kMicros + i])} << (8U * i);
  return micros == 0 ? 0 : 1e6 / micros;
}

AviWriter::AviWriter(std::filesystem::path file, double fps)
    : file_(std::move(file)), fps_(fps), kept_(std::tmpfile()) {
  if (!kept_) throw Error(ErrorKind::kCantCreate, "cannot make a temporary file for the pictures of a video");
}

bool AviWriter::HasRoom(int64_t bytes) {
  constexpr int64_t kMostBytes = int64_t{2000} << 20;
  if (is_full_) return false;
  if (bytes_ + bytes + kIndexEntryBytes * (std::ssize(sizes_) + 1) <= kMostBytes) return true;
  is_full_ = true;
  LogWarning(StrCat(Printable(file_.string()), " ends with picture ", sizes_.size(), ": an AVI holds at most 2 GiB"));
  return false;
}

void AviWriter::Keep(std::string_view picture) {
  const std::string padding(picture.size() % 2, '\0');
  const int64_t bytes = kChunkHeadBytes + std::ssize(picture) + std::ssize(padding);
  if (!HasRoom(bytes)) return;
  const std::string chunk = StrCat("00dc", Word(std::ssize(picture)), picture, padding);
  if (std::fwrite(chunk.data(), 1, chunk.size(), kept_.get()) != chunk.size()) {
    throw Error(ErrorKind::kIo,
                StrCat("cannot keep the pictures of ", Printable(file_.string()), ": the disk is full"));
  }
  sizes_.push_back(static_cast<uint32_t>(picture.size()));
  bytes_ += bytes;
}

void AviWriter::Add(std::string_view jpeg, int64_t width, int64_t height) {
  width_ = width;
  height_ = height;
  Keep(jpeg);
}

void AviWriter::AddRepeat() { Keep({}); }

void AviWriter::Finish() {
  const auto pictures = std::ssize(sizes_);
  if (pictures == 0) return;  // no player shows a video of none
  const int64_t largest = *std::ranges::max_element(sizes_);
  const std::string headers = HeadersOf(pictures, fps_, width_, height_, largest);
  const int64_t movie = 4 + bytes_;
  const int64_t all = 4 + std::ssize(headers) + kChunkHeadBytes + movie + kChunkHeadBytes + kIndexEntryBytes * pictures;
  AtomicFile out(file_);
  out.Append(StrCat("RIFF", Word(all), "AVI ", headers, "LIST", Word(movie), "movi"));
  std::rewind(kept_.get());
  std::string buffer(size_t{1} << 20U, '\0');
  for (int64_t left = bytes_; left > 0;) {
    const size_t got = std::fread(buffer.data(), 1, buffer.size(), kept_.get());
    if (got == 0)
      throw Error(ErrorKind::kIo, StrCat("cannot read the pictures of ", Printable(file_.string()), " back"));
    out.Append(std::string_view(buffer).substr(0, got));
    left -= static_cast<int64_t>(got);
  }
  constexpr int64_t kKeyPicture = 0x10;
  out.Append(StrCat("idx1", Word(kIndexEntryBytes * pictures)));
  int64_t offset = 4;
  for (const uint32_t size : sizes_) {
    out.Append(StrCat("00dc", Word(kKeyPicture), Word(offset), Word(size)));
    offset += kChunkHeadBytes + size + size % 2;
  }
  out.Place();
}

}  // namespace moka
