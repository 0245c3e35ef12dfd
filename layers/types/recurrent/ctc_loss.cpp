// Connectionist temporal classification (Graves et al., ICML 2006) under the three names its forks have. All give the
// mean of the sequences' losses, and the gradient of their sum: none of the forks divides it.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
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
  const std::string slope = l.ranks() == 1 ? "(x0-x1)" : StrCat(l.ranks(), "*(x0-x1)");
  l.SetTop(0, b.Pointwise(StrCat("x1*", Number(part), "+", slope), {sum, fixed}));
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
    lengths = b.Pointwise(StrCat("max(x0-", delay, ",0)"), {lengths});
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

const char* const kFormula =
    "With p = softmax of x over the classes at each step, the loss of a sequence is `-log(sum of prod_t p[t, path_t])` "
    "over all paths of its length that read as its target: runs of one class become one label, then blanks go. The top "
    "is the mean over the N sequences. A target longer than any path (its labels and one blank between equal "
    "neighbours need more steps than there are) and a sequence of no steps have loss 0.";

const char* const kGradient =
    "x: of the sum over the sequences, not of the mean: `p[t,n,c] - q[t,n,c]`, q the part of the paths' probability "
    "that is at class c at step t; 0 past a sequence's length and where the loss is 0 by the rules above. Labels, "
    "marks and lengths get none.";

}  // namespace

LayerDef CtcLossLayer() {
  return {.type = "CTCLoss",
          .doc =
              "Connectionist temporal classification of scores x [T,N,C] (no softmax before it), marks [T,N] (0 after "
              "step 0: the sequence ends before it) and labels [L,N], each column ended by a negative value; "
              "blank_index (default the last class) is the class of the blank. Sequences without labels count nothing.",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildCtcLoss,
          .page = {
              .params = {"ctc_loss_param"},
              .formula = StrCat(kFormula,
                                "\n\n`output_delay: d` leaves the first d steps out. `ctc_merge_repeated: false`: "
                                "runs are not merged, so every step that is no blank is a label. "
                                "`preprocess_collapse_repeated`: equal neighbours of the target become one. A "
                                "label that is no class ends the target."),
              .gradient = kGradient,
              .source = "Graves, Fernandez, Gomez, Schmidhuber, \"Connectionist Temporal Classification\", ICML 2006; "
                        "ChWick's Caffe, ctc_loss_layer, which stops at a target with more labels than steps and gives "
                        "infinity where blanks between equal labels do not fit: here both count nothing. Its gradient "
                        "ignores loss_weight; here it is multiplied by it.",
              .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "marks" type: "Input" top: "marks" input_param { shape { dim: 5 dim: 2 } } }
layer { name: "labels" type: "Input" top: "labels" input_param { shape { dim: 5 dim: 2 } } }
layer { name: "loss" type: "CTCLoss" bottom: "x" bottom: "marks" bottom: "labels" top: "loss" })"}};
}

LayerDef WarpCtcLayer() {
  return {
      .type = "CtcLoss",
      .doc =
          "Connectionist temporal classification of scores x [T,N,C] (no softmax before it) and labels [N,L]; "
          "blank_label (default 0) is the class of the blank, and entries of a row of labels that are the blank "
          "are left out. All sequences have T steps.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildWarpCtc,
      .page = {.params = {"ctc_loss_param", "warpctc_loss_param"},
               .formula = StrCat(kFormula,
                                 "\n\nalphabet_size and time_step must be C and T if they are given. "
                                 "Sequences without labels are paths of blanks."),
               .gradient = kGradient,
               .source = "Graves, Fernandez, Gomez, Schmidhuber, \"Connectionist Temporal Classification\", ICML 2006; "
                         "Baidu's warp-ctc in github.com/xmfbit/warpctc-caffe. That code stops if no sequence of the "
                         "batch has a label.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "labels" type: "Input" top: "labels" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "loss"
  type: "CtcLoss"
  bottom: "x"
  bottom: "labels"
  top: "loss"
  ctc_loss_param { blank_label: 3 alphabet_size: 4 time_step: 5 }
})"}};
}

LayerDef WarpCtcLossLayer() {
  return {
      .type = "WarpCTCLoss",
      .doc =
          "Connectionist temporal classification of scores x [T,N,C] (no softmax before it), with bottoms x and labels "
          "[N,L] (entries that are the blank are left out); or x, marks [T,N] and labels [L,N] ended by a negative "
          "value; or x, the sequences' lengths [N], the targets' lengths [N] and labels [L,N]. blank_index (default 0) "
          "is the class of the blank; negative: the last.",
      .min_bottoms = 2,
      .max_bottoms = 4,
      .build = BuildWarpCtcLoss,
      .page = {.params = {"ctc_loss_param"},
               .formula = StrCat(kFormula,
                                 "\n\nWith three bottoms and blank 0 the labels count from 0 without the blank: label "
                                 "k is class k+1. With marks a sequence without labels counts nothing."),
               .gradient = kGradient,
               .source = "Graves, Fernandez, Gomez, Schmidhuber, \"Connectionist Temporal Classification\", ICML 2006; "
                         "Baidu's warp-ctc in github.com/senlinuc/caffe_ocr and ChWick's Caffe. Their gradient "
                         "ignores loss_weight; here it is multiplied by it.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "labels" type: "Input" top: "labels" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "loss" type: "WarpCTCLoss" bottom: "x" bottom: "labels" top: "loss" })"}};
}

}  // namespace moka
