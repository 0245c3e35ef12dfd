// The proposals of a region proposal network (Ren et al. 2015, py-faster-rcnn's proposal_layer.py): every anchor is
// moved by its deltas and cut to the image; boxes with a side below min_size (at the image's scale) go; the pre_nms
// best scores stay; greedy suppression leaves at most post_nms of them, best first. Rows without a proposal are zeros
// with index -1. Nothing here has a gradient; `anchors` and `inside` are for those who rebuild it (MNC).
#include "graph/op.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferProposals(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("proposals", in, 3, 3);
  CheckFloat("proposals", "scores", in[0]);
  CheckFloat("proposals", "deltas", in[1]);
  CheckImageSize("proposals", in[2], 3);
  CheckAnchors("proposals", attributes);
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size()) / 4;
  const Shape& scores = in[0].shape;
  if (scores.rank() != 4 || scores[0] != 1 || scores[1] != 2 * anchors) {
    throw Error(ErrorKind::kConfig,
                StrCat("proposals: scores must be [1,", 2 * anchors, ",H,W] (background, then object, of ", anchors,
                       " anchors), found ", scores.ToString()));
  }
  CheckShape("proposals", "deltas", in[1].shape, scores.With(1, 4 * anchors), "four of each anchor");
  const int64_t rows = attributes.Int("post_nms");
  if (rows < 1) throw Error(ErrorKind::kConfig, StrCat("proposals: post_nms must be at least 1, found ", rows));
  return {PlainType(DType::kFloat32, Shape{rows, 5}), PlainType(DType::kFloat32, Shape{rows, 1}),
          PlainType(DType::kInt32, Shape{rows}), PlainType(DType::kFloat32, Shape{rows, 4}),
          PlainType(DType::kFloat32, Shape{rows, 1})};
}

// One proposal before suppression.
struct Candidate {
  int64_t index;
  double score;
  Box<double> moved;
  Box<double> box;
};

std::vector<Candidate> ProposalsCandidates(const Attributes& attributes, const AnchorGrid& grid,
                                           std::span<const RefTensor> in) {
  const std::vector<double>& size = in[2].values;
  // pva-faster-rcnn gives a scale an axis.
  const double scale_y = size[2];
  const double scale_x = size.size() > 3 && in[2].type.shape.rank() > 1 && in[2].type.shape[1] > 3 ? size[3] : size[2];
  const double least = attributes.Float("min_size");
  std::vector<Candidate> found;
  for (int64_t i = 0; i < grid.Count(); ++i) {
    std::array<double, 4> delta{};
    for (int64_t k = 0; k < 4; ++k) delta[static_cast<size_t>(k)] = in[1].values[grid.Offset(i, k, 4)];
    const Box<double> moved = MovedBox(grid.At(i), delta);
    const Box<double> box = ClippedBox(moved, size[0], size[1]);
    const bool is_large = box[2] - box[0] + 1 >= least * scale_x && box[3] - box[1] + 1 >= least * scale_y;
    const size_t objects = static_cast<size_t>(grid.Count());  // scores of background come first
    if (is_large) found.push_back({i, in[0].values[objects + grid.Offset(i, 0, 1)], moved, box});
  }
  return found;
}

void ProposalsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& map = in[0].type.shape;
  const AnchorGrid grid{attributes.Get<Doubles>("anchors"), attributes.Float("stride"), map[2], map[3]};
  const std::vector<Candidate> found = ProposalsCandidates(attributes, grid, in);
  std::vector<double> scores;
  scores.reserve(found.size());
  for (const Candidate& c : found) scores.push_back(c.score);
  const int64_t most = attributes.Int("pre_nms");
  const std::vector<int64_t> order = FallingOrder<double>(scores, most > 0 ? most : -1);
  const double threshold = attributes.Float("nms_threshold");
  const auto at = [&](int64_t i) -> const Candidate& { return found[static_cast<size_t>(i)]; };
  const std::vector<int64_t> kept = GreedyNms(order, attributes.Int("post_nms"), [&](int64_t a, int64_t b) {
    return Overlap(at(a).box, at(b).box, kPixelSide) > threshold;
  });
  for (RefTensor& y : out) std::ranges::fill(y.values, 0.0);
  std::ranges::fill(out[2].values, -1.0);
  for (size_t r = 0; r < kept.size(); ++r) {
    const Candidate& c = at(kept[r]);
    const Box<double> anchor = grid.At(c.index);
    const auto is_inside = [&](const Box<double>& box) {
      return ClippedBox(box, in[2].values[0], in[2].values[1]) == box;
    };
    std::ranges::copy(c.box, out[0].values.begin() + static_cast<std::ptrdiff_t>(r * 5 + 1));
    out[1].values[r] = c.score;
    out[2].values[r] = static_cast<double>(c.index);
    std::ranges::copy(anchor, out[3].values.begin() + static_cast<std::ptrdiff_t>(r * 4));
    out[4].values[r] = is_inside(anchor) && is_inside(c.moved) ? 1 : 0;
  }
}

std::vector<OpCase> ProposalsCases() {
  const auto attributes = [](Doubles anchors, int64_t pre_nms, int64_t post_nms, double min_size) {
    return Attributes{{"anchors", std::move(anchors)}, {"stride", 4.0},
                      {"min_size", min_size},          {"pre_nms", pre_nms},
                      {"post_nms", post_nms},          {"nms_threshold", 0.5}};
  };
  const auto one = [&](const char* name, int64_t anchors, Attributes a) {
    return OpCase{.name = name,
                  .inputs = {Float32({1, 2 * anchors, 5, 6}), Float32({1, 4 * anchors, 5, 6}), Float32({1, 3})},
                  .attributes = std::move(a),
                  .low = -0.5,
                  .high = 0.5,
                  .ranges = {{2, 20.5, 20.5}}};
  };
  return {one("two_anchors", 2, attributes({-4, -4, 7, 7, -8, -2, 11, 5}, 40, 10, 0.1)),
          one("all_and_padding", 1, attributes({-4, -4, 7, 7}, 0, 50, 0.2))};
}

}  // namespace

OpDef ProposalsOp() {
  return {.name = "proposals",
          .doc =
              "(scores [1,2A,H,W], deltas [1,4A,H,W], im_info [1,3]) -> rois [post_nms,5], scores [post_nms,1], index "
              "[post_nms] of the anchors (h, w, a), their boxes [post_nms,4] and whether anchor and box lie inside the "
              "image [post_nms,1].",
          .attributes = {{"anchors", {}, "boxes around the first cell, four numbers each"},
                         {"stride", {}, "image pixels from cell to cell"},
                         {"min_size", {}, "the least side of a proposal, times the image's scale"},
                         {"pre_nms", {}, "proposals before suppression; 0: all"},
                         {"post_nms", {}, "rows of the outputs"},
                         {"nms_threshold", {}, "overlap above which the lower score goes"}},
          .infer = InferProposals,
          .reference = ProposalsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = ProposalsCases};
}

}  // namespace moka
