// Ops that give values another shape or order, and those that leave them as they are.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"
#include "tools/exchange/import/shape_rules.h"

namespace moka {
namespace {

void Inherit(ImportNode& n) {
  if (n.x(0).is_whole) n.MarkWhole(0);
}

void ReadReshape(ImportNode& n) {
  const Ints& x = n.x(0).dims;
  const std::string& type = n.proto().op_type();
  Ints dims;
  if (type == "Reshape") {
    const std::optional<Ints> wanted = ListAt(n, 1, {});
    if (!wanted) n.Refuse("it has no shape");
    dims = ReshapedDims(x, *wanted, n.attributes().Int("allowzero", 0) != 0);
  } else if (type == "Flatten") {
    dims = FlattenedDims(x, n.attributes().Int("axis", 1));
  } else if (type == "Squeeze") {
    dims = SqueezedDims(x, ListAt(n, 1, "axes"));
  } else {
    dims = UnsqueezedDims(x, ListAt(n, 1, "axes").value_or(Ints{}));
  }
  GiveReshaped(n, n.In(0), dims);
  Inherit(n);
}

void ReadTranspose(ImportNode& n) {
  GivePermuted(n, n.In(0), PermOf(n.attributes(), n.x(0).dims.size()));
  Inherit(n);
}

void ReadSame(ImportNode& n) {
  if (n.proto().op_type() == "Dropout") {
    const bool trains = n.Has(2) && ScalarOf(n.Constant(2)).value_or(1) != 0;
    const bool has_mask = n.proto().output_size() > 1 && !n.proto().output(1).empty();
    if (trains || has_mask) n.Refuse("it drops values, as in training");
  }
  const ImportValue same = n.x(0);
  n.GiveValue(0, same);
  if (n.proto().op_type() == "WholeNumbers") n.MarkWhole(0);
}

// Floats stay as they are; whole numbers and truth values are floats already.
void ReadCast(ImportNode& n) {
  using Type = onnx::TensorProto;
  const auto to = static_cast<int>(n.attributes().Int("to", 0));
  ImportValue value = n.x(0);
  switch (to) {
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::FLOAT16:
    case Type::BFLOAT16: value.is_whole = false; return n.GiveValue(0, std::move(value));
    case Type::BOOL: n.Give(FormulaOf("1-eq(x0,0)"), {n.In(0)}); return n.MarkWhole(0);
    case Type::INT32:
    case Type::INT64:
      if (value.is_whole) return n.GiveValue(0, std::move(value));
      n.Give(FormulaOf("sign(x0)*floor(abs(x0))"), {n.In(0)});
      return n.MarkWhole(0);
    default: n.Refuse(StrCat("it makes values of type ", to));
  }
}

void SetTile(LayerParameter& layer, int64_t axis, int64_t tiles) {
  layer.mutable_tile_param()->set_axis(static_cast<int32_t>(axis));
  layer.mutable_tile_param()->set_tiles(static_cast<int32_t>(tiles));
}

// `tiles` copies along each axis; the last layer gives the output.
void GiveTiled(ImportNode& n, std::string blob, const Ints& tiles) {
  int64_t last = -1;
  for (int64_t i = 0; i < std::ssize(tiles); ++i) {
    const int64_t count = tiles[static_cast<size_t>(i)];
    if (count < 1 || count > INT32_MAX) n.Refuse(StrCat("it repeats its input ", count, " times"));
    if (count != 1) last = i;
  }
  for (int64_t i = 0; i <= last; ++i) {
    LayerParameter layer = LayerOf("Tile");
    SetTile(layer, i, tiles[static_cast<size_t>(i)]);
    if (i == last) return n.Give(layer, {blob});
    if (tiles[static_cast<size_t>(i)] != 1) blob = n.Add(layer, {blob});
  }
  GiveBlob(n, blob);
}

void ReadTile(ImportNode& n) {
  const std::optional<Ints> tiles = ListAt(n, 1, {});
  if (!tiles || tiles->size() != n.x(0).dims.size()) n.Refuse("its repeats are not one an axis");
  GiveTiled(n, n.In(0), *tiles);
  Inherit(n);
}

void ReadExpand(ImportNode& n) {
  const std::optional<Ints> wanted = ListAt(n, 1, {});
  if (!wanted) n.Refuse("it has no shape");
  const Ints dims = BroadcastDims(n.x(0).dims, *wanted);
  if (dims.size() > Shape::kMaxRank) n.Refuse(StrCat("it gives a tensor ", dims.size(), " dimensions"));
  Ints raised = n.x(0).dims;
  raised.insert(raised.begin(), dims.size() - raised.size(), 1);
  Ints tiles;
  for (size_t i = 0; i < dims.size(); ++i) tiles.push_back(dims[i] / raised[i]);
  GiveTiled(n, Reshaped(n, n.In(0), raised), tiles);
  Inherit(n);
}

// Squares of pixels and channels into each other.
void ReadDepthToSpace(ImportNode& n) {
  const int64_t block = n.attributes().Int("blocksize", 0);
  const Ints x = n.x(0).dims;
  if (x.size() != 4 || block < 1 || block > INT32_MAX) n.Refuse(StrCat("its blocksize is ", block));
  if (n.proto().op_type() == "DepthToSpace") {
    const std::string mode = n.attributes().Text("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") n.Refuse(StrCat("its mode is \"", Printable(mode), "\""));
    LayerParameter layer = LayerOf("DepthToSpace");
    layer.mutable_depth_to_space_param()->set_block_size(static_cast<int32_t>(block));
    layer.mutable_depth_to_space_param()->set_data_format(mode == "CRD" ? "CRD" : "NCHW");
    return n.Give(layer, {n.In(0)});
  }
  if (x[2] % block != 0 || x[3] % block != 0) n.Refuse(StrCat("squares of ", block, " do not fill its planes"));
  const Ints apart{x[0], x[1], x[2] / block, block, x[3] / block, block};
  const std::string turned = Permuted(n, Reshaped(n, n.In(0), apart), {0, 3, 5, 1, 2, 4});
  GiveReshaped(n, turned, {x[0], x[1] * block * block, x[2] / block, x[3] / block});
}

}  // namespace

OnnxImportOp ImportReshape() {
  return {.types = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}, .read = ReadReshape, .takes_whole = true};
}
OnnxImportOp ImportTranspose() { return {.types = {"Transpose"}, .read = ReadTranspose, .takes_whole = true}; }
OnnxImportOp ImportSame() {
  return {.types = {"Identity", "Dropout", "WholeNumbers"},
          .read = ReadSame,
          .takes_whole = true,
          .idle = {"ratio", "seed"}};
}
OnnxImportOp ImportCast() { return {.types = {"Cast"}, .read = ReadCast, .takes_whole = true, .idle = {"saturate"}}; }
OnnxImportOp ImportTile() { return {.types = {"Tile"}, .read = ReadTile, .takes_whole = true}; }
OnnxImportOp ImportExpand() { return {.types = {"Expand"}, .read = ReadExpand, .takes_whole = true}; }
OnnxImportOp ImportDepthToSpace() { return {.types = {"DepthToSpace", "SpaceToDepth"}, .read = ReadDepthToSpace}; }

}  // namespace moka
