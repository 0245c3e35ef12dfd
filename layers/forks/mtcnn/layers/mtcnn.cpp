// The Python layers that MTCNN's widely copied Caffe training nets share (CongWeilin/mtcnn-caffe, pythonLayer.py): a
// batch trains one of three tasks, and what it has no truth for is -1. And oftenliu's loader of such batches.
#include "core/text.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

// The faces with a label other than -1, first and in order; the rows left over are zeros of class 0.
void BuildBridge(LayerBuilder& l, const Shape& scores) {
  const GraphBuilder& b = l.b();
  const int64_t items = l.shape(1).Count();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2 && x[0] == items && x.Count() == 2 * items, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must have two scores for each of the ", items, " labels of \"",
                 l.param().bottom(1), "\", found ", x.ToString()));
  const ValueId label = b.Add1("stop_gradient", {b.Reshape(l.bottom(1), Shape{items, 1})});
  const ValueId is_labelled = b.Pointwise("1-eq(x0,-1)", {b.Reshape(label, Shape{items})});
  const ValueId index = b.Add1("filter_index", {is_labelled});
  l.SetTop(0, b.Reshape(b.Add1("take_rows", {l.bottom(0), index}), scores));
  l.SetTop(1, b.Add1("take_rows", {label, index}));
}

void BuildClass(LayerBuilder& l, const PythonFields&) { BuildBridge(l, Shape{l.shape(1).Count(), 2}); }
void BuildClassMap(LayerBuilder& l, const PythonFields&) { BuildBridge(l, Shape{l.shape(1).Count(), 2, 1, 1}); }

// Half the mean over the batch of the summed squared differences; 0 where no row of the truth begins with another
// number than -1. As in the original one such row lets every row count.
void BuildRegression(LayerBuilder& l, const PythonFields&) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape truth = l.shape(1);
  l.Check(x.rank() >= 1 && truth.rank() >= 1 && x.Count() == truth.Count() && truth[0] == x[0], "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 truth.ToString(), " must have one batch and one count"));
  const int64_t items = x[0];
  const Shape rows{items, x.Count() / items};
  const ValueId y = b.Reshape(l.bottom(1), rows);
  const ValueId squares = b.Pointwise("(x0-x1)*(x0-x1)", {b.Reshape(l.bottom(0), rows), y});
  const ValueId first = b.Add("slice", {y}, {{"axis", int64_t{1}}, {"sizes", Ints{1, rows[1] - 1}}})[0];
  const ValueId known = b.SumAll(b.Pointwise("1-eq(x0,-1)", {first}));
  const ValueId sum = b.SumAll(squares);
  const Term half_mean = Term::Of(sum) / (Size(2) * items).value();
  const ValueId loss = Computed(b, Select(Term::Of(known) > 0, half_mean, 0), {sum});
  l.SetTop(0, b.Reshape(loss, Shape{1}));
}

// oftenliu/caffe-mtcnn's loader: faces of the net's size, labels, boxes and landmarks.
void BuildData(LayerBuilder& l, const PythonFields& fields) {
  const std::string net = fields.Text("net_type", "pnet");
  const int64_t side = net == "pnet" ? 12 : net == "rnet" ? 24 : net == "onet" ? 48 : 0;
  l.Check(side > 0, "python_param.param_str",
          StrCat("python_param.param_str: 'net_type' must be pnet, rnet or onet, found \"", Printable(net), "\""));
  const int64_t batch = fields.Count("batch_size", 256, 1);
  std::vector<TensorType> types;
  for (const Shape& shape : {Shape{batch, 3, side, side}, Shape{batch}, Shape{batch, 4}, Shape{batch, 10}}) {
    types.push_back({DType::kFloat32, shape, {}});
  }
  l.AddData(types);
}

PythonLayerDef Loader(const char* module) {
  return {.module = module,
          .layer = "MtcnnDataLayer",
          .doc =
              "MTCNN (oftenliu): fed by the caller: data [batch_size,3,S,S], S 12, 24 or 48 as net_type is pnet, "
              "rnet or onet, label [batch_size], bbox [batch_size,4] and landmark [batch_size,10].",
          .min_tops = 4,
          .max_tops = 4,
          .build = BuildData};
}

PythonLayerDef Layer(const char* layer, const char* doc, int tops, void (*build)(LayerBuilder&, const PythonFields&)) {
  return {.module = "pythonLayer",
          .layer = layer,
          .doc = doc,
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = tops,
          .max_tops = tops,
          .build = build};
}

}  // namespace

std::vector<PythonLayerDef> MtcnnPythonLayers() {
  return {
      Layer("cls_Layer",
            "MTCNN: (scores [N,2,..], labels of N items) -> scores [N,2] and labels [N,1] of the items whose label is "
            "not -1, first and in order; the rows left over are zeros. The scores get a gradient.",
            2, BuildClass),
      Layer("cls_Layer_fc", "as cls_Layer, with scores [N,2,1,1].", 2, BuildClassMap),
      Layer("regression_Layer",
            "MTCNN: half the mean over the batch of the summed squared differences of two bottoms, 0 if every item of "
            "the second begins with -1; give it a loss_weight.",
            1, BuildRegression),
      Loader("pydata_layer"),
      Loader("pydata_layer_multidb"),
  };
}

}  // namespace moka
