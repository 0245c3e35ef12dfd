// YOLO v1's loss and evaluation, which share their names with layers of other detectors
// (layers/forks/yolo/ops/squares.h).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"

namespace moka {
namespace {

template <class Parameter>
Attributes GridFields(LayerBuilder& l, const std::string& message, const Parameter& p) {
  const Shape x = l.shape(0);
  const Shape label = l.shape(1);
  constexpr int64_t kMost = 1 << 15;
  const auto check = [&](const char* field, int64_t value) {
    l.Check(value >= 1 && value <= kMost, StrCat(message, ".", field),
            StrCat(field, " must be from 1 to ", kMost, ", found ", value));
  };
  check("side", p.side());
  check("num_class", p.num_class());
  check("num_object", p.num_object());
  const int64_t squares = int64_t{p.side()} * p.side();
  const int64_t values = squares * (int64_t{p.num_class()} + int64_t{5} * p.num_object());
  l.Check(x.rank() >= 2 && x[0] > 0 && x.Count(1, x.rank()) == values, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,", values, "], ", p.side(), " x ", p.side(),
                 " squares of ", p.num_class(), " classes and ", p.num_object(), " boxes, found ", x.ToString()));
  l.Check(label.rank() >= 2 && label[0] == x[0] && label.Count(1, label.rank()) == squares * 7, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0], ",", squares * 7,
                 "], 7 numbers a square, found ", label.ToString()));
  return {{"side", int64_t{p.side()}},
          {"classes", int64_t{p.num_class()}},
          {"objects", int64_t{p.num_object()}},
          {"sqrt", p.sqrt()},
          {"constrained", p.constriant()}};
}

}  // namespace

void BuildSquaresLoss(LayerBuilder& l) {
  const DetectionLossParameter& p = l.param().detection_loss_param();
  Attributes attributes = GridFields(l, "detection_loss_param", p);
  for (const auto& [field, value] :
       {std::pair{"object_scale", p.object_scale()}, std::pair{"noobject_scale", p.noobject_scale()},
        std::pair{"class_scale", p.class_scale()}, std::pair{"coord_scale", p.coord_scale()}}) {
    attributes.Set(field, Finite(l, StrCat("detection_loss_param.", field), value));
  }
  const std::vector<ValueId> y = l.b().Add("squares_loss", l.bottoms(), attributes);
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

void BuildEvalSquares(LayerBuilder& l) {
  const EvalDetectionParameter& p = l.param().eval_detection_param();
  Attributes attributes = GridFields(l, "eval_detection_param", p);
  attributes.Set("score", ScoreName(p.score_type()));
  attributes.Set("threshold", Finite(l, "eval_detection_param.threshold", p.threshold()));
  attributes.Set("nms", Finite(l, "eval_detection_param.nms", p.nms()));
  l.SetTop(0, l.b().Add1("eval_squares", {l.bottom(0), l.bottom(1)}, attributes));
}

}  // namespace moka
