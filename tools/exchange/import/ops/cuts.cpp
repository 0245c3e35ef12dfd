// Ops that cut values, join them and put borders around them.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"
#include "tools/exchange/import/shape_rules.h"

namespace moka {
namespace {

constexpr int64_t kMostParts = 256;  // that are cut out one by one

void Inherit(ImportNode& n) {
  for (int i = 0; n.x(0).is_whole && i < n.proto().output_size(); ++i) n.MarkWhole(i);
}

LayerParameter ConcatLayer(int64_t axis) {
  LayerParameter layer = LayerOf("Concat");
  if (axis != 1) layer.mutable_concat_param()->set_axis(static_cast<int32_t>(axis));
  return layer;
}

LayerParameter PadLayer(const Ints& before, const Ints& after, float value) {
  LayerParameter layer = LayerOf("Pad");
  for (size_t i = 0; i < before.size(); ++i) {
    layer.mutable_pad_param()->add_paddings(static_cast<uint32_t>(before[i]));
    layer.mutable_pad_param()->add_paddings(static_cast<uint32_t>(after[i]));
  }
  if (value != 0) layer.mutable_pad_param()->set_constant_values(value);
  return layer;
}

// Rows of an axis one by one, in the given order.
std::string Picked(ImportNode& n, const std::string& blob, int64_t axis, const Ints& rows) {
  if (std::ssize(rows) > kMostParts) n.Refuse(StrCat("it picks ", rows.size(), " rows one by one"));
  std::vector<std::string> parts;
  parts.reserve(rows.size());
  for (const int64_t row : rows) parts.push_back(n.net().Cut(blob, axis, row, 1));
  return n.Add(ConcatLayer(axis), parts);
}

// Rows that follow each other are one part.
std::string PickedOrCut(ImportNode& n, const std::string& blob, int64_t axis, const Ints& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + static_cast<int64_t>(i)) return Picked(n, blob, axis, rows);
  }
  return n.net().Cut(blob, axis, rows.front(), std::ssize(rows));
}

// Every step-th row: [.., d, ..] seen as [.., d/step, step, ..], of which one column is taken.
std::string Strided(ImportNode& n, const std::string& blob, const SliceAxis& s) {
  const Ints x = n.net().DimsOf(blob);
  const auto axis = static_cast<size_t>(s.axis);
  const int64_t column = s.begin % s.step;
  const int64_t first = s.begin - column;
  const int64_t rows = s.count * s.step;
  if (first + rows > x[axis]) {
    Ints list;
    for (int64_t i = 0; i < s.count; ++i) list.push_back(s.begin + i * s.step);
    return Picked(n, blob, s.axis, list);
  }
  Ints apart = x;
  apart[axis] = s.count;
  Ints whole = apart;
  apart.insert(apart.begin() + s.axis + 1, s.step);
  const std::string columns = Reshaped(n, n.net().Cut(blob, s.axis, first, rows), apart);
  return Reshaped(n, n.net().Cut(columns, s.axis + 1, column, 1), whole);
}

// All rows the other way round.
std::string Reversed(ImportNode& n, const std::string& blob, const SliceAxis& s) {
  const Ints& x = n.net().DimsOf(blob);
  const bool is_whole = s.step == -1 && s.count == x[static_cast<size_t>(s.axis)];
  if (is_whole && x.size() == 4 && s.axis >= 2) {
    LayerParameter flip = LayerOf("Flip");
    flip.mutable_flip_param()->set_flip_width(s.axis == 3);
    flip.mutable_flip_param()->set_flip_height(s.axis == 2);
    return n.Add(flip, {blob});
  }
  Ints list;
  for (int64_t i = 0; i < s.count; ++i) list.push_back(s.begin + i * s.step);
  return Picked(n, blob, s.axis, list);
}

void ReadSlice(ImportNode& n) {
  const Ints x = n.x(0).dims;
  const std::optional<Ints> begins = ListAt(n, 1, {});
  const std::optional<Ints> ends = ListAt(n, 2, {});
  if (!begins || !ends) n.Refuse("it has no beginnings and ends");
  std::string blob = n.In(0);
  for (const SliceAxis& s :
       SlicesOf(x, *begins, *ends, ListAt(n, 3, {}).value_or(Ints{}), ListAt(n, 4, {}).value_or(Ints{}))) {
    if (s.count == 0) n.Refuse("it leaves nothing");
    if (s.step == 1 || s.count == 1) {
      blob = n.net().Cut(blob, s.axis, s.begin, s.count);
    } else {
      blob = s.step > 0 ? Strided(n, blob, s) : Reversed(n, blob, s);
    }
  }
  GiveBlob(n, blob);
  Inherit(n);
}

void ReadSplit(ImportNode& n) {
  const Ints& x = n.x(0).dims;
  const int64_t axis = AxisIn(n.attributes().Int("axis", 0), x.size());
  const int count = n.proto().output_size();
  const int64_t said = n.attributes().Int("num_outputs", count);
  if (said != count) n.Refuse(StrCat("its num_outputs is ", said, ", and it gives ", count));
  const Ints sizes = SplitSizes(x[static_cast<size_t>(axis)], ListAt(n, 1, "split"), count);
  LayerParameter layer = LayerOf("Slice");
  layer.mutable_slice_param()->set_axis(static_cast<int32_t>(axis));
  int64_t point = 0;
  for (int i = 0; i < count; ++i) {
    if (sizes[static_cast<size_t>(i)] == 0) n.Refuse("one of its parts is empty");
    if (i > 0) layer.mutable_slice_param()->add_slice_point(static_cast<uint32_t>(point));
    point += sizes[static_cast<size_t>(i)];
  }
  n.Give(layer, {n.In(0)}, {}, count);
  Inherit(n);
}

// Constants beside values in a Concat: the values get borders of 0 where the constants are, which are added. So a
// constant that ONNX repeats for each image of the batch needs no layer that does.
class ConstantParts {
 public:
  ConstantParts(ImportNode& n, int64_t axis) : n_(n), axis_(static_cast<size_t>(axis)) {}

  // Whether it can be said so: one stretch of values, constants that are the same for each image.
  bool Fits() {
    const int count = n_.proto().input_size();
    while (first_ < count && n_.x(first_).constant != nullptr) ++first_;
    last_ = first_;
    while (last_ < count && n_.x(last_).constant == nullptr) ++last_;
    for (int i = last_; i < count; ++i) {
      if (n_.x(i).constant == nullptr) return false;
    }
    if (axis_ == 0 || first_ == last_) return false;
    for (int i = 0; i < count; ++i) {
      const OnnxConstant& c = n_.x(i).constant;
      if (c == nullptr) continue;
      const bool is_repeated = c->dims.size() == n_.x(i).dims.size() && c->dims[0] == 1 && !c->is_whole;
      const Ints rest(n_.x(i).dims.begin() + 1, n_.x(i).dims.end());
      if (!is_repeated || Ints(c->dims.begin() + 1, c->dims.end()) != rest) return false;
    }
    return true;
  }

  void Give() {
    std::vector<std::string> inner;
    for (int i = first_; i < last_; ++i) inner.push_back(n_.In(i));
    const std::string middle =
        inner.size() == 1 ? inner.front() : n_.Add(ConcatLayer(static_cast<int64_t>(axis_)), inner);
    const Ints dims = n_.net().DimsOf(middle);
    Ints before(dims.size(), 0);
    Ints after(dims.size(), 0);
    before[axis_] = Total(0, first_);
    after[axis_] = Total(last_, n_.proto().input_size());
    const std::string padded = n_.Add(PadLayer(before, after, 0), {middle});
    LayerParameter bias = LayerOf("Bias");
    bias.mutable_bias_param()->set_axis(1);
    bias.mutable_bias_param()->set_num_axes(-1);
    n_.Give(bias, {padded}, {Addend(n_.net().DimsOf(padded), before[axis_] + dims[axis_])});
  }

 private:
  int64_t Total(int begin, int end) const {
    int64_t total = 0;
    for (int i = begin; i < end; ++i) total += n_.x(i).dims[axis_];
    return total;
  }

  // [dims of an image], 0 where values are.
  LayerBlob Addend(const Ints& dims, int64_t behind) const {
    const Shape shape(Ints(dims.begin() + 1, dims.end()));
    std::vector<float> values(static_cast<size_t>(shape.Count()), 0);
    const int64_t inner = CountOf(Ints(dims.begin() + static_cast<int64_t>(axis_) + 1, dims.end()));
    const int64_t outer = shape.Count() / (inner * dims[axis_]);
    int64_t at = 0;
    for (int i = 0; i < n_.proto().input_size(); ++i) {
      const OnnxConstant& c = n_.x(i).constant;
      if (i == last_) at = behind;
      if (c == nullptr) continue;
      const int64_t part = n_.x(i).dims[axis_] * inner;
      for (int64_t o = 0; o < outer; ++o) {
        std::copy(c->floats.begin() + o * part, c->floats.begin() + (o + 1) * part,
                  values.begin() + o * dims[axis_] * inner + at * inner);
      }
      at += n_.x(i).dims[axis_];
    }
    return {shape, std::move(values)};
  }

  ImportNode& n_;
  size_t axis_;
  int first_ = 0;
  int last_ = 0;  // values are [first_, last_)
};

void ReadConcat(ImportNode& n) {
  const int64_t axis = AxisIn(n.attributes().Int("axis", 0), n.x(0).dims.size());
  bool has_constant = false;
  for (int i = 0; i < n.proto().input_size(); ++i) {
    Ints dims = n.x(i).dims;
    if (dims.size() == n.x(0).dims.size()) dims[static_cast<size_t>(axis)] = n.x(0).dims[static_cast<size_t>(axis)];
    if (dims != n.x(0).dims) n.Refuse("its inputs differ along other axes than the one that joins them");
    has_constant = has_constant || n.x(i).constant != nullptr;
  }
  if (ConstantParts parts(n, axis); has_constant && parts.Fits()) return parts.Give();
  std::vector<std::string> bottoms;
  for (int i = 0; i < n.proto().input_size(); ++i) bottoms.push_back(n.In(i));
  if (bottoms.size() == 1) return GiveBlob(n, bottoms.front());
  n.Give(ConcatLayer(axis), bottoms);
  Inherit(n);
}

// Pads of all axes, before and after; less than 0 is cut away.
void ReadPad(ImportNode& n) {
  const Ints x = n.x(0).dims;
  const std::string mode = n.attributes().Text("mode", "constant");
  if (mode != "constant") n.Refuse(StrCat("its mode is \"", Printable(mode), "\""));
  const Ints pads = ListAt(n, 1, "pads").value_or(Ints{});
  const std::optional<Ints> given = ListAt(n, 3, {});
  Ints axes = given.value_or(Ints{});
  if (!given) {
    for (size_t i = 0; i < x.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) n.Refuse("its pads are not two an axis");
  std::optional<float> value = 0.0F;
  if (n.Has(2)) value = ScalarOf(n.Constant(2));
  if (!value) n.Refuse("the value of its border is computed");
  Ints before(x.size(), 0);
  Ints after(x.size(), 0);
  std::string blob = n.In(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = AxisIn(axes[i], x.size());
    const auto a = static_cast<size_t>(axis);
    for (const int64_t pad : {pads[i], pads[i + axes.size()]}) {
      if (pad > INT32_MAX || pad < -x[a]) n.Refuse(StrCat("it has a pad of ", pad));
    }
    const int64_t cut_before = std::max<int64_t>(0, -pads[i]);
    const int64_t left = x[a] - cut_before - std::max<int64_t>(0, -pads[i + axes.size()]);
    if (left < 1) n.Refuse("it cuts all of an axis away");
    blob = n.net().Cut(blob, axis, cut_before, left);
    before[a] = std::max<int64_t>(0, pads[i]);
    after[a] = std::max<int64_t>(0, pads[i + axes.size()]);
  }
  const auto is_none = [](int64_t pad) { return pad == 0; };
  if (std::ranges::all_of(before, is_none) && std::ranges::all_of(after, is_none)) return GiveBlob(n, blob);
  n.Give(PadLayer(before, after, *value), {blob});
}

// Rows of a value by constants, or rows of a constant table by whole numbers.
void ReadGather(ImportNode& n) {
  const OnnxConstant index = n.Constant(1);
  const OnnxConstant table = n.Constant(0);
  const Ints x = n.x(0).dims;
  const int64_t axis = AxisIn(n.attributes().Int("axis", 0), x.size());
  const auto a = static_cast<size_t>(axis);
  if (index == nullptr) {
    if (table == nullptr || table->is_whole || x.size() != 2 || axis != 0) n.Refuse("its indices are computed");
    if (!n.x(1).is_whole) n.Refuse("its indices are no whole numbers");
    LayerParameter layer = LayerOf("Embed");
    layer.mutable_embed_param()->set_input_dim(static_cast<uint32_t>(x[0]));
    layer.mutable_embed_param()->set_num_output(static_cast<uint32_t>(x[1]));
    layer.mutable_embed_param()->set_bias_term(false);
    return n.Give(layer, {n.In(1)}, {{Shape(x), table->floats}});
  }
  if (!index->is_whole || index->ints.empty()) n.Refuse("its indices are no whole numbers");
  const Ints rows = RowsAt({x[a]}, index->ints, 1);
  const std::string picked = PickedOrCut(n, n.In(0), axis, rows);
  Ints dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), index->dims.begin(), index->dims.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  GiveReshaped(n, picked, dims);
  Inherit(n);
}

// Parts of a value by constants of as many numbers as there are axes before the part.
void ReadGatherNd(ImportNode& n) {
  const OnnxConstant index = n.Constant(1);
  const Ints x = n.x(0).dims;
  if (n.attributes().Int("batch_dims", 0) != 0) n.Refuse("its indices begin behind an axis of both");
  if (index == nullptr) n.Refuse("its indices are computed");
  if (!index->is_whole || index->ints.empty()) n.Refuse("its indices are no whole numbers");
  const int64_t axes = index->dims.back();
  const Ints rows = RowsAt(x, index->ints, axes);
  Ints flat(x.begin() + axes, x.end());
  flat.insert(flat.begin(), CountOf(Ints(x.begin(), x.begin() + axes)));
  Ints dims(index->dims.begin(), index->dims.end() - 1);
  dims.insert(dims.end(), x.begin() + axes, x.end());
  GiveReshaped(n, PickedOrCut(n, Reshaped(n, n.In(0), flat), 0, rows), dims);
  Inherit(n);
}

// The place of the largest along an axis.
void ReadArgMax(ImportNode& n) {
  const Ints x = n.x(0).dims;
  const int64_t axis = AxisIn(n.attributes().Int("axis", 0), x.size());
  LayerParameter layer = LayerOf("ArgMax");
  layer.mutable_argmax_param()->set_axis(static_cast<int32_t>(axis));
  if (n.attributes().Int("select_last_index", 0) == 0) layer.mutable_argmax_param()->set_first_of_equals(true);
  std::string blob = n.In(0);
  if (n.proto().op_type() == "ArgMin") blob = n.Add(FormulaOf("-x0"), {blob});
  if (n.attributes().Int("keepdims", 1) != 0) {
    n.Give(layer, {blob});
  } else {
    Ints dims = x;
    dims.erase(dims.begin() + axis);
    GiveReshaped(n, n.Add(layer, {blob}), dims);
  }
  n.MarkWhole(0);
}

}  // namespace

OnnxImportOp ImportSlice() { return {.types = {"Slice"}, .read = ReadSlice, .takes_whole = true}; }
OnnxImportOp ImportSplit() { return {.types = {"Split"}, .read = ReadSplit, .takes_whole = true}; }
OnnxImportOp ImportConcat() { return {.types = {"Concat"}, .read = ReadConcat, .takes_whole = true}; }
OnnxImportOp ImportPad() { return {.types = {"Pad"}, .read = ReadPad}; }
OnnxImportOp ImportGather() { return {.types = {"Gather"}, .read = ReadGather, .takes_whole = true}; }
OnnxImportOp ImportGatherNd() { return {.types = {"GatherND"}, .read = ReadGatherNd, .takes_whole = true}; }
OnnxImportOp ImportArgMax() { return {.types = {"ArgMax", "ArgMin"}, .read = ReadArgMax}; }

}  // namespace moka
