// A detection takes the object that it overlaps most, once; difficult objects count neither way. This is PASCAL VOC's
// rule, as SSD's code has it.
#include "layers/forks/ssd/ops/evaluation.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace moka {

void DetectionJudge::ReadDetections(const Reals& detections, int64_t rows) {
  found_.clear();
  for (int64_t row = 0; row < rows; ++row) {
    const Reals r = detections.From(row * 7);
    const Found found{WholePart(r[0]), WholePart(r[1]), r[2], r.BoxAt(3), row};
    if (found.image == -1 || found.label == -1 || found.label == s_.background) continue;
    found_.push_back(found);
  }
  std::ranges::sort(found_, {}, [](const Found& f) { return std::tuple(f.image, f.label, f.row); });
}

void DetectionJudge::ReadObjects(const Reals& truth, int64_t rows) {
  objects_.clear();
  for (int64_t row = 0; row < rows; ++row) {
    const TruthRow object = ReadTruth(truth, row);
    if (object.image != -1 && object.label != s_.background) objects_.push_back({object});
  }
  std::ranges::sort(objects_, {},
                    [](const Object& o) { return std::tuple(o.truth.image, o.truth.label, o.truth.row); });
}

int64_t DetectionJudge::WriteClasses(const RealsOut& out) const {
  int64_t row = 0;
  for (int64_t c = 0; c < s_.classes; ++c) {
    if (c == s_.background) continue;
    const auto count = std::ranges::count_if(
        objects_, [&](const Object& o) { return o.truth.label == c && (s_.evaluate_difficult || !o.truth.difficult); });
    const RealsOut to = out.From(row++ * 5);
    to.Fill(0, 5, -1);
    to.Set(1, static_cast<double>(c));
    to.Set(2, static_cast<double>(count));
  }
  return row;
}

std::span<DetectionJudge::Object> DetectionJudge::ObjectsOf(const Found& found) {
  const auto place = [](const Object& o) { return std::pair(o.truth.image, o.truth.label); };
  const std::pair wanted(found.image, found.label);
  return {std::ranges::lower_bound(objects_, wanted, {}, place), std::ranges::upper_bound(objects_, wanted, {}, place)};
}

int DetectionJudge::Judge(const Found& found, std::span<Object> objects) const {
  double best = -1;
  Object* hit = nullptr;
  for (Object& object : objects) {
    const double overlap = Overlap(found.box, object.truth.box);
    if (!(overlap > best)) continue;
    best = overlap;
    hit = &object;
  }
  if (hit == nullptr || !(best >= s_.overlap_threshold)) return 0;
  if (hit->truth.difficult && !s_.evaluate_difficult) return -1;
  return std::exchange(hit->taken, true) ? 0 : 1;
}

void DetectionJudge::Evaluate(const Reals& detections, int64_t rows, const Reals& truth, int64_t truth_rows,
                              const RealsOut& out) {
  ReadDetections(detections, rows);
  ReadObjects(truth, truth_rows);
  int64_t row = WriteClasses(out);
  for (auto begin = found_.begin(); begin != found_.end();) {
    const auto end = std::find_if(begin, found_.end(),
                                  [&](const Found& f) { return f.image != begin->image || f.label != begin->label; });
    const std::span<Object> objects = ObjectsOf(*begin);
    if (!objects.empty()) {
      // NaN scores come last: comparing with them would be no order.
      std::sort(begin, end, [](const Found& a, const Found& b) {
        const bool a_is_number = a.score == a.score;
        const bool b_is_number = b.score == b.score;
        if (a_is_number != b_is_number) return a_is_number;
        return a.score > b.score || (!(b.score > a.score) && a.row < b.row);
      });
    }
    for (; begin != end; ++begin) {
      const int verdict = Judge(*begin, objects);
      const RealsOut to = out.From(row++ * 5);
      to.Set(0, static_cast<double>(begin->image));
      to.Set(1, static_cast<double>(begin->label));
      to.Set(2, begin->score);
      to.Set(3, verdict == 1 ? 1 : 0);
      to.Set(4, verdict == 0 ? 1 : 0);
    }
  }
  out.Fill(row * 5, (s_.ClassRows() + rows) * 5, -1);
}

}  // namespace moka
