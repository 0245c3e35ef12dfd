// Importers of ready pixels: idx, CIFAR, glyphs.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/size.h"
#include "core/text.h"
#include "data/files/left_out.h"
#include "data/files/packed_file.h"
#include "data/import/glyphs.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIdxLimit = int64_t{1} << 31U;  // bytes

// An idx file of bytes: two zeros, type 8 (unsigned byte), the rank, big-endian dimensions, the values.
struct IdxFile {
  std::unique_ptr<PackedFile> file;  // behind its header, until its values are read
  std::vector<int64_t> dims;
  std::vector<uint8_t> values = {};
};

std::vector<std::string> Texts(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const int64_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

std::string_view TextOf(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> PathTexts(const std::vector<fs::path>& paths) {
  std::vector<std::string> texts;
  for (const fs::path& path : paths) texts.push_back(path.string());
  return texts;
}

IdxFile OpenIdx(const fs::path& path, int rank) {
  IdxFile idx{.file = std::make_unique<PackedFile>(path), .dims = {}};
  PackedFile& file = *idx.file;
  const auto number = [&] {
    std::array<char, 4> b{};
    file.ReadExactly(b.data(), 4, "the idx header");
    int64_t value = 0;
    for (const char c : b) value = value << 8U | static_cast<uint8_t>(c);
    return value;
  };
  const int64_t magic = number();
  if (magic != (0x800 | rank)) {
    throw Error(ErrorKind::kBadData,
                StrCat(path.string(), ": not an idx file of bytes with ", rank, " dimensions (its magic number is ",
                       magic, ", expected ", 0x800 | rank, ")"));
  }
  Size count = 1;
  idx.dims.reserve(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    idx.dims.push_back(number());
    count *= idx.dims.back();
    if (count >= 1 && count <= kIdxLimit) continue;
    throw Error(ErrorKind::kBadData, StrCat(path.string(), ": claims ", Join(Texts(idx.dims), " x "),
                                            " values, expected 1 to ", kIdxLimit, " in all"));
  }
  return idx;
}

void ReadIdxValues(IdxFile& idx) {
  PackedFile& file = *idx.file;
  Size count = 1;
  for (const int64_t dim : idx.dims) count *= dim;
  // In steps: a lying header must not make us reserve what the file does not hold.
  constexpr int64_t kStep = int64_t{1} << 22U;
  for (int64_t done = 0; done < count.value();) {
    const int64_t step = std::min(kStep, count.value() - done);
    idx.values.resize(static_cast<size_t>(done + step));
    file.ReadExactly(reinterpret_cast<char*>(idx.values.data()) + done, step, "the idx values");
    done += step;
  }
  char extra = 0;
  if (file.Read(&extra, 1) != 0)
    throw Error(ErrorKind::kBadData, StrCat(file.path().string(), ": has bytes after its values"));
}

}  // namespace

ImportReport ImportIdx(const fs::path& images, const fs::path& labels, const fs::path& out,
                       const ImportOptions& options) {
  IdxFile pixels = OpenIdx(images, 3);
  const auto check = [&](const IdxFile& classes) {
    if (pixels.dims[0] == classes.dims[0]) return;
    throw Error(ErrorKind::kBadData, StrCat(images.string(), " has ", pixels.dims[0], " images, ", labels.string(), " ",
                                            classes.dims[0], " labels"));
  };
  // Before much memory is taken for what the header claims.
  if (pixels.dims[0] * pixels.dims[1] * pixels.dims[2] > kFileLimitBytes) check(OpenIdx(labels, 1));
  ReadIdxValues(pixels);
  IdxFile classes = OpenIdx(labels, 1);
  check(classes);
  ReadIdxValues(classes);
  const int64_t height = pixels.dims[1];
  const int64_t width = pixels.dims[2];
  const int64_t count = pixels.dims[0];
  const uint32_t crc = Crc32c(TextOf(classes.values), Crc32c(TextOf(pixels.values)));
  RecordWriter writer(out, options,
                      {.text = StrCat("idx ", images.string(), " ", labels.string()),
                       .items = count,
                       .crc32c = crc,
                       .bytes = count * height * width,
                       .channels = 1});
  for (const int64_t i : ImportOrder(count, options)) {
    ImportItem item{.name = std::to_string(i), .label = classes.values[static_cast<size_t>(i)]};
    const std::span<const uint8_t> plane(pixels.values.data() + i * height * width,
                                         static_cast<size_t>(height * width));
    item.draw = [=](Image& image) { image = ImageFromPlanes(plane, 1, height, width); };
    writer.Add(std::move(item));
  }
  return writer.Finish({});
}

ImportReport ImportCifar(const std::vector<fs::path>& batches, CifarKind kind, const fs::path& out,
                         const ImportOptions& options) {
  constexpr int64_t kSide = 32;
  constexpr int64_t kPlane = kSide * kSide;
  const int64_t label_bytes = kind == CifarKind::kTen ? 1 : 2;
  const int64_t record_bytes = label_bytes + 3 * kPlane;
  std::string all;
  std::set<fs::path> named;
  LeftOut repeated;
  for (const fs::path& path : batches) {
    if (!named.insert(path).second) repeated.Add("files that were named before", path.string());
    PackedFile file(path);
    const size_t before = all.size();
    std::string record(static_cast<size_t>(record_bytes), '\0');
    for (;;) {
      const int64_t got = file.Read(record.data(), record_bytes);
      if (got == 0) break;
      if (got < record_bytes) {
        throw Error(ErrorKind::kBadData, StrCat(path.string(), ": not a whole number of ", record_bytes,
                                                "-byte records (", got, " bytes too many)"));
      }
      all += record;
    }
    if (all.size() == before) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  }
  const int64_t count = static_cast<int64_t>(all.size()) / record_bytes;
  const int classes = kind == CifarKind::kTen ? 10 : 100;
  RecordWriter writer(out, options,
                      {.text = StrCat("cifar", classes, " ", Join(PathTexts(batches), ",")),
                       .items = count,
                       .crc32c = Crc32c(all),
                       .bytes = count * 3 * kPlane});
  for (const int64_t i : ImportOrder(count, options)) {
    const auto* record = reinterpret_cast<const uint8_t*>(all.data()) + i * record_bytes;
    const int32_t label = record[label_bytes - 1];
    if (label >= classes) {
      throw Error(ErrorKind::kBadData, StrCat("CIFAR record ", i, " has label ", label, ", expected below ", classes));
    }
    ImportItem item{.name = std::to_string(i), .label = label};
    item.draw = [source = record + label_bytes](Image& image) {
      std::array<uint8_t, static_cast<size_t>(3 * kPlane)> planes{};
      for (int64_t c = 0; c < 3; ++c) {  // the file has R, G, B
        std::copy_n(source + (2 - c) * kPlane, kPlane, planes.begin() + c * kPlane);
      }
      image = ImageFromPlanes(planes, 3, kSide, kSide);
    };
    writer.Add(std::move(item));
  }
  ImportReport report = writer.Finish({});
  for (std::string& sentence : repeated.Sentences("read again")) report.warnings.push_back(std::move(sentence));
  return report;
}

ImportReport ImportGlyphs(int64_t count, uint64_t seed, const fs::path& out, const ImportOptions& options) {
  constexpr int64_t kMaxGlyphs = 10000000;
  if (count < 1 || count > kMaxGlyphs) {
    throw Error(ErrorKind::kUsage, StrCat("cannot draw ", count, " glyphs, expected 1..", kMaxGlyphs));
  }
  RecordWriter writer(out, options,
                      {.text = StrCat("glyphs ", count, " ", seed),
                       .items = count,
                       .bytes = count * kGlyphSide * kGlyphSide,
                       .channels = 1});
  for (const int64_t i : ImportOrder(count, options)) {
    const auto index = static_cast<uint64_t>(i);
    const int digit = GlyphDigit(seed, index);
    ImportItem item{.name = std::to_string(digit), .label = digit};
    item.draw = [seed, index](Image& image) { DrawGlyph(seed, index, image); };
    writer.Add(std::move(item));
  }
  return writer.Finish({"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

namespace {

int64_t ImportNumberOf(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 0) {
    throw Error(ErrorKind::kUsage, StrCat(what, ": expected a whole number, found \"", text, "\""));
  }
  return value;
}

ImportReport FromGlyphs(const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
  const auto seed = parts.size() > 1 ? static_cast<uint64_t>(ImportNumberOf(parts[1], "glyphs:COUNT:SEED")) : 1;
  return ImportGlyphs(ImportNumberOf(parts[0], "glyphs:COUNT"), seed, out, options);
}

}  // namespace

SourceKind Cifar10Source() {
  return {.kind = "cifar10",
          .parts = "FILE[,FILE..]",
          .makes = "CIFAR-10's binary batches",
          .least = 1,
          .most = SourceKind::kAny,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportCifar({parts.begin(), parts.end()}, CifarKind::kTen, out, options);
          }};
}

SourceKind Cifar100Source() {
  return {.kind = "cifar100",
          .parts = "FILE",
          .makes = "CIFAR-100's",
          .least = 1,
          .most = SourceKind::kAny,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportCifar({parts.begin(), parts.end()}, CifarKind::kHundred, out, options);
          }};
}

SourceKind GlyphsSource() {
  return {.kind = "glyphs",
          .parts = "COUNT[:SEED]",
          .makes = "drawn digits",
          .least = 1,
          .most = 2,
          .import = FromGlyphs,
          .separator = ':'};
}

SourceKind IdxSource() {
  return {.kind = "idx",
          .parts = "IMAGES,LABELS",
          .makes = "MNIST's format",
          .least = 2,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportIdx(parts[0], parts[1], out, options);
          }};
}

}  // namespace moka
