// What CTC's scores say: the best path read as labels, and how often that is right. CTCGreedyDecoder is two layers of
// one name: ChWick's Caffe gives it marks of the sequences, caffe_ocr scores alone or scores and labels.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/recurrent/ctc.h"

namespace moka {
namespace {

std::vector<ValueId> Decode(const LayerBuilder& l, ValueId x, ValueId lengths, int64_t blank, bool merges) {
  return l.b().Add("ctc_decode", {x, lengths}, {{"blank", blank}, {"merge_repeated", merges}});
}

// The part of a row's labels that an edit must touch, averaged: 1 - sum(distance / longer row) / N.
ValueId EditAccuracy(const LayerBuilder& l, const std::vector<ValueId>& distance) {
  const GraphBuilder& b = l.b();
  const double part = 1 / static_cast<double>(b.shape(distance[0])[0]);
  const ValueId wrong = b.SumAll(b.Pointwise("select(eq(x1,0),0,x0/x1)", distance));
  return b.Pointwise(StrCat("1-x0*", Number(part)), {wrong});
}

// caffe_ocr's: labels [N,L] give the two accuracies [1,2,1,1].
void SetAccuracies(LayerBuilder& l, ValueId decoded, int64_t blank) {
  const GraphBuilder& b = l.b();
  const int64_t streams = b.shape(decoded)[0];
  const std::vector<ValueId> distance =
      b.Add("edit_distance", {decoded, LabelsOf(l, 1, streams, false)}, {{"left_out", blank}});
  const double part = 1 / static_cast<double>(streams);
  const ValueId right = b.SumAll(b.Pointwise("select(eq(x1,0),0,eq(x0,0))", distance));
  const std::vector<ValueId> both = {b.Reshape(EditAccuracy(l, distance), {1, 1, 1, 1}),
                                     b.Reshape(b.Pointwise(StrCat("x0*", Number(part)), {right}), {1, 1, 1, 1})};
  l.SetTop(0, b.Add1("concat", both, {{"axis", int64_t{1}}}));
}

// ChWick's: tops labels, with a third bottom the accuracy last, with one more the scores second.
void SetDecoded(LayerBuilder& l, const std::vector<ValueId>& decoded) {
  const GraphBuilder& b = l.b();
  const Shape labels = b.shape(decoded[0]);
  const bool has_labels = l.bottom_count() == 3;
  const int most = has_labels ? 3 : 2;
  l.Check(l.top_count() <= most, "top",
          StrCat("CTCGreedyDecoder with ", l.bottom_count(), " bottoms has at most ", most, " tops, found ",
                 l.top_count()));
  l.SetTop(0, b.Reshape(decoded[0], {labels[0], labels[1], 1, 1}));
  const bool has_score = l.top_count() == most;
  if (has_score) l.SetTop(1, b.Reshape(decoded[1], {labels[0], 1, 1, 1}));
  if (!has_labels || l.top_count() == 1) return;
  const std::vector<ValueId> distance = b.Add("edit_distance", {decoded[0], LabelsOf(l, 2, labels[0], true)});
  l.SetTop(l.top_count() - 1, b.Reshape(EditAccuracy(l, distance), {1, 1, 1, 1}));
}

// Whether bottom 1 of two holds marks [T,N] and not labels [N,L].
bool HasMarks(const LayerBuilder& l, const Shape& scores) {
  const Shape x = l.shape(1);
  const bool fits = x.rank() >= 2 && x[0] == scores[0] && x[1] == scores[1] && x.Count() == x[0] * x[1];
  return fits && !(scores[0] == scores[1] && (l.NetHas("WarpCTCLoss") || l.NetHas("CtcLoss")));
}

void BuildDecoder(LayerBuilder& l) {
  const CTCDecoderParameter& p = l.param().ctc_decoder_param();
  const ValueId x = ScoresOf(l, 0);
  const Shape scores = l.b().shape(x);
  const bool has_marks = l.bottom_count() == 3 || (l.bottom_count() == 2 && HasMarks(l, scores));
  const int64_t given = p.has_blank_index() ? p.blank_index() : has_marks ? -1 : 0;
  const int64_t blank = BlankOf(l, "ctc_decoder_param.blank_index", given, scores[2]);
  const ValueId lengths = has_marks ? LengthsOf(l, 1, scores) : AllSteps(l, scores);
  const std::vector<ValueId> decoded = Decode(l, x, lengths, blank, p.ctc_merge_repeated());
  if (has_marks) return SetDecoded(l, decoded);
  l.Check(l.top_count() == 1, "top", StrCat("CTCGreedyDecoder without marks has one top, found ", l.top_count()));
  if (l.bottom_count() == 2) return SetAccuracies(l, decoded[0], blank);
  l.SetTop(0, l.b().Reshape(decoded[0], {scores[1], scores[0], 1, 1}));
}

void BuildAccuracy(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape rows = l.shape(0);
  l.Check(rows.rank() >= 3 && rows.Count(3, rows.rank()) == 1 && rows.Count() >= 1, "bottom[0]",
          StrCat("the scores must be [sequences,steps,classes], found ", rows.ToString()));
  const ValueId x =
      b.Add1("transpose", {b.Reshape(l.bottom(0), {rows[0], rows[1], rows[2]})}, {{"perm", Ints{1, 0, 2}}});
  const int64_t label = l.param().labelsequence_accuracy_param().blank_label();
  l.Check(label >= 0, "labelsequence_accuracy_param.blank_label", "the blank must be a class");
  const int64_t blank = BlankOf(l, "labelsequence_accuracy_param.blank_label", label, rows[2]);
  const ValueId decoded = Decode(l, x, AllSteps(l, b.shape(x)), blank, true)[0];
  const std::vector<ValueId> distance =
      b.Add("edit_distance", {decoded, LabelsOf(l, 1, rows[0], false)}, {{"left_out", blank}});
  const double part = 1 / static_cast<double>(rows[0]);
  const ValueId right = b.SumAll(b.Pointwise("eq(x0,0)", {distance[0]}));
  l.SetTop(0, b.Pointwise(StrCat("x0*", Number(part)), {right}));
}

}  // namespace

LayerDef CtcGreedyDecoderLayer() {
  return {
      .type = "CTCGreedyDecoder",
      .doc =
          "The largest class of each step of x [T,N,C], runs merged (unless ctc_merge_repeated is false) and blanks "
          "left "
          "out. With marks [T,N] (0 after step 0 ends a sequence): labels [N,T,1,1], -1 past a row's end, optionally "
          "minus the sum of the largest scores [N,1,1,1], and with labels [L,N] as third bottom the accuracy [1,1,1,1] "
          "as last top; blank_index is the last class unless given. Without: labels [N,T,1,1], or, with labels [N,L] "
          "as second bottom, the two accuracies [1,2,1,1] instead; blank_index is 0 unless given.",
      .max_bottoms = 3,
      .max_tops = 3,
      .build = BuildDecoder,
      .page = {.params = {"ctc_decoder_param"},
               .formula =
                   "`best[t,n] = argmax over c of x[t,n,c]`, the first winning; the row of labels holds best[t,n] of "
                   "each step that is not the blank and, with ctc_merge_repeated (default true), not best[t-1,n]. "
                   "Scores: `-(sum over t of max over c of x[t,n,c])`.\n\nAccuracy: `1 - (1/N) sum over n of d_n / "
                   "m_n`, d the edit distance of the two rows, m the longer one's labels; rows without any label in "
                   "both give 0 to the sum. The second accuracy is the part of rows with d = 0 and m > 0. Rows of "
                   "labels end at a negative value; without marks blanks in them are left out.\n\nTwo bottoms are "
                   "scores and marks if the second is [T,N]; where T = N, unless the net has a layer of type "
                   "WarpCTCLoss or CtcLoss.",
               .gradient = "None.",
               .source = "ChWick's Caffe, ctc_decoder_layer, and its descendant in github.com/senlinuc/caffe_ocr.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 4 } } }
layer { name: "marks" type: "Input" top: "marks" input_param { shape { dim: 5 dim: 2 } } }
layer { name: "decoded" type: "CTCGreedyDecoder" bottom: "x" bottom: "marks" top: "decoded" })"}};
}

LayerDef LabelSequenceAccuracyLayer() {
  return {
      .type = "LabelsequenceAccuracy",
      .doc =
          "The part of the sequences [N,T,C] whose best path, runs merged and blanks left out, is the row of labels "
          "[N,L] without its blanks; blank_label (default 0) is the class of the blank. A scalar.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildAccuracy,
      .page = {
          .params = {"labelsequence_accuracy_param"},
          .formula = "`best[n,t] = argmax over c of x[n,t,c]`; a sequence is right if best without its repetitions "
                     "(`best[n,t] = best[n,t-1]`) and blanks equals the row of labels without blanks. The top is the "
                     "number of those / N.",
          .gradient = "None.",
          .source = "github.com/xmfbit/warpctc-caffe, labelsequence_accuracy_layer. A row of labels ends at a negative "
                    "value.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 5 dim: 4 } } }
layer { name: "labels" type: "Input" top: "labels" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "accuracy"
  type: "LabelsequenceAccuracy"
  bottom: "x"
  bottom: "labels"
  top: "accuracy"
  labelsequence_accuracy_param { blank_label: 3 }
})"}};
}

}  // namespace moka
