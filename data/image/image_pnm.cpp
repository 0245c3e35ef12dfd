// Netpbm's pictures: PBM, PGM and PPM (P1 to P6), as text and as bytes, up to 65535 a sample. A header is words between
// blanks and comments ("#" to the line's end); one blank ends it before bytes.
#include <array>
#include <optional>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

constexpr bool IsPnmBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Words of a header, or of samples that are written as text.
class PnmWords {
 public:
  explicit PnmWords(std::string_view file) : file_(file) {}
  size_t at() const { return at_; }
  bool AtEnd() {
    SkipBlanks();
    return at_ == file_.size();
  }
  // A whole number of at most `most`; none where there is something else.
  std::optional<uint32_t> Number(uint32_t most) {
    SkipBlanks();
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9' && value <= most) {
      value = value * 10 + static_cast<uint64_t>(file_[at_++] - '0');
    }
    if (at_ == begin || value > most) return std::nullopt;
    return static_cast<uint32_t>(value);
  }
  // P1's samples need no blanks between them.
  std::optional<uint32_t> Digit() {
    SkipBlanks();
    if (at_ == file_.size() || (file_[at_] != '0' && file_[at_] != '1')) return std::nullopt;
    return static_cast<uint32_t>(file_[at_++] - '0');
  }
  void Skip(size_t bytes) { at_ += bytes; }

 private:
  void SkipBlanks() {
    while (at_ < file_.size() && (IsPnmBlank(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#') at_ = std::min(file_.find('\n', at_), file_.size() - 1);
      ++at_;
    }
  }

  std::string_view file_;
  size_t at_ = 0;
};

struct PnmHeader {
  char kind = 0;  // '1' to '6'
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t most = 1;  // a sample's value at full light
  size_t samples_at = 0;
  bool is_text() const { return kind <= '3'; }
  bool is_bits() const { return kind == '1' || kind == '4'; }
  int64_t channels() const { return kind == '3' || kind == '6' ? 3 : 1; }
};

// None for a header that is cut or says no numbers.
std::optional<PnmHeader> ReadPnmHeader(std::string_view file) {
  constexpr uint32_t kMostSide = INT32_MAX;
  constexpr uint32_t kMostSample = 65535;
  PnmHeader header{.kind = file[1]};
  PnmWords words(file);
  words.Skip(2);
  const std::optional<uint32_t> width = words.Number(kMostSide);
  const std::optional<uint32_t> height = width ? words.Number(kMostSide) : std::nullopt;
  const std::optional<uint32_t> most = !height || header.is_bits() ? std::optional(1U) : words.Number(kMostSample);
  if (!height || !most || *most == 0) return std::nullopt;
  header.width = *width;
  header.height = *height;
  header.most = *most;
  header.samples_at = words.at() + 1;
  return header;
}

// Returns a sample of 0 to `most` as one of 0 to 255, rounded: exact where `most` is 255 or divides it.
uint8_t PnmByte(uint32_t sample, uint32_t most) {
  return static_cast<uint8_t>((std::min(sample, most) * 255U + most / 2) / most);
}

// Writes samples one after the other where they belong: B,G,R of colours.
class PnmSamples {
 public:
  PnmSamples(const PnmHeader& header, Image& out) : header_(header), out_(out) {}
  void Put(uint32_t sample) {
    const uint8_t byte = header_.is_bits() ? (sample == 0 ? 255 : 0) : PnmByte(sample, header_.most);
    const size_t place = out_.channels == 3 ? next_ / 3 * 3 + 2 - next_ % 3 : next_;
    out_.pixels[place] = byte;
    ++next_;
  }
  bool is_whole() const { return next_ == out_.pixels.size(); }
  size_t count() const { return next_; }

 private:
  const PnmHeader& header_;
  Image& out_;
  size_t next_ = 0;
};

// Returns where the samples end.
size_t ReadPnmText(std::string_view file, const PnmHeader& header, PnmSamples& samples) {
  PnmWords words(file);
  words.Skip(header.samples_at);
  while (!samples.is_whole() && !words.AtEnd()) {
    const size_t at = words.at();
    const std::optional<uint32_t> sample = header.is_bits() ? words.Digit() : words.Number(header.most);
    if (!sample) throw CannotDecode("PNM", StrCat("byte ", at, " begins no sample of 0 to ", header.most));
    samples.Put(*sample);
  }
  return words.at();
}

size_t ReadPnmBits(std::string_view file, const PnmHeader& header, PnmSamples& samples) {
  const size_t row_bytes = (size_t{header.width} + 7) / 8;
  for (size_t y = 0; y < header.height; ++y) {
    const size_t row = header.samples_at + y * row_bytes;
    if (row + row_bytes > file.size()) break;
    for (size_t x = 0; x < header.width; ++x) {
      samples.Put(static_cast<uint8_t>(file[row + x / 8]) >> (7 - x % 8) & 1U);
    }
  }
  return header.samples_at + row_bytes * header.height;
}

size_t ReadPnmBytes(std::string_view file, const PnmHeader& header, PnmSamples& samples) {
  const BoundedBytes bytes(file);
  const size_t width = header.most > 255 ? 2 : 1;
  size_t at = header.samples_at;
  for (; !samples.is_whole() && at + width <= file.size(); at += width) {
    const uint32_t sample = bytes.Big(at, static_cast<int>(width));
    if (sample > header.most) {
      throw CannotDecode("PNM",
                         StrCat("byte ", at, " begins a sample of ", sample, ", above the file's ", header.most));
    }
    samples.Put(sample);
  }
  return at;
}

}  // namespace

bool IsPnm(std::string_view file) {
  return file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
         (IsPnmBlank(file[2]) || file[2] == '#');
}

void ReadPnmSize(std::string_view file, ImageHeader& header) {
  const std::optional<PnmHeader> read = ReadPnmHeader(file);
  if (!read) return;
  header.width = read->width;
  header.height = read->height;
}

void DecodePnm(std::string_view file, const ImageHeader& /*header*/, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses) {
  const std::optional<PnmHeader> header = ReadPnmHeader(file);
  if (!header) throw CannotDecode("PNM", "its header is damaged");
  out.Resize(header->width, header->height, header->channels());
  std::ranges::fill(out.pixels, uint8_t{0});
  PnmSamples samples(*header, out);
  const size_t end = header->is_text()   ? ReadPnmText(file, *header, samples)
                     : header->is_bits() ? ReadPnmBits(file, *header, samples)
                                         : ReadPnmBytes(file, *header, samples);
  if (!samples.is_whole() && (damage == DecodeOptions::Damage::kStrict || samples.count() == 0)) {
    throw CannotDecode("PNM", StrCat("the file ends after ", samples.count(), " of ", out.pixels.size(), " samples"));
  }
  if (header->most > 255) Mark(ImageLoss::kDepth, losses);
  if (end < file.size() && IsPnm(Trim(file.substr(end)))) Mark(ImageLoss::kPages, losses);
}

}  // namespace moka
