// Needs of shapes on their way up a net: from the layers that could not be built, through layers that tell their
// bottom's shape from their top's (bottom_shapes.h), to data tops.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/types.h"
#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

using TopShapes = std::map<std::string, Shape>;

// A top of a data layer, and what about its shape is a guess.
struct DataTop {
  Shape shape;
  std::string first;         // the first top of its layer
  bool can_change = false;   // its readers may say its shape, but for what is stated below
  bool can_rebatch = false;  // the first dimension
  bool can_resize = false;   // height and width of a picture
  bool can_be_gray = false;  // nothing says that a picture has three channels
  bool is_made = false;      // of other tops, by a layer that is not built in: its readers say all of its shape
  bool is_batch = false;     // the pictures of a layer that gives pictures and no rows
};
using DataTops = std::map<std::string, DataTop>;

// Lives while one attempt at a net is read; refers to it.
class ShapeNeeds {
 public:
  ShapeNeeds(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops);

  // Layer `reader` needs `blob` to have this shape. Whether that asks anything of a data top.
  bool Require(int reader, const std::string& blob, const Shape& shape);
  // Gives a data top another shape; false if it may not change so, has that shape or has been changed already.
  bool Change(const std::string& name, const Shape& shape);
  // `want` items for every `have` from the layers whose first dimension is free and that a reader's bottom comes from.
  bool Rebatch(int reader, int64_t have, int64_t want);
  // Returns the changes that all this led to.
  TopShapes TakeChanges() { return std::move(changes_); }

  const NetParameter& net() const { return net_; }
  bool HasFailed(int layer) const { return failed_.contains(layer); }
  // Null if the blob could not be built.
  const Shape* Known(const std::string& blob) const;
  const Shape* KnownBottom(const LayerParameter& layer, int i) const;
  // A data top that may change; null for other blobs.
  const DataTop* Changeable(const std::string& blob) const;
  // The layer that makes what `reader` reads as `blob`; -1 if there is none.
  int MakerOf(int reader, const std::string& blob) const;
  // The data top, of those that may change, that a blob is made of by layers that keep its shape or, with windows, its
  // axes; empty if there is none.
  std::string SourceOf(int reader, const std::string& blob, bool with_windows = false) const;
  // The shape of the first top of a top's layer; `otherwise` if that is no picture.
  Shape FirstOf(const DataTop& top, const Shape& otherwise) const;
  // Needs of tops of Slice, which wait until all parts have been asked.
  const std::map<std::string, Shape>& parts() const { return parts_; }
  // Streams of sequences: as many as pictures, where a net has pictures too; else 2.
  int64_t streams() const { return streams_; }

 private:
  bool RequireBottoms(int i, const LayerParameter& maker, const Shape& shape);
  bool IsElsewhere(const LayerParameter& maker, const std::string& blob) const;

  const NetParameter& net_;
  const NetAttempt& attempt_;
  const DataTops& tops_;
  std::set<int> failed_;
  std::map<std::string, Shape> parts_;
  std::set<std::tuple<int, std::string, std::string>> seen_;  // needs: maker, blob, shape
  bool is_windowed_ = false;                                  // the need on its way went through windows
  int64_t streams_ = 2;
  TopShapes changes_;
};

}  // namespace moka
