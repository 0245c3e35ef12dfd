// The order of sums and the treatment of ties follow the definitions above; where TrackEval adds a rounding error to a
// threshold, so does this.
#include "tools/track/track_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "tools/track/assignment.h"
#include "tools/track/tracker.h"

namespace moka {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kMatched = 0.5;  // overlap

// A picture's boxes by the places of their tracks, and their overlaps [truth, found].
struct Picture {
  std::vector<size_t> truth;
  std::vector<size_t> found;
  std::vector<double> overlaps;

  double overlap(size_t t, size_t f) const { return overlaps[t * found.size() + f]; }
};

struct Sequence {
  std::vector<Picture> pictures;
  std::vector<double> of_truth;  // boxes of each track
  std::vector<double> of_found;
};

std::vector<size_t> PlacesOf(const std::vector<TrackedBox>& boxes, std::map<int64_t, size_t>& places,
                             std::vector<double>& counts) {
  std::vector<size_t> of_boxes;
  for (const TrackedBox& box : boxes) {
    const auto [found, is_new] = places.emplace(box.id, places.size());
    if (is_new) counts.push_back(0);
    counts[found->second] += 1;
    of_boxes.push_back(found->second);
  }
  return of_boxes;
}

Sequence SequenceOf(const FrameBoxes& truth, const FrameBoxes& found) {
  Require(truth.size() == found.size(), "ScoreTracks: as many frames in both");
  Sequence sequence;
  std::map<int64_t, size_t> truth_places;
  std::map<int64_t, size_t> found_places;
  for (size_t i = 0; i < truth.size(); ++i) {
    Picture picture{
        PlacesOf(truth[i], truth_places, sequence.of_truth), PlacesOf(found[i], found_places, sequence.of_found), {}};
    for (const TrackedBox& a : truth[i]) {
      for (const TrackedBox& b : found[i]) {
        picture.overlaps.push_back(a.label == b.label ? OverlapOf(a.box, b.box) : 0);
      }
    }
    sequence.pictures.push_back(std::move(picture));
  }
  return sequence;
}

// Pairs of a picture's boxes at the largest sum of `score` [truth, found].
std::vector<std::pair<int64_t, int64_t>> BestPairs(const Picture& picture, std::vector<double> score) {
  for (double& value : score) value = -value;
  return LeastAssignment(score, std::ssize(picture.truth), std::ssize(picture.found));
}

// ---- CLEAR ----

// The state of the true tracks from picture to picture.
struct ClearState {
  static constexpr int64_t kNone = -1;
  std::vector<int64_t> last;      // the found track that each was matched with last
  std::vector<int64_t> previous;  // in the picture before alone
  std::vector<double> matched;    // pictures
  std::vector<int64_t> begun;     // times that a match began
};

void MatchPicture(const Picture& picture, ClearState& state, TrackScores& scores, double& overlap_sum) {
  constexpr double kStays = 1000;
  std::vector<double> score(picture.overlaps.size());
  for (size_t t = 0; t < picture.truth.size(); ++t) {
    for (size_t f = 0; f < picture.found.size(); ++f) {
      const double overlap = picture.overlap(t, f);
      const bool stays = state.previous[picture.truth[t]] == static_cast<int64_t>(picture.found[f]);
      score[t * picture.found.size() + f] = overlap < kMatched - kEpsilon ? 0 : overlap + (stays ? kStays : 0);
    }
  }
  std::vector<int64_t> now(state.previous.size(), ClearState::kNone);
  int64_t matches = 0;
  for (const auto& [row, column] : BestPairs(picture, score)) {
    const auto t = static_cast<size_t>(row);
    const auto f = static_cast<size_t>(column);
    if (!(score[t * picture.found.size() + f] > kEpsilon)) continue;
    const size_t track = picture.truth[t];
    const auto with = static_cast<int64_t>(picture.found[f]);
    if (state.last[track] != ClearState::kNone && state.last[track] != with) ++scores.switches;
    if (state.previous[track] == ClearState::kNone) ++state.begun[track];
    state.last[track] = with;
    now[track] = with;
    state.matched[track] += 1;
    overlap_sum += picture.overlap(t, f);
    ++matches;
  }
  state.previous = std::move(now);
  scores.missed += std::ssize(picture.truth) - matches;
  scores.false_boxes += std::ssize(picture.found) - matches;
}

void ScoreClear(const Sequence& sequence, TrackScores& scores) {
  const size_t tracks = sequence.of_truth.size();
  ClearState state{std::vector<int64_t>(tracks, ClearState::kNone), std::vector<int64_t>(tracks, ClearState::kNone),
                   std::vector<double>(tracks), std::vector<int64_t>(tracks)};
  double overlap_sum = 0;
  for (const Picture& picture : sequence.pictures) {
    if (picture.truth.empty() || picture.found.empty()) {  // leaves the state as it is
      scores.missed += std::ssize(picture.truth);
      scores.false_boxes += std::ssize(picture.found);
      continue;
    }
    MatchPicture(picture, state, scores, overlap_sum);
  }
  constexpr double kMostly = 0.8;
  constexpr double kHardly = 0.2;
  for (size_t t = 0; t < tracks; ++t) {
    const double part = state.matched[t] / sequence.of_truth[t];
    if (part > kMostly) ++scores.mostly_tracked;
    if (part < kHardly) ++scores.mostly_lost;
    if (state.begun[t] > 0) scores.fragments += state.begun[t] - 1;
  }
  const auto truth = static_cast<double>(scores.true_boxes);
  const auto hits = static_cast<double>(scores.true_boxes - scores.missed);
  scores.motp = overlap_sum / std::max(1.0, hits);
  scores.mota =
      (hits - static_cast<double>(scores.false_boxes) - static_cast<double>(scores.switches)) / std::max(1.0, truth);
}

// ---- Identity ----

void ScoreIdentity(const Sequence& sequence, TrackScores& scores) {
  const size_t truths = sequence.of_truth.size();
  const size_t founds = sequence.of_found.size();
  std::vector<double> costs(truths * founds);  // less the boxes that two tracks share
  for (const Picture& picture : sequence.pictures) {
    for (size_t t = 0; t < picture.truth.size(); ++t) {
      for (size_t f = 0; f < picture.found.size(); ++f) {
        if (picture.overlap(t, f) >= kMatched) costs[picture.truth[t] * founds + picture.found[f]] -= 1;
      }
    }
  }
  // A pair costs the boxes of both that the other has not, a track alone all of its boxes: the least sum of these is
  // the largest of the boxes that pairs share.
  double shared = 0;
  for (const auto& [t, f] : LeastAssignment(costs, static_cast<int64_t>(truths), static_cast<int64_t>(founds))) {
    shared -= costs[static_cast<size_t>(t) * founds + static_cast<size_t>(f)];
  }
  const auto truth = static_cast<double>(scores.true_boxes);
  const auto found = static_cast<double>(scores.found_boxes);
  scores.idf1 = shared / std::max(1.0, (truth + found) / 2);
}

// ---- HOTA ----

constexpr size_t kAlphas = 19;

// How much two tracks are one over the whole sequence, before boxes are matched: [truth, found].
std::vector<double> Alignments(const Sequence& sequence) {
  const size_t founds = sequence.of_found.size();
  std::vector<double> shared(sequence.of_truth.size() * founds);
  for (const Picture& picture : sequence.pictures) {
    std::vector<double> rows(picture.truth.size());
    std::vector<double> columns(picture.found.size());
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t f = 0; f < columns.size(); ++f) {
        rows[t] += picture.overlap(t, f);
        columns[f] += picture.overlap(t, f);
      }
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t f = 0; f < columns.size(); ++f) {
        const double all = rows[t] + columns[f] - picture.overlap(t, f);
        if (all > kEpsilon) shared[picture.truth[t] * founds + picture.found[f]] += picture.overlap(t, f) / all;
      }
    }
  }
  for (size_t t = 0; t < sequence.of_truth.size(); ++t) {
    for (size_t f = 0; f < founds; ++f) {
      double& value = shared[t * founds + f];
      value /= sequence.of_truth[t] + sequence.of_found[f] - value;
    }
  }
  return shared;
}

struct HotaCounts {
  std::vector<double> matches;  // [truth, found]
  double hits = 0;
  double overlaps = 0;
};

void ScoreHota(const Sequence& sequence, TrackScores& scores) {
  const size_t founds = sequence.of_found.size();
  const std::vector<double> alignments = Alignments(sequence);
  std::array<HotaCounts, kAlphas> counts;
  for (HotaCounts& count : counts) count.matches.resize(alignments.size());
  for (const Picture& picture : sequence.pictures) {
    std::vector<double> score;
    for (size_t t = 0; t < picture.truth.size(); ++t) {
      for (size_t f = 0; f < picture.found.size(); ++f) {
        score.push_back(alignments[picture.truth[t] * founds + picture.found[f]] * picture.overlap(t, f));
      }
    }
    for (const auto& [row, column] : BestPairs(picture, score)) {
      const auto t = static_cast<size_t>(row);
      const auto f = static_cast<size_t>(column);
      const double overlap = picture.overlap(t, f);
      for (size_t a = 0; a < kAlphas; ++a) {
        if (overlap < 0.05 + static_cast<double>(a) * 0.05 - kEpsilon) continue;
        counts[a].matches[picture.truth[t] * founds + picture.found[f]] += 1;
        counts[a].hits += 1;
        counts[a].overlaps += overlap;
      }
    }
  }
  for (const HotaCounts& count : counts) {
    double association = 0;
    for (size_t t = 0; t < sequence.of_truth.size(); ++t) {
      for (size_t f = 0; f < founds; ++f) {
        const double both = count.matches[t * founds + f];
        association += both * both / std::max(1.0, sequence.of_truth[t] + sequence.of_found[f] - both);
      }
    }
    association /= std::max(1.0, count.hits);
    const double all = static_cast<double>(scores.true_boxes + scores.found_boxes) - count.hits;
    const double detection = count.hits / std::max(1.0, all);
    scores.det_a += detection;
    scores.ass_a += association;
    scores.hota += std::sqrt(detection * association);
    scores.loc_a += std::max(1e-10, count.overlaps) / std::max(1e-10, count.hits);
  }
  for (double* mean : {&scores.det_a, &scores.ass_a, &scores.hota, &scores.loc_a}) *mean /= kAlphas;
}

}  // namespace

TrackScores ScoreTracks(const FrameBoxes& truth, const FrameBoxes& found) {
  const Sequence sequence = SequenceOf(truth, found);
  TrackScores scores;
  scores.true_tracks = std::ssize(sequence.of_truth);
  scores.found_tracks = std::ssize(sequence.of_found);
  for (const Picture& picture : sequence.pictures) {
    scores.true_boxes += std::ssize(picture.truth);
    scores.found_boxes += std::ssize(picture.found);
  }
  if (scores.true_boxes == 0 || scores.found_boxes == 0) {
    scores.missed = scores.true_boxes;
    scores.false_boxes = scores.found_boxes;
    scores.mostly_lost = scores.true_tracks;
    scores.loc_a = 1;
    return scores;
  }
  ScoreClear(sequence, scores);
  ScoreIdentity(sequence, scores);
  ScoreHota(sequence, scores);
  return scores;
}

}  // namespace moka
