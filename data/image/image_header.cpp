// The first bytes of image files: format, size, EXIF orientation. Every read is bounded by the file.
#include <algorithm>
#include <cstdlib>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1A\n";
constexpr std::string_view kExif("Exif\0\0", 6);  // before the block in a JPEG, and in some WebPs

bool IsWebp(std::string_view file) {
  return file.size() >= 30 && file.starts_with("RIFF") && file.substr(8, 4) == "WEBP";
}

struct Segment {
  uint32_t marker = 0;
  size_t begin = 0;  // of the payload
  size_t bytes = 0;
};

// Calls visit(segment) for each marker segment of a JPEG up to the first scan, until it returns true.
template <class Visit>
void VisitSegments(const BoundedBytes& bytes, Visit&& visit) {
  size_t at = 2;
  while (at + 4 <= bytes.size()) {
    if (bytes.At(at) != 0xFF) return;
    const uint32_t marker = bytes.At(at + 1);
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    const bool bare = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (bare) {
      at += 2;
      continue;
    }
    if (marker == 0xD9 || marker == 0xDA) return;  // end, or start of a scan
    const size_t length = bytes.Big(at + 2, 2);
    if (length < 2) return;
    if (visit(Segment{marker, at + 4, length - 2})) return;
    at += 2 + length;
  }
}

void ReadJpegSize(const BoundedBytes& bytes, ImageHeader& header) {
  VisitSegments(bytes, [&](const Segment& s) {
    const bool frame = s.marker >= 0xC0 && s.marker <= 0xCF && s.marker != 0xC4 && s.marker != 0xC8 && s.marker != 0xCC;
    if (!frame) return false;
    header.height = bytes.Big(s.begin + 1, 2);
    header.width = bytes.Big(s.begin + 3, 2);
    return true;
  });
}

void ReadWebpSize(std::string_view file, const BoundedBytes& bytes, ImageHeader& header) {
  const std::string_view chunk = file.substr(12, 4);
  if (chunk == "VP8 ") {
    header.width = bytes.Little(26, 2) & 0x3FFFU;
    header.height = bytes.Little(28, 2) & 0x3FFFU;
  } else if (chunk == "VP8L") {
    const uint32_t bits = bytes.Little(21, 4);
    header.width = (bits & 0x3FFFU) + 1;
    header.height = (bits >> 14U & 0x3FFFU) + 1;
  } else if (chunk == "VP8X") {
    header.width = bytes.Little(24, 3) + 1;
    header.height = bytes.Little(27, 3) + 1;
  }
}

void ReadBmpSize(const BoundedBytes& bytes, ImageHeader& header) {
  if (bytes.Little(14, 4) == 12) {  // OS/2's short header
    header.width = bytes.Little(18, 2);
    header.height = bytes.Little(20, 2);
    return;
  }
  header.width = static_cast<int32_t>(bytes.Little(18, 4));
  header.height = std::abs(int64_t{static_cast<int32_t>(bytes.Little(22, 4))});  // negative: rows from the top
}

[[noreturn]] void ThrowUnknown(std::string_view file) {
  if (file.empty()) throw Error(ErrorKind::kBadData, "the file is empty");
  const std::string_view name = UnreadFormatOf(file);
  throw Error(ErrorKind::kBadData,
              StrCat("not a JPEG, PNG, BMP, WebP, GIF, TIFF or PNM image",
                     name.empty() ? "" : StrCat(" but ", name, ", which is not read"), " (", file.size(),
                     " bytes, the first are \"", Printable(file.substr(0, 8)), "\")"));
}

// Orientation from a TIFF block.
int TiffOrientation(std::string_view tiff) {
  constexpr uint32_t kOrientationTag = 0x0112;
  const uint64_t value = TiffTag(tiff, kOrientationTag);
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

}  // namespace

// A directory is a count and entries: tag, type, count, value. In a big file, offsets and counts have 8 bytes.
uint64_t TiffTag(std::string_view file, uint32_t tag) {
  const BoundedBytes bytes(file);
  const bool is_little = file.starts_with("II");
  if (!is_little && !file.starts_with("MM")) return 0;
  const auto number = [&](size_t i, int count) { return is_little ? bytes.Little(i, count) : bytes.Big(i, count); };
  const auto long_number = [&](size_t i) {
    const uint64_t first = number(i, 4);
    const uint64_t second = number(i + 4, 4);
    return is_little ? second << 32U | first : first << 32U | second;
  };
  constexpr uint32_t kBigVersion = 43;
  const bool is_big = number(2, 2) == kBigVersion;
  const uint64_t directory = is_big ? long_number(8) : number(4, 4);
  if (directory >= file.size()) return 0;
  const size_t entry_bytes = is_big ? 20 : 12;
  const size_t first = directory + (is_big ? 8 : 2);
  const uint64_t count = is_big ? long_number(directory) : number(directory, 2);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t entry = first + i * entry_bytes;
    if (entry + entry_bytes > file.size()) return 0;
    if (number(entry, 2) != tag) continue;
    const size_t value = entry + (is_big ? 12 : 8);
    constexpr uint32_t kShort = 3;
    constexpr uint32_t kLong = 4;
    constexpr uint32_t kLong8 = 16;
    const uint32_t type = number(entry + 2, 2);
    return type == kShort   ? number(value, 2)
           : type == kLong  ? number(value, 4)
           : type == kLong8 ? long_number(value)
                            : bytes.At(value);
  }
  return 0;
}

ImageHeader ReadImageHeader(std::string_view file) {
  using enum ImageHeader::Format;
  const BoundedBytes bytes(file);
  ImageHeader header;
  if (file.starts_with("\xFF\xD8\xFF")) {
    header.format = kJpeg;
    ReadJpegSize(bytes, header);
  } else if (file.starts_with(kPngSignature)) {
    header.format = kPng;
    header.width = bytes.Big(16, 4);
    header.height = bytes.Big(20, 4);
  } else if (file.starts_with("BM")) {
    header.format = kBmp;
    ReadBmpSize(bytes, header);
  } else if (IsWebp(file)) {
    header.format = kWebp;
    ReadWebpSize(file, bytes, header);
  } else if (file.starts_with("GIF87a") || file.starts_with("GIF89a")) {
    header.format = kGif;
    header.width = bytes.Little(6, 2);
    header.height = bytes.Little(8, 2);
  } else if (IsTiff(file)) {
    header.format = kTiff;
    ReadTiffSize(file, header);
  } else if (IsPnm(file)) {
    header.format = kPnm;
    ReadPnmSize(file, header);
  } else {
    ThrowUnknown(file);
  }
  if (header.width <= 0 || header.height <= 0) {
    throw Error(ErrorKind::kBadData,
                StrCat("the image's header gives no size (", header.width, "x", header.height, ")"));
  }
  return header;
}

int ExifOrientation(std::string_view file) {
  const BoundedBytes bytes(file);
  int orientation = 1;
  const auto take = [&](size_t begin, size_t length) {
    if (begin > file.size() || length > file.size() - begin) return;
    std::string_view block = file.substr(begin, length);
    if (block.starts_with(kExif)) block.remove_prefix(kExif.size());
    orientation = TiffOrientation(block);
  };
  if (file.starts_with("\xFF\xD8")) {
    VisitSegments(bytes, [&](const Segment& s) {
      if (s.marker != 0xE1 || !file.substr(s.begin).starts_with(kExif)) return false;
      take(s.begin, s.bytes);
      return true;
    });
  } else if (file.starts_with(kPngSignature)) {
    constexpr size_t kAround = 12;  // length and type before a chunk, a checksum behind it
    for (size_t at = kPngSignature.size(); at + kAround <= file.size(); at += kAround + bytes.Big(at, 4)) {
      if (file.substr(at + 4, 4) == "eXIf") take(at + 8, bytes.Big(at, 4));
    }
  } else if (IsWebp(file) && file.substr(12, 4) == "VP8X") {
    for (size_t at = 12; at + 8 <= file.size();) {
      const size_t length = bytes.Little(at + 4, 4);
      if (file.substr(at, 4) == "EXIF") take(at + 8, length);
      at += 8 + length + length % 2;
    }
  }
  return orientation;
}

// Tags 5..8 swap the axes. The upright pixel (x, y) comes from the stored one below.
void ApplyOrientation(int tag, Image& image) {
  if (tag <= 1 || tag > 8) return;
  Image from;
  std::swap(from, image);
  const bool swaps = SwapsAxes(tag);
  image.Resize(swaps ? from.height : from.width, swaps ? from.width : from.height, from.channels);
  const int64_t w = from.width - 1;
  const int64_t h = from.height - 1;
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      int64_t sx = swaps ? y : x;
      int64_t sy = swaps ? x : y;
      if (tag == 2 || tag == 3 || tag == 7 || tag == 8) sx = w - sx;
      if (tag == 3 || tag == 4 || tag == 6 || tag == 7) sy = h - sy;
      const uint8_t* source = from.pixels.data() + (sy * from.width + sx) * from.channels;
      to = std::copy_n(source, from.channels, to);
    }
  }
}

}  // namespace moka
