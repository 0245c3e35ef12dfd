// Reads CTC's scores: the best path read as labels, and how often that is right. CTCGreedyDecoder is two layers of one
// name: ChWick's Caffe gives it marks of the sequences, caffe_ocr scores alone or scores and labels.
#include "core/text.h"
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
  return Computed(b, 1 - Term::Of(wrong) * Decimal(part));
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
                                     b.Reshape(Computed(b, Term::Of(right) * Decimal(part)), {1, 1, 1, 1})};
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
  l.SetTop(0, Term::Of(right) * Decimal(part));
}

}  // namespace

LayerDef CtcGreedyDecoderLayer() {
  return {.type = "CTCGreedyDecoder",
          .max_bottoms = 3,
          .max_tops = 3,
          .build = BuildDecoder,
          .params = {"ctc_decoder_param"}};
}

LayerDef LabelSequenceAccuracyLayer() {
  return {.type = "LabelsequenceAccuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildAccuracy,
          .params = {"labelsequence_accuracy_param"}};
}

}  // namespace moka
