// RegionLoss: YOLO v2's loss, in the rules of two ports told apart by their labels
// (layers/forks/yolo/ops/region_loss.cpp). Trees and maps of classes (choasup's port) are text files: darknet's lines
// "name parent", and a number a line.
#include <charconv>
#include <filesystem>

#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/forks/yolo/ops/class_tree.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"

namespace moka {
namespace {

// Rows of 8 values (Intel, [1,1,M,8]) or a list of 5 for each object of each image.
std::string LabelForm(const LayerBuilder& l) {
  const Shape label = l.shape(1);
  const int rank = label.rank();
  if (rank >= 2 && label[rank - 1] == 8 && label.Count(0, rank - 2) == 1) return "rows";
  l.Check(label.Count() % (5 * l.shape(0)[0]) == 0, "bottom[1]",
          StrCat("labels are rows of 8 values [1,1,M,8] or lists of 5 values for each of the ", l.shape(0)[0],
                 " images, found ", label.ToString()));
  const RegionLossParameter& p = l.param().region_loss_param();
  l.Check(!p.has_num_label() || label.Count() == l.shape(0)[0] * 5 * int64_t{p.num_label()},
          "region_loss_param.num_label",
          StrCat("num_label is ", p.num_label(), " but the labels ", label.ToString(), " have ",
                 label.Count() / (5 * l.shape(0)[0]), " places an image"));
  return "lists";
}

// The last number of each line of a text file.
Ints NumbersOf(const LayerBuilder& l, const std::string& field, const std::string& path) {
  std::string text;
  try {
    text = ReadLinesFile(path);
  } catch (const Error& error) {
    l.Fail(field, error.text(), error.hint());
  }
  Ints numbers;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const size_t word = line.find_last_of(" \t") + 1;  // 0 if there is none
    int64_t number = 0;
    const auto [stop, fault] = std::from_chars(line.data() + word, line.data() + line.size(), number);
    l.Check(fault == std::errc() && stop == line.data() + line.size(), field,
            StrCat(field, ": line ", numbers.size() + 1, " of ", Printable(path), " ends in no number"));
    numbers.push_back(number);
  }
  return numbers;
}

Ints ParentsOf(const LayerBuilder& l, const std::string& form) {
  constexpr const char* kField = "region_loss_param.softmax_tree";
  const RegionLossParameter& p = l.param().region_loss_param();
  if (p.softmax_tree().empty()) return {};
  l.Check(form == "rows", kField, "softmax_tree goes with labels [1,1,M,8], rows of 8 values");
  if (l.FeedsPythonData() && !std::filesystem::exists(p.softmax_tree())) {
    // A net that is looked at without its data: its shapes do not depend on the tree.
    LogWarning(StrCat("layer \"", l.param().name(), "\": no file ", Printable(p.softmax_tree()),
                      "; going on as if no class had a parent"));
    return Ints(p.num_class(), -1);
  }
  Ints parents = NumbersOf(l, kField, p.softmax_tree());
  l.Check(parents.size() == p.num_class() && ClassTree::IsTree(parents), kField,
          StrCat("softmax_tree must name ", p.num_class(),
                 " classes (num_class) with parents, which come before them or are -1; found ", parents.size()));
  return parents;
}

Ints MapOf(const LayerBuilder& l) {
  constexpr const char* kField = "region_loss_param.class_map";
  const RegionLossParameter& p = l.param().region_loss_param();
  if (p.class_map().empty()) return {};
  if (l.FeedsPythonData() && !std::filesystem::exists(p.class_map())) {
    LogWarning(StrCat("layer \"", l.param().name(), "\": no file ", Printable(p.class_map()),
                      "; going on as if each label were its class"));
    return {};
  }
  Ints map = NumbersOf(l, kField, p.class_map());
  for (const int64_t c : map) {
    l.Check(c >= 0 && c < p.num_class(), kField,
            StrCat("class_map names ", c, ", none of ", p.num_class(), " classes"));
  }
  return map;
}

void BuildRegionLoss(LayerBuilder& l) {
  const RegionLossParameter& p = l.param().region_loss_param();
  const auto number = [&](const char* field, float value) {
    return Finite(l, StrCat("region_loss_param.", field), value);
  };
  l.Check(p.coords() == 4, "region_loss_param.coords", StrCat("a box has 4 coordinates, found ", p.coords()));
  l.Check(p.num_class() >= 1, "region_loss_param.num_class", "num_class must be at least 1");
  const Doubles anchors = AnchorsOf(l, "region_loss_param.biases", p.biases(), p.num());
  CheckMap(l, 0, p.num(), int64_t{5} + p.num_class());
  const std::string form = LabelForm(l);
  const std::vector<ValueId> y = l.b().Add("region_loss", l.bottoms(),
                                           {{"form", form},
                                            {"parents", ParentsOf(l, form)},
                                            {"class_map", MapOf(l)},
                                            {"classes", int64_t{p.num_class()}},
                                            {"anchors", anchors},
                                            {"object_scale", number("object_scale", p.object_scale())},
                                            {"noobject_scale", number("noobject_scale", p.noobject_scale())},
                                            {"class_scale", number("class_scale", p.class_scale())},
                                            {"coord_scale", number("coord_scale", p.coord_scale())},
                                            {"thresh", number("thresh", p.thresh())},
                                            {"bias_match", p.bias_match() != 0},
                                            {"rescore", p.rescore() != 0}});
  // If labels are rows, the top is the sum over the batch, while the slope is a mean.
  SetSlopedLoss(l, l.bottom(0), form == "rows" ? SumOfRanks(l, y[0]) : y[0], y[1]);
}

}  // namespace

LayerDef RegionLossLayer() {
  return {.type = "RegionLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildRegionLoss,
          .traits = {.is_loss = true},
          .params = {"region_loss_param"}};
}

}  // namespace moka
