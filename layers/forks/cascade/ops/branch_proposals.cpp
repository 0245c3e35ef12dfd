// Proposals of detection branches (Cai et al., MS-CNN, 2016; Cascade R-CNN, 2018). A branch is a map of scores and of
// box offsets with some anchors; its items are (image, anchor) in turn. For each image, of all positions those scored
// at least `threshold` become boxes, cut to the image, those with a side below min_size go, the pre_nms best are
// thinned greedily and at most post_nms stay, best first. Two conventions:
//   pixels false (MS-CNN)  the score is the best class's minus the background's; a box ends at x + width; cutting
//                          shifts its corner inside and then shortens it.
//   pixels true (Cascade)  the score is 1 - the background's probability; a box holds its last pixel; its ends are cut.
// The originals give one made-up box when there is none; here all rows are padding then.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kBranchProposalsOp = "branch_proposals";

const Ints& Counts(const Attributes& attributes) { return attributes.Get<Ints>("counts"); }

void CheckAttributes(const Attributes& attributes, size_t inputs) {
  const int64_t sides = CheckSides(kBranchProposalsOp, attributes);
  CheckOffsets(kBranchProposalsOp, attributes);
  (void)OverlapModeOf(kBranchProposalsOp, attributes);
  int64_t anchors = 0;
  for (const int64_t count : Counts(attributes)) anchors += std::max<int64_t>(count, 0);
  const size_t branches = Counts(attributes).size();
  const bool fits = branches >= 1 && inputs == 2 * branches && anchors == sides &&
                    attributes.Get<Doubles>("strides").size() == branches &&
                    std::ranges::all_of(Counts(attributes), [](int64_t count) { return count >= 1; });
  if (fits) return;
  throw Error(ErrorKind::kConfig, StrCat(kBranchProposalsOp,
                                         ": there must be two inputs and a stride a branch and a side an anchor, "
                                         "found ",
                                         inputs, " inputs, ", branches, " branches and ", sides, " anchors"));
}

// The images. Errors: kConfig unless the branch's maps fit each other and it.
int64_t CheckBranch(std::span<const TensorType> in, size_t branch, int64_t anchors) {
  CheckFloat(kBranchProposalsOp, "scores", in[2 * branch]);
  CheckFloat(kBranchProposalsOp, "offsets", in[2 * branch + 1]);
  const Shape& scores = in[2 * branch].shape;
  const Shape& offsets = in[2 * branch + 1].shape;
  const bool fits = scores.rank() == 4 && scores[0] % anchors == 0 && scores[1] >= 2 && scores[0] >= anchors &&
                    offsets == scores.With(1, 4);
  if (fits) return scores[0] / anchors;
  throw Error(ErrorKind::kConfig,
              StrCat(kBranchProposalsOp, ": branch ", branch, " of ", anchors, " anchors needs scores [images*",
                     anchors, ",classes,H,W] and offsets [images*", anchors, ",4,H,W], found ", scores.ToString(),
                     " and ", offsets.ToString()));
}

std::vector<TensorType> InferBranchProposals(const Attributes& attributes, std::span<const TensorType> in) {
  CheckAttributes(attributes, in.size());
  Size positions(0);
  int64_t images = 0;
  for (size_t branch = 0; branch < Counts(attributes).size(); ++branch) {
    const int64_t anchors = Counts(attributes)[branch];
    const int64_t found = CheckBranch(in, branch, anchors);
    if (branch > 0 && found != images) {
      throw Error(ErrorKind::kConfig,
                  StrCat(kBranchProposalsOp, ": branch ", branch, " has ", found, " images, the first ", images));
    }
    images = found;
    const Shape& scores = in[2 * branch].shape;
    positions = positions + (Size(anchors) * scores[2] * scores[3]).value();
  }
  int64_t kept = positions.value();
  for (const char* name : {"pre_nms", "post_nms"}) {
    if (attributes.Int(name) > 0) kept = std::min(kept, attributes.Int(name));
  }
  const int64_t rows = (Size(images) * kept).value();
  return {PlainType(DType::kFloat32, Shape{rows, 5}), PlainType(DType::kFloat32, Shape{rows, 6})};
}

// The boxes of one image.
class ProposalsOfBranchProposals {
 public:
  ProposalsOfBranchProposals(const Attributes& attributes, std::span<const RefTensor> in, int64_t image)
      : attributes_(attributes),
        offsets_{attributes.Get<Doubles>("means"), attributes.Get<Doubles>("stds"), attributes.Float("center_bound"),
                 attributes.Float("size_bound")},
        is_pixels_(attributes.Bool("pixels")) {
    size_t anchor = 0;
    for (size_t branch = 0; branch < Counts(attributes).size(); ++branch) {
      for (int64_t k = 0; k < Counts(attributes)[branch]; ++k, ++anchor) {
        Collect(in[2 * branch], in[2 * branch + 1], image * Counts(attributes)[branch] + k,
                {attributes.Get<Doubles>("widths")[anchor], attributes.Get<Doubles>("heights")[anchor],
                 attributes.Get<Doubles>("strides")[branch]});
      }
    }
  }

  // Indices of those that stay, best first.
  std::vector<int64_t> Kept() const {
    const int64_t before = attributes_.Int("pre_nms");
    const int64_t after = attributes_.Int("post_nms");
    const OverlapMode mode = OverlapModeOf(kBranchProposalsOp, attributes_);
    const double most = attributes_.Float("nms_threshold");
    const int side = is_pixels_ ? kPixelSide : kUnitSide;
    return GreedyNms(FallingOrder<double>(scores_, before > 0 ? before : -1), after > 0 ? after : -1,
                     [&](int64_t a, int64_t b) { return OverlapBy(mode, box(a), box(b), side) > most; });
  }

  const Box<double>& box(int64_t i) const { return boxes_[static_cast<size_t>(i)]; }
  double score(int64_t i) const { return scores_[static_cast<size_t>(i)]; }

 private:
  void Collect(const RefTensor& scores, const RefTensor& offsets, int64_t item, const Branch& branch) {
    const Shape& shape = scores.type.shape;
    const int64_t plane = shape[2] * shape[3];
    const double* score = scores.values.data() + item * shape[1] * plane;
    const double* raw = offsets.values.data() + item * 4 * plane;
    for (int64_t i = 0; i < plane; ++i) {
      const double value = ScoreAt(score + i, shape[1], plane);
      if (!(value >= attributes_.Float("threshold"))) continue;
      std::array<double, 4> moves{};
      for (size_t k = 0; k < 4; ++k) moves[k] = offsets_.At(k, raw[static_cast<int64_t>(k) * plane + i]);
      const CornerBox box = Moved(branch, i / shape[3], i % shape[3], moves);
      Add(value, box, static_cast<double>(shape[3]) * branch.stride, static_cast<double>(shape[2]) * branch.stride);
    }
  }

  double ScoreAt(const double* classes, int64_t count, int64_t step) const {
    if (is_pixels_) return 1 - classes[0];
    double best = classes[step];
    for (int64_t c = 2; c < count; ++c) best = std::max(best, classes[c * step]);
    return best - classes[0];
  }

  void Add(double score, const CornerBox& box, double width, double height) {
    const double least = attributes_.Float("min_size");
    Box<double> cut;
    if (is_pixels_) {
      cut = {std::max(box.x, 0.0), std::max(box.y, 0.0), std::min(box.x + box.width - 1, width),
             std::min(box.y + box.height - 1, height)};
      if (!(cut[2] - cut[0] + 1 >= least && cut[3] - cut[1] + 1 >= least)) return;
    } else {
      const double x = std::max(box.x, 0.0);
      const double y = std::max(box.y, 0.0);
      const double wide = std::min(box.width, width - x);
      const double high = std::min(box.height, height - y);
      if (!(wide >= least && high >= least)) return;
      cut = {x, y, x + wide, y + high};
    }
    boxes_.push_back(cut);
    scores_.push_back(score);
  }

  const Attributes& attributes_;
  Offsets offsets_;
  bool is_pixels_;
  std::vector<Box<double>> boxes_;
  std::vector<double> scores_;
};

void BranchProposalsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  for (RefTensor& y : out) std::ranges::fill(y.values, kPaddingRow);
  const int64_t images = in[0].type.shape[0] / Counts(attributes)[0];
  size_t row = 0;
  for (int64_t image = 0; image < images; ++image) {
    const ProposalsOfBranchProposals proposals(attributes, in, image);
    for (const int64_t i : proposals.Kept()) {
      double* scored = out[1].values.data() + row * 6;
      scored[0] = static_cast<double>(image);
      std::ranges::copy(proposals.box(i), scored + 1);
      scored[5] = proposals.score(i);
      std::copy_n(scored, 5, out[0].values.data() + row * 5);
      ++row;
    }
  }
}

std::vector<OpCase> BranchProposalsCases() {
  const Attributes attributes{{"widths", Doubles{8, 12, 20}},
                              {"heights", Doubles{10, 9, 16}},
                              {"counts", Ints{2, 1}},
                              {"strides", Doubles{4, 8}},
                              {"center_bound", 0.5},
                              {"size_bound", 0.7},
                              {"nms_threshold", 0.4},
                              {"min_size", 3.0},
                              {"pre_nms", int64_t{30}},
                              {"post_nms", int64_t{9}},
                              {"threshold", 0.1}};
  const auto one = [](const char* name, Attributes a) {
    return OpCase{
        .name = name,
        .inputs = {Float32({4, 3, 6, 5}), Float32({4, 4, 6, 5}), Float32({2, 3, 3, 3}), Float32({2, 4, 3, 3})},
        .attributes = std::move(a)};
  };
  return {one("margin", attributes),
          one("objectness", With(attributes, {{"pixels", true}, {"post_nms", int64_t{0}}, {"threshold", 0.8}})),
          one("smaller_box", With(attributes, {{"overlap", std::string("IOMU")}, {"pre_nms", int64_t{0}}}))};
}

}  // namespace

OpDef BranchProposalsOp() {
  std::vector<AttributeSpec> specs = {
      {"widths", {}, "an anchor's width in pixels, of all branches in turn"},
      {"heights", {}, "likewise its height"},
      {"counts", {}, "anchors of each branch"},
      {"strides", {}, "pixels from position to position of each branch"},
      {"center_bound", {}, "the largest dx and dy"},
      {"size_bound", {}, "the largest dw and dh"},
      {"threshold", 0.0, "the least score"},
      {"min_size", 0.0, "the least side of a box"},
      {"pre_nms", int64_t{0}, "boxes of an image before suppression; 0: all"},
      {"post_nms", int64_t{0}, "boxes of an image after it; 0: all"},
      {"nms_threshold", {}, "overlap above which the lower score goes"},
      {"overlap", std::string("IOU"), "shared area over the union, IOMU: the smaller box, IOFU: the kept one"},
      {"pixels", false, "Cascade R-CNN's convention in place of MS-CNN's"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {.name = "branch_proposals",
          .doc =
              "(scores [images*A,classes,H,W], offsets [images*A,4,H,W], for each branch) -> rois [rows,5] (image, x1, "
              "y1, x2, y2), and the same with the score [rows,6]; rows left over are -1.",
          .attributes = std::move(specs),
          .infer = InferBranchProposals,
          .reference = BranchProposalsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = BranchProposalsCases};
}

}  // namespace moka
