// Squares of the image to items of the batch and back (TensorFlow's space_to_batch_nd and batch_to_space_nd, as
// Synopsys's Caffe has them): what TensorFlow writes dilated convolutions with. The blocks lie on the axes from 1 on.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/shape/moves.h"

namespace moka {
namespace {

// Blocks with their two numbers each (crops or paddings); product is that of the blocks.
struct Blocks {
  Ints size;
  Ints before;
  Ints after;
  int64_t product = 1;
};

template <class Pairs>
Blocks Read(const LayerBuilder& l, const std::string& prefix, const BatchToSpaceNDParameter& p, const Pairs& pairs,
            const std::string& name) {
  const Shape x = l.shape(0);
  const int count = p.block_shape_size();
  l.Check(count >= 1 && count < x.rank(), prefix + ".block_shape",
          StrCat("block_shape must name 1 to ", x.rank() - 1, " axes of the bottom ", x.ToString(), ", found ", count));
  l.Check(pairs.size() == 2 * count, prefix + "." + name,
          StrCat(name, " must be given twice for each of the ", count, " blocks, found ", pairs.size()));
  Blocks blocks;
  Size product = 1;
  for (int i = 0; i < count; ++i) {
    l.Check(p.block_shape(i) >= 1, StrCat(prefix, ".block_shape[", i, "]"), "a block must be at least 1");
    blocks.size.push_back(p.block_shape(i));
    blocks.before.push_back(pairs.Get(2 * i));
    blocks.after.push_back(pairs.Get(2 * i + 1));
    product *= int64_t{p.block_shape(i)};
  }
  blocks.product = product.value();
  l.Check(x.rank() + count <= Shape::kMaxRank, "bottom[0]",
          StrCat("the bottom ", x.ToString(), " has too many axes for ", count, " blocks"));
  return blocks;
}

// [blocks.., N, in.., rest..] has axis count + 1 + i beside axis i in the split order [N, in0, block0, in1, ..].
Ints SplitToBlocksFirst(int count, int rank) {
  Ints perm;
  for (int i = 0; i < count; ++i) perm.push_back(2 * i + 2);
  perm.push_back(0);
  for (int i = 0; i < count; ++i) perm.push_back(2 * i + 1);
  for (int i = 2 * count + 1; i < rank + count; ++i) perm.push_back(i);
  return perm;
}

Ints Inverse(const Ints& perm) {
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

void BuildToBatch(LayerBuilder& l) {
  const BatchToSpaceNDParameter& p = l.param().space_to_batch_nd_param();
  const Blocks blocks = Read(l, "space_to_batch_nd_param", p, p.paddings(), "paddings");
  const auto count = static_cast<int>(blocks.size.size());
  const GraphBuilder& b = l.b();
  ValueId x = l.bottom(0);
  std::vector<int64_t> split{b.shape(x)[0]};
  std::vector<int64_t> top{(Size(b.shape(x)[0]) * blocks.product).value()};
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<size_t>(i);
    x = Bordered(b, x, i + 1, blocks.before[k], blocks.after[k], 0);
    const int64_t size = b.shape(x)[i + 1];
    l.Check(size % blocks.size[k] == 0, StrCat("space_to_batch_nd_param.block_shape[", i, "]"),
            StrCat("the block ", blocks.size[k], " does not divide the ", size, " elements of axis ", i + 1,
                   " with its padding"));
    split.insert(split.end(), {size / blocks.size[k], blocks.size[k]});
    top.push_back(size / blocks.size[k]);
  }
  const Shape padded = b.shape(x);
  for (int i = count + 1; i < padded.rank(); ++i) {
    split.push_back(padded[i]);
    top.push_back(padded[i]);
  }
  const ValueId moved =
      b.Add1("transpose", {b.Reshape(x, Shape(split))}, {{"perm", SplitToBlocksFirst(count, padded.rank())}});
  l.SetTop(0, b.Reshape(moved, Shape(top)));
}

void BuildToSpace(LayerBuilder& l) {
  const BatchToSpaceNDParameter& p = l.param().batch_to_space_nd_param();
  const Blocks blocks = Read(l, "batch_to_space_nd_param", p, p.crops(), "crops");
  const auto count = static_cast<int>(blocks.size.size());
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x[0] % blocks.product == 0, "batch_to_space_nd_param.block_shape",
          StrCat("the blocks' product ", blocks.product, " does not divide the batch of ", x.ToString()));
  std::vector<int64_t> apart(blocks.size.begin(), blocks.size.end());
  apart.push_back(x[0] / blocks.product);
  std::vector<int64_t> joined{x[0] / blocks.product};
  for (int i = 1; i < x.rank(); ++i) {
    apart.push_back(x[i]);
    joined.push_back(i <= count ? (Size(x[i]) * blocks.size[static_cast<size_t>(i - 1)]).value() : x[i]);
  }
  const ValueId moved = b.Add1("transpose", {b.Reshape(l.bottom(0), Shape(apart))},
                               {{"perm", Inverse(SplitToBlocksFirst(count, x.rank()))}});
  ValueId y = b.Reshape(moved, Shape(joined));
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t left = b.shape(y)[i + 1] - blocks.before[k] - blocks.after[k];
    l.Check(left >= 1, StrCat("batch_to_space_nd_param.crops[", 2 * i, "]"),
            StrCat("the crops leave nothing of the ", b.shape(y)[i + 1], " elements of axis ", i + 1));
    y = CutOut(b, y, i + 1, blocks.before[k], left);
  }
  l.SetTop(0, y);
}

}  // namespace

LayerDef BatchToSpaceNDLayer() {
  return {.type = "BatchToSpaceND", .build = BuildToSpace, .params = {"batch_to_space_nd_param"}};
}

LayerDef SpaceToBatchNDLayer() {
  return {.type = "SpaceToBatchND", .build = BuildToBatch, .params = {"space_to_batch_nd_param"}};
}

}  // namespace moka
