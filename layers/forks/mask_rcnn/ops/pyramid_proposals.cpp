// Proposals of a pyramid of maps (Lin et al. 2017): of each level and image the pre_nms best anchors, moved by their
// deltas and cut to the image, thinned by greedy suppression level by level; of all that are left the post_nms best.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kPyramidProposalsOp = "pyramid_proposals";
constexpr std::array<double, 4> kPlainCode = {1, 1, 1, 1};

// Inputs are the levels' scores [N,A,H,W], then their deltas [N,4A,H,W].
AnchorPyramid ProposalPyramid(const Attributes& attributes, const std::vector<Shape>& shapes) {
  Ints heights;
  Ints widths;
  for (size_t l = 0; l < shapes.size() / 2; ++l) {
    heights.push_back(shapes[l][2]);
    widths.push_back(shapes[l][3]);
  }
  return AnchorPyramidOf(kPyramidProposalsOp, attributes, heights, widths);
}

std::vector<TensorType> InferPyramidProposals(const Attributes& attributes, std::span<const TensorType> in) {
  if (in.empty() || in.size() % 2 != 0) {
    throw Error(ErrorKind::kConfig,
                StrCat(kPyramidProposalsOp, ": takes scores and deltas of each level, found ", in.size(), " inputs"));
  }
  std::vector<Shape> shapes;
  for (const TensorType& type : in) {
    CheckFloat(kPyramidProposalsOp, "a map", type);
    if (type.shape.rank() != 4) {
      throw Error(ErrorKind::kConfig,
                  StrCat(kPyramidProposalsOp, ": maps must be [N,C,H,W], found ", type.shape.ToString()));
    }
    shapes.push_back(type.shape);
  }
  const AnchorPyramid pyramid = ProposalPyramid(attributes, shapes);
  (void)PictureExtent::Of(kPyramidProposalsOp, attributes);
  const size_t levels = pyramid.levels.size();
  for (size_t l = 0; l < levels; ++l) {
    const int64_t anchors = pyramid.levels[l].per_cell();
    const Shape scores = shapes[l].With(0, shapes[0][0]).With(1, anchors);
    CheckShape(kPyramidProposalsOp, "scores", shapes[l], scores, "one for each anchor of a cell");
    CheckShape(kPyramidProposalsOp, "deltas", shapes[levels + l], scores.With(1, 4 * anchors),
               "four for each anchor of a cell");
  }
  const int64_t most = attributes.Int("post_nms");
  if (most < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kPyramidProposalsOp, ": post_nms must be at least 1, found ", most));
  }
  const int64_t rows = (Size(shapes[0][0]) * most).value();
  return {PlainType(DType::kFloat32, Shape{rows, 5}), PlainType(DType::kFloat32, Shape{rows})};
}

struct PyramidProposal {
  double score;
  Box<double> box;
};

// Returns the proposals of one level and image, best first.
std::vector<PyramidProposal> ProposalsOfLevel(const Attributes& attributes, const AnchorPyramid::Level& level,
                                              std::span<const double> scores, std::span<const double> deltas) {
  const PictureExtent size = PictureExtent::Of(kPyramidProposalsOp, attributes);
  const double min_side = attributes.Float("min_side");
  std::vector<PyramidProposal> found;
  for (const int64_t i : FallingOrder<double>(scores, attributes.Int("pre_nms"))) {
    std::array<double, 4> code{};
    for (int64_t k = 0; k < 4; ++k) {
      code[static_cast<size_t>(k)] = deltas[static_cast<size_t>(level.Offset(i, k))];
    }
    const Box<double> box = size.Cut(BoxOfCode(level.At(i), code, kPlainCode));
    if (HasSides(box, min_side)) found.push_back({scores[static_cast<size_t>(i)], box});
  }
  std::vector<int64_t> order(found.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const double threshold = attributes.Float("nms_threshold");
  const auto box = [&](int64_t i) -> const Box<double>& { return found[static_cast<size_t>(i)].box; };
  std::vector<PyramidProposal> kept;
  for (const int64_t i : GreedyNms(order, attributes.Int("post_nms"), [&](int64_t a, int64_t b) {
         return Overlap(box(a), box(b), kUnitSide) > threshold;
       })) {
    kept.push_back(found[static_cast<size_t>(i)]);
  }
  return kept;
}

void PyramidProposalsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<Shape> shapes;
  for (const RefTensor& tensor : in) shapes.push_back(tensor.type.shape);
  const AnchorPyramid pyramid = ProposalPyramid(attributes, shapes);
  const int64_t pictures = shapes[0][0];
  const int64_t most = attributes.Int("post_nms");
  std::ranges::fill(out[0].values, 0.0);
  std::ranges::fill(out[1].values, 0.0);
  for (int64_t n = 0; n < pictures; ++n) {
    std::vector<PyramidProposal> all;
    for (size_t l = 0; l < pyramid.levels.size(); ++l) {
      const auto part = [&](const RefTensor& map) {
        const int64_t each = map.type.shape.Count(1, 4);
        return std::span(map.values).subspan(static_cast<size_t>(n * each), static_cast<size_t>(each));
      };
      const std::vector<PyramidProposal> some =
          ProposalsOfLevel(attributes, pyramid.levels[l], part(in[l]), part(in[pyramid.levels.size() + l]));
      all.insert(all.end(), some.begin(), some.end());
    }
    std::vector<double> scores;
    for (const PyramidProposal& p : all) scores.push_back(p.score);
    const std::vector<int64_t> best = FallingOrder<double>(scores, most);
    for (int64_t r = 0; r < most; ++r) {
      double* row = out[0].values.data() + (n * most + r) * 5;
      row[0] = kNoPicture;
      if (r >= std::ssize(best)) continue;
      const PyramidProposal& p = all[static_cast<size_t>(best[static_cast<size_t>(r)])];
      row[0] = static_cast<double>(n);
      std::ranges::copy(p.box, row + 1);
      out[1].values[static_cast<size_t>(n * most + r)] = p.score;
    }
  }
}

std::vector<OpCase> PyramidProposalsCases() {
  const Attributes attributes{
      {"strides", Doubles{4, 8}}, {"anchors", Doubles{-4, -4, 4, 4, -6, -3, 6, 3, -8, -8, 8, 8, -12, -6, 12, 6}},
      {"height", int64_t{20}},    {"width", int64_t{24}},
      {"pre_nms", int64_t{30}},   {"post_nms", int64_t{12}},
      {"nms_threshold", 0.5}};
  const std::vector<TensorType> maps = {Float32({2, 2, 5, 6}), Float32({2, 2, 3, 3}), Float32({2, 8, 5, 6}),
                                        Float32({2, 8, 3, 3})};
  return {{.name = "two_levels", .inputs = maps, .attributes = attributes},
          {.name = "padded",
           .inputs = maps,
           .attributes = With(attributes, {{"post_nms", int64_t{100}}, {"pre_nms", int64_t{9}}, {"min_side", 6.0}})}};
}

}  // namespace

OpDef PyramidProposalsOp() {
  std::vector<AttributeSpec> specs = PictureAttributes();
  const std::vector<AttributeSpec> own = {
      {"strides", {}, "pixels from cell to cell of each level"},
      {"anchors", {}, "boxes around the first cell of each level, four numbers each"},
      {"pre_nms", int64_t{1000}, "boxes of a level and picture that suppression looks at"},
      {"post_nms", int64_t{1000}, "rows of a picture"},
      {"nms_threshold", 0.7, "overlap above which the lower score goes"},
      {"min_side", 0.001, "pixels that both sides of a proposal must have"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return {.name = std::string(kPyramidProposalsOp),
          .doc =
              "(scores [N,A,H,W] of each level, deltas [N,4A,H,W] of each level) -> rois [N*post_nms,5], scores "
              "[N*post_nms], a picture's best first; rows without a proposal are of picture -1.",
          .attributes = specs,
          .infer = InferPyramidProposals,
          .reference = PyramidProposalsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = PyramidProposalsCases};
}

}  // namespace moka
