// moka new instances: pictures with the masks of single objects to a small Mask R-CNN, by the recipe of
// models/nuclei_mask_rcnn.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "tools/new/boxes.h"
#include "tools/new/layouts.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kStep = 16;        // the coarsest map's stride, which sides are multiples of
constexpr int64_t kLeastCrop = 64;   // pixels
constexpr int64_t kMostCrop = 256;   // likewise
constexpr size_t kAnchorSizes = 6;   // two on each of three maps
constexpr double kMostFound = 1.25;  // objects that a test may find, of those that are there

// Sizes of the pictures as they are stored: the longer side at most `stored`.
struct Canvas {
  int64_t stored = 0;
  int64_t width = 0;  // of a picture of any part, at most
  int64_t height = 0;
  int64_t crop = 0;  // fits into each picture of the training
  double scale(const PictureRow& row) const {
    return std::min(1.0, static_cast<double>(stored) / static_cast<double>(std::max(row.width, row.height)));
  }
};

// Errors: kBadData for a picture that holds no crop.
Canvas CanvasOf(const NewData& data, NewSize size) {
  Canvas canvas;
  canvas.stored = size == NewSize::kSmall ? 384 : size == NewSize::kLarge ? 1024 : 640;
  int64_t least = kMostCrop;
  for (const NewPart& part : data.parts) {
    for (const int64_t i : part.pictures) {
      const PictureRow& row = part.row(i);
      const auto side = [&](int64_t pixels) {
        return static_cast<int64_t>(std::floor(static_cast<double>(pixels) * canvas.scale(row)));
      };
      canvas.width = std::max(canvas.width, side(row.width) + 1);
      canvas.height = std::max(canvas.height, side(row.height) + 1);
      if (&part != &data.train()) continue;
      least = std::min(least, side(std::min(row.width, row.height)));
      if (least >= kLeastCrop) continue;
      throw Error(ErrorKind::kBadData, {},
                  StrCat(Printable(part.facts->PlaceOf(i)), " is ", row.width, " x ", row.height,
                         " pixels, and a crop of ", kLeastCrop, " does not fit into it"),
                  "leave the picture out, or enlarge it and its masks");
    }
  }
  canvas.crop = least / kStep * kStep;
  canvas.width = RoundUp(canvas.width, kStep).value();
  canvas.height = RoundUp(canvas.height, kStep).value();
  return canvas;
}

// Sizes of anchors, ascending: quantiles of the roots of the boxes' areas, each a sixth above the one before at least.
std::array<int64_t, kAnchorSizes> AnchorsOf(const NewPart& train, const Canvas& canvas) {
  const std::set<int64_t> pictures(train.pictures.begin(), train.pictures.end());
  std::vector<double> sizes;
  for (const BoxFacts& box : train.facts->sizes_of_boxes()) {
    if (!pictures.contains(box.picture)) continue;
    sizes.push_back(std::sqrt(box.width * box.height) * canvas.scale(train.row(box.picture)));
  }
  std::array<int64_t, kAnchorSizes> anchors = {};
  constexpr std::array<double, kAnchorSizes> kShares = {0.05, 0.2, 0.4, 0.6, 0.8, 0.95};
  constexpr double kGrowth = 7.0 / 6;
  double before = 0;
  for (size_t i = 0; i < kAnchorSizes; ++i) {
    before = std::max({6.0, before * kGrowth, Quantile(sizes, kShares.at(i))});
    anchors.at(i) = std::lround(before);
  }
  return anchors;
}

void SetWidth(int64_t width, Values& values) {
  AddWidths(width, 3, values);
  values["w0"] = StrCat(width / 2);
  values["w4"] = StrCat(width * 6);
}

NewModel DeriveInstances(const NewData& data, const NewOptions& options) {
  const std::vector<std::string> classes = BoxClasses(data);
  RefuseFewBoxes(data, classes);
  const NewPart& train = data.train();
  const Canvas canvas = CanvasOf(data, options.budget.size);
  const ColorFacts colors = train.facts->ColorsOf(train.pictures);
  Values values = CommonValues(data, options);
  AddInputSize({canvas.crop, canvas.crop, 1}, train, values);
  AddColors(colors, values);
  AddBoxClasses(data, classes, values);
  std::vector<std::string> anchors;
  for (const int64_t size : AnchorsOf(train, canvas)) anchors.push_back(StrCat(size));
  values["anchors"] = "size: " + Join(anchors, " size: ");
  values["anchor_words"] =
      StrCat(Join(anchors, ", "), " pixels: sizes below which 5, 20, 40, 60, 80 and 95 % of the objects lie.");
  values["crop"] = StrCat(canvas.crop);
  values["canvas_width"] = StrCat(canvas.width);
  values["canvas_height"] = StrCat(canvas.height);
  values["max_side"] = StrCat(canvas.stored);
  values["size_words"] = fmt::format(
      "Pictures are stored with a longer side of {} pixels at most, which `--size` allows. Crops of {} pixels fit into "
      "each of the training; tests put whole pictures on a canvas of {} x {}.",
      canvas.stored, canvas.crop, canvas.width, canvas.height);
  values["most_found"] = StrCat(std::max<int64_t>(100, std::lround(static_cast<double>(MostBoxes(data)) * kMostFound)));
  const int64_t batch = std::clamp<int64_t>(train.size() / 4, 1, kBatch);
  values["batch"] = StrCat(batch);
  Search search;
  search.widths =
      options.budget.size == NewSize::kLarge ? std::vector<int64_t>{24, 16, 8} : std::vector<int64_t>{16, 8};
  search.pictures = train.size();
  search.batch = batch;
  search.samples = 8'800;
  search.least_epochs = 8;
  search.most_epochs = 200;
  search.shapes = {{"data", Shape{batch, std::ssize(colors.mean), canvas.crop, canvas.crop}}};
  const Recipe recipe{.text = InstancesTemplate(),
                      .front = {"head", "blocks"},
                      .net = {"body"},
                      .set_width = SetWidth,
                      .has_deploy = false};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  NewModel model = MakeModel(recipe, data, choice, BoxesText(data, classes), values);
  model.files["labels.txt"] = Join(classes, "\n") + "\n";
  model.storage = PixelStorage(data, canvas.stored);
  return model;
}

}  // namespace

NewTask InstancesNewTask() {
  return {.name = "instances",
          .source = "a folder in COCO's layout, or with images and masks (PNGs of objects' numbers), or such words",
          .find = FindInstances,
          .derive = DeriveInstances};
}

}  // namespace moka
