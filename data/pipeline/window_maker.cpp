// Caffe's arithmetic in float, rounded half away from zero, as the published R-CNN weights were trained with its
// windows.
#include "data/pipeline/window_maker.h"
#include "data/transform/pixel_mean.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// The words of a file one after the other, with the line each is on.
class WordReader {
 public:
  explicit WordReader(const std::filesystem::path& path) : path_(path), lines_(ReadListLines(path)) {}
  bool is_done() const { return line_ == lines_.size(); }
  int line() const { return lines_[std::min(line_, lines_.size() - 1)].number; }
  std::string Next(std::string_view what) {
    if (is_done()) Fail(StrCat("the file ends where ", what, " is expected"));
    std::string word = lines_[line_].words[word_];
    if (++word_ == lines_[line_].words.size()) {
      ++line_;
      word_ = 0;
    }
    return word;
  }
  int64_t Whole(std::string_view what) {
    const int at = line();
    return NumberOf(Next(what), what, path_, at);
  }
  float Real(std::string_view what) {
    const int at = line();
    const std::string word = Next(what);
    float number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec == std::errc() && read.ptr == word.data() + word.size() && std::isfinite(number)) return number;
    Fail(StrCat("expected a number as ", what, ", found \"", Printable(word), "\""), at);
  }
  [[noreturn]] void Fail(const std::string& text, int line = 0) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = path_.string(), .line = line > 0 ? line : this->line()}, text);
  }

 private:
  std::filesystem::path path_;
  std::vector<ListLine> lines_;
  size_t line_ = 0;
  size_t word_ = 0;
};

}  // namespace

WindowMaker::WindowMaker(WindowOptions options) : options_(std::move(options)) {
  foreground_ = static_cast<int64_t>(static_cast<float>(options_.batch) * options_.fg_fraction);
  ReadWindows();
  CheckKinds();
}

// For each image: "# index", the path, channels, height, width, the number of windows, and for each window class,
// overlap, x1, y1, x2, y2.
void WindowMaker::ReadWindows() {
  WordReader reader(options_.source);
  while (!reader.is_done()) {
    const int at = reader.line();
    const std::string mark = reader.Next("\"#\"");
    if (mark != "#") reader.Fail(StrCat("expected \"# index\" of an image, found \"", Printable(mark), "\""), at);
    const int64_t index = reader.Whole("the index of an image");
    if (index != static_cast<int64_t>(images_.size())) {
      reader.Fail(StrCat("image ", index, " follows ", images_.size(), " images; they are numbered from 0"), at);
    }
    images_.push_back(reader.Next("the path of an image"));
    const int64_t channels = reader.Whole("channels");
    if (channels != 3) reader.Fail(StrCat("the image has ", channels, " channels, expected 3"), at);
    reader.Whole("the image's height");
    reader.Whole("the image's width");
    const int64_t count = reader.Whole("the number of windows");
    for (int64_t i = 0; i < count; ++i) {
      Window window{.image = index};
      window.line = reader.line();
      window.label = reader.Whole("a window's class");
      CheckWhole(window.label, "a window's class", SourcePlace{.file = options_.source.string(), .line = window.line});
      const float overlap = reader.Real("a window's overlap");
      for (int64_t* side : {&window.x1, &window.y1, &window.x2, &window.y2}) *side = reader.Whole("a window's side");
      if (window.x2 < window.x1 || window.y2 < window.y1) reader.Fail("the window is empty", window.line);
      if (overlap >= options_.fg_threshold) {
        if (window.label < 1) {
          reader.Fail(StrCat("a foreground window (overlap ", overlap, ") of class ", window.label,
                             "; classes are counted from 1"),
                      window.line);
        }
        kinds_[1].push_back(window);
      } else if (overlap < options_.bg_threshold) {
        window.label = 0;
        kinds_[0].push_back(window);
      }
    }
  }
}

void WindowMaker::CheckKinds() const {
  for (const int kind : {0, 1}) {
    const int64_t needed = kind == 1 ? foreground_ : options_.batch - foreground_;
    if (needed == 0 || !kinds_.at(static_cast<size_t>(kind)).empty()) continue;
    throw Error(ErrorKind::kBadData, {},
                StrCat(options_.source.string(), ": no ", kind == 1 ? "foreground" : "background",
                       " window, and each batch needs ", needed),
                "check fg_threshold, bg_threshold and fg_fraction");
  }
}

std::string WindowMaker::NameOf(int64_t /*record*/) const { return options_.source.string(); }

Shape WindowMaker::DataShape(int64_t /*record*/, SampleScratch& /*scratch*/) const {
  return {3, options_.crop_size, options_.crop_size};
}

// Caffe's arithmetic: sides in float, rounded half away from zero. Requires: the window is not empty.
WindowMaker::Warp WindowMaker::WarpOf(const Window& window, const Image& image, bool mirrored) const {
  const int64_t crop = options_.crop_size;
  Warp warp{.cut = {window.x1, window.y1, window.x2 - window.x1 + 1, window.y2 - window.y1 + 1},
            .width = crop,
            .height = crop};
  if (options_.context_pad == 0 && !options_.is_square) return warp;
  const float context = static_cast<float>(crop) / static_cast<float>(crop - 2 * options_.context_pad);
  float half_height = static_cast<float>(window.y2 - window.y1 + 1) / 2.0F;
  float half_width = static_cast<float>(window.x2 - window.x1 + 1) / 2.0F;
  const float center_x = static_cast<float>(window.x1) + half_width;
  const float center_y = static_cast<float>(window.y1) + half_height;
  if (options_.is_square) half_width = half_height = std::max(half_height, half_width);
  const auto round = [](float value) { return static_cast<int64_t>(std::round(value)); };
  // One axis: the expanded window, the part of it inside the image, and both in the crop's pixels.
  struct Axis {
    int64_t first = 0;
    int64_t count = 0;
    int64_t warped = 0;
    int64_t pad_before = 0;
    int64_t pad_after = 0;
  };
  const auto expand = [&](float center, float half, int64_t side) {
    const int64_t begin = round(center - half * context);
    const int64_t end = round(center + half * context);
    const int64_t before = std::max<int64_t>(0, -begin);
    const int64_t after = std::max<int64_t>(0, end - side + 1);
    const float scale = static_cast<float>(crop) / static_cast<float>(end - begin + 1);
    Axis axis{.first = begin + before, .count = end - after - begin - before + 1};
    axis.warped = round(static_cast<float>(axis.count) * scale);
    axis.pad_before = round(static_cast<float>(before) * scale);
    axis.pad_after = round(static_cast<float>(after) * scale);
    return axis;
  };
  const Axis x = expand(center_x, half_width, image.width);
  const Axis y = expand(center_y, half_height, image.height);
  warp.cut = {x.first, y.first, x.count, y.count};
  warp.pad_y = y.pad_before;
  warp.pad_x = mirrored ? x.pad_after : x.pad_before;
  warp.height = std::min(y.warped, crop - warp.pad_y);  // rounding may go one too far
  warp.width = std::min(x.warped, crop - warp.pad_x);
  return warp;
}

void WindowMaker::Make(int64_t /*record*/, const SampleId& id, int64_t item, const Shape& /*shape*/,
                       SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  const bool is_foreground = item >= options_.batch - foreground_;
  const std::vector<Window>& windows = kinds_.at(is_foreground ? 1 : 0);
  RandomStream random(options_.seed, StreamOf(id));
  const Window& window = windows[static_cast<size_t>(random.Below(windows.size()))];
  const bool mirrored = options_.mirror && IsMirrored(options_.seed, id);
  const std::string name = StrCat(options_.prefix, images_[static_cast<size_t>(window.image)]);
  const std::string place = StrCat("line ", window.line, ", image \"", Printable(name), "\": ");
  PictureScratch& p = scratch.pictures;
  try {
    const std::string file = ReadFile(options_.base / name);
    scratch.record.clock.Enter(Stage::kDecode);
    scratch.record.decoder.Decode(file, {.channels = ImageChannels::kColor}, p.image);
  } catch (const Error& error) {
    throw Error(error.kind(), {}, StrCat(place, error.text()), error.hint());
  }
  scratch.record.clock.Enter(Stage::kTransform);
  const Warp warp = WarpOf(window, p.image, mirrored);
  const ImageWindow& cut = warp.cut;
  const bool is_inside = cut.x >= 0 && cut.y >= 0 && cut.width > 0 && cut.height > 0 &&
                         cut.x + cut.width <= p.image.width && cut.y + cut.height <= p.image.height;
  if (!is_inside || warp.width < 1 || warp.height < 1) {
    throw Error(ErrorKind::kBadData, StrCat(place, "the window ", window.x1, " ", window.y1, " ", window.x2, " ",
                                            window.y2, " does not lie in the image of ", p.image.width, "x",
                                            p.image.height, " pixels (width x height)"));
  }
  ResizeWindow(p.image, cut, warp.width, warp.height, Interpolation::kLinear, p.changed);
  Write(p.changed, warp, mirrored, data);
  label[0] = static_cast<float>(window.label);
}

// A mean image is as large as the images of another net were; its middle is taken, found by its width as Caffe does.
void WindowMaker::Write(const Image& picture, const Warp& warp, bool mirrored, std::span<float> out) const {
  const int64_t crop = options_.crop_size;
  const bool has_mean_image = options_.mean.shape.rank() > 0;
  const int64_t mean_height = has_mean_image ? options_.mean.shape[1] : 0;
  const int64_t mean_width = has_mean_image ? options_.mean.shape[2] : 0;
  const int64_t mean_first = (mean_width - crop) / 2;
  std::ranges::fill(out, 0.0F);
  for (int64_t c = 0; c < 3; ++c) {
    const float value = options_.mean.ValueOf(c);
    for (int64_t y = 0; y < warp.height; ++y) {
      float* to = out.data() + (c * crop + y + warp.pad_y) * crop + warp.pad_x;
      const float* means = has_mean_image ? options_.mean.image.data() +
                                                (c * mean_height + y + warp.pad_y + mean_first) * mean_width +
                                                mean_first + warp.pad_x
                                          : nullptr;
      for (int64_t x = 0; x < warp.width; ++x) {
        const int64_t from = mirrored ? warp.width - 1 - x : x;
        const uint8_t pixel = picture.pixels[static_cast<size_t>((y * warp.width + from) * 3 + c)];
        to[x] = (static_cast<float>(pixel) - (means != nullptr ? means[x] : value)) * options_.scale;
      }
    }
  }
}

namespace {

std::unique_ptr<Pipeline> OpenWindowData(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kKnown[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value"};
  const WindowDataParameter& param = layer.window_data_param();
  const auto fail = [&](std::string_view field, const std::string& text) {
    throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text));
  };
  CheckTops(layer);
  CheckSource(layer, "window_data_param.source", param.source());
  CheckTransformFields(layer, kKnown);
  const TransformationParameter transform = TransformOf(layer, param);
  constexpr int64_t kMaxSide = 1 << 14;
  const int64_t crop = transform.crop_size();
  if (crop < 1 || crop > kMaxSide) {
    fail("transform_param.crop_size", StrCat("crop_size is ", crop, ", expected 1..", kMaxSide));
  }
  if (2 * int64_t{param.context_pad()} >= crop) {
    fail("window_data_param.context_pad",
         StrCat("context_pad ", param.context_pad(), " on both sides leaves nothing of crop_size ", crop));
  }
  if (param.crop_mode() != "warp" && param.crop_mode() != "square") {
    fail("window_data_param.crop_mode",
         StrCat("crop_mode \"", Printable(param.crop_mode()), "\", expected \"warp\" or \"square\""));
  }
  if (!(param.fg_fraction() >= 0 && param.fg_fraction() <= 1)) {
    fail("window_data_param.fg_fraction", StrCat("fg_fraction is ", param.fg_fraction(), ", expected 0..1"));
  }
  const PixelMean mean = ReadPixelMean(transform, options.base_folder);
  if (mean.values.size() > 1 && mean.values.size() != 3) {
    fail("transform_param.mean_value", StrCat("mean_value has ", mean.values.size(), " values, expected 1 or 3"));
  }
  const int64_t first = mean.shape.rank() == 3 ? (mean.shape[2] - crop) / 2 : 0;
  if (mean.shape.rank() > 0 &&
      (mean.shape.rank() != 3 || mean.shape[0] != 3 || mean.shape[2] < crop || mean.shape[1] < first + crop)) {
    fail("transform_param.mean_file", StrCat("the mean image ", mean.shape.ToString(), " does not hold a crop of [3,",
                                             crop, ",", crop, "] in the middle of its width"));
  }
  const int64_t batch = CheckedBatch(layer, "window_data_param.batch_size", param.batch_size());
  return OpenListed(layer, options, {.batch = batch, .shuffle = false, .rand_skip = 0},
                    std::make_unique<WindowMaker>(WindowOptions{.source = options.base_folder / param.source(),
                                                                .base = options.base_folder,
                                                                .prefix = param.root_folder(),
                                                                .seed = DataSeed(options.seed, "augment"),
                                                                .batch = batch,
                                                                .fg_threshold = param.fg_threshold(),
                                                                .bg_threshold = param.bg_threshold(),
                                                                .fg_fraction = param.fg_fraction(),
                                                                .context_pad = param.context_pad(),
                                                                .is_square = param.crop_mode() == "square",
                                                                .crop_size = crop,
                                                                .mirror = transform.mirror(),
                                                                .mean = mean,
                                                                .scale = transform.scale()}));
}

}  // namespace

DataLayerRow WindowDataRow() { return {.type = "WindowData", .open = OpenWindowData, .warps_windows = true}; }

}  // namespace moka
