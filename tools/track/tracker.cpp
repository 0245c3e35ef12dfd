// Costs of pairs that may not match are so high that a matching with fewer of them is always cheaper; they are taken
// out of it afterwards.
#include "tools/track/tracker.h"

#include <algorithm>

#include "layers/ops/boxes.h"
#include "tools/track/assignment.h"

namespace moka {

double OverlapOf(const PixelBox& a, const PixelBox& b) {
  return Overlap(Box<double>{a.xmin, a.ymin, a.xmax, a.ymax}, Box<double>{b.xmin, b.ymin, b.xmax, b.ymax}, kUnitSide);
}

void BoxTracker::Match(std::vector<size_t>& tracks, std::vector<DetectedBox>& detections, double least_overlap,
                       bool by_score) {
  constexpr double kNever = 1e3;
  std::vector<double> costs;
  costs.reserve(tracks.size() * detections.size());
  for (const size_t t : tracks) {
    const Followed& track = tracks_[t];
    const PixelBox predicted = track.filter.box();
    for (const DetectedBox& found : detections) {
      const double overlap = OverlapOf(predicted, found.box) * (by_score ? found.score : 1);
      costs.push_back(track.seen.label == found.label && overlap >= least_overlap ? 1 - overlap : kNever);
    }
  }
  std::vector<char> track_done(tracks.size());
  std::vector<char> found_done(detections.size());
  for (const auto& [row, column] : LeastAssignment(costs, std::ssize(tracks), std::ssize(detections))) {
    const auto r = static_cast<size_t>(row);
    const auto c = static_cast<size_t>(column);
    if (costs[r * detections.size() + c] >= kNever) continue;
    Followed& track = tracks_[tracks[r]];
    track.filter.Update(detections[c].box);
    track.seen = detections[c];
    track.frame = frame_;
    track.state = State::kTracked;
    track_done[r] = found_done[c] = 1;
  }
  size_t i = 0;
  std::erase_if(tracks, [&](size_t) { return track_done[i++] != 0; });
  i = 0;
  std::erase_if(detections, [&](const DetectedBox&) { return found_done[i++] != 0; });
}

std::vector<TrackedBox> BoxTracker::Next(std::span<const DetectedBox> detections) {
  const bool is_first = frame_ == 0;
  ++frame_;
  std::vector<DetectedBox> high;
  std::vector<DetectedBox> low;
  for (const DetectedBox& found : detections) {
    if (found.score >= options_.high) high.push_back(found);
    if (found.score >= options_.low && found.score < options_.high) low.push_back(found);
  }
  std::vector<size_t> pool;   // tracked and lost
  std::vector<size_t> fresh;  // seen once
  for (size_t t = 0; t < tracks_.size(); ++t) {
    tracks_[t].filter.Predict(tracks_[t].state == State::kLost);
    (tracks_[t].state == State::kNew ? fresh : pool).push_back(t);
  }
  Match(pool, high, options_.least_overlap, true);
  // A lost object does not come back by a detection that is hardly one.
  std::erase_if(pool, [&](size_t t) { return tracks_[t].state == State::kLost; });
  Match(pool, low, options_.least_overlap_low, false);
  for (const size_t t : pool) tracks_[t].state = State::kLost;
  Match(fresh, high, options_.least_overlap_new, true);
  std::erase_if(tracks_, [&](const Followed& track) {
    const bool was_seen = track.frame == frame_;
    return !was_seen && (track.state == State::kNew || frame_ - track.frame > options_.lost_frames);
  });
  for (const DetectedBox& found : high) {
    if (found.score < options_.high + options_.begin_above) continue;
    tracks_.push_back({0, BoxFilter(found.box), found, frame_, is_first ? State::kTracked : State::kNew});
  }
  std::vector<TrackedBox> shown;
  for (Followed& track : tracks_) {
    if (track.frame != frame_ || track.state != State::kTracked) continue;
    if (track.id == 0) track.id = next_id_++;
    shown.push_back({track.id, track.seen.label, track.seen.box, track.seen.score});
  }
  std::ranges::sort(shown, {}, &TrackedBox::id);
  return shown;
}

}  // namespace moka
