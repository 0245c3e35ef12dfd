// New dimensions for the same elements: 0 copies the bottom's, -1 is what remains; axis and num_axes limit what is
// replaced.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/shape/moves.h"
#include "layers/types/shape/reshape_needs.h"

namespace moka {
namespace {

// The bottom's shape with [begin, end) replaced.
Shape NewShape(const LayerBuilder& l, int begin, int end) {
  const Shape x = l.shape(0);
  const auto& dims = l.param().reshape_param().shape().dim();
  l.Check(dims.size() + x.rank() - (end - begin) <= Shape::kMaxRank, "reshape_param.shape",
          StrCat("reshape_param.shape gives more than ", Shape::kMaxRank, " dimensions"));
  std::vector<int64_t> middle;
  int inferred = -1;
  Size known = Size(x.Count(0, begin)) * x.Count(end, x.rank());
  for (int i = 0; i < dims.size(); ++i) {
    const std::string field = StrCat("reshape_param.shape.dim[", i, "]");
    int64_t dim = dims.Get(i);
    l.Check(dim >= -1, field, StrCat("a dim must be at least 1, 0 (copy) or -1 (what remains), found ", dim));
    l.Check(dim != -1 || inferred < 0, field, "only one dim may be -1");
    l.Check(dim != 0 || begin + i < x.rank(), field,
            StrCat("dim ", i, " is 0 (copy) but the bottom ", x.ToString(), " has no axis ", begin + i));
    if (dim == 0) dim = x[begin + i];
    if (dim == -1) inferred = i;
    if (dim != -1) known *= dim;
    middle.push_back(dim == -1 ? 1 : dim);
  }
  if (inferred >= 0) {
    l.Check(x.Count() % known.value() == 0, "reshape_param.shape",
            StrCat("the bottom ", x.ToString(), " has ", x.Count(), " elements, which ", known.value(),
                   " (the dims given) does not divide"));
    middle[static_cast<size_t>(inferred)] = x.Count() / known.value();
  }
  return Joined(Joined(Part(x, 0, begin), Shape(middle)), Part(x, end, x.rank()));
}

void BuildReshape(LayerBuilder& l) {
  const ReshapeParameter& p = l.param().reshape_param();
  if (p.pixelshuffler() != 1) {
    return l.SetTop(0, PixelShuffled(l, "reshape_param.pixelshuffler", l.bottom(0), p.pixelshuffler(), false));
  }
  const Shape x = l.shape(0);
  const int rank = x.rank();
  // -1 is the place after the last axis.
  const int64_t begin = p.axis() >= 0 ? int64_t{p.axis()} : int64_t{rank} + p.axis() + 1;
  l.Check(begin >= 0 && begin <= rank, "reshape_param.axis",
          StrCat("reshape_param.axis is ", p.axis(), " but the bottom ", x.ToString(), " has ", rank, " axes"));
  l.Check(p.num_axes() >= -1, "reshape_param.num_axes",
          StrCat("reshape_param.num_axes must be -1 or at least 0, found ", p.num_axes()));
  const int64_t end = p.num_axes() == -1 ? rank : begin + p.num_axes();
  l.Check(end <= rank, "reshape_param.num_axes",
          StrCat("reshape_param.num_axes ", p.num_axes(), " from axis ", begin, " on is more than the bottom ",
                 x.ToString(), " has"));
  const Shape y = NewShape(l, static_cast<int>(begin), static_cast<int>(end));
  l.Check(y.Count() == x.Count(), "reshape_param.shape",
          StrCat("the new shape ", y.ToString(), " has ", y.Count(), " elements but the bottom ", x.ToString(), " has ",
                 x.Count()));
  l.SetTop(0, l.b().Reshape(l.bottom(0), y));
}

}  // namespace

LayerDef ReshapeLayer() {
  return {.type = "Reshape",
          .build = BuildReshape,
          .traits = {.hands_on = true},
          .needs = NeedsOfReshape,
          .bottoms = BottomsOfReshape,
          .params = {"reshape_param"}};
}

}  // namespace moka
