// The regions a detector learns from and their targets (Girshick 2015, py-faster-rcnn's proposal_target_layer.py and
// MNC's). Candidates are the proposals (rows of zeros are padding) and then the true boxes. Foreground: for each range
// [fg_low, fg_high] of the largest overlap, at most round(rows * fg_fraction) of them; background: likewise in [bg_low,
// bg_high) of the rows that are left. `all` takes every candidate: foreground from fg_low[0] on. Foreground comes
// first, each part in the candidates' order. Rows beyond the sample repeat its background (or, without any, its
// foreground), so every row is an example; with no candidate at all they are zeros of class 0.
#include <algorithm>

#include "graph/op.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

const Doubles& List(const Attributes& attributes, std::string_view name) { return attributes.Get<Doubles>(name); }

void CheckLists(const Attributes& attributes) {
  const auto check = [&](std::string_view name, size_t expected) {
    const size_t found = List(attributes, name).size();
    if (found == expected) return;
    throw Error(ErrorKind::kConfig,
                StrCat("proposal_targets: ", name, " must have ", expected, " numbers, found ", found));
  };
  const size_t foregrounds = std::max<size_t>(1, List(attributes, "fg_fraction").size());
  check("fg_low", foregrounds);
  check("fg_high", foregrounds);
  check("bg_low", List(attributes, "bg_fraction").size());
  check("bg_high", List(attributes, "bg_fraction").size());
  for (const char* name : {"means", "stds", "weights"}) check(name, 4);
}

std::vector<TensorType> InferProposalTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("proposal_targets", in, 3, 3);
  CheckRois("proposal_targets", in[0]);
  CheckTruth("proposal_targets", in[1]);
  CheckShape("proposal_targets", "key", in[2].shape, Shape{}, "a scalar");
  CheckLists(attributes);
  const int64_t rows =
      attributes.Bool("all") ? (Size(in[0].shape[0]) + in[1].shape[0]).value() : attributes.Int("rows");
  const int64_t classes = attributes.Int("classes");
  if (rows < 1 || classes < 2) {
    throw Error(ErrorKind::kConfig, StrCat("proposal_targets: rows must be at least 1 and classes at least 2, found ",
                                           rows, " and ", classes));
  }
  const TensorType four = PlainType(DType::kFloat32, Shape{rows, (Size(classes) * 4).value()});
  const TensorType one = PlainType(DType::kFloat32, Shape{rows});
  return {PlainType(DType::kFloat32, Shape{rows, 5}), one, four, four, four,
          PlainType(DType::kInt32, Shape{rows}),      one};
}

struct ProposalTargetsRegion {
  int64_t index;  // of the proposal, or proposals + row of the true box
  std::array<double, 5> row;
  BestMatch match;

  Box<double> box() const { return {row[1], row[2], row[3], row[4]}; }
};

std::vector<ProposalTargetsRegion> ProposalTargetsRegions(std::span<const RefTensor> in,
                                                          const std::vector<TruthBox>& truth) {
  std::vector<ProposalTargetsRegion> regions;
  const int64_t proposals = in[0].type.shape[0];
  for (int64_t r = 0; r < proposals; ++r) {
    ProposalTargetsRegion region{.index = r, .row = {}, .match = {}};
    std::copy_n(in[0].values.data() + r * 5, 5, region.row.begin());
    if (std::ranges::all_of(region.row, [](double v) { return v == 0; })) continue;
    regions.push_back(region);
  }
  for (const TruthBox& t : truth) {
    regions.push_back({proposals + t.row, {0, t.box[0], t.box[1], t.box[2], t.box[3]}, {}});
  }
  for (ProposalTargetsRegion& region : regions) region.match = BestOf(region.box(), truth);
  return regions;
}

// The regions that are taken (positions in the list), foreground first.
struct ProposalTargetsSample {
  std::vector<int64_t> foreground;
  std::vector<int64_t> background;
};

ProposalTargetsSample TakeAll(const Attributes& attributes, const std::vector<ProposalTargetsRegion>& regions) {
  ProposalTargetsSample sample;
  for (size_t i = 0; i < regions.size(); ++i) {
    const BestMatch& match = regions[i].match;
    const bool is_foreground = match.index >= 0 && match.overlap >= List(attributes, "fg_low")[0];
    (is_foreground ? sample.foreground : sample.background).push_back(static_cast<int64_t>(i));
  }
  return sample;
}

// The union over ranges of at most round(rows * fraction) regions each, in order.
template <class InRange>
std::vector<int64_t> ProposalTargetsDrawn(const std::vector<ProposalTargetsRegion>& regions, const Doubles& fractions,
                                          int64_t rows, uint64_t key, uint64_t stream, InRange&& in_range) {
  std::vector<int64_t> drawn;
  for (size_t range = 0; range < fractions.size(); ++range) {
    std::vector<int64_t> items;
    for (size_t i = 0; i < regions.size(); ++i) {
      if (in_range(range, regions[i].match)) items.push_back(static_cast<int64_t>(i));
    }
    const auto most = static_cast<int64_t>(std::nearbyint(static_cast<double>(rows) * fractions[range]));
    const std::vector<int64_t> some = Sampled(items, std::max<int64_t>(most, 0), key, stream + range);
    drawn.insert(drawn.end(), some.begin(), some.end());
  }
  std::ranges::sort(drawn);
  drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
  return drawn;
}

ProposalTargetsSample DrawProposalTargets(const Attributes& attributes,
                                          const std::vector<ProposalTargetsRegion>& regions, int64_t rows,
                                          uint64_t key) {
  if (attributes.Bool("all")) return TakeAll(attributes, regions);
  const auto stream = static_cast<uint64_t>(attributes.Int("stream")) * 16;
  ProposalTargetsSample sample;
  sample.foreground = ProposalTargetsDrawn(
      regions, List(attributes, "fg_fraction"), rows, key, stream, [&](size_t range, const BestMatch& match) {
        return match.index >= 0 && match.overlap >= List(attributes, "fg_low")[range] &&
               match.overlap <= List(attributes, "fg_high")[range];
      });
  const int64_t left = rows - static_cast<int64_t>(sample.foreground.size());
  const bool closed = attributes.Bool("bg_closed");
  sample.background = ProposalTargetsDrawn(regions, List(attributes, "bg_fraction"), left, key, stream + 8,
                                           [&](size_t range, const BestMatch& match) {
                                             const double high = List(attributes, "bg_high")[range];
                                             return match.overlap >= List(attributes, "bg_low")[range] &&
                                                    (match.overlap < high || (closed && match.overlap == high));
                                           });
  return sample;
}

// Writes row m of the outputs.
void WriteProposalTargetsRow(const Attributes& attributes, const ProposalTargetsRegion& region, bool is_foreground,
                             const std::vector<TruthBox>& truth, int64_t m, std::span<RefTensor> out) {
  const auto at = static_cast<size_t>(m);
  std::ranges::copy(region.row, out[0].values.begin() + m * 5);
  out[5].values[at] = static_cast<double>(region.index);
  if (!is_foreground) return;
  const TruthBox& match = truth[static_cast<size_t>(region.match.index)];
  out[1].values[at] = match.label;
  out[6].values[at] = static_cast<double>(match.row);
  const int64_t classes = attributes.Int("classes");
  const auto label = static_cast<int64_t>(std::clamp(match.label, 0.0, static_cast<double>(classes - 1)));
  const std::array<double, 4> move = MoveBetween(region.box(), match.box);
  for (size_t c = 0; c < 4; ++c) {
    const size_t i = static_cast<size_t>(m * classes + label) * 4 + c;
    const double weight = List(attributes, "weights")[c];
    out[2].values[i] = (move[c] - List(attributes, "means")[c]) / List(attributes, "stds")[c];
    out[3].values[i] = weight;
    out[4].values[i] = weight > 0 ? 1 : 0;
  }
}

void ProposalTargetsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<TruthBox> truth = TruthBoxes(in[1].values);
  const std::vector<ProposalTargetsRegion> regions = ProposalTargetsRegions(in, truth);
  const int64_t rows = out[0].type.shape[0];
  const ProposalTargetsSample sample = DrawProposalTargets(attributes, regions, rows, KeyOf(in[2]));
  for (RefTensor& y : out) std::ranges::fill(y.values, 0.0);
  for (const size_t k : {5, 6}) std::ranges::fill(out[k].values, -1.0);
  const auto foregrounds = static_cast<int64_t>(sample.foreground.size());
  const bool repeats_background = !sample.background.empty();
  for (int64_t m = 0; m < rows; ++m) {
    const bool is_foreground = m < foregrounds || !repeats_background;
    const std::vector<int64_t>& from = is_foreground ? sample.foreground : sample.background;
    if (from.empty()) return;
    const int64_t i = (is_foreground ? m : m - foregrounds) % static_cast<int64_t>(from.size());
    WriteProposalTargetsRow(attributes, regions[static_cast<size_t>(from[static_cast<size_t>(i)])], is_foreground,
                            truth, m, out);
  }
}

std::vector<OpCase> ProposalTargetsCases() {
  const Attributes attributes{
      {"rows", int64_t{8}},        {"classes", int64_t{4}},        {"bg_fraction", Doubles{0.85, 0.15}},
      {"bg_low", Doubles{0.1, 0}}, {"bg_high", Doubles{0.5, 0.1}}, {"stream", int64_t{1}}};
  const auto one = [](const char* name, int64_t rois, int64_t truths, Attributes a) {
    return OpCase{.name = name,
                  .inputs = {Float32({rois, 5}), Float32({truths, 5}), {DType::kInt64, Shape{}, {}}},
                  .attributes = std::move(a),
                  .ranges = {{0, 0, 9}, {1, 0, 9}, {2, 5, 5}}};
  };
  return {one("sampled", 30, 6, attributes), one("all", 5, 3, With(attributes, {{"all", true}})),
          one("too_few", 2, 1, attributes)};
}

}  // namespace

OpDef ProposalTargetsOp() {
  return {.name = "proposal_targets",
          .doc =
              "(rois [R,5], gt_boxes [G,5], key) -> rois [rows,5], labels [rows], targets, inside and outside weights "
              "[rows,4*classes], index [rows] (a proposal, or R + a true box), match [rows] (the true box, -1: "
              "background).",
          .attributes = {{"rows", int64_t{128}, "regions taken"},
                         {"classes", {}, "classes with the background"},
                         {"all", false, "whether every candidate is taken; rows is then R + G"},
                         {"fg_fraction", Doubles{0.25}, "the largest part of the rows from each foreground range"},
                         {"fg_low", Doubles{0.5}, "least overlap of each foreground range"},
                         {"fg_high", Doubles{1}, "largest overlap of each foreground range"},
                         {"bg_fraction", Doubles{1}, "the largest part of the other rows from each background range"},
                         {"bg_low", Doubles{0}, "least overlap of each background range"},
                         {"bg_high", Doubles{0.5}, "overlap below which each background range lies"},
                         {"bg_closed", false, "whether bg_high itself belongs to its range"},
                         {"means", Doubles{0, 0, 0, 0}, "taken from the targets"},
                         {"stds", Doubles{0.1, 0.1, 0.2, 0.2}, "the targets are divided by them"},
                         {"weights", Doubles{1, 1, 1, 1}, "inside weights of a foreground row"},
                         {"stream", {}, "number of the random stream"}},
          .infer = InferProposalTargets,
          .reference = ProposalTargetsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMatches,
          .cases = ProposalTargetsCases};
}

}  // namespace moka
