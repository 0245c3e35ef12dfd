// Objects are read from the two forms of labels, rows and lists of a fixed length, and those of no class are left out.
#include "layers/forks/yolo/ops/boxes.h"

namespace moka {
namespace {

constexpr size_t kRowSize = 8;
constexpr size_t kListEntry = 5;

bool IsClass(double label, int64_t classes) { return label >= 0 && label < static_cast<double>(classes); }

}  // namespace

std::vector<std::vector<YoloObject>> ObjectsOfRows(const std::vector<double>& rows, int64_t images, int64_t classes,
                                                   int64_t first_label, int64_t placeless) {
  std::vector<std::vector<YoloObject>> objects(static_cast<size_t>(images));
  for (size_t i = 0; i + kRowSize <= rows.size(); i += kRowSize) {
    const double* row = rows.data() + i;
    const double label = row[1] - static_cast<double>(first_label);
    const YoloBox box{(row[3] + row[5]) / 2, (row[4] + row[6]) / 2, row[5] - row[3], row[6] - row[4]};
    if (!(row[0] >= 0 && row[0] < static_cast<double>(images))) continue;
    if (!IsClass(label, HasPlace(box) ? classes : placeless)) continue;
    objects[static_cast<size_t>(row[0])].push_back({box, static_cast<int64_t>(label)});
  }
  return objects;
}

std::vector<std::vector<YoloObject>> ObjectsOfLists(const std::vector<double>& lists, int64_t images, int64_t classes) {
  std::vector<std::vector<YoloObject>> objects(static_cast<size_t>(images));
  const size_t length = lists.size() / static_cast<size_t>(images);
  for (size_t image = 0; image < objects.size(); ++image) {
    for (size_t i = 0; i + kListEntry <= length; i += kListEntry) {
      const double* entry = lists.data() + image * length + i;
      if (entry[1] == 0 || entry[3] == 0) break;
      if (!IsClass(entry[0], classes)) continue;
      objects[image].push_back({{entry[1], entry[2], entry[3], entry[4]}, static_cast<int64_t>(entry[0])});
    }
  }
  return objects;
}

}  // namespace moka
