// Assignments against all permutations, tracks of made-up objects that cross and are missed, and scores against
// TrackEval's: tests/golden/track_scores.json, which tests/golden/make_track_scores.py has made.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "core/file.h"
#include "core/text.h"
#include "data/tracks/track_file.h"
#include "tools/track/assignment.h"
#include "tools/track/track_scores.h"
#include "tools/track/tracker.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

double LeastOfAll(const std::vector<double>& costs, int64_t rows, int64_t columns) {
  std::vector<int64_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), int64_t{0});
  double least = HUGE_VAL;
  do {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += costs[static_cast<size_t>(r * columns + order[static_cast<size_t>(r)])];
    least = std::min(least, sum);
  } while (std::ranges::next_permutation(order).found);
  return least;
}

TEST(AssignmentTest, IsTheLeastOfAll) {
  std::mt19937 random(3);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::uniform_real_distribution<double> number(-5, 5);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 5}, {5, 5}, {3, 6}, {6, 6}}) {
    for (int i = 0; i < 20; ++i) {
      std::vector<double> costs(static_cast<size_t>(rows * columns));
      for (double& cost : costs) cost = i % 2 == 0 ? number(random) : std::round(number(random));
      std::vector<double> turned(costs.size());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          turned[static_cast<size_t>(c * rows + r)] = costs[static_cast<size_t>(r * columns + c)];
        }
      }
      double sum = 0;
      std::set<int64_t> used;
      for (const auto& [r, c] : LeastAssignment(costs, rows, columns)) {
        sum += costs[static_cast<size_t>(r * columns + c)];
        EXPECT_TRUE(used.insert(c).second);
      }
      ASSERT_EQ(std::ssize(used), rows);
      EXPECT_NEAR(sum, LeastOfAll(costs, rows, columns), 1e-9);
      double other = 0;
      for (const auto& [c, r] : LeastAssignment(turned, columns, rows)) {
        other += costs[static_cast<size_t>(r * columns + c)];
      }
      EXPECT_NEAR(other, sum, 1e-9);
    }
  }
  EXPECT_TRUE(LeastAssignment({}, 0, 3).empty());
  EXPECT_TRUE(LeastAssignment({}, 3, 0).empty());
}

// Ten objects on ways through one another; a detector misses a fifth of them and is off by two pixels.
struct MadeUp {
  FrameBoxes truth;  // those that were seen: what a detector misses no tracker finds
  std::vector<std::vector<DetectedBox>> seen;
};

MadeUp MakeUp(int64_t frames, unsigned seed) {
  std::mt19937 random(seed);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::normal_distribution<double> noise(0, 2);
  std::uniform_real_distribution<double> part(0, 1);
  MadeUp made{FrameBoxes(static_cast<size_t>(frames)),
              std::vector<std::vector<DetectedBox>>(static_cast<size_t>(frames))};
  constexpr int kObjects = 10;
  for (int64_t f = 0; f < frames; ++f) {
    for (int k = 0; k < kObjects; ++k) {
      // To and fro at rates of their own, so that they cross again and again.
      const double x = 300 + 280 * std::sin(static_cast<double>(f) / (32 + 3 * k) + 2.4 * k);
      const double y = 25.0 * k;
      const PixelBox box{x, y, x + 40, y + 60};
      if (part(random) < 0.2) continue;
      made.truth[static_cast<size_t>(f)].push_back({k + 1, 1, box, 1});
      made.seen[static_cast<size_t>(f)].push_back(
          {1,
           {box.xmin + noise(random), box.ymin + noise(random), box.xmax + noise(random), box.ymax + noise(random)},
           0.7 + 0.25 * part(random)});
    }
  }
  return made;
}

FrameBoxes Tracked(const std::vector<std::vector<DetectedBox>>& seen) {
  BoxTracker tracker;
  FrameBoxes found;
  for (const auto& detections : seen) found.push_back(tracker.Next(detections));
  return found;
}

TEST(TrackerTest, IdsAreKeptThroughMissesAndCrossings) {
  const MadeUp made = MakeUp(1000, 11);
  const TrackScores scores = ScoreTracks(made.truth, Tracked(made.seen));
  EXPECT_LE(scores.switches, 1) << "in a thousand pictures";
  EXPECT_GE(scores.idf1, 0.95);
  EXPECT_GE(scores.mota, 0.98);
}

TEST(TrackerTest, TheSameBoxesGiveTheSameTracksAndAnIdIsOnceInAPicture) {
  const MadeUp made = MakeUp(100, 5);
  const FrameBoxes first = Tracked(made.seen);
  const FrameBoxes second = Tracked(made.seen);
  for (size_t f = 0; f < first.size(); ++f) {
    ASSERT_EQ(first[f].size(), second[f].size());
    std::set<int64_t> ids;
    for (size_t i = 0; i < first[f].size(); ++i) {
      EXPECT_EQ(first[f][i].id, second[f][i].id);
      EXPECT_EQ(first[f][i].box.xmin, second[f][i].box.xmin);
      EXPECT_TRUE(ids.insert(first[f][i].id).second);
    }
  }
}

TEST(TrackerTest, LowScoresGoOnWithATrackAndBeginNone) {
  BoxTracker tracker;
  const auto next = [&](double score) {
    const DetectedBox seen{1, {10, 10, 30, 50}, score};
    return tracker.Next({&seen, 1});
  };
  EXPECT_TRUE(next(0.3).empty()) << "too low to begin one";
  EXPECT_TRUE(next(0.55).empty()) << "seen, and not 0.1 above";
  EXPECT_TRUE(next(0.9).empty()) << "begun, not yet confirmed";
  ASSERT_EQ(next(0.9).size(), 1U);
  ASSERT_EQ(next(0.2).size(), 1U) << "the second pass";
  EXPECT_EQ(next(0.9)[0].id, 1);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(tracker.Next({}).empty());
  EXPECT_TRUE(next(0.2).empty()) << "what is lost comes back by a high score alone";
  EXPECT_EQ(next(0.9)[0].id, 1) << "found again within 30 pictures";
  for (int i = 0; i < 31; ++i) tracker.Next({});
  EXPECT_TRUE(next(0.9).empty());
  EXPECT_EQ(next(0.9)[0].id, 2) << "ended; ids are not used again";
}

TEST(TrackerTest, ClassesAreFollowedApart) {
  BoxTracker tracker;
  const std::vector<DetectedBox> first{{1, {0, 0, 20, 20}, 0.9}};
  const std::vector<DetectedBox> second{{2, {0, 0, 20, 20}, 0.9}};
  ASSERT_EQ(tracker.Next(first).size(), 1U);
  EXPECT_TRUE(tracker.Next(second).empty());
  ASSERT_EQ(tracker.Next(second).size(), 1U);
  EXPECT_EQ(tracker.Next(first).front().id, 1);
}

TEST(TrackScoresTest, AreThoseOfTrackEval) {
  const Json golden = Json::parse(ReadFile(fs::path(MOKA_SOURCE_DIR) / "tests/golden/track_scores.json"));
  const fs::path folder = fs::temp_directory_path() / StrCat("moka_track_scores_", getpid());
  fs::create_directories(folder);
  for (const Json& c : golden.at("cases")) {
    WriteFileAtomically(folder / "truth.txt", c.at("truth").get<std::string>());
    WriteFileAtomically(folder / "found.txt", c.at("found").get<std::string>());
    const int64_t frames = c.at("frames");
    const TrackScores s = ScoreTracks(BoxesByFrame(ReadTracks(folder / "truth.txt", TrackRole::kTruth), frames),
                                      BoxesByFrame(ReadTracks(folder / "found.txt", TrackRole::kFound), frames));
    const Json& values = c.at("values");
    const std::map<std::string, double> ours = {{"hota", s.hota},
                                                {"det_a", s.det_a},
                                                {"ass_a", s.ass_a},
                                                {"loc_a", s.loc_a},
                                                {"mota", s.mota},
                                                {"motp", s.motp},
                                                {"idf1", s.idf1},
                                                {"missed", static_cast<double>(s.missed)},
                                                {"false", static_cast<double>(s.false_boxes)},
                                                {"switches", static_cast<double>(s.switches)},
                                                {"mostly_tracked", static_cast<double>(s.mostly_tracked)},
                                                {"mostly_lost", static_cast<double>(s.mostly_lost)},
                                                {"fragments", static_cast<double>(s.fragments)}};
    ASSERT_EQ(values.size(), ours.size());
    for (const auto& [name, value] : ours) EXPECT_NEAR(value, values.at(name).get<double>(), 1e-9) << name;
  }
  fs::remove_all(folder);
}

TEST(TrackScoresTest, NothingFoundAndNothingThere) {
  const FrameBoxes some = {{{1, 1, {0, 0, 10, 10}, 1}}};
  const FrameBoxes none(1);
  EXPECT_EQ(ScoreTracks(some, none).missed, 1);
  EXPECT_EQ(ScoreTracks(none, some).false_boxes, 1);
  EXPECT_EQ(ScoreTracks(none, none).mota, 0);
  EXPECT_EQ(ScoreTracks(some, {{{1, 2, {0, 0, 10, 10}, 1}}}).idf1, 0) << "another class";
}

}  // namespace
}  // namespace moka
