// Magic numbers come first, then the wire format: a message is recognised by the numbers and types of the fields that
// begin it.
#include "proto/content.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kHeadBytes = 4096;

using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace): only literals

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return AsciiLower(text.substr(0, prefix.size())) == prefix;
}

bool IsSafetensors(std::string_view head) {
  if (head.size() < 9 || head[8] != '{') return false;
  uint64_t bytes = 0;
  for (size_t i = 0; i < 8; ++i) bytes |= uint64_t{static_cast<unsigned char>(head[i])} << (8 * i);
  return bytes >= 2 && bytes <= 100'000'000;
}

// Text, perhaps with a rare stray control character (one in 256), which the parser will point at.
bool IsText(std::string_view head) {
  const auto controls = std::count_if(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v';
  });
  return static_cast<size_t>(controls) <= head.size() / 256;
}

// A zip archive by the name of its first member, as NumPy and PyTorch write them.
Content RecognizeZip(std::string_view head) {
  constexpr size_t kNameLengthAt = 26;
  constexpr size_t kNameAt = 30;
  if (head.size() < kNameAt) return Content::kZip;
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(head[i])); };
  const std::string_view name = head.substr(kNameAt, byte(kNameLengthAt) | byte(kNameLengthAt + 1) << 8U);
  if (name.ends_with(".npy")) return Content::kNumpyZip;
  return name.ends_with("/data.pkl") ? Content::kPickle : Content::kZip;
}

// A pickle of protocol 2 to 5 begins with PROTO and its number, then FRAME (4, 5), or LONG1, GLOBAL, EMPTY_DICT,
// EMPTY_LIST, MARK, BINPUT or a text.
bool IsPickle(std::string_view head) {
  if (head.size() < 3 || head[0] != '\x80') return false;
  if (head[1] == '\x04' || head[1] == '\x05') return head[2] == '\x95';
  return (head[1] == '\x02' || head[1] == '\x03') &&
         "\x8a"
         "c}](Xq"sv.find(head[2]) != std::string_view::npos;
}

// Length of the varint at `i`, 0 if there is none.
size_t VarintLength(std::string_view head, size_t i) {
  for (size_t n = 0; n < 10 && i + n < head.size(); ++n) {
    if ((static_cast<unsigned char>(head[i + n]) & 0x80U) == 0) return n + 1;
  }
  return 0;
}

// An ONNX model by the fields in front of its graph: the version of its format, texts of who made it, then the graph or
// the versions of ops. A solver's state, which begins alike, has neither of these and no text behind the second field.
bool IsOnnx(std::string_view head) {
  constexpr size_t kMostFields = 16;
  if (head.empty() || head[0] != '\x08') return false;
  size_t at = 0;
  for (size_t n = 0; n < kMostFields && at < head.size(); ++n) {
    const auto tag = static_cast<unsigned char>(head[at]);
    if (tag == 0x3a || tag == 0x42) return n > 0;     // graph, opset_import
    if (tag == 0x22 || tag == 0x28 || tag == 0x32) {  // domain, model_version, doc_string
      if (n > 0) return true;
    }
    const size_t length = VarintLength(head, at + 1);
    if (length == 0 || (tag != 0x08 && tag != 0x12 && tag != 0x1a)) return false;
    uint64_t value = 0;
    for (size_t i = 0; i < length; ++i) {
      value |= uint64_t{static_cast<unsigned char>(head[at + 1 + i]) & 0x7fU} << (7 * i);
    }
    at += 1 + length;
    if (tag == 0x08) continue;
    if (value > head.size()) return false;
    at += value;
  }
  return false;
}

// Protobuf messages of this schema by the fields that begin them.
Content RecognizeMessage(std::string_view head) {
  const auto byte = [&](size_t i) { return i < head.size() ? static_cast<unsigned char>(head[i]) : 0; };
  if (IsOnnx(head)) return Content::kOnnx;
  if (byte(0) == 0x08) {  // an integer field 1: SolverState.iter, BlobProto.num or Datum.channels
    const size_t next = 1 + VarintLength(head, 1);
    if (byte(next) == 0x12 || byte(next) == 0x1a || byte(next) == 0x20) return Content::kSolverState;
    if (byte(next) == 0x10) return Content::kBlob;
  }
  if (byte(0) == 0x3a || byte(0) == 0x2a) return Content::kBlob;  // shape, data
  if (byte(0) == 0x0a) {  // a name, and after it a layer, a V1 layer, an input or a state
    const size_t next = size_t{2} + byte(1);
    const bool is_layer = byte(next) == 0xa2 && byte(next + 1) == 0x06;
    if (is_layer || byte(next) == 0x12 || byte(next) == 0x1a || byte(next) == 0x32) return Content::kNetBinary;
  }
  // A net without a name: its V1 layers, or its state.
  if (byte(0) == 0x12 || byte(0) == 0x32) return Content::kNetBinary;
  if (byte(0) == 0xa2 && byte(1) == 0x06) return Content::kNetBinary;  // layer
  return Content::kUnknownBinary;
}

}  // namespace

Content RecognizeContent(std::string_view head) {
  if (head.empty()) return Content::kEmpty;
  if (head.starts_with("\x89HDF\r\n\x1a\n"sv)) return Content::kHdf5;
  if (head.starts_with("\x93NUMPY"sv)) return Content::kNumpy;
  if (head.starts_with("version https://git-lfs.github.com/spec/"sv)) return Content::kLfsPointer;
  if (head.starts_with("PK\x03\x04"sv)) return RecognizeZip(head);
  if (head.starts_with("\x1f\x8b"sv)) return Content::kGzip;
  if (head.starts_with("\x89PNG"sv) || head.starts_with("\xff\xd8\xff"sv)) return Content::kImage;
  if (head.starts_with("\xff\xfe"sv) || head.starts_with("\xfe\xff"sv)) return Content::kUtf16Text;
  if (head.size() >= 20 && head.substr(16, 4) == "\xde\xc0\xef\xbe"sv) return Content::kLmdb;
  if (IsSafetensors(head)) return Content::kSafetensors;
  if (IsPickle(head)) return Content::kPickle;
  const std::string_view text = Trim(head);
  if (StartsWithIgnoringCase(text, "<!doctype html") || StartsWithIgnoringCase(text, "<html")) return Content::kHtml;
  if (head.find_first_not_of('\0') == std::string_view::npos) return Content::kZeros;
  if (IsText(head)) return Content::kText;
  return RecognizeMessage(head);
}

Content RecognizeFile(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return Content::kEmpty;
  try {
    std::string head(kHeadBytes, '\0');
    head.resize(static_cast<size_t>(OpenFile::ForReading(path).ReadAt(0, head.data(), std::ssize(head), path)));
    return RecognizeContent(head);
  } catch (const Error&) {
    return Content::kEmpty;  // whoever reads the file says what is wrong with it
  }
}

std::string_view Describe(Content content) {
  switch (content) {
    case Content::kEmpty: return "an empty file";
    case Content::kText: return "a text file";
    case Content::kUtf16Text: return "UTF-16 text (save it as UTF-8)";
    case Content::kNetBinary: return "a binary net with weights (.caffemodel)";
    case Content::kSolverState: return "a solver's state (.solverstate)";
    case Content::kBlob: return "a single blob (.binaryproto)";
    case Content::kOnnx: return "an ONNX model (\"moka import\" makes a net and its weights of it)";
    case Content::kSafetensors: return "a safetensors file";
    case Content::kHdf5: return "an HDF5 file";
    case Content::kNumpy: return "a NumPy array (.npy)";
    case Content::kNumpyZip: return "arrays of NumPy (.npz)";
    case Content::kPickle: return "a pickle of Python, as PyTorch writes it (.pt, .pth)";
    case Content::kLfsPointer: return "a Git LFS pointer (fetch the file itself with \"git lfs pull\")";
    case Content::kHtml: return "an HTML page (the download gave an error page)";
    case Content::kZip: return "a zip archive";
    case Content::kGzip: return "a gzip archive";
    case Content::kImage: return "an image";
    case Content::kLmdb: return "an LMDB database";
    case Content::kZeros: return "a run of zero bytes (the file was cut off)";
    case Content::kUnknownBinary: return "binary data of no known kind";
  }
  return "unknown";
}

void ReadAs(Content kind, std::string_view bytes, const std::string& file, std::string_view expected,
            const std::function<void()>& read) {
  const Content content = RecognizeContent(bytes.substr(0, kHeadBytes));
  const Error other(ErrorKind::kBadData, SourcePlace{.file = file},
                    StrCat("expected ", expected, ", but this is ", Describe(content)));
  // A small message may look like text: the reader decides.
  if (content != kind && content != Content::kUnknownBinary && content != Content::kText) throw other;
  try {
    read();
  } catch (const Error&) {
    if (content != Content::kText) throw;
    throw other;
  }
}

}  // namespace moka
