// YoloV2Loss and YoloV3Loss (Synopsys): YOLO's losses of labels that say for each cell of the map whether an object has
// its centre there (layers/forks/yolo/ops/cells_loss.cpp).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Side of the map, which must be that of the field, as must the labels.
int64_t CheckSide(const LayerBuilder& l, const std::string& field, int64_t side, int64_t anchors, int64_t classes) {
  l.Check(classes >= 1, field + ".num_classes", StrCat("num_classes must be at least 1, found ", classes));
  l.Check(anchors >= 1, field + ".num_object", StrCat("num_object must be at least 1, found ", anchors));
  CheckMap(l, 0, anchors, 5 + classes);
  const Shape x = l.shape(0);
  l.Check(x[2] == side && x[3] == side, field + ".side",
          StrCat("side is ", side, " but the bottom ", x.ToString(), " has maps of ", x[2], " x ", x[3]));
  l.Check((Size(x[0]) * side * side * 7) == Size(l.shape(1).Count()), "bottom[1]",
          StrCat("labels must be [", x[0], ",", (Size(side) * side * 7).value(), "], 7 numbers a cell, found ",
                 l.shape(1).ToString()));
  return side;
}

void BuildSecond(LayerBuilder& l) {
  const YoloV2LossParameter& p = l.param().yolo_v2_loss_param();
  const std::string field = "yolo_v2_loss_param";
  const auto number = [&](const char* name, float value) { return Finite(l, StrCat(field, ".", name), value); };
  const int64_t side = CheckSide(l, field, p.side(), p.num_object(), p.num_classes());
  Doubles anchors = AnchorsOf(l, field + ".anchors", p.anchors(), p.num_object());
  for (double& size : anchors) size /= static_cast<double>(side);
  Ints mask;
  for (int64_t i = 0; i < p.num_object(); ++i) mask.push_back(i);
  const ValueId seen = l.AddKept("seen", {});
  const Term images = Term::Of(seen);
  l.AssignKept(seen, Computed(l.b(), Select(images < 12800, images + l.shape(0)[0], images)));
  const std::vector<ValueId> y =
      l.b().Add("yolo_cells_loss", {l.bottom(0), l.bottom(1), l.b().Add1("stop_gradient", {seen})},
                {{"version", int64_t{2}},
                 {"classes", int64_t{p.num_classes()}},
                 {"anchors", anchors},
                 {"mask", mask},
                 {"thresh", number("thresh", p.thresh())},
                 {"box_scale", number("box_scale", p.box_scale())},
                 {"class_scale", number("class_scale", p.class_scale())},
                 {"object_scale", number("object_scale", p.object_scale())},
                 {"noobject_scale", number("noobject_scale", p.noobject_scale())},
                 {"rescore", p.rescore()}});
  l.NoteUnequal("tells its loss over the objects of a batch, which is a part of it on each rank");
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

// Pixels of the image's sides. Of darknet's three maps a cell has as many as their place says, whatever the field does.
int64_t PixelsOf(const LayerBuilder& l, const char* field, int64_t given) {
  const YoloV3LossParameter& p = l.param().yolo_v3_loss_param();
  const int64_t first = p.mask(0);
  const int64_t cell = first == 6 ? 32 : first == 3 ? 16 : first == 0 ? 8 : 0;
  l.Check(cell > 0 || given >= 1, field, StrCat("it must be at least 1, found ", given));
  return cell > 0 ? (Size(p.side()) * cell).value() : given;
}

void BuildThird(LayerBuilder& l) {
  const YoloV3LossParameter& p = l.param().yolo_v3_loss_param();
  const std::string field = "yolo_v3_loss_param";
  CheckSide(l, field, p.side(), p.num_object(), p.num_classes());
  Doubles anchors = AnchorsOf(l, field + ".anchors", p.anchors(), p.total_object());
  const Ints mask(p.mask().begin(), p.mask().end());
  l.Check(p.mask_size() == p.num_object(), field + ".mask",
          StrCat("mask must name the ", p.num_object(), " anchors of this map (num_object), found ", mask.size()));
  for (const int64_t anchor : mask) {
    l.Check(anchor >= 0 && anchor < p.total_object(), field + ".mask",
            StrCat("mask ", anchor, " is none of the ", p.total_object(), " anchors"));
  }
  const auto width = static_cast<double>(PixelsOf(l, "yolo_v3_loss_param.net_w", p.net_w()));
  const auto height = static_cast<double>(PixelsOf(l, "yolo_v3_loss_param.net_h", p.net_h()));
  for (size_t i = 0; i < anchors.size(); ++i) anchors[i] /= i % 2 == 0 ? width : height;
  const std::vector<ValueId> y = l.b().Add("yolo_cells_loss", l.bottoms(),
                                           {{"version", int64_t{3}},
                                            {"classes", int64_t{p.num_classes()}},
                                            {"anchors", anchors},
                                            {"mask", mask},
                                            {"thresh", Finite(l, field + ".ignore_thresh", p.ignore_thresh())},
                                            {"truth_thresh", Finite(l, field + ".truth_thresh", p.truth_thresh())}});
  l.NoteUnequal("tells its loss over the objects of a batch, which is a part of it on each rank");
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

LayerDef Row(std::string type, void (*build)(LayerBuilder&), std::vector<std::string> params) {
  return {.type = std::move(type),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = build,
          .traits = {.is_loss = true},
          .params = std::move(params)};
}

}  // namespace

LayerDef YoloV2LossLayer() { return Row("YoloV2Loss", BuildSecond, {"yolo_v2_loss_param"}); }

LayerDef YoloV3LossLayer() { return Row("YoloV3Loss", BuildThird, {"yolo_v3_loss_param"}); }

}  // namespace moka
