// libjpeg-turbo with scaled decoding and skipped rows: the DCT gives the picture at 1/2, 1/4 or 1/8 for a fraction of
// the work, and only a window's columns are transformed. Errors return by longjmp, so no frame between has a
// destructor.
#include "data/image/jpeg_reader.h"

// jpeglib.h needs size_t and FILE and includes neither.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

// A progressive file of many scans over one picture costs far more time than bytes (TurboJPEG has the same limit).
constexpr int kMostScans = 500;

// Errors come back by a long jump, as libjpeg wants it: no object with a destructor may live in a frame between.
struct ErrorState {
  jpeg_error_mgr manager = {};
  std::jmp_buf back = {};
  bool is_strict = true;
  bool too_many_scans = false;
  std::array<char, JMSG_LENGTH_MAX> text = {};
};

ErrorState& ErrorsOf(j_common_ptr info) { return *static_cast<ErrorState*>(info->client_data); }

[[noreturn]] void Fail(j_common_ptr info) {
  ErrorState& errors = ErrorsOf(info);
  (*info->err->format_message)(info, errors.text.data());
  std::longjmp(errors.back, 1);  // NOLINT(cert-err52-cpp): libjpeg has no other way out
}

void Warn(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  ++info->err->num_warnings;
  if (ErrorsOf(info).is_strict) Fail(info);
}

void CountScans(j_common_ptr info) {
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  ErrorsOf(info).too_many_scans = true;
  std::longjmp(ErrorsOf(info).back, 1);  // NOLINT(cert-err52-cpp)
}

// Ink to light: 255 means no ink, as Adobe stores it, so each colour is its ink times black.
void CmykToBgr(const std::vector<uint8_t>& cmyk, Image& out) {
  const auto scaled = [](unsigned ink, unsigned black) { return static_cast<uint8_t>((ink * black + 127U) / 255U); };
  uint8_t* to = out.pixels.data();
  for (size_t i = 0; i + 3 < cmyk.size(); i += 4, to += 3) {
    to[0] = scaled(cmyk[i + 2], cmyk[i + 3]);
    to[1] = scaled(cmyk[i + 1], cmyk[i + 3]);
    to[2] = scaled(cmyk[i], cmyk[i + 3]);
  }
}

Error JpegError(std::string_view doing, std::string_view reason) {
  return {ErrorKind::kBadData, StrCat("cannot ", doing, " the JPEG: ", reason)};
}

// The columns that are read for a window: also those beside it that smooth upsampling of colours looks at, so that
// pixels are the same as in the whole picture.
struct Columns {
  JDIMENSION begin = 0;
  JDIMENSION count = 0;
};

Columns ColumnsFor(const ImageWindow& window, int64_t width) {
  constexpr int64_t kBeside = 2;
  const int64_t begin = std::max<int64_t>(0, window.x - kBeside);
  const int64_t end = std::min(width, window.x + window.width + kBeside);
  return {static_cast<JDIMENSION>(begin), static_cast<JDIMENSION>(end - begin)};
}

}  // namespace

struct JpegReader::State {
  jpeg_decompress_struct info = {};
  ErrorState errors;
  jpeg_progress_mgr progress = {};
  std::vector<uint8_t> cmyk;
  const unsigned char* end = nullptr;  // of the file
  bool is_whole = false;               // read to its last row and finished

  bool is_cmyk() const { return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK; }

  // The steps that may jump. Each returns whether all went well.
  bool Create();
  bool ReadHeader(const unsigned char* bytes, size_t size);
  bool Start(J_COLOR_SPACE space, int divisor);
  bool Crop(Columns& columns, const ImageWindow& window);
  bool ReadRows(const ImageWindow& window, uint8_t* to, size_t row_bytes);

  // Checks the memory that the picture takes: a progressive one keeps all its coefficients, two bytes each, beside its
  // pixels.
  void CheckMemory(int divisor) const {
    constexpr int64_t kMostBytes = int64_t{420} << 20;
    int64_t bytes = 0;
    for (int c = 0;
         jpeg_has_multiple_scans(const_cast<jpeg_decompress_struct*>(&info)) != FALSE && c < info.num_components; ++c) {
      const jpeg_component_info& component = info.comp_info[c];
      bytes += int64_t{component.width_in_blocks} * component.height_in_blocks * DCTSIZE2 * int64_t{sizeof(JCOEF)};
    }
    const int64_t channels = is_cmyk() ? 7 : info.num_components == 1 ? 1 : 3;
    bytes += int64_t{info.image_width} / divisor * info.image_height / divisor * channels;
    if (bytes <= kMostBytes) return;
    throw JpegError(
        "decode", StrCat("it takes ", BytesText(bytes), " of memory, more than the limit of ", BytesText(kMostBytes)));
  }

  std::string Reason() {
    if (errors.too_many_scans) return StrCat("it has more than ", kMostScans, " scans");
    return errors.text.data();
  }
  // A strict reader wants the marker that ends a file, wherever behind what has been read.
  bool HasEnd() {
    if (is_whole || jpeg_input_complete(&info) != FALSE || info.unread_marker == JPEG_EOI) return true;
    constexpr std::string_view kEnd = "\xFF\xD9";
    const auto* from = reinterpret_cast<const char*>(info.src->next_input_byte);
    const auto* to = reinterpret_cast<const char*>(end);
    return std::string_view(from, static_cast<size_t>(to - from)).rfind(kEnd) != std::string_view::npos;
  }
};

// NOLINTBEGIN(cert-err52-cpp): see Fail

bool JpegReader::State::Create() {
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = Fail;
  errors.manager.emit_message = Warn;
  info.client_data = &errors;
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_decompress(&info);
  progress.progress_monitor = CountScans;
  info.progress = &progress;
  return true;
}

bool JpegReader::State::ReadHeader(const unsigned char* bytes, size_t size) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_mem_src(&info, bytes, size);
  jpeg_read_header(&info, TRUE);
  return true;
}

bool JpegReader::State::Start(J_COLOR_SPACE space, int divisor) {
  if (setjmp(errors.back) != 0) return false;
  info.out_color_space = space;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(divisor);
  jpeg_start_decompress(&info);
  return true;
}

bool JpegReader::State::Crop(Columns& columns, const ImageWindow& window) {
  if (setjmp(errors.back) != 0) return false;
  if (columns.count < info.output_width) jpeg_crop_scanline(&info, &columns.begin, &columns.count);
  if (window.y > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.y));
  return true;
}

bool JpegReader::State::ReadRows(const ImageWindow& window, uint8_t* to, size_t row_bytes) {
  if (setjmp(errors.back) != 0) return false;
  const auto last = static_cast<JDIMENSION>(window.y + window.height);
  while (info.output_scanline < last) {
    JSAMPROW row = to + (info.output_scanline - static_cast<JDIMENSION>(window.y)) * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  is_whole = last == info.output_height;
  if (is_whole) jpeg_finish_decompress(&info);
  return true;
}

// NOLINTEND(cert-err52-cpp)

JpegReader::JpegReader() : state_(std::make_unique<State>()) {
  if (!state_->Create()) throw Error(ErrorKind::kUnavailable, StrCat("libjpeg: ", state_->Reason()));
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&state_->info); }

JpegReader::Header JpegReader::Open(std::string_view file, DecodeOptions::Damage damage) {
  State& s = *state_;
  jpeg_abort_decompress(&s.info);  // what was left open
  s.errors.is_strict = damage == DecodeOptions::Damage::kStrict;
  s.errors.too_many_scans = false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  s.end = bytes + file.size();
  if (!s.ReadHeader(bytes, file.size())) throw JpegError("read the header of", s.Reason());
  if (s.info.image_width == 0 || s.info.image_height == 0) throw JpegError("read the header of", "no frame header");
  return {s.info.image_width, s.info.image_height, s.info.jpeg_color_space == JCS_GRAYSCALE, s.is_cmyk()};
}

ImageWindow JpegReader::Read(const ImageWindow& window, int divisor, bool gray, Image& out) {
  State& s = *state_;
  const auto fail = [&] {
    jpeg_abort_decompress(&s.info);
    return JpegError("decode", s.Reason());
  };
  s.CheckMemory(divisor);
  const J_COLOR_SPACE space = s.is_cmyk() ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
  if (!s.Start(space, divisor)) throw fail();
  Require(window.x >= 0 && window.y >= 0 && window.width > 0 && window.height > 0 &&
              window.x + window.width <= s.info.output_width && window.y + window.height <= s.info.output_height,
          "JpegReader::Read: the window lies inside the picture");
  Columns columns = ColumnsFor(window, s.info.output_width);
  if (!s.Crop(columns, window)) throw fail();
  out.Resize(columns.count, window.height, gray && !s.is_cmyk() ? 1 : 3);
  uint8_t* to = out.pixels.data();
  size_t row_bytes = static_cast<size_t>(out.width * out.channels);
  if (s.is_cmyk()) {
    row_bytes = static_cast<size_t>(out.width) * 4;
    s.cmyk.resize(row_bytes * static_cast<size_t>(out.height));
    to = s.cmyk.data();
  }
  if (!s.ReadRows(window, to, row_bytes)) throw fail();
  const bool cut_short = s.errors.is_strict && !s.HasEnd();
  jpeg_abort_decompress(&s.info);
  if (cut_short) throw JpegError("decode", "Premature end of JPEG file");
  if (s.is_cmyk()) {
    CmykToBgr(s.cmyk, out);
    if (gray) ConvertChannels(1, out);
  }
  return {columns.begin, window.y, columns.count, window.height};
}

}  // namespace moka
