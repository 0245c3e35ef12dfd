// --mean takes a file or numbers: what is neither is refused by what it was probably meant to be.
#include "tools/infer/picture_flags.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/text.h"
#include "data/image/picture_limits.h"
#include "proto/content.h"
#include "proto/text/lost_numbers.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

float FloatOfFlag(const std::string& flag, const std::string& text) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double number = NumberOfFlag(flag, Trim(text), -kMost, kMost);
  if (number != 0 && static_cast<float>(number) == 0)
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, ": ", LostNumberText(Trim(text))), LostNumberHint());
  return static_cast<float>(number);
}

// Whether a text that is no number and names nothing was meant to name a file: "mean.binaryproto", "means/a".
bool LooksLikeFile(const std::string& text) {
  const std::string extension = fs::path(text).extension().string();
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return text.find('/') != std::string::npos ||
         (extension.size() > 1 && std::all_of(extension.begin() + 1, extension.end(), is_letter));
}

// A file of a mean image, or of NumPy's with a value a channel.
void TakeMeanFile(const std::string& file, PictureInput& input) {
  if (RecognizeFile(file) == Content::kNumpy) {
    const NamedBlob array = ReadBlobProtoFile(file);
    if (array.shape.rank() <= 1) return input.mutable_mean()->Add(array.values.begin(), array.values.end());
  }
  input.set_mean_file(fs::absolute(file).string());
}

}  // namespace

PictureInput PictureFlagsOf(const Arguments& arguments) {
  PictureInput input;
  if (arguments.Has("mean")) {
    const std::string mean = arguments.Get("mean");
    std::error_code code;
    // A class's folder may be called "0"; what is no file and no number is refused by what it is.
    const bool is_number = mean.find_first_not_of("0123456789+-.eE, ") == std::string::npos;
    if (is_number ? fs::is_regular_file(mean, code) : fs::exists(fs::symlink_status(mean, code))) {
      TakeMeanFile(mean, input);
    } else if (!is_number && LooksLikeFile(mean)) {
      throw Error(ErrorKind::kNoInput, {}, StrCat("--mean: there is no file ", Printable(mean)),
                  "it takes a mean image (.binaryproto, .npy) or values B,G,R");
    } else {
      for (const std::string& value : Split(mean, ',')) input.add_mean(FloatOfFlag("mean", value));
    }
  }
  if (arguments.Has("scale")) input.set_scale(FloatOfFlag("scale", arguments.Get("scale")));
  if (arguments.Has("resize") && arguments.Has("resize-short"))
    throw Error(ErrorKind::kUsage, "--resize and --resize-short: keep one");
  if (arguments.Has("resize")) {
    const auto [height, width] = SizeOfFlag("resize", arguments.Get("resize"), "resize-short");
    input.set_resize_height(static_cast<uint32_t>(height));
    input.set_resize_width(static_cast<uint32_t>(width));
  }
  if (arguments.Has("resize-short"))
    input.set_resize_short(static_cast<uint32_t>(arguments.Int("resize-short", 0, 1, kMostPictureSide)));
  return input;
}

}  // namespace moka
