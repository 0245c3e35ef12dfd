// moka data tracks: how well found tracks are the true ones (tools/track/track_scores.h).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/tracks/track_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/track/track_scores.h"

namespace moka {
namespace {

// Gives the found tracks the truth's labels, by the classes' names. Errors: kBadData where no class is in both.
void UnifyLabels(const TrackSet& truth, TrackSet& found) {
  bool has_one = truth.tracks.empty() || found.tracks.empty();
  std::vector<int32_t> labels{0};
  for (size_t label = 1; label < found.labels.size(); ++label) {
    const auto same = std::find(truth.labels.begin() + 1, truth.labels.end(), found.labels[label]);
    has_one = has_one || same != truth.labels.end();
    labels.push_back(static_cast<int32_t>(same != truth.labels.end() ? same - truth.labels.begin()
                                                                     : std::ssize(truth.labels) + std::ssize(labels)));
  }
  if (!has_one) {
    const auto names = [](const TrackSet& set) { return Join({set.labels.begin() + 1, set.labels.end()}, ", "); };
    throw Error(ErrorKind::kBadData, {},
                StrCat("no class is in both: ", Printable(truth.file), " has ", Printable(names(truth)), ", ",
                       Printable(found.file), " ", Printable(names(found))),
                "--any-class takes all for one");
  }
  for (Track& track : found.tracks) track.label = labels[static_cast<size_t>(track.label)];
}

int RunTracks(const Arguments& arguments) {
  TrackSet truth = ReadTracks(arguments.Word(0, "the file of true tracks"), TrackRole::kTruth);
  TrackSet found = ReadTracks(arguments.Word(1, "the file of found tracks"), TrackRole::kFound);
  const int64_t frames = arguments.Int("frames", std::max(FramesOf(truth), FramesOf(found)), 1, kMostTrackFrames);
  if (arguments.Has("any-class")) {
    for (TrackSet* set : {&truth, &found}) {
      for (Track& track : set->tracks) track.label = 1;
    }
  } else {
    UnifyLabels(truth, found);
  }
  arguments.RefuseUnread({"json"});
  for (const TrackSet* set : {&truth, &found}) {
    for (const std::string& warning : set->warnings) LogWarning(warning);
  }
  const TrackScores s = ScoreTracks(BoxesByFrame(truth, frames), BoxesByFrame(found, frames));
  if (arguments.Has("json")) {
    PrintJson(nlohmann::ordered_json({{"frames", frames},
                                      {"hota", s.hota},
                                      {"det_a", s.det_a},
                                      {"ass_a", s.ass_a},
                                      {"loc_a", s.loc_a},
                                      {"mota", s.mota},
                                      {"motp", s.motp},
                                      {"idf1", s.idf1},
                                      {"true_boxes", s.true_boxes},
                                      {"found_boxes", s.found_boxes},
                                      {"missed", s.missed},
                                      {"false", s.false_boxes},
                                      {"switches", s.switches},
                                      {"true_tracks", s.true_tracks},
                                      {"found_tracks", s.found_tracks},
                                      {"mostly_tracked", s.mostly_tracked},
                                      {"mostly_lost", s.mostly_lost},
                                      {"fragments", s.fragments}}));
    return 0;
  }
  Print("HOTA {:.4f}  (detection {:.4f}, association {:.4f}, overlap {:.4f})\n", s.hota, s.det_a, s.ass_a, s.loc_a);
  Print("MOTA {:.4f}  (overlap {:.4f})\nIDF1 {:.4f}\n", s.mota, s.motp, s.idf1);
  Print("{} pictures, {} true boxes: {} missed, {} false, {} switches of ids, {} fragments\n", frames, s.true_boxes,
        s.missed, s.false_boxes, s.switches, s.fragments);
  Print("{} true tracks: {} mostly tracked, {} mostly lost; {} found tracks\n", s.true_tracks, s.mostly_tracked,
        s.mostly_lost, s.found_tracks);
  return 0;
}

}  // namespace

Verb DataTracksVerb() {
  Verb verb;
  verb.name = "tracks";
  verb.under = "data";
  verb.summary = "score tracks of objects against the true ones: HOTA, MOTA, IDF1";
  verb.usage = "TRUTH FOUND [--flags]";
  verb.examples = {"moka data tracks truth.txt tracks/street.txt"};
  verb.options = {{"frames", "N", "pictures of the video (default: to the last that has a box)"},
                  {"any-class", "", "an object may be matched with one of another class"},
                  {"json", "", "print as JSON"}};
  verb.run = RunTracks;
  verb.most_words = 2;
  return verb;
}

}  // namespace moka
