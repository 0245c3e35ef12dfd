// A need of a blob's shape starts at a layer that could not be built and has some bottom known, and runs upwards
// (layers/shapes/shape_needs.h) until it reaches a data top. Layers that cut their bottom wait until all their parts
// have been asked.
#include "tools/check/consumer_shapes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "core/size.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

int SliceAxis(const SliceParameter& p, int rank) {
  return p.has_slice_dim() ? static_cast<int>(p.slice_dim()) : AxisFromFront(p.axis(), rank);
}

// Returns the width of a Slice's whole: up to its last cut, then a part of `last`, or, where that is 0, as wide as the
// part before the cut; 0 if the last two points do not rise.
int64_t WholeOf(const SliceParameter& p, int64_t last) {
  const int64_t cut = p.slice_point(p.slice_point_size() - 1);
  const int64_t before = p.slice_point_size() > 1 ? int64_t{p.slice_point(p.slice_point_size() - 2)} : 0;
  return cut <= before ? 0 : cut + (last > 0 ? last : cut - before);
}

class Readers : ShapeNeeds {
 public:
  Readers(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops)
      : ShapeNeeds(net, attempt, tops), net_(net), attempt_(attempt) {}

  TopShapes Find() {
    for (int i = 0; i < net_.layer_size(); ++i) {
      const LayerDef* def = attempt_.is_built[static_cast<size_t>(i)] ? nullptr : FindLayer(net_.layer(i).type());
      if (def != nullptr && def->needs != nullptr) def->needs(ShapeReader(*this, i));
    }
    for (int i = net_.layer_size() - 1; i >= 0; --i) {
      if (TraitsOf(net_.layer(i)).cuts) AskSlice(i, net_.layer(i));
    }
    return TakeChanges();
  }

 private:
  // A Slice of the items: its parts' readers say the other axes, the points how many items there are at least.
  void AskSliceOfItems(int i, const LayerParameter& layer, const Shape& whole, const Shape* part) {
    if (part != nullptr) Require(i, layer.bottom(0), part->With(0, whole[0]));
    if (!HasFailed(i)) return;
    const SliceParameter& p = layer.slice_param();
    const int64_t parts = layer.top_size();
    const int64_t total = p.slice_point_size() > 0 ? WholeOf(p, 0) : std::lcm(whole[0], parts);
    if (total > whole[0]) Rebatch(i, whole[0], total);
  }

  // The whole as its parts' readers need it, or as the points say.
  void AskSlice(int i, const LayerParameter& layer) {
    if (layer.bottom_size() < 1 || layer.top_size() < 1) return;
    const SliceParameter& p = layer.slice_param();
    const Shape* whole = KnownBottom(layer, 0);
    std::optional<Shape> base;
    for (const std::string& part : layer.top()) {
      const auto need = parts().find(part);
      if (need != parts().end() && (!base || need->second.rank() > base->rank())) base = need->second;
    }
    const bool is_asked = base.has_value();
    if (!base && (whole == nullptr || !HasFailed(i))) return;
    if (!base) base = *whole;
    if (base->rank() == 1) base = Shape{(*base)[0], 1};
    const int axis = SliceAxis(p, base->rank());
    if (axis == 0 && whole != nullptr) return AskSliceOfItems(i, layer, *whole, is_asked ? &*base : nullptr);
    if (axis < 1 || axis >= base->rank()) return;
    // 0: nobody needs anything of the part.
    const auto width = [&](const std::string& part) -> int64_t {
      const auto need = parts().find(part);
      if (need != parts().end()) return need->second.rank() > axis ? need->second[axis] : 1;
      const Shape* known = HasFailed(i) ? nullptr : Known(part);
      return known != nullptr && known->rank() == base->rank() ? (*known)[axis] : 0;
    };
    int64_t total = 0;
    if (p.slice_point_size() > 0) {
      total = WholeOf(p, width(layer.top(layer.top_size() - 1)));
    } else if (is_asked) {
      for (const std::string& part : layer.top()) total = std::max(total, parts().contains(part) ? width(part) : 0);
      total = (Size(total) * layer.top_size()).value();
    } else {
      total = (Size((*base)[axis]) * layer.top_size()).value();
    }
    if (total > 0) Require(i, layer.bottom(0), base->With(axis, total));
  }

  const NetParameter& net_;
  const NetAttempt& attempt_;
};

}  // namespace

TopShapes NeededShapes(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops) {
  return Readers(net, attempt, tops).Find();
}

TopShapes EqualParts(const NetParameter& net, const DataTops& tops) {
  TopShapes shapes;
  for (const LayerParameter& layer : net.layer()) {
    const SliceParameter& p = layer.slice_param();
    if (!TraitsOf(layer).cuts || layer.bottom_size() < 1 || p.slice_point_size() == 0) continue;
    const auto top = tops.find(layer.bottom(0));
    if (top == tops.end() || !top->second.can_change) continue;
    const Shape& shape = top->second.shape;
    const int axis = SliceAxis(p, shape.rank());
    if (axis < 1 || axis >= shape.rank()) continue;
    const int64_t whole = WholeOf(p, 0);
    if (whole > 0 && whole != shape[axis]) shapes[top->first] = shape.With(axis, whole);
  }
  return shapes;
}

}  // namespace moka
