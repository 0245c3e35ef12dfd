// moka new detect: pictures with boxes to a small SSD, by the recipe of models/bccd_ssd.
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

namespace fs = std::filesystem;

constexpr int64_t kBatch = 16;
constexpr std::array<int64_t, 4> kStrides = {8, 16, 32, 64};

// Boxes of the training in pixels of the net's input.
struct LabelledBox {
  double width = 0;
  double height = 0;
  double size() const { return std::sqrt(width * height); }
  double ratio() const { return std::max(width, height) / std::max(1e-6, std::min(width, height)); }
};

std::vector<LabelledBox> BoxesOf(const NewPart& train, const InputSize& input) {
  const std::set<int64_t> pictures(train.pictures.begin(), train.pictures.end());
  std::vector<LabelledBox> boxes;
  for (const BoxFacts& box : train.facts->sizes_of_boxes()) {
    if (!pictures.contains(box.picture)) continue;
    const PictureRow& row = train.row(box.picture);
    boxes.push_back({box.width / row.width * static_cast<double>(input.width),
                     box.height / row.height * static_cast<double>(input.height)});
  }
  return boxes;
}

// The longer side of the input: 320 pixels, or more where a tenth of all boxes would be smaller than a cell of the
// finest map and a quarter.
int64_t LongerSideOf(const NewPart& train, NewSize size) {
  const int64_t wanted = size == NewSize::kSmall ? 256 : size == NewSize::kLarge ? 416 : 320;
  constexpr double kSmallestBox = 10;
  constexpr int64_t kMostSide = 512;
  const std::vector<LabelledBox> boxes = BoxesOf(train, InputSizeOf(train, wanted, 16));
  std::vector<double> sizes;
  for (const LabelledBox& box : boxes) sizes.push_back(box.size());
  const double small = sizes.empty() ? kSmallestBox : std::max(1.0, Quantile(sizes, 0.1));
  return std::clamp(static_cast<int64_t>(static_cast<double>(wanted) * kSmallestBox / small), wanted, kMostSide);
}

// Two sizes of default boxes for each map: where a third and two thirds of those boxes lie that the map is for,
// from 1.5 to 3 or so of its stride; of a map with few boxes 2 and 3 times its stride.
void AddDefaultBoxes(const std::vector<LabelledBox>& boxes, const InputSize& input, Values& values) {
  constexpr size_t kEnough = 20;
  std::array<std::array<int64_t, 2>, kStrides.size()> sizes = {};
  std::vector<std::string> words;
  for (size_t map = 0; map < kStrides.size(); ++map) {
    const auto stride = static_cast<double>(kStrides.at(map));
    const double low = map == 0 ? 0 : 2.1 * stride;
    const double high = map + 1 == kStrides.size() ? 1e9 : 4.2 * stride;
    std::vector<double> its;
    for (const LabelledBox& box : boxes) {
      if (box.size() >= low && box.size() < high) its.push_back(box.size());
    }
    std::array<double, 2> pair = {2 * stride, 3 * stride};
    if (its.size() >= kEnough) pair = {Quantile(its, 1.0 / 3), Quantile(its, 2.0 / 3)};
    pair[1] = std::max(pair[1], pair[0] * 1.15);
    for (size_t i = 0; i < 2; ++i) sizes.at(map).at(i) = std::max<int64_t>(4, std::lround(pair.at(i)));
    words.push_back(fmt::format("{} and {} pixels on the map of stride {} ({} boxes of the training)", sizes.at(map)[0],
                                sizes.at(map)[1], kStrides.at(map), its.size()));
  }
  for (size_t map = 0; map < kStrides.size(); ++map) {
    const int64_t after =
        map + 1 < kStrides.size() ? std::max(sizes.at(map + 1)[0], sizes.at(map)[1] + 2) : sizes.at(map)[1] * 5 / 4;
    values[StrCat("sizes", kStrides.at(map))] = fmt::format("[{}, {}]", sizes.at(map)[0], sizes.at(map)[1]);
    values[StrCat("next", kStrides.at(map))] = fmt::format("[{}, {}]", sizes.at(map)[1], after);
  }
  std::vector<double> ratios;
  for (const LabelledBox& box : boxes) ratios.push_back(box.ratio());
  constexpr double kLong = 2.5;  // half way, as a ratio, from 2 to 3
  const double longest = Quantile(ratios, 0.95);
  const int64_t kinds = longest > kLong ? 2 : 1;
  const int64_t a_cell = 2 * (2 + 2 * kinds);
  int64_t cells = 0;
  int64_t width = input.width;
  int64_t height = input.height;
  for (int64_t stride = 2; stride <= kStrides.back(); stride *= 2) {
    width = CeilDiv(width, 2).value();
    height = CeilDiv(height, 2).value();
    if (stride >= kStrides.front()) cells += width * height;
  }
  values["a_cell"] = StrCat(a_cell);
  values["places"] = StrCat(4 * a_cell);
  values["ratios"] = kinds == 2 ? "aspect_ratio: 2 aspect_ratio: 3" : "aspect_ratio: 2";
  values["default_boxes"] = StrCat(cells * a_cell);
  values["box_words"] = StrCat(
      "Two sizes a map, where a third and two thirds of its boxes lie: ", Join(words, "; "),
      fmt::format(". 95 % of the boxes have sides of 1 to {:.1f}, so ratios of {} are enough. {} default boxes in all.",
                  longest, kinds == 2 ? "2 and 3" : "2", cells * a_cell));
}

void SetWidth(int64_t width, Values& values) {
  AddWidths(width, 3, values);
  values["w0"] = StrCat(width * 3 / 4);
}

NewModel DeriveDetector(const NewData& data, const NewOptions& options) {
  const std::vector<std::string> classes = BoxClasses(data);
  RefuseFewBoxes(data, classes);
  const NewPart& train = data.train();
  const InputSize input = InputSizeOf(train, LongerSideOf(train, options.budget.size), 16);
  const ColorFacts colors = train.facts->ColorsOf(train.pictures);
  Values values = CommonValues(data, options);
  AddInputSize(input, train, values);
  AddColors(colors, values);
  AddDefaultBoxes(BoxesOf(train, input), input, values);
  AddTestBatches(data, 32, values);
  const int64_t batch = std::clamp<int64_t>(train.size() / 4, 4, kBatch);
  AddBoxClasses(data, classes, values);
  values["batch"] = StrCat(batch);
  Search search;
  search.widths =
      options.budget.size == NewSize::kLarge ? std::vector<int64_t>{48, 32, 24, 16} : std::vector<int64_t>{32, 24, 16};
  search.pictures = train.size();
  search.batch = batch;
  search.samples = 25'600;
  search.least_epochs = 12;
  search.most_epochs = 250;
  search.shapes = {{"data", Shape{batch, std::ssize(colors.mean), input.height, input.width}}};
  const Recipe recipe{.text = DetectTemplate(), .front = {"head", "blocks"}, .net = {"body"}, .set_width = SetWidth};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  NewModel model = MakeModel(recipe, data, choice, BoxesText(data, classes), values);
  model.files["labels.txt"] = Join(classes, "\n") + "\n";
  model.storage = PixelStorage(data, std::max(input.width, input.height));
  return model;
}

}  // namespace

NewTask DetectNewTask() {
  return {.name = "detect",
          .source = "a folder in PASCAL VOC's, COCO's or YOLO's layout, or voc:ROOT,SPLIT and the like",
          .find = FindBoxes,
          .number = NumberBoxClasses,
          .derive = DeriveDetector};
}

}  // namespace moka
