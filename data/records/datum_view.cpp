// A small reader of the wire format by field numbers. It accepts what protobuf's parser accepts, which a test compares
// on damaged bytes.
#include "data/records/datum_view.h"

#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data/image/image.h"
#include "proto/content.h"

namespace moka {
namespace {

// Field numbers of message Datum, and protobuf's wire types.
enum Field : uint32_t { kChannels = 1, kHeight = 2, kWidth = 3, kData = 4, kLabel = 5, kFloatData = 6, kEncoded = 7 };
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kStartGroup = 3, kEndGroup = 4, kFixed32 = 5 };
constexpr int kMaxGroupDepth = 100;  // protobuf's default recursion limit

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  bool AtEnd() const { return at_ == bytes_.size(); }

  uint64_t Varint() { return VarintOf(10); }
  uint32_t Tag() {
    const auto tag = static_cast<uint32_t>(VarintOf(5));
    if (tag >> 3U == 0) Bad("field number 0");
    return tag;
  }
  std::string_view Bytes() {
    const uint64_t length = VarintOf(5);
    if (length > INT32_MAX) Bad("a length above 2 GiB");
    return Take(length);
  }
  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - at_) Bad("the record ends inside a field");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  // Steps over an unknown field whose tag was read.
  void Skip(uint32_t tag, int depth = 0) {
    switch (tag & 7U) {
      case kVarint: Varint(); return;
      case kFixed64: Take(8); return;
      case kBytes: Bytes(); return;
      case kFixed32: Take(4); return;
      case kStartGroup: {
        if (depth >= kMaxGroupDepth) Bad("groups nested too deep");
        for (;;) {
          const uint32_t inner = Tag();
          if ((inner & 7U) != kEndGroup) {
            Skip(inner, depth + 1);
          } else if (inner >> 3U == tag >> 3U) {
            return;
          } else {
            Bad("a group closed by another field");
          }
        }
      }
      default: Bad("an unknown wire type");
    }
  }

  [[noreturn]] void Bad(std::string_view reason) const {
    throw Error(ErrorKind::kBadData,
                StrCat("not a Datum: ", reason, " at byte ", at_, " of ", bytes_.size(), WhatValueIs(bytes_)));
  }

 private:
  // As protobuf: at most `most` bytes; bits above the type's width are dropped.
  uint64_t VarintOf(int most) {
    uint64_t value = 0;
    for (int i = 0; i < most; ++i) {
      if (AtEnd()) Bad("the record ends inside a number");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= uint64_t{byte & 0x7FU} << (7U * static_cast<unsigned>(i));
      if (byte < 0x80U) return value;
    }
    Bad("a number that is too long");
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

void ReadField(WireReader& reader, uint32_t tag, DatumView& view) {
  constexpr auto tag_of = [](Field field, Wire wire) { return field << 3U | wire; };
  switch (tag) {
    case tag_of(kChannels, kVarint): view.channels = static_cast<int32_t>(reader.Varint()); return;
    case tag_of(kHeight, kVarint): view.height = static_cast<int32_t>(reader.Varint()); return;
    case tag_of(kWidth, kVarint): view.width = static_cast<int32_t>(reader.Varint()); return;
    case tag_of(kLabel, kVarint):
      view.label = static_cast<int32_t>(reader.Varint());
      view.has_label = true;
      return;
    case tag_of(kEncoded, kVarint): view.encoded = reader.Varint() != 0; return;
    case tag_of(kData, kBytes): view.data = reader.Bytes(); return;
    case tag_of(kFloatData, kFixed32):
      reader.Take(4);
      ++view.float_count;
      return;
    case tag_of(kFloatData, kBytes): {
      const std::string_view packed = reader.Bytes();
      if (packed.size() % 4 != 0) reader.Bad("packed floats that are not whole");
      view.float_count += static_cast<int64_t>(packed.size() / 4);
      return;
    }
    default: reader.Skip(tag);
  }
}

// Empty where it is no picture's file. The short marks of BMP and PNM say too little of a value.
std::string_view PictureKindOf(std::string_view value) {
  try {
    switch (ReadImageHeader(value).format) {
      case ImageHeader::Format::kJpeg: return "a JPEG file";
      case ImageHeader::Format::kPng: return "a PNG file";
      case ImageHeader::Format::kWebp: return "a WebP file";
      case ImageHeader::Format::kGif: return "a GIF file";
      case ImageHeader::Format::kTiff: return "a TIFF file";
      default: return {};
    }
  } catch (const Error&) {
    return {};
  }
}

// Returns the kind of contents that their first bytes tell for sure; empty for any other.
std::string_view StoredKindOf(std::string_view value) {
  constexpr size_t kLookedAt = 4096;
  const Content content = RecognizeContent(value.substr(0, kLookedAt));
  switch (content) {
    case Content::kHdf5:
    case Content::kNumpy:
    case Content::kNumpyZip:
    case Content::kPickle:
    case Content::kLfsPointer:
    case Content::kHtml:
    case Content::kZip:
    case Content::kGzip:
    case Content::kImage: return Describe(content);
    default: return {};
  }
}

}  // namespace

std::string WhatValueIs(std::string_view value) {
  using std::string_view_literals::operator""sv;
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {{"\x80\x02"sv, "a Python pickle"},
                                                                      {"\x80\x03"sv, "a Python pickle"},
                                                                      {"\x80\x04\x95"sv, "a Python pickle"},
                                                                      {"\x80\x05\x95"sv, "a Python pickle"},
                                                                      {"{\""sv, "JSON"}};
  std::string_view found;
  for (const auto& [begin, kind] : kKinds) {
    if (value.starts_with(begin)) found = kind;
  }
  if (found.empty()) found = PictureKindOf(value);
  if (found.empty()) found = StoredKindOf(value);
  if (found.empty()) found = UnreadFormatOf(value);
  return found.empty() ? std::string() : StrCat("; the value is ", found, ", and no record of Caffe or Moka");
}

DatumView ParseDatum(std::string_view wire) {
  DatumView view;
  view.wire = wire;
  WireReader reader(wire);
  while (!reader.AtEnd()) ReadField(reader, reader.Tag(), view);
  return view;
}

int64_t DatumView::Count() const {
  if (channels < 0 || height < 0 || width < 0) return -1;
  const int64_t plane = int64_t{height} * width;  // below 2^62
  if (plane > INT32_MAX) return -1;
  const int64_t count = plane * channels;
  return count > INT32_MAX ? -1 : count;
}

void DatumView::CopyFloats(std::span<float> out) const {
  Require(static_cast<int64_t>(out.size()) == float_count, "CopyFloats: out holds float_count floats");
  WireReader reader(wire);
  size_t next = 0;
  while (!reader.AtEnd()) {
    const uint32_t tag = reader.Tag();
    if (tag == (kFloatData << 3U | kFixed32)) {
      std::memcpy(&out[next++], reader.Take(4).data(), 4);
    } else if (tag == (kFloatData << 3U | kBytes)) {
      const std::string_view packed = reader.Bytes();
      if (!packed.empty()) std::memcpy(&out[next], packed.data(), packed.size());
      next += packed.size() / 4;
    } else {
      reader.Skip(tag);
    }
  }
}

}  // namespace moka
