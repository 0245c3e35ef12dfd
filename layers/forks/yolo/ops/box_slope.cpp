// Intersection, union and hull are piecewise linear in the edges; the quotient rule gives the overlaps' slopes from
// theirs, as darknet composes them.
#include "layers/forks/yolo/ops/box_slope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moka {
namespace {

// One number an edge.
struct Edges {
  double top = 0;
  double bottom = 0;
  double left = 0;
  double right = 0;
};

Edges EdgesOf(const YoloBox& b) {
  return {std::min(b.top(), b.bottom()), std::max(b.top(), b.bottom()), std::min(b.left(), b.right()),
          std::max(b.left(), b.right())};
}

// (den * dnum - num * dden) / den^2 for each edge.
Edges Quotient(double num, const Edges& dnum, double den, const Edges& dden) {
  const auto part = [&](double a, double b) { return (den * a - num * b) / (den * den); };
  return {part(dnum.top, dden.top), part(dnum.bottom, dden.bottom), part(dnum.left, dden.left),
          part(dnum.right, dden.right)};
}

Edges SumBoxSlope(const Edges& a, const Edges& b) {
  return {a.top + b.top, a.bottom + b.bottom, a.left + b.left, a.right + b.right};
}

// The values that the terms share: the areas of intersection and union and their derivatives by the box's edges.
struct Areas {
  double common = 0;
  double joined = 0;
  Edges dcommon;
  Edges djoined;
  bool is_apart = false;
};

Areas AreasOf(const Edges& p, const YoloBox& truth) {
  Areas a;
  const double w = std::min(p.right, truth.right()) - std::max(p.left, truth.left());
  const double h = std::min(p.bottom, truth.bottom()) - std::max(p.top, truth.top());
  a.is_apart = w <= 0 || h <= 0;
  a.common = w * h;
  a.joined = (p.bottom - p.top) * (p.right - p.left) + truth.w * truth.h - a.common;
  a.dcommon = {p.top > truth.top() ? -w : 0, p.bottom < truth.bottom() ? w : 0, p.left > truth.left() ? -h : 0,
               p.right < truth.right() ? h : 0};
  a.djoined = {-(p.right - p.left) - a.dcommon.top, p.right - p.left - a.dcommon.bottom,
               -(p.bottom - p.top) - a.dcommon.left, p.bottom - p.top - a.dcommon.right};
  return a;
}

// GIoU's further term, d(joined / hull).
Edges HullTerm(const Areas& a, const Edges& p, const YoloBox& truth) {
  const double w = std::max(p.right, truth.right()) - std::min(p.left, truth.left());
  const double h = std::max(p.bottom, truth.bottom()) - std::min(p.top, truth.top());
  if (w * h <= 0) return {};
  const Edges dhull = {p.top < truth.top() ? -w : 0, p.bottom > truth.bottom() ? w : 0, p.left < truth.left() ? -h : 0,
                       p.right > truth.right() ? h : 0};
  return Quotient(a.joined, a.djoined, w * h, dhull);
}

// DIoU's and CIoU's further terms; darknet's sign of the diagonal's part in w and h.
YoloBox CenterTerm(const Edges& p, const YoloBox& box, const YoloBox& truth) {
  const double w = HullWidth(box, truth);
  const double h = HullHeight(box, truth);
  const double diagonal = w * w + h * h;
  if (diagonal <= 0) return {};
  const double left = p.left < truth.left() ? 1 : 0;
  const double right = p.right > truth.right() ? 1 : 0;
  const double top = p.top < truth.top() ? 1 : 0;
  const double bottom = p.bottom > truth.bottom() ? 1 : 0;
  const double distance = (box.x - truth.x) * (box.x - truth.x) + (box.y - truth.y) * (box.y - truth.y);
  const double squared = diagonal * diagonal;
  return {(2 * (truth.x - box.x) * diagonal - 2 * w * (right - left) * distance) / squared,
          (2 * (truth.y - box.y) * diagonal - 2 * h * (bottom - top) * distance) / squared,
          2 * w * (right + left) / 2 * distance / squared, 2 * h * (bottom + top) / 2 * distance / squared};
}

// CIoU's term of the aspect ratio in w and h.
YoloBox AspectTerm(const Areas& a, const YoloBox& box, const YoloBox& truth) {
  constexpr double kFactor = 8 / (std::numbers::pi * std::numbers::pi);
  const double angle = AspectAngle(box, truth);
  const double aspect = kFactor / 2 * angle * angle;
  const double alpha = aspect / (1 - a.common / a.joined + aspect + 0.000001);
  return {0, 0, alpha * kFactor * angle * box.h, -alpha * kFactor * angle * box.w};
}

YoloBox Added(const YoloBox& a, const YoloBox& b) { return {a.x + b.x, a.y + b.y, a.w + b.w, a.h + b.h}; }

}  // namespace

YoloBox OverlapSlope(const YoloBox& box, const YoloBox& truth, std::string_view kind) {
  const Edges p = EdgesOf(box);
  const Areas areas = AreasOf(p, truth);
  Edges edges;
  if (areas.joined > 0) edges = Quotient(areas.common, areas.dcommon, areas.joined, areas.djoined);
  if (kind == "giou") {
    const Edges hull = HullTerm(areas, p, truth);
    edges = areas.is_apart ? hull : SumBoxSlope(edges, hull);
  }
  YoloBox slope{edges.left + edges.right, edges.top + edges.bottom, edges.right - edges.left, edges.bottom - edges.top};
  if (kind != "diou" && kind != "ciou") return slope;
  YoloBox further = CenterTerm(p, box, truth);
  if (kind == "ciou") further = Added(further, AspectTerm(areas, box, truth));
  return areas.is_apart ? further : Added(slope, further);
}

double OverlapOf(const YoloBox& box, const YoloBox& truth, std::string_view kind) {
  if (kind == "giou") return Giou(box, truth);
  if (kind == "diou") return Diou(box, truth);
  if (kind == "ciou") return Ciou(box, truth);
  return Iou(box, truth);
}

}  // namespace moka
