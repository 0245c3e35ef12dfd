// The targets from which SSD's MultiBoxLoss learns: for every prior the code of its object, whether it counts, and its
// class. The losses themselves are pointwise ops over these, so that gradients come from them; nothing flows through
// the choice.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/multibox.h"
#include "layers/forks/ssd/ops/multibox_batch.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferMultiboxMatch(const Attributes& attributes, std::span<const TensorType> in) {
  constexpr std::string_view kOp = "multibox_match";
  CheckInputCount(kOp, in, 4, 6);
  CheckFloat(kOp, "loc", in[0]);
  const MultiboxSettings s = MultiboxSettings::Of(attributes);
  const int64_t priors = PriorCount(kOp, in[2].shape);
  const Shape& loc = in[0].shape;
  const int64_t items = loc.rank() == 0 ? 0 : loc[0];
  const int64_t classes = s.location_classes();
  CheckPerItem(kOp, "loc", loc, items, (Size(priors) * classes * s.location_numbers()).value(),
               StrCat(priors, " priors, ", classes, " location classes, ", s.location_numbers(), " coordinates"));
  CheckPerItem(kOp, "conf", in[1].shape, items, (Size(priors) * s.classes).value(),
               StrCat(priors, " priors, ", s.classes, " classes"));
  (void)RowCount(kOp, "truth", in[3].shape, s.truth_width());
  if (in.size() > 4) {
    CheckPerItem(kOp, "arm_conf", in[4].shape, items, priors * 2, StrCat(priors, " priors, object or not"));
  }
  if (in.size() > 5) {
    CheckPerItem(kOp, "arm_loc", in[5].shape, items, priors * 4, StrCat(priors, " priors, 4 coordinates"));
  }
  const DType dtype = StatisticsType(in[0].dtype);
  const TensorType targets = PlainType(dtype, {items, priors, classes, s.location_numbers()});
  const Shape conf = s.softmax ? Shape{items, priors} : Shape{items, priors, s.classes};
  return {targets, targets, PlainType(dtype, conf), PlainType(dtype, Shape{})};
}

void MultiboxMatchReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<Shape> shapes;
  std::vector<Reals> values;
  for (const RefTensor& x : in) {
    shapes.push_back(x.type.shape);
    values.push_back(View(x));
  }
  MultiboxBatch batch(MultiboxSettings::Of(attributes), shapes);
  batch.Read(values);
  MultiboxMatcher matcher(batch.settings());
  int64_t matches = 0;
  for (int64_t i = 0; i < batch.items(); ++i) {
    matches += batch.Match(matcher, i, {View(out[0]), View(out[1]), View(out[2])});
  }
  out[3].values[0] = static_cast<double>(matches);
}

// Two images with six priors. Random boxes often lie inside out, so most objects match nothing; whole numbers are all
// the truth has, so the background is the last class.
OpCase MultiboxMatchCase(const char* name, Attributes attributes, int64_t location_classes = 1) {
  constexpr int64_t kPriors = 6;
  constexpr int64_t kClasses = 3;
  attributes.Set("classes", kClasses);
  attributes.Set("background", kClasses - 1);
  return {.name = name,
          .inputs = {Float32({2, kPriors * location_classes * 4}), Float32({2, kPriors * kClasses}),
                     Float32({1, 2, kPriors * 4}), Float32({1, 1, 40, 8})},
          .attributes = std::move(attributes),
          .ranges = {{2, 0.01, 0.99}, {3, 0, 1}}};
}

std::vector<OpCase> MultiboxMatchCases() {
  std::vector<OpCase> cases = {
      MultiboxMatchCase("defaults", {}),
      MultiboxMatchCase("bipartite", {{"match", std::string("bipartite")}, {"code", std::string("corner_size")}}),
      MultiboxMatchCase("everything", {{"mining", std::string("none")}, {"overlap_threshold", 0.1}}),
      MultiboxMatchCase("logistic", {{"conf_loss", std::string("logistic")}, {"overlap_threshold", 0.1}}),
      MultiboxMatchCase("hard_examples", {{"mining", std::string("hard_example")},
                                          {"sample_size", int64_t{3}},
                                          {"nms_threshold", 0.5},
                                          {"nms_top_k", int64_t{5}},
                                          {"code", std::string("center_size")}}),
      MultiboxMatchCase("own_locations",
                        {{"mining", std::string("none")}, {"share_location", false}, {"use_prior", false}}, 3),
      MultiboxMatchCase("inside_only",
                        {{"inside_only", true}, {"ignore_crossing", true}, {"variance_in_target", true}}),
  };
  OpCase refined = MultiboxMatchCase("second_stage", {{"objectness", 0.3}});
  refined.inputs.push_back(Float32({2, 12}));
  refined.inputs.push_back(Float32({2, 24}));
  cases.push_back(std::move(refined));
  OpCase polygons = MultiboxMatchCase(
      "polygons", {{"polygon", true}, {"code", std::string("center_size")}, {"inside_only", true}}, 3);
  polygons.inputs[3] = Float32({1, 1, 40, 16});
  cases.push_back(std::move(polygons));
  return cases;
}

template <class T>
T WordOf(const Attributes& attributes, const char* name, std::initializer_list<std::pair<const char*, T>> words) {
  const std::string& found = attributes.String(name);
  std::vector<std::string> known;
  for (const auto& [word, value] : words) {
    if (found == word) return value;
    known.emplace_back(word);
  }
  throw Error(ErrorKind::kConfig, {}, StrCat("multibox_match: ", name, " cannot be \"", found, "\""),
              DidYouMean(found, known));
}

}  // namespace

MultiboxSettings MultiboxSettings::Of(const Attributes& a) {
  MultiboxSettings s;
  s.classes = a.Int("classes");
  s.share_location = a.Bool("share_location");
  s.background = a.Int("background");
  s.coding = BoxCoding::Of("multibox_match", a);
  s.per_prediction = WordOf<bool>(a, "match", {{"bipartite", false}, {"per_prediction", true}});
  s.overlap_threshold = a.Float("overlap_threshold");
  s.use_prior = a.Bool("use_prior");
  s.use_difficult = a.Bool("use_difficult");
  s.ignore_crossing = a.Bool("ignore_crossing");
  s.agnostic = a.Bool("agnostic");
  s.inside_only = a.Bool("inside_only");
  s.smooth_l1 = WordOf<bool>(a, "loc_loss", {{"l2", false}, {"smooth_l1", true}});
  s.softmax = WordOf<bool>(a, "conf_loss", {{"logistic", false}, {"softmax", true}});
  s.mining = WordOf<Mining>(
      a, "mining",
      {{"none", Mining::kNone}, {"max_negative", Mining::kMaxNegative}, {"hard_example", Mining::kHardExample}});
  s.neg_pos_ratio = a.Float("neg_pos_ratio");
  s.neg_overlap = a.Float("neg_overlap");
  s.sample_size = a.Int("sample_size");
  s.nms_threshold = a.Float("nms_threshold");
  s.nms_top_k = a.Int("nms_top_k");
  s.nms_on_priors = a.Bool("nms_on_priors");
  s.polygon = a.Bool("polygon");
  s.objectness = a.Float("objectness");
  if (s.classes < 1 || s.background < 0 || s.background >= s.classes) {
    throw Error(ErrorKind::kConfig,
                StrCat("multibox_match: background ", s.background, " must be one of the ", s.classes, " classes"));
  }
  if (!s.share_location && s.mining != Mining::kNone) {
    throw Error(ErrorKind::kConfig, "multibox_match: mining needs share_location");
  }
  if (s.agnostic && s.background + 1 >= s.classes) {
    throw Error(ErrorKind::kConfig, "multibox_match: agnostic needs a class after the background");
  }
  return s;
}

std::vector<AttributeSpec> MultiboxAttributes() {
  std::vector<AttributeSpec> specs = BoxCodingAttributes();
  const std::vector<AttributeSpec> own = {
      {"classes", std::nullopt, "classes, the background among them"},
      {"share_location", true, "whether all classes share one predicted box a prior"},
      {"background", int64_t{0}, "the class of the background"},
      {"match", std::string("per_prediction"), "bipartite, or per_prediction: then by overlap as well"},
      {"overlap_threshold", 0.5, "the least overlap of a match that is not bipartite"},
      {"use_prior", true, "whether priors are matched, not the predicted boxes"},
      {"use_difficult", true, "whether difficult objects count"},
      {"ignore_crossing", false, "whether boxes that leave the image match nothing and are no negatives"},
      {"agnostic", false, "whether every object has the class background + 1"},
      {"inside_only", false, "whether coordinates of boxes outside the image learn nothing"},
      {"loc_loss", std::string("smooth_l1"), "smooth_l1 or l2: what hard examples are ranked by"},
      {"conf_loss", std::string("softmax"), "softmax or logistic: the form of the confidence targets"},
      {"mining", std::string("max_negative"), "none, max_negative or hard_example"},
      {"neg_pos_ratio", 3.0, "negatives a match in each image"},
      {"neg_overlap", 0.5, "negatives overlap every object by less"},
      {"sample_size", int64_t{64}, "hard examples an image"},
      {"nms_threshold", 0.0, "overlap above which a lower loss is dropped before mining; 0: none is"},
      {"nms_top_k", int64_t{-1}, "boxes suppression looks at; -1: all"},
      {"nms_on_priors", false, "whether suppression compares priors, not predicted boxes"},
      {"polygon", false, "whether the codes of four corners follow each box's"},
      {"objectness", 0.01, "negatives below this in arm_conf are left out"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return specs;
}

OpDef MultiboxMatchOp() {
  return {
      .name = "multibox_match",
      .doc =
          "(loc [N,P*L*4], conf [N,P*C], prior [1,2,P*4], truth [1,1,G,8], optionally arm_conf [N,P*2] and "
          "arm_loc [N,P*4]) -> code [N,P,L,4], weight [N,P,L,4] of each difference (0: not learnt), class [N,P] "
          "(softmax; -1: not counted) or targets [N,P,C] (logistic), the number of matches (scalar). With polygon a "
          "place has 12 numbers instead of 4 and a row of truth 16, the last eight its corners.",
      .attributes = MultiboxAttributes(),
      .infer = InferMultiboxMatch,
      .reference = MultiboxMatchReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kMatches,
      .cases = MultiboxMatchCases};
}

}  // namespace moka
