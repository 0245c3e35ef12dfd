// Needs that rows of several types share: each compares the bottoms' shapes that are known and asks for those that fit.
#include "layers/shapes/shape_reader.h"

#include "layers/net/layer.h"

namespace moka {

const Shape* ShapeReader::Reference() const {
  const Shape* best = nullptr;
  bool is_data = false;
  for (int b = 0; b < bottom_count(); ++b) {
    const Shape* shape = bottom(b);
    if (shape == nullptr) continue;
    const bool is_data_too = Changeable(b) != nullptr;
    const bool is_better =
        best == nullptr || (is_data && !is_data_too) || (is_data == is_data_too && shape->rank() > best->rank());
    if (!is_better) continue;
    best = shape;
    is_data = is_data_too;
  }
  return best;
}

void NeedEqualCounts(const ShapeReader& reader) {
  const Shape* a = reader.bottom(0);
  const Shape* b = reader.bottom(1);
  if (reader.bottom_count() < 2) return;
  const bool fits =
      a != nullptr && b != nullptr && a->rank() > 0 && b->rank() > 0 && (*a)[0] == (*b)[0] && a->Count() == b->Count();
  if (!fits && (a == nullptr || !reader.Require(1, *a)) && b != nullptr) reader.Require(0, *b);
  for (int w = 2; a != nullptr && w < reader.bottom_count(); ++w) reader.Require(w, *a);
}

void NeedLabels(const ShapeReader& reader, int64_t axis, Weighs weighs) {
  const Shape* scores = reader.bottom(0);
  if (scores == nullptr || reader.bottom_count() < 2 || scores->rank() < 1) return;
  const int rank = scores->rank();
  const int classes = AxisFromFront(axis, rank);
  if (classes < 0 || classes >= rank) return;
  const Shape label = classes != 1 ? scores->Erased(classes) : rank == 2 ? Shape{(*scores)[0]} : scores->With(1, 1);
  const auto require = [&](int bottom) {
    const Shape* found = reader.bottom(bottom);
    if (found == nullptr || found->Count() != label.Count()) reader.Require(bottom, label);
  };
  require(1);
  if (weighs == Weighs::kPositions && reader.bottom_count() > 2) require(2);
}

void NeedNumberAnItem(const ShapeReader& reader, int bottom) {
  const Shape* x = reader.bottom(0);
  if (x != nullptr && x->rank() > 0 && bottom < reader.bottom_count()) reader.Require(bottom, {(*x)[0]});
}

void NeedPictures(const ShapeReader& reader) {
  if (!reader.has_failed()) return;
  for (int b = 0; b < reader.bottom_count(); ++b) {
    const DataTop* top = reader.needs().Changeable(reader.SourceOf(reader.name(b)));
    if (top == nullptr || top->shape.rank() >= 4) continue;
    reader.Require(b, reader.needs().FirstOf(*top, {top->shape[0], 3, 224, 224}));
  }
}

void NeedVolume(const ShapeReader& reader, int axes, int channel_axis) {
  constexpr int kAxesOfCubes = 3;
  const Shape* x = reader.bottom(0);
  if (!reader.has_failed() || axes != kAxesOfCubes || x == nullptr || x->rank() < 4) return;
  const std::string source = reader.SourceOf(reader.name(0), true);
  const DataTop* top = reader.needs().Changeable(source);
  const int rank = x->rank();
  if (top == nullptr || rank != channel_axis + axes || top->shape.rank() != rank) return;
  reader.needs().Change(source, top->shape.Inserted(rank - 2, top->shape[rank - 2]));
}

void NeedStreamsOfWords(const ShapeReader& reader) {
  for (const LayerParameter& embed : reader.needs().net().layer()) {
    const bool embeds = embed.bottom_size() > 0 && TraitsOf(embed).embeds_items;
    const DataTop* words = embeds ? reader.needs().Changeable(embed.bottom(0)) : nullptr;
    if (words != nullptr && words->shape.rank() > 2)
      reader.needs().Change(embed.bottom(0), {words->shape[0], reader.needs().streams()});
  }
}

void NeedSteps(const ShapeReader& reader) {
  const Shape* x = reader.bottom(0);
  if (x == nullptr || reader.bottom_count() < 2) return;
  NeedStreamsOfWords(reader);
  const int64_t streams = reader.needs().streams();
  if (x->rank() == 2) reader.Require(0, x->Inserted(1, streams));
  if (x->rank() >= 2) reader.Require(1, {(*x)[0], x->rank() == 2 ? streams : (*x)[1]});
}

void NeedSquares(const ShapeReader& reader, int64_t side) {
  constexpr int64_t kMostSquares = 4096;  // along a side
  const Shape* label = reader.bottom(1);
  if (label != nullptr && label->rank() > 0 && side > 0 && side < kMostSquares)
    reader.Require(1, {(*label)[0], side * side * 7});
}

void NeedRegions(const ShapeReader& reader) {
  constexpr int64_t kRegions = 128;
  const DataTop* top = reader.has_failed() ? reader.Changeable(1) : nullptr;
  const bool has_rows = top != nullptr && top->shape.rank() == 2 && top->shape[1] == 5;
  if (top != nullptr && !has_rows) reader.needs().Change(reader.name(1), {kRegions, 5});
}

}  // namespace moka
