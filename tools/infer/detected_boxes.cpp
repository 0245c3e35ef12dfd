// A row of another item or of class -1 is none; corners come back through the part of the picture that was shown.
#include "tools/infer/detected_boxes.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace moka {
namespace {

constexpr int64_t kRowColumns = 7;  // item, class, score, xmin, ymin, xmax, ymax as parts of the picture

}  // namespace

std::string RowsOutput(const PictureNet& net) {
  for (const std::string& name : net.outputs()) {
    const Shape shape = net.output(name).shape();
    if (shape.rank() == 4 && shape[3] == kRowColumns) return name;
  }
  throw Error(ErrorKind::kConfig, {}, "no output of the net is rows [1,1,R,7] of boxes",
              "detection nets end in a DetectionOutput layer in the phase TEST");
}

std::vector<ShownBox> BoxesOf(const Tensor& rows, int64_t slot, double least, const Image& picture,
                              const ImageBox& shown) {
  std::vector<ShownBox> boxes;
  const std::span<const float> all = rows.as<const float>();
  const auto width = static_cast<double>(picture.width);
  const auto height = static_cast<double>(picture.height);
  for (size_t i = 0; i + kRowColumns <= all.size(); i += kRowColumns) {
    const std::span<const float> row = all.subspan(i, kRowColumns);
    if (row[0] != static_cast<float>(slot) || row[1] < 0 || !(row[2] >= least)) continue;
    const auto x = [&](float part) { return std::clamp(shown.x + double{part} * shown.width, 0.0, 1.0) * width; };
    const auto y = [&](float part) { return std::clamp(shown.y + double{part} * shown.height, 0.0, 1.0) * height; };
    const MarkBox box{x(row[3]), y(row[4]), x(row[5]), y(row[6])};
    if (shown.width * shown.height > 1 && !(box.right > box.left && box.bottom > box.top)) continue;  // beside it
    boxes.push_back({static_cast<int64_t>(row[1]), static_cast<double>(row[2]), box});
  }
  std::ranges::stable_sort(boxes, std::greater<>(), &ShownBox::score);
  return boxes;
}

std::vector<double> AllScoresOf(const Tensor& rows, int64_t slot) {
  std::vector<double> scores;
  const std::span<const float> all = rows.as<const float>();
  for (size_t i = 0; i + kRowColumns <= all.size(); i += kRowColumns) {
    if (all[i] == static_cast<float>(slot) && all[i + 1] >= 0) scores.push_back(static_cast<double>(all[i + 2]));
  }
  return scores;
}

}  // namespace moka
