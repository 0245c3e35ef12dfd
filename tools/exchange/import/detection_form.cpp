// The nodes in front of a NonMaxSuppression say how the layer may have been set. The layer is exported again for each
// setting that is left open, and the one whose nodes are those of the file is the layer. So the two directions cannot
// drift apart, and nothing is taken for boxes that computes anything else.
#include "tools/exchange/import/detection_form.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/node_attributes.h"
#include "tools/exchange/onnx_export.h"

namespace moka {
namespace {

using Node = onnx::NodeProto;
using Makers = std::map<std::string, const Node*>;

constexpr int64_t kMostPriors = int64_t{1} << 18;
constexpr int64_t kMostScores = int64_t{1} << 26;  // of an image
constexpr size_t kMostEnds = 64;                   // numbers of rows, and outputs, of a file
constexpr int kMostTries = 100;                    // settings of all layers of a file

// A layer as far as the nodes around its suppression tell of it.
struct Seen {
  int64_t priors = 0;
  DetectionOutputParameter layer;
};

LayerParameter LayerWith(const char* type, const char* top) {
  LayerParameter layer;
  layer.set_name(top);
  layer.set_type(type);
  layer.add_top(top);
  return layer;
}

void SetDims(BlobShape& shape, const Ints& dims) {
  for (const int64_t dim : dims) shape.add_dim(dim);
}

// The layer alone, for a number of images.
NetParameter NetOf(const Seen& seen, int64_t batch) {
  NetParameter net;
  const int64_t places = seen.layer.share_location() ? 1 : seen.layer.num_classes();
  for (const auto& [top, count] :
       {std::pair("loc", seen.priors * places * 4), std::pair("conf", seen.priors * seen.layer.num_classes())}) {
    LayerParameter input = LayerWith("Input", top);
    SetDims(*input.mutable_input_param()->add_shape(), {batch, count});
    *net.add_layer() = std::move(input);
  }
  LayerParameter prior = LayerWith("Parameter", "prior");
  SetDims(*prior.mutable_parameter_param()->mutable_shape(), {1, 2, seen.priors * 4});
  *net.add_layer() = std::move(prior);
  LayerParameter layer = LayerWith("DetectionOutput", "rows");
  for (const char* bottom : {"loc", "conf", "prior"}) layer.add_bottom(bottom);
  *layer.mutable_detection_output_param() = seen.layer;
  *net.add_layer() = std::move(layer);
  return net;
}

// The nodes that the exporter makes of it.
struct Form {
  OnnxModel model;
  Makers makers;
  std::map<std::string, const OnnxTensor*> constants;
};

BuiltNet BuiltFor(const Seen& seen, int64_t batch) {
  NetOptions options;
  options.state.set_phase(TEST);
  BuiltNet built = BuildNet(NetOf(seen, batch), options);
  built.graph.AddOutput("rows", built.tops.at("rows"));
  return built;
}

Form FormOf(const Seen& seen, bool is_one_image, int64_t opset) {
  BuiltNet built = BuiltFor(seen, is_one_image ? 1 : 2);
  ParameterStore store;
  AddBlobs(built.blobs, 1, store);
  PrepareForExport(built.graph, store);
  std::optional<BuiltNet> other;
  if (!is_one_image) {
    other.emplace(BuiltFor(seen, 3));
    PrepareForExport(other->graph, store);
  }
  ExportedNet net{.name = "rows", .graphs = {.graph = &built.graph, .batch = is_one_image ? 1 : 2}, .store = &store};
  if (other) net.graphs.other = &other->graph;
  if (other) net.graphs.other_batch = 3;
  Form form{.model = ExportOnnx(net, {.opset = opset}), .makers = {}, .constants = {}};
  for (const Node& node : form.model.proto.graph().node()) {
    for (const std::string& output : node.output()) form.makers[output] = &node;
  }
  for (const OnnxTensor& tensor : form.model.tensors) form.constants[tensor.name] = &tensor;
  return form;
}

std::vector<std::string> AttributesOf(const Node& node) {
  std::vector<std::string> all;
  for (const onnx::AttributeProto& attribute : node.attribute()) all.push_back(attribute.SerializeAsString());
  std::ranges::sort(all);
  return all;
}

// Whether values of the file are made as those of the form are, from the same inputs.
class Matcher {
 public:
  Matcher(const Form& form, const OnnxFile& file, const Makers& makers) : form_(form), file_(file), makers_(makers) {}

  bool Match(const std::string& ours, const std::string& theirs) {
    const auto [bound, is_new] = bound_.emplace(ours, theirs);
    if (!is_new) return bound->second == theirs;
    const auto constant = form_.constants.find(ours);
    if (constant != form_.constants.end()) return MatchConstant(*constant->second, theirs);
    const auto made = form_.makers.find(ours);
    if (made == form_.makers.end()) return true;  // an input
    const auto found = makers_.find(theirs);
    return found != makers_.end() && MatchNodes(*made->second, *found->second);
  }
  // The name that an input or a constant of the form is bound to, by the end of its own; empty: there is none.
  std::string BoundTo(std::string_view end) const {
    for (const auto& [ours, theirs] : bound_) {
      if (ours.ends_with(end)) return theirs;
    }
    return {};
  }

 private:
  static bool IsPrior(const std::string& name) { return name.ends_with("/prior") || name.ends_with("/variance"); }

  bool MatchConstant(const OnnxTensor& ours, const std::string& theirs) const {
    const auto found = file_.constants.find(theirs);
    if (found == file_.constants.end()) return false;
    const OnnxTensor& other = *found->second;
    if (ours.dims != other.dims || ours.is_whole != other.is_whole) return false;
    return IsPrior(ours.name) || (ours.floats == other.floats && ours.ints == other.ints);
  }

  bool MatchNodes(const Node& ours, const Node& theirs) {
    if (ours.op_type() != theirs.op_type() || !IsMainOp(theirs) || ours.input_size() != theirs.input_size() ||
        ours.output_size() != theirs.output_size() || AttributesOf(ours) != AttributesOf(theirs))
      return false;
    for (int i = 0; i < ours.output_size(); ++i) {
      const auto [bound, is_new] = bound_.emplace(ours.output(i), theirs.output(i));
      if (bound->second != theirs.output(i)) return false;
    }
    for (int i = 0; i < ours.input_size(); ++i) {
      if (!Match(ours.input(i), theirs.input(i))) return false;
    }
    return true;
  }

  const Form& form_;
  const OnnxFile& file_;
  const Makers& makers_;
  std::map<std::string, std::string> bound_;  // by the form's names
};

class DetectionJoiner {
 public:
  explicit DetectionJoiner(OnnxFile& file) : file_(file) {
    for (const Node& node : file.nodes) {
      for (const std::string& output : node.output()) makers_[output] = &node;
    }
  }

  void Join() {
    std::vector<Node*> ends;
    std::vector<int64_t> rows;
    for (Node& node : file_.nodes) {
      const std::vector<int64_t> list = Wholes(node, 1);
      const bool is_last = node.op_type() == "Reshape" && list == Ints{1, 1, -1, 7};
      if (is_last && ends.size() < kMostEnds) ends.push_back(&node);
      if (node.op_type() == "TopK" && list.size() == 1 && rows.size() < kMostEnds) rows.push_back(list[0]);
    }
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    if (ends.empty()) return;
    for (const Node& node : file_.nodes) {
      if (node.op_type() != "NonMaxSuppression" || !IsMainOp(node)) continue;
      try {
        if (const std::optional<Seen> seen = SeenAround(node)) JoinAround(*seen, rows, ends);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kConfig) throw;  // an attribute of a wrong type is told at its node, later
      }
    }
    if (!file_.layers.empty()) KeepNeeded(file_);
  }

 private:
  const Node* Maker(const std::string& value, const char* type, int inputs) const {
    const auto found = makers_.find(value);
    const bool is_such = found != makers_.end() && found->second->op_type() == type &&
                         found->second->input_size() == inputs && IsMainOp(*found->second);
    return is_such ? found->second : nullptr;
  }
  OnnxConstant Constant(const std::string& value) const {
    const auto found = file_.constants.find(value);
    return found == file_.constants.end() ? nullptr : found->second;
  }
  // The list of whole numbers that a node reads; empty: none.
  Ints Wholes(const Node& node, int input) const {
    const OnnxConstant list = node.input_size() > input ? Constant(node.input(input)) : nullptr;
    return list == nullptr || !list->is_whole || list->dims.size() != 1 ? Ints{} : list->ints;
  }
  std::optional<float> Number(const std::string& value) const {
    const OnnxConstant constant = Constant(value);
    if (constant == nullptr || constant->is_whole || constant->floats.size() != 1) return std::nullopt;
    return constant->floats[0];
  }

  // From the suppression back to the scores of all classes.
  std::optional<Seen> SeenAround(const Node& node) const {
    if (node.input_size() != 5) return std::nullopt;
    const std::optional<float> overlap = Number(node.input(3));
    const std::optional<float> confidence = Number(node.input(4));
    const Node* boxes = Maker(node.input(0), "Reshape", 2);
    const Node* picked = boxes == nullptr ? nullptr : Maker(boxes->input(0), "GatherND", 2);
    const Node* places = picked == nullptr ? nullptr : Maker(picked->input(1), "Reshape", 2);
    const Node* best = places == nullptr ? nullptr : Maker(places->input(0), "TopK", 2);
    if (best == nullptr || !overlap || !confidence || Wholes(*best, 1).size() != 1) return std::nullopt;
    const Node* chosen = Maker(best->input(0), "Gather", 2);
    const Node* turned = Maker(chosen == nullptr ? best->input(0) : chosen->input(0), "Transpose", 1);
    const Node* scores = turned == nullptr ? nullptr : Maker(turned->input(0), "Reshape", 2);
    const Ints dims = scores == nullptr ? Ints{} : Wholes(*scores, 1);
    if (dims.size() != 3 || dims[1] < 1 || dims[1] > kMostPriors || dims[2] < 1 || dims[2] > kMostScores / dims[1])
      return std::nullopt;
    const int64_t labels = chosen == nullptr ? dims[2] : std::ssize(Wholes(*chosen, 1));
    const int64_t count = Wholes(*best, 1)[0];
    if (count < 1 || count > dims[1] || !HasNumbers(dims[1] * 4) || !HasNumbers(count * labels)) return std::nullopt;
    Seen seen{.priors = dims[1], .layer = {}};
    DetectionOutputParameter& layer = seen.layer;
    layer.set_num_classes(static_cast<uint32_t>(dims[2]));
    layer.set_share_location(NodeAttributes(*picked).Int("batch_dims", 0) == 1);
    layer.set_background_label_id(-1);
    if (chosen != nullptr) layer.set_background_label_id(LeftOut(Wholes(*chosen, 1)));
    layer.mutable_nms_param()->set_nms_threshold(*overlap);
    layer.mutable_nms_param()->set_top_k(static_cast<int32_t>(count));
    if (*confidence > -std::numeric_limits<float>::max()) layer.set_confidence_threshold(*confidence);
    return seen;
  }

  // The first number that is not in its place.
  static int32_t LeftOut(const Ints& labels) {
    int32_t label = 0;
    while (label < std::ssize(labels) && labels[static_cast<size_t>(label)] == label) ++label;
    return label;
  }

  void JoinAround(const Seen& seen, const std::vector<int64_t>& rows, const std::vector<Node*>& ends) {
    for (const bool is_one_image : {false, true}) {
      for (const bool is_in_target : {false, true}) {
        for (const auto code :
             {PriorBoxParameter::CENTER_SIZE, PriorBoxParameter::CORNER, PriorBoxParameter::CORNER_SIZE}) {
          for (const int64_t count : rows) {
            Seen tried = seen;
            tried.layer.set_code_type(code);
            tried.layer.set_variance_encoded_in_target(is_in_target);
            tried.layer.set_keep_top_k(static_cast<int32_t>(std::min<int64_t>(count, INT32_MAX)));
            if (++tries_ > kMostTries || JoinAs(tried, is_one_image, ends)) return;
          }
        }
      }
    }
  }

  // Whether the file has a constant of so many numbers: then the form's are no larger than what was read.
  bool HasNumbers(int64_t count) const {
    return std::ranges::any_of(file_.constants,
                               [&](const auto& one) { return std::ssize(one.second->floats) == count; });
  }

  bool JoinAs(const Seen& seen, bool is_one_image, const std::vector<Node*>& ends) {
    Form form;
    try {
      form = FormOf(seen, is_one_image, file_.opset);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig && error.kind() != ErrorKind::kBadData) throw;
      return false;  // no layer is set so
    }
    for (Node* end : ends) {
      Matcher matcher(form, file_, makers_);
      if (file_.layers.contains(end->output(0)) || !matcher.Match("rows", end->output(0))) continue;
      LayerParameter layer;
      layer.set_type("DetectionOutput");
      *layer.mutable_detection_output_param() = seen.layer;
      const std::string output = end->output(0);
      const std::string priors = AddPriors(seen, matcher, output);
      end->clear_input();
      end->clear_attribute();
      for (const std::string& input : {matcher.BoundTo("loc"), matcher.BoundTo("conf"), priors}) end->add_input(input);
      file_.layers[output] = std::move(layer);
      return true;
    }
    return false;
  }

  // The corners and, of layers that read them, the variances.
  std::string AddPriors(const Seen& seen, const Matcher& matcher, const std::string& output) {
    OnnxTensor priors{.name = StrCat(output, "/priors"), .dims = {1, 2, seen.priors * 4}};
    for (const char* row : {"/prior", "/variance"}) {
      const OnnxConstant values = Constant(matcher.BoundTo(row));
      const std::vector<float> ones(static_cast<size_t>(seen.priors * 4), 1);
      const std::vector<float>& from = values == nullptr ? ones : values->floats;
      priors.floats.insert(priors.floats.end(), from.begin(), from.end());
    }
    const std::string name = priors.name;
    file_.constants[name] = std::make_shared<OnnxTensor>(std::move(priors));
    return name;
  }

  OnnxFile& file_;
  Makers makers_;
  int tries_ = 0;
};

}  // namespace

void JoinDetections(OnnxFile& file) { DetectionJoiner(file).Join(); }

}  // namespace moka
