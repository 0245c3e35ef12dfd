// Connectionist temporal classification (Graves et al., ICML 2006) under the three names its forks have. All give the
// mean of the sequences' losses, and the gradient of their sum: none of the forks divides it.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/recurrent/ctc.h"

namespace moka {
namespace {

struct Rules {
  int64_t blank = 0;
  bool merges = true;
  bool collapses = false;
  bool skips_empty = false;
};

void SetLosses(LayerBuilder& l, ValueId x, ValueId labels, ValueId lengths, const Rules& rules) {
  const GraphBuilder& b = l.b();
  const ValueId losses = b.Add1("ctc_loss", {x, labels, lengths},
                                {{"blank", rules.blank},
                                 {"merge_repeated", rules.merges},
                                 {"collapse_target", rules.collapses},
                                 {"skip_empty", rules.skips_empty}});
  const ValueId sum = b.SumAll(losses);
  const ValueId fixed = b.Add1("stop_gradient", {sum});
  const double part = 1 / static_cast<double>(b.shape(losses)[0]);
  // The mean's value with the sum's slope, which is over the sequences of all ranks.
  const Term moved = Term::Of(sum) - Term::Of(fixed);
  const Term slope = l.ranks() == 1 ? moved : l.ranks() * moved;
  l.SetTop(0, Computed(b, Term::Of(fixed) * Decimal(part) + slope, {sum}));
  l.SetLoss(0, 1);
}

// ChWick's CTCLoss.
void BuildCtcLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const CTCLossParameter& p = l.param().ctc_loss_param();
  ValueId x = ScoresOf(l, 0);
  const Shape scores = b.shape(x);
  ValueId lengths = LengthsOf(l, 1, scores);
  const int64_t delay = p.output_delay();
  l.Check(delay >= 0 && delay < scores[0], "ctc_loss_param.output_delay",
          StrCat("ctc_loss_param.output_delay must be from 0 to below the ", scores[0], " steps, found ", delay));
  if (delay > 0) {
    x = b.Add("slice", {x}, {{"axis", int64_t{0}}, {"sizes", Ints{delay, scores[0] - delay}}})[1];
    lengths = Computed(b, Max(Term::Of(lengths) - delay, 0));
  }
  SetLosses(l, x, LabelsOf(l, 2, scores[1], true), lengths,
            {.blank = BlankOf(l, "ctc_loss_param.blank_index", p.has_blank_index() ? p.blank_index() : -1, scores[2]),
             .merges = p.ctc_merge_repeated(),
             .collapses = p.preprocess_collapse_repeated(),
             .skips_empty = true});
}

// warpctc-caffe's CtcLoss.
void BuildWarpCtc(LayerBuilder& l) {
  const bool is_named = !l.param().has_ctc_loss_param() && l.param().has_warpctc_loss_param();
  const CTCLossParameter& p = is_named ? l.param().warpctc_loss_param() : l.param().ctc_loss_param();
  const std::string name = is_named ? "warpctc_loss_param" : "ctc_loss_param";
  const ValueId x = ScoresOf(l, 0);
  const Shape scores = l.b().shape(x);
  l.Check(!p.has_alphabet_size() || p.alphabet_size() == scores[2], name + ".alphabet_size",
          StrCat(name, ".alphabet_size must be the ", scores[2], " classes of ", scores.ToString(), ", found ",
                 p.alphabet_size()));
  l.Check(
      !p.has_time_step() || p.time_step() == scores[0], name + ".time_step",
      StrCat(name, ".time_step must be the ", scores[0], " steps of ", scores.ToString(), ", found ", p.time_step()));
  l.Check(p.blank_label() >= 0, name + ".blank_label", "the blank must be a class");
  SetLosses(l, x, LabelsOf(l, 1, scores[1], false), AllSteps(l, scores),
            {.blank = BlankOf(l, name + ".blank_label", p.blank_label(), scores[2])});
}

// Labels [K,N], of which the first `lengths` count, as rows with -1 past the end.
ValueId CutLabels(const LayerBuilder& l, int labels, int lengths, int64_t streams) {
  const GraphBuilder& b = l.b();
  const ValueId rows = LabelsOf(l, labels, streams, true);
  l.Check(l.shape(lengths).Count() == streams, StrCat("bottom[", lengths, "]"),
          StrCat("there must be ", streams, " lengths, found ", l.shape(lengths).ToString()));
  const int64_t most = b.shape(rows)[1];
  Doubles positions;
  for (int64_t i = 0; i < most; ++i) positions.push_back(static_cast<double>(i));
  const ValueId position = b.Add1("table", {}, {{"shape", Ints{1, most}}, {"values", positions}});
  const ValueId length = b.Reshape(b.Add1("stop_gradient", {l.bottom(lengths)}), {streams, 1});
  return b.Pointwise("select(lt(x1,x2),x0,-1)", {rows, position, length});
}

// caffe_ocr's (and ChWick's) WarpCTCLoss: 2, 3 or 4 bottoms.
void BuildWarpCtcLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const CTCLossParameter& p = l.param().ctc_loss_param();
  const ValueId x = ScoresOf(l, 0);
  const Shape scores = b.shape(x);
  const int64_t given = p.has_blank_index() ? p.blank_index() : 0;
  Rules rules{.blank = BlankOf(l, "ctc_loss_param.blank_index", given, scores[2])};
  if (l.bottom_count() == 2) return SetLosses(l, x, LabelsOf(l, 1, scores[1], false), AllSteps(l, scores), rules);
  if (l.bottom_count() == 4) {
    l.Check(l.shape(1).Count() == scores[1], "bottom[1]",
            StrCat("there must be ", scores[1], " lengths, found ", l.shape(1).ToString()));
    const ValueId lengths = b.Reshape(b.Add1("stop_gradient", {l.bottom(1)}), {scores[1]});
    return SetLosses(l, x, CutLabels(l, 3, 2, scores[1]), lengths, rules);
  }
  rules.skips_empty = true;
  ValueId labels = LabelsOf(l, 2, scores[1], true);
  // Baidu's blank is class 0, so labels that count from 0 move up by one.
  if (rules.blank == 0) labels = b.Pointwise("select(lt(x0,0),x0,x0+1)", {labels});
  SetLosses(l, x, labels, LengthsOf(l, 1, scores), rules);
}

// Marks and labels of every step for scores [T,N,C].
void NeedsOfCtcLoss(const ShapeReader& reader) {
  const Shape* scores = reader.bottom(0);
  if (scores == nullptr || scores->rank() < 2) return;
  for (int b = 1; b < reader.bottom_count(); ++b) reader.Require(b, {(*scores)[0], (*scores)[1]});
}

}  // namespace

LayerDef CtcLossLayer() {
  return {.type = "CTCLoss",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildCtcLoss,
          .traits = {.is_loss = true},
          .needs = NeedsOfCtcLoss,
          .params = {"ctc_loss_param"}};
}

LayerDef WarpCtcLayer() {
  return {.type = "CtcLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildWarpCtc,
          .traits = {.is_loss = true},
          .params = {"ctc_loss_param", "warpctc_loss_param"}};
}

LayerDef WarpCtcLossLayer() {
  return {.type = "WarpCTCLoss",
          .min_bottoms = 2,
          .max_bottoms = 4,
          .build = BuildWarpCtcLoss,
          .traits = {.is_loss = true},
          .params = {"ctc_loss_param"}};
}

}  // namespace moka
