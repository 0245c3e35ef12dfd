// Importer of SVMlight's text (LIBSVM's data sets): lines "LABEL INDEX:VALUE ...", where INDEX counts pixels from 1 and
// those that are not named are 0; square grey pictures of 8 bits.
#include <charconv>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct Sample {
  int32_t label = 0;
  std::vector<uint8_t> pixels;
};

// The whole word as a number in [low, high]. Errors: kBadData at the place.
int NumberIn(std::string_view word, int low, int high, const SourcePlace& place) {
  int number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec == std::errc() && read.ptr == word.data() + word.size() && number >= low && number <= high) return number;
  throw Error(ErrorKind::kBadData, place,
              StrCat("expected a whole number from ", low, " to ", high, ", found \"", Printable(word), "\""));
}

Sample ReadSample(std::string_view line, int pixels, const SourcePlace& place) {
  Sample sample{.pixels = std::vector<uint8_t>(static_cast<size_t>(pixels))};
  bool has_label = false;
  for (const std::string& word : Split(line, ' ')) {
    if (word.empty()) continue;
    if (!has_label) {
      sample.label = NumberIn(word, 0, 1000000, place);
      has_label = true;
      continue;
    }
    const size_t colon = word.find(':');
    if (colon == std::string::npos) {
      throw Error(ErrorKind::kBadData, place, StrCat("expected INDEX:VALUE, found \"", Printable(word), "\""));
    }
    const int index = NumberIn(std::string_view(word).substr(0, colon), 1, pixels, place);
    const int value = NumberIn(std::string_view(word).substr(colon + 1), 0, 255, place);
    sample.pixels[static_cast<size_t>(index - 1)] = static_cast<uint8_t>(value);
  }
  return sample;
}

ImportReport ImportSvmlight(const SourceParts& parts, const fs::path& out, const ImportOptions& options) {
  const int side = NumberIn(parts[1], 1, 1024, {});
  const std::string text = ReadFile(parts[0]);
  std::vector<Sample> samples;
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (Trim(line).empty()) continue;
    samples.push_back(ReadSample(Trim(line), side * side, SourcePlace{.file = parts[0], .line = number}));
  }
  const auto count = static_cast<int64_t>(samples.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("svmlight ", parts[0], " ", side),
                       .items = count,
                       .crc32c = Crc32c(text),
                       .bytes = count * side * side,
                       .channels = 1});
  for (const int64_t i : ImportOrder(count, options)) {
    const Sample& sample = samples[static_cast<size_t>(i)];
    ImportItem item{.name = std::to_string(i), .label = sample.label};
    item.draw = [&sample, side](Image& image) { image = ImageFromPlanes(sample.pixels, 1, side, side); };
    writer.Add(std::move(item));
  }
  return writer.Finish({});
}

}  // namespace

SourceKind SvmlightSource() {
  return {.kind = "svmlight",
          .parts = "FILE,SIDE",
          .makes = "SVMlight's lines of pixels",
          .least = 2,
          .most = 2,
          .import = ImportSvmlight};
}

}  // namespace moka
