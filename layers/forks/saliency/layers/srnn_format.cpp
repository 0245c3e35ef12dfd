// Maps as the sequences of their rows, and back: every row of every image is a stream, its columns are the steps, so
// that an LSTM walks along the rows (DSCLRCN, Liu, Han, arXiv 1610.01708).
#include "core/text.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFormat(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(l.bottom_count() == 1 && l.top_count() == 3, "top",
          StrCat("operation FORMAT takes 1 bottom and 3 tops, found ", l.bottom_count(), " and ", l.top_count()));
  l.Check(x.rank() == 4 && x.Count() >= 1, "bottom[0]", StrCat("the maps must be [N,C,H,W], found ", x.ToString()));
  const int64_t streams = x[0] * x[2];
  l.SetTop(0, b.Reshape(b.Add1("transpose", {l.bottom(0)}, {{"perm", Ints{3, 0, 2, 1}}}), {x[3], streams, x[1]}));
  const ValueId first = b.Full({1, streams}, 0);
  l.SetTop(1, x[3] == 1 ? first : b.Add1("concat", {first, b.Full({x[3] - 1, streams}, 1)}, {{"axis", int64_t{0}}}));
  l.SetTop(2, b.Full(Shape{}, static_cast<double>(x[2])));
}

// The number of a scalar that the graph holds as a constant; 0 if it is none.
int64_t KnownNumber(const Graph& graph, ValueId value) {
  while (graph.value(value).producer != kNoId) {
    const Node& node = graph.node(graph.value(value).producer);
    if (node.op->name == "full") return static_cast<int64_t>(node.attributes.Float("value"));
    if (node.op->name != "stop_gradient" && node.op->name != "reshape") return 0;
    value = node.inputs[0];
  }
  return 0;
}

void BuildUnformat(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(l.bottom_count() == 2 && l.top_count() == 1, "bottom",
          StrCat("operation UNFORMAT takes 2 bottoms and 1 top, found ", l.bottom_count(), " and ", l.top_count()));
  l.Check(x.rank() == 3 && x.Count() >= 1, "bottom[0]",
          StrCat("the sequences must be [steps,streams,channels], found ", x.ToString()));
  const int64_t height = l.shape(1).Count() == 1 ? KnownNumber(b.graph(), l.bottom(1)) : 0;
  l.Check(height >= 1, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1),
                 "\" must be the third top of an SRNNFormat layer: the rows of an image must be known before a run"));
  l.Check(
      x[1] % height == 0, "bottom[0]",
      StrCat("the ", x[1], " streams of ", x.ToString(), " are not a multiple of the ", height, " rows of an image"));
  l.SetTop(0, b.Add1("transpose", {b.Reshape(l.bottom(0), {x[0], x[1] / height, height, x[2]})},
                     {{"perm", Ints{1, 3, 2, 0}}}));
}

void BuildSrnnFormat(LayerBuilder& l) {
  if (l.param().srnnformat_param().operation() == SRNNFormatParameter::FORMAT) return BuildFormat(l);
  BuildUnformat(l);
}

}  // namespace

LayerDef SrnnFormatLayer() {
  return {
      .type = "SRNNFormat", .max_bottoms = 2, .max_tops = 3, .build = BuildSrnnFormat, .params = {"srnnformat_param"}};
}

}  // namespace moka
