// One hypothesis at a time is put on the best shapes so far, the readers' needs are followed from there, and it is kept
// if the net gets further. Sizes of pictures are tried on the layers up to the first that fails, which is cheap, and
// only if that layer's complaint depends on the size at all.
#include "tools/check/shape_search.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/filter.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using Picture = std::pair<int64_t, int64_t>;  // height, width

// Sizes that public nets take: classifiers, SegNet, YOLO, fully convolutional nets and two-stage detectors.
constexpr std::array<Picture, 24> kPictures = {{
    {227, 227}, {256, 256}, {360, 480}, {320, 320}, {448, 448}, {416, 416}, {500, 500}, {512, 512},
    {321, 321}, {384, 384}, {473, 473}, {299, 299}, {300, 300}, {128, 128}, {64, 64},   {48, 48},
    {40, 40},   {32, 32},   {28, 28},   {24, 24},   {12, 12},   {480, 640}, {640, 640}, {640, 1056},
}};
constexpr int64_t kMostSide = 1024;

constexpr int kMostRounds = 12;     // of following needs; each one is a layer further down the net
constexpr int kMostSteps = 6;       // hypotheses kept
constexpr int kMostLayers = 40000;  // built in all, which takes about a second

class Search {
 public:
  Search(const NetParameter& net, const NetState& state, const TopShapes& given)
      : net_(net), state_(state), given_(given) {}

  std::optional<TopShapes> Find() {
    Trial best = Follow(net_, given_);
    if (!best.attempt.may_fit) return std::nullopt;
    for (int step = 0; step < kMostSteps && !best.attempt.builds; ++step) {
      if (!TryChannels(best) && !TrySizes(best)) return std::nullopt;
    }
    if (!best.attempt.builds) return std::nullopt;
    return best.shapes;
  }

 private:
  struct Trial {
    TopShapes shapes;
    NetAttempt attempt;
  };

  // How far a net builds: up to its first layer that fails.
  static int Progress(const NetAttempt& attempt) {
    if (attempt.builds) return static_cast<int>(attempt.is_built.size());
    return attempt.failures.empty() ? 0 : attempt.failures.front().layer;
  }

  NetAttempt Build(const NetParameter& net, const TopShapes& shapes) {
    layers_ += net.layer_size();
    NetOptions options = LookingOptions(state_, shapes);
    options.data_types = [&, types = options.data_types](const LayerParameter& layer) {
      asked_.insert(layer.name());
      return types(layer);
    };
    return AttemptNet(net, options);
  }

  // Builds, asks the layers that fail what they need, and builds again.
  Trial Follow(const NetParameter& net, TopShapes shapes) {
    std::map<std::string, int> changes;
    Trial trial{std::move(shapes), {}};
    trial.attempt = Build(net, trial.shapes);
    for (int round = 0; round < kMostRounds && !trial.attempt.builds && trial.attempt.may_fit; ++round) {
      bool is_changed = false;
      for (const auto& [name, shape] : NeededShapes(net, trial.attempt, TopsOf(trial.attempt))) {
        if (++changes[name] > 3) continue;  // two readers that disagree
        trial.shapes[name] = shape;
        is_changed = true;
      }
      if (!is_changed || layers_ > kMostLayers) break;
      trial.attempt = Build(net, trial.shapes);
    }
    return trial;
  }

  // The data tops of an attempt and what about them is a guess.
  DataTops TopsOf(const NetAttempt& attempt) const {
    DataTops tops;
    for (const DataLayer& data : attempt.data) {
      const LayerParameter& layer = data.param;
      const LayerTraits& traits = TraitsOf(layer);
      const bool is_python = traits.runs_python;
      // Layers that state their shapes themselves are not asked; of those built in in Python's place only what their
      // parameters leave to the dataset is open.
      const bool is_asked = asked_.contains(layer.name());
      if (!is_asked && !is_python) continue;
      const bool is_made = layer.bottom_size() > 0;  // by a Python layer from other tops
      const bool has_size = is_made    ? true
                            : is_asked ? GuessTypes(layer).assumed.empty()
                                       : layer.python_param().param_str().find("height") != std::string::npos;
      const bool is_rows = traits.data == DataKind::kRows;
      const bool is_record = traits.data == DataKind::kRecords || traits.data == DataKind::kProgram;
      const bool has_boxes = traits.data == DataKind::kBoxes;
      const int64_t means = layer.transform_param().mean_value_size();
      for (size_t i = 0; i < data.tops.size(); ++i) {
        if (given_.contains(data.tops[i])) continue;
        tops[data.tops[i]] = {.shape = data.types[i].shape,
                              .first = data.tops[0],
                              // The label of a record or of a program's own data is one number, boxes are rows;
                              // how many classes a label image has says a file.
                              .can_change = is_asked && (i == 0 || (!is_record && (!has_boxes || i == 2))),
                              .can_rebatch = is_python,  // of made rows too: proposals are as many as their layer likes
                              .can_resize = !has_size,
                              .can_be_gray = means <= 1 && (is_record || is_python || is_rows),
                              .is_made = is_made,
                              .is_batch = i == 0 && !is_rows && !is_made && data.types[i].shape.rank() == 4};
      }
    }
    return tops;
  }

  // Whether a change of these shapes gets the net further; `best` is then what came of it.
  bool Keep(Trial& best, const TopShapes& changes) {
    if (changes.empty() || layers_ > kMostLayers) return false;
    TopShapes shapes = best.shapes;
    for (const auto& [name, shape] : changes) shapes[name] = shape;
    Trial trial = Follow(net_, std::move(shapes));
    if (Progress(trial.attempt) <= Progress(best.attempt)) return false;
    best = std::move(trial);
    return true;
  }

  // Grey pictures, and pictures cut along the channels into equal parts.
  bool TryChannels(Trial& best) {
    const DataTops tops = TopsOf(best.attempt);
    TopShapes gray;
    for (const auto& [name, top] : tops) {
      if (top.can_be_gray && top.shape.rank() == 4 && top.shape[1] == 3) gray[name] = top.shape.With(1, 1);
    }
    return Keep(best, gray) || Keep(best, EqualParts(net_, tops));
  }

  // Another height and width for every picture whose size nothing says, and for what has the size of one.
  static TopShapes Resized(const DataTops& tops, const Picture& size) {
    const auto is_picture = [](const DataTop& top) { return top.can_resize && top.shape.rank() >= 4; };
    TopShapes shapes;
    for (const auto& [name, top] : tops) {
      const int rank = top.shape.rank();
      if (!is_picture(top)) continue;
      const auto first = tops.find(top.first);
      const bool is_like_first = first == tops.end() || !is_picture(first->second) ||
                                 (first->second.shape[first->second.shape.rank() - 1] == top.shape[rank - 1] &&
                                  first->second.shape[first->second.shape.rank() - 2] == top.shape[rank - 2]);
      if (is_like_first) shapes[name] = top.shape.With(rank - 2, size.first).With(rank - 1, size.second);
    }
    return shapes;
  }

  // The size of the first picture that has an open one; none if there is no such.
  static std::optional<Picture> OpenSize(const DataTops& tops) {
    for (const auto& [name, top] : tops) {
      const int rank = top.shape.rank();
      if (top.can_resize && rank >= 4) return Picture{top.shape[rank - 2], top.shape[rank - 1]};
    }
    return std::nullopt;
  }

  // Sizes in the order of trial: those of other pictures where there are several; those that the net's own fields speak
  // of, at each of its scales; the guess rounded up to whole cells; public nets' pictures; whole cells of 32 and of 4,
  // those near the guess first.
  std::vector<Picture> Sizes(const DataTops& tops, const Picture& guess) const {
    std::vector<Picture> sizes;
    std::set<Picture> seen;
    const auto add = [&](int64_t height, int64_t width) {
      if (height < 1 || width < 1 || height > kMostSide || width > 2 * kMostSide) return;
      if (seen.insert({height, width}).second) sizes.emplace_back(height, width);
    };
    for (const auto& [name, top] : tops) {
      const int rank = top.shape.rank();
      if (!top.can_resize || rank < 4 || Picture{top.shape[rank - 2], top.shape[rank - 1]} == guess) continue;
      add(guess.first, guess.second);
      add(top.shape[rank - 2], top.shape[rank - 1]);
    }
    seen.insert(guess);
    for (const LayerParameter& layer : net_.layer()) {
      const UpsampleParameter& up = layer.upsample_param();
      const InterpParameter& interp = layer.interp_param();
      for (int64_t scale = 1; scale <= 32; scale *= 2) {
        if (up.has_upsample_h() && up.has_upsample_w()) add(up.upsample_h() * scale, up.upsample_w() * scale);
        if (interp.has_height() && interp.has_width()) add(interp.height() * scale, interp.width() * scale);
      }
    }
    const auto round_up = [](int64_t side, int64_t cell) { return (side + cell - 1) / cell * cell; };
    for (const int64_t cell : {32, 64, 128}) add(round_up(guess.first, cell), round_up(guess.second, cell));
    for (const auto& [height, width] : kPictures) add(height, width);
    for (const int64_t cell : {32, 4}) {
      const int64_t middle = round_up(guess.first, cell);
      for (int64_t step = 0; step <= kMostSide / cell / 2; ++step) {
        for (const int64_t side : {middle + step * cell, middle - step * cell}) add(side, side);
      }
    }
    return sizes;
  }

  // Whether some layer fails with the same words as in `before`: it does not care.
  static bool SaysTheSame(const NetAttempt& before, const NetAttempt& after) {
    return std::ranges::any_of(before.failures, [&](const NetAttempt::Failure& old) {
      return std::ranges::any_of(after.failures, [&](const NetAttempt::Failure& now) {
        return now.layer == old.layer && now.text == old.text;
      });
    });
  }

  NetParameter Prefix(int layers) const {
    NetParameter part = net_;
    part.mutable_layer()->DeleteSubrange(layers, part.layer_size() - layers);
    return part;
  }

  // Goes on in the list of sizes where it was left: those before it fail at an earlier layer.
  bool TrySizes(Trial& best) {
    const DataTops tops = TopsOf(best.attempt);
    const std::optional<Picture> guess = OpenSize(tops);
    if (!guess) return false;
    if (sizes_.empty()) sizes_ = Sizes(tops, *guess);
    const auto at = [&](const Picture& size) {
      TopShapes shapes = best.shapes;
      for (const auto& [name, shape] : Resized(tops, size)) shapes[name] = shape;
      return shapes;
    };
    const Picture twice{2 * guess->first, 2 * guess->second};
    const Picture more{guess->first + 100, guess->second + 100};
    if (SaysTheSame(best.attempt, Follow(net_, at(twice)).attempt) &&
        SaysTheSame(best.attempt, Follow(net_, at(more)).attempt)) {
      return false;
    }
    const NetParameter part = Prefix(Progress(best.attempt) + 1);
    while (next_size_ < sizes_.size() && layers_ <= kMostLayers) {
      const Picture size = sizes_[next_size_++];
      const Trial trial = Follow(part, at(size));
      if (Progress(trial.attempt) > Progress(best.attempt) && Keep(best, Resized(tops, size))) return true;
    }
    return false;
  }

  const NetParameter& net_;
  const NetState& state_;
  const TopShapes& given_;
  std::set<std::string> asked_;  // data layers whose shapes are guessed from their fields
  std::vector<Picture> sizes_;   // to try
  size_t next_size_ = 0;
  int layers_ = 0;  // built so far
};

}  // namespace

NetOptions LookingOptions(const NetState& state, const TopShapes& shapes) {
  NetOptions options;
  options.state = state;
  options.data_types = GuessDataTypes(shapes);
  options.feeds_python_data = true;
  options.top_shapes = shapes;
  return options;
}

std::optional<TopShapes> FindShapes(const NetParameter& net, const NetState& state, const TopShapes& given) {
  try {
    const NetParameter filtered = FilterNet(net, state);
    return Search(filtered, state, given).Find();
  } catch (const Error&) {
    return std::nullopt;  // of shapes that overflow; the first check has told what is wrong
  }
}

}  // namespace moka
