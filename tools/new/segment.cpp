// moka new segment: pictures with masks to a small U-Net, by the recipe of models/camvid_unet.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "tools/new/layouts.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kFewestPictures = 5;  // of the training
constexpr int64_t kIgnored = 255;       // what masks say of pixels without a class

// The classes of pixels, and how many pixels of the training's source each has.
struct Pixels {
  std::vector<std::string> names;
  std::vector<int64_t> counts;
  int64_t ignored = kIgnored;
};

bool StandsForNone(const std::string& name) {
  const std::string small = AsciiLower(name);
  return small == "void" || small == "ignore" || small == "ignored" || small == "unlabelled" || small == "unlabeled";
}

Pixels PixelsOf(const NewData& data) {
  const PictureFacts& facts = *data.train().facts;
  const std::map<int64_t, int64_t>& seen = facts.mask_pixels();
  if (seen.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(data.source), ": its pictures have no masks"),
                "moka new detect is for boxes, moka new classify for classes of whole pictures");
  }
  Pixels pixels;
  // A part that was looked at behind the naming of values has the names; the first has none where they were made here.
  for (const NewPart& part : data.parts) {
    const auto& names = part.facts->schema().mask_class();
    if (pixels.names.empty()) pixels.names.assign(names.begin(), names.end());
  }
  const bool is_two =
      seen.size() == 2 && seen.contains(0) && seen.contains(kIgnored) && facts.schema().mask_class_size() == 0;
  if (is_two) {
    return {{"background", "object"}, {seen.at(0), seen.at(kIgnored)}, kIgnored};
  }
  if (facts.schema().mask_class_size() == 0 && data.has_made_names) {
    Pixels named;
    for (const auto& [value, count] : seen) {
      named.names.push_back(StrCat("value_", value));
      named.counts.push_back(count);
    }
    return named;
  }
  int64_t highest = 0;
  for (const NewPart& part : data.parts) {
    for (const auto& [value, count] : part.facts->mask_pixels()) {
      if (value != kIgnored) highest = std::max(highest, value);
    }
  }
  for (int64_t value = std::ssize(pixels.names); value <= highest; ++value)
    pixels.names.push_back(StrCat("class_", value));
  pixels.counts.resize(pixels.names.size());
  for (size_t i = 0; i < pixels.names.size(); ++i) {
    const auto found = seen.find(static_cast<int64_t>(i));
    if (found != seen.end()) pixels.counts[i] = found->second;
    if (StandsForNone(pixels.names[i])) pixels.ignored = static_cast<int64_t>(i);
  }
  return pixels;
}

// Classes that the net gives: all but an ignored one behind the others.
int64_t ClassesOf(const Pixels& pixels) {
  const int64_t all = std::ssize(pixels.names);
  return pixels.ignored == all - 1 ? all - 1 : all;
}

void RefuseTooLittle(const NewData& data, const Pixels& pixels) {
  std::vector<std::string> met;
  for (int64_t i = 0; i < ClassesOf(pixels); ++i) {
    if (i == pixels.ignored) continue;
    const auto at = static_cast<size_t>(i);
    if (pixels.counts[at] > 0) met.push_back(StrCat("\"", Printable(pixels.names[at]), "\""));
  }
  if (met.size() < 2) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(data.source),
                       met.empty() ? ": no pixel has a class" : ": all pixels are of one class, ", Join(met, "")),
                "a net tells two classes or more apart");
  }
  if (data.train().size() >= kFewestPictures) return;
  throw Error(ErrorKind::kBadData, {},
              StrCat("only ", data.train().size(), " pictures to train on, expected ", kFewestPictures, " or more"),
              "add pictures");
}

// The weight of each class in the loss: the root of median frequency over its own, within bounds; 1 for one that is not
// met or counts nowhere.
std::vector<double> WeightsOf(const Pixels& pixels) {
  constexpr double kLeast = 0.25;
  constexpr double kMost = 5;
  std::vector<double> counts;
  for (size_t i = 0; i < pixels.counts.size(); ++i) {
    if (pixels.counts[i] > 0 && static_cast<int64_t>(i) != pixels.ignored) {
      counts.push_back(static_cast<double>(pixels.counts[i]));
    }
  }
  const double median = Quantile(counts, 0.5);
  std::vector<double> weights;
  for (int64_t i = 0; i < ClassesOf(pixels); ++i) {
    const int64_t count = pixels.counts[static_cast<size_t>(i)];
    const bool counts_here = count > 0 && i != pixels.ignored;
    weights.push_back(counts_here ? std::clamp(std::sqrt(median / static_cast<double>(count)), kLeast, kMost) : 1);
  }
  return weights;
}

void AddClasses(const Pixels& pixels, Values& values) {
  const std::vector<double> weights = WeightsOf(pixels);
  std::vector<std::string> fields;
  std::string rows;
  double all = 0;
  for (const int64_t count : pixels.counts) all += static_cast<double>(count);
  for (size_t i = 0; i < pixels.names.size(); ++i) {
    const bool is_ignored = static_cast<int64_t>(i) == pixels.ignored;
    if (i < weights.size()) fields.push_back(StrCat("class_weighting: ", Rounded(weights[i], 2)));
    rows += fmt::format("| {} | {:.1f} % | {} |\n", Printable(pixels.names[i]),
                        100 * static_cast<double>(pixels.counts[i]) / all,
                        is_ignored ? "counts nowhere" : Rounded(weights[i], 2));
  }
  values["weights"] = Join(fields, " ");
  values["most_weight"] = Rounded(*std::ranges::max_element(weights), 2);
  values["class_rows"] = rows;
  values["classes"] = StrCat(ClassesOf(pixels));
  values["ignore"] = StrCat(pixels.ignored);
}

void SetWidth(int64_t width, Values& values) {
  AddWidths(width, 4, values);
  values["w5"] = StrCat(width * 12);
}

NewModel DeriveSegmenter(const NewData& data, const NewOptions& options) {
  const Pixels pixels = PixelsOf(data);
  RefuseTooLittle(data, pixels);
  const NewPart& train = data.train();
  const int64_t side = options.budget.size == NewSize::kSmall   ? 160
                       : options.budget.size == NewSize::kLarge ? 320
                                                                : 240;
  const InputSize input = InputSizeOf(train, side, 4);
  const ColorFacts colors = train.facts->ColorsOf(train.pictures);
  Values values = CommonValues(data, options);
  AddInputSize(input, train, values);
  AddColors(colors, values);
  AddClasses(pixels, values);
  AddTestBatches(data, 4, values);
  // A turn uncovers the mean of all channels, which is near nothing once the mean is subtracted.
  double fill = 0;
  for (const double mean : colors.mean) fill += mean / static_cast<double>(colors.mean.size());
  values["fill"] = Rounded(fill, 0);
  // Crops are cut out of twice the input's size.
  values["max_side"] = StrCat(2 * std::max(input.width, input.height));
  values["batch"] = StrCat(kBatch);
  Search search;
  search.widths =
      options.budget.size == NewSize::kLarge ? std::vector<int64_t>{24, 16, 12, 8} : std::vector<int64_t>{16, 12, 8};
  search.pictures = train.size();
  search.batch = kBatch;
  search.samples = 24'000;
  search.least_epochs = 10;
  search.most_epochs = 300;
  search.shapes = {{"data", Shape{kBatch, std::ssize(colors.mean), input.height, input.width}},
                   {"label", Shape{kBatch, 1, input.height, input.width}}};
  const Recipe recipe{.text = SegmentTemplate(),
                      .front = {"head", "blocks"},
                      .net = {"body"},
                      .behind = {"scores"},
                      .set_width = SetWidth};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  NewModel model = MakeModel(
      recipe, data, choice,
      fmt::format("{} classes of pixels: {}", ClassesOf(pixels), Printable(Join(pixels.names, ", "))), values);
  model.files["labels.txt"] = Join(pixels.names, "\n") + "\n";
  model.storage = PixelStorage(data, 2 * std::max(input.width, input.height));
  return model;
}

}  // namespace

NewTask SegmentNewTask() {
  return {.name = "segment",
          .source = "a folder with images and masks (PNGs of the same names), or masks:PICTURES,MASKS",
          .find = FindMasks,
          .number = NumberMaskValues,
          .derive = DeriveSegmenter};
}

}  // namespace moka
