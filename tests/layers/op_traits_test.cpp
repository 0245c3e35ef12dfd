// The traits of ops that passes rely on hold on each case: a wrong one would change results in silence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "core/text.h"
#include "tests/layers/kernel_run.h"

namespace moka {
namespace {

TEST(OpTraits, WhatRepeatsIsItsInput) {
  std::set<std::string> found;
  std::set<std::string> marked;
  for (const OpSubject& subject : AllOpSubjects()) {
    const auto& [op, op_case] = subject;
    if (op->repeats == nullptr) continue;
    marked.insert(op->name);
    const OpGraph built = BuildOp(*op, op_case, DType::kFloat32);
    const Node& node = built.graph.node(built.node);
    if (!op->repeats(node.attributes)) continue;
    const std::vector<TensorType> inputs = built.graph.InputTypes(node);
    const std::vector<TensorType> outputs = built.graph.OutputTypes(node);
    if (outputs.size() != 1 || inputs[0].shape != outputs[0].shape || inputs[0].dtype != outputs[0].dtype) continue;
    const std::vector<RefTensor> values = MakeInputs(op_case, inputs);
    EXPECT_EQ(RunReference(*op, node.attributes, values, outputs)[0].values, values[0].values) << subject.Name();
    found.insert(op->name);
  }
  EXPECT_EQ(found, marked) << "each op that says so has a case that repeats its input";
}

// The images [begin, end) of a tensor that has them on axis 0.
RefTensor Images(const RefTensor& whole, int64_t begin, int64_t end) {
  std::vector<int64_t> dims(whole.type.shape.dims().begin(), whole.type.shape.dims().end());
  const int64_t size = whole.type.shape.Count() / dims[0];
  dims[0] = end - begin;
  RefTensor part{{whole.type.dtype, Shape(dims), {}}, {}};
  part.values.assign(whole.values.begin() + begin * size, whole.values.begin() + end * size);
  return part;
}

// Whether an op computes the halves of its results of the halves of the inputs in `cut` and of the others whole.
bool ComputesHalves(const OpDef& op, const Attributes& attributes, const std::vector<RefTensor>& inputs,
                    const std::vector<RefTensor>& whole, const std::vector<bool>& cut) {
  const int64_t images = whole[0].type.shape[0];
  for (const int64_t begin : {int64_t{0}, images / 2}) {
    std::vector<RefTensor> parts;
    for (size_t i = 0; i < inputs.size(); ++i)
      parts.push_back(cut[i] ? Images(inputs[i], begin, begin + images / 2) : inputs[i]);
    std::vector<RefTensor> expected;
    std::vector<TensorType> types;
    for (const RefTensor& output : whole) {
      expected.push_back(Images(output, begin, begin + images / 2));
      types.push_back(expected.back().type);
    }
    Attributes of_part = attributes;
    if (of_part.Has("input_shape")) {
      Ints shape = of_part.Get<Ints>("input_shape");
      shape[0] = images / 2;
      of_part.Set("input_shape", std::move(shape));
    }
    const std::vector<RefTensor> found = RunReference(op, of_part, parts, types);
    for (size_t k = 0; k < found.size(); ++k) {
      if (found[k].values != expected[k].values) return false;
    }
  }
  return true;
}

// Whether the trait lets a part have an input of this shape whole.
bool MayBeFixed(ByImage way, const Shape& shape) {
  if (way == ByImage::kWithBroadcast) return shape.rank() == 0 || shape[0] == 1;
  return way == ByImage::kWithWeights;
}

TEST(OpTraits, PartsOfTheImagesGivePartsOfTheResult) {
  std::set<std::string> found;
  std::set<std::string> marked;
  for (const OpSubject& subject : AllOpSubjects()) {
    const auto& [op, op_case] = subject;
    const OpGraph built = BuildOp(*op, op_case, DType::kFloat32);
    const Node& node = built.graph.node(built.node);
    const std::vector<TensorType> types = built.graph.OutputTypes(node);
    if (op->by_image == nullptr || types[0].shape.rank() == 0) continue;
    marked.insert(op->name);
    const int64_t images = types[0].shape[0];
    const ByImage way = op->by_image(node.attributes, types[0].shape.rank());
    const auto has_images = [&](const TensorType& type) { return type.shape.rank() > 0 && type.shape[0] == images; };
    if (way == ByImage::kNever || images % 2 != 0 || !std::ranges::all_of(types, has_images)) continue;
    const std::vector<RefTensor> inputs = MakeInputs(op_case, built.graph.InputTypes(node));
    const std::vector<RefTensor> whole = RunReference(*op, node.attributes, inputs, types);
    std::vector<bool> cut;
    bool fits = true;
    for (const RefTensor& input : inputs) {
      const bool is_fixed = !has_images(input.type);
      fits = fits && (!is_fixed || MayBeFixed(way, input.type.shape));
      cut.push_back(!is_fixed);
    }
    if (!fits || inputs.empty()) continue;
    // Weights may happen to have as many rows as there are images: one of them is left whole then.
    bool holds = ComputesHalves(*op, node.attributes, inputs, whole, cut);
    for (size_t i = 0; !holds && i < inputs.size(); ++i) {
      if (!cut[i] || !MayBeFixed(way, inputs[i].type.shape)) continue;
      std::vector<bool> other = cut;
      other[i] = false;
      holds = ComputesHalves(*op, node.attributes, inputs, whole, other);
    }
    EXPECT_TRUE(holds) << subject.Name();
    found.insert(op->name);
  }
  EXPECT_EQ(found, marked) << "each op that says so has a case with an even number of images";
  EXPECT_TRUE(found.contains("convolution"));
}

}  // namespace
}  // namespace moka
