// Nodes are turned into layers one by one, in order, with the shapes that they have for a number of images. Where that
// number is open the net is made twice, for two numbers that no other dimension has, and what differs is left open: the
// first dimension of inputs, and one dimension of a Reshape.
#include "tools/exchange/import/onnx_import.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"
#include "layers/net/net.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/imported_ranges.h"
#include "tools/exchange/import/onnx_import_op.h"
#include "tools/exchange/import/onnx_patterns.h"
#include "tools/exchange/import/onnx_tensors.h"

namespace moka {
namespace {

// Primes, so that hardly a dimension is the number of images by chance.
constexpr int64_t kTwoBatches[] = {61, 67};
constexpr size_t kMostNames = 200;
constexpr size_t kMostReasons = 1000;
constexpr int64_t kMostNodes = 50'000;  // each is built by itself

// The nodes that cannot be imported, those of one reason together.
class Refusals {
 public:
  void Add(const onnx::NodeProto& node, const std::string& why) {
    const std::string reason = StrCat("op ", OpText(node), " ", why);
    for (auto& [text, nodes] : all_) {
      if (text == reason) return nodes.push_back(NameOf(node));
    }
    if (all_.size() < kMostReasons) all_.emplace_back(reason, std::vector<std::string>{NameOf(node)});
  }

  // Errors: an ErrorList, if there is any.
  void Throw(const std::string& file) const {
    std::vector<Error> errors;
    for (const auto& [reason, nodes] : all_) {
      errors.emplace_back(ErrorKind::kBadData, SourcePlace{.file = file},
                          StrCat(reason, ": ", nodes.size() == 1 ? "node " : "nodes ", SomeOf(nodes, kMostNames)));
    }
    if (!errors.empty()) throw ErrorList(std::move(errors));
  }

 private:
  static std::string NameOf(const onnx::NodeProto& node) {
    const std::string& name = node.name().empty() ? node.output(0) : node.name();
    return StrCat("\"", Printable(name), "\"");
  }

  std::vector<std::pair<std::string, std::vector<std::string>>> all_;
};

bool IsWholeType(int type) {
  using Type = onnx::TensorProto;
  return type == Type::INT64 || type == Type::INT32 || type == Type::UINT8 || type == Type::INT8 || type == Type::BOOL;
}

bool IsReadType(int type) {
  using Type = onnx::TensorProto;
  return IsWholeType(type) || type == Type::FLOAT || type == Type::DOUBLE || type == Type::FLOAT16;
}

// An input's sizes as --shape takes them: "5x?x6" where the file leaves one open.
std::string SizesOf(const Ints& dims) {
  std::string text;
  for (const int64_t dim : dims) text += StrCat(text.empty() ? "" : "x", dim < 0 ? "?" : StrCat(dim));
  return text;
}

// The shape of an input for a number of images.
Ints DimsOfInput(const OnnxFile& file, const OnnxPort& input, const OnnxImportOptions& options, int64_t batch) {
  auto given = options.shapes.find(input.name);
  if (given == options.shapes.end() && file.inputs.size() == 1) given = options.shapes.find("");
  Ints dims = given == options.shapes.end() ? input.dims : given->second;
  const std::string sizes = input.has_shape ? StrCat(SizesOf(input.dims), ", with numbers for ?") : "1x3x224x224";
  const std::string help = StrCat("say it: --shape ", Printable(input.name), "=", sizes);
  const auto fail = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file.name},
                StrCat("input \"", Printable(input.name), "\" ", what), hint);
  };
  if (!IsReadType(input.type)) fail(StrCat("is of ", OnnxTypeName(input.type), ", which no net takes"), "");
  if (given == options.shapes.end() && !input.has_shape) fail("has no shape in the file", help);
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_open = dims[i] < 0;
    if (is_open && i > 0) {
      fail(StrCat("leaves dimension ", i,
                  i < input.symbols.size() && !input.symbols[i].empty() ? StrCat(" (", Printable(input.symbols[i]), ")")
                                                                        : std::string(),
                  " open"),
           help);
    }
    if (is_open) dims[i] = batch;
    if (dims[i] == 0) fail("has a dimension of 0", help);
  }
  Size bytes = sizeof(float);
  for (const int64_t dim : dims) {
    if (bytes.value() > kMaxValueBytes / dim) fail("has more bytes than any memory", help);
    bytes = bytes * dim;
  }
  return dims;
}

bool HasOpenBatch(const OnnxFile& file, const OnnxImportOptions& options) {
  return std::ranges::any_of(file.inputs, [&](const OnnxPort& input) {
    const bool is_given = options.shapes.contains(input.name) || options.shapes.contains("");
    return !is_given && !input.dims.empty() && input.dims[0] < 0;
  });
}

// The net for one number of images.
class Importer {
 public:
  Importer(const OnnxFile& file, bool keeps_values, bool has_open_batch)
      : file_(file), net_(keeps_values, has_open_batch), budget_(BudgetOf(file)) {}

  void Run(const OnnxImportOptions& options, int64_t batch) {
    for (const OnnxPort& input : file_.inputs) {
      const Ints dims = DimsOfInput(file_, input, options, batch);
      values_[input.name] = {
          .blob = net_.AddInput(input.name, dims), .dims = dims, .is_whole = IsWholeType(input.type)};
    }
    for (const auto& [name, constant] : file_.constants)
      values_[name] = {.constant = constant, .dims = constant->dims, .is_whole = constant->is_whole};
    Refusals refusals;
    for (const onnx::NodeProto& node : file_.nodes) ReadNode(node, refusals);
    refusals.Throw(file_.name);
    GiveOutputs();
  }

  NetWriter& net() { return net_; }
  const std::vector<std::string>& outputs() const { return outputs_; }

 private:
  // Elements: as many as the file has, several times over, as constants are turned and cut, and some for shapes.
  static int64_t BudgetOf(const OnnxFile& file) {
    constexpr int64_t kLeast = int64_t{1} << 22;
    Size elements = kLeast;
    for (const auto& [name, constant] : file.constants) elements += Size(4) * CountOf(constant->dims);
    return elements.value();
  }

  void ReadNode(const onnx::NodeProto& node, Refusals& refusals) {
    const OnnxImportOp* row = IsMainOp(node) ? FindImportOp(node.op_type()) : nullptr;
    const bool is_known = std::ranges::all_of(
        node.input(), [&](const std::string& input) { return input.empty() || values_.contains(input); });
    try {
      if (const auto layer = file_.layers.find(node.output(0)); layer != file_.layers.end())
        return is_known ? AddLayer(node, layer->second) : void();
      if (is_known && FoldNode(node)) return CheckOutputs(node);
      if (row == nullptr && (is_known || !IsFolded(node)))
        throw Error(ErrorKind::kConfig, "has no form in layers here");
      if (!is_known) return;  // what it reads is refused already
      CheckTypes(node, *row);
      ImportNode reading(node, file_.opset, values_, net_);
      row->read(reading);
      reading.RefuseUnread(row->idle);
      CheckOutputs(node);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig && error.kind() != ErrorKind::kBadData) throw;
      refusals.Add(node, error.text() == "has no form in layers here" ? error.text()
                                                                      : StrCat("cannot be imported: ", error.text()));
    }
  }

  // The layer that several nodes were.
  void AddLayer(const onnx::NodeProto& node, const LayerParameter& layer) {
    ImportNode reading(node, file_.opset, values_, net_);
    std::vector<std::string> bottoms;
    for (int i = 0; i < node.input_size(); ++i) bottoms.push_back(reading.In(i));
    reading.Give(layer, bottoms);
  }

  // Each output that the node has is there now.
  void CheckOutputs(const onnx::NodeProto& node) const {
    for (const std::string& output : node.output()) {
      if (!output.empty() && !values_.contains(output))
        throw Error(ErrorKind::kConfig, StrCat("it gives \"", Printable(output), "\", which no layer does"));
    }
  }

  void CheckTypes(const onnx::NodeProto& node, const OnnxImportOp& row) const {
    for (const std::string& input : node.input()) {
      if (input.empty()) continue;
      const ImportValue& value = values_.at(input);
      if (value.levels != nullptr && !row.takes_levels)
        throw Error(ErrorKind::kConfig, StrCat("it takes the 8-bit integers of \"", Printable(input),
                                               "\", which here only DequantizeLinear does"));
      if (row.takes_whole) continue;
      if (value.is_whole && value.constant == nullptr)
        throw Error(ErrorKind::kConfig, StrCat("it calculates with the whole numbers of \"", Printable(input), "\""));
    }
  }

  // Computes a node of constants, and shapes of any value. False for a node that is none, or that is not computed.
  bool FoldNode(const onnx::NodeProto& node) {
    const bool asks_shape = node.op_type() == "Shape" || node.op_type() == "Size";
    std::vector<OnnxTensor> shapes(static_cast<size_t>(node.input_size()));
    std::vector<OnnxConstant> kept;
    std::vector<const OnnxTensor*> in;
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i).empty()) {
        in.push_back(nullptr);
        continue;
      }
      const ImportValue& value = values_.at(node.input(i));
      if (value.constant == nullptr && !asks_shape) return false;
      if (asks_shape) {
        shapes[static_cast<size_t>(i)].dims = value.dims;
        in.push_back(&shapes[static_cast<size_t>(i)]);
      } else {
        kept.push_back(value.WholeConstant());
        in.push_back(kept.back().get());
      }
    }
    if (node.op_type() == "Expand" && in.size() == 2 && node.output_size() == 1) return ExpandLater(node);
    const std::optional<std::vector<OnnxTensor>> folded =
        Fold({.node = node, .opset = file_.opset, .in = std::move(in), .budget = budget_});
    if (!folded) return false;
    for (int i = 0; i < node.output_size() && i < std::ssize(*folded); ++i) {
      OnnxTensor tensor = (*folded)[static_cast<size_t>(i)];
      tensor.name = node.output(i);
      auto constant = std::make_shared<OnnxTensor>(std::move(tensor));
      values_[node.output(i)] = {.constant = constant, .dims = constant->dims, .is_whole = constant->is_whole};
    }
    return true;
  }

  // A constant that is repeated stays one of its own size: a class token is repeated for each image of the batch.
  bool ExpandLater(const onnx::NodeProto& node) {
    const ImportValue& value = values_.at(node.input(0));
    const OnnxConstant shape = values_.at(node.input(1)).constant;
    if (!shape->is_whole) throw Error(ErrorKind::kConfig, "its shape is no list of whole numbers");
    ImportValue expanded = value;
    expanded.dims = BroadcastDims(value.dims, shape->ints);
    expanded.repeated = std::make_shared<OnnxConstant>();
    budget_.Take(CountOf(expanded.dims));
    if (expanded.dims.size() > value.constant->dims.size()) {
      OnnxTensor raised = *value.constant;
      raised.dims.insert(raised.dims.begin(), expanded.dims.size() - raised.dims.size(), 1);
      expanded.constant = std::make_shared<OnnxTensor>(std::move(raised));
    }
    values_[node.output(0)] = std::move(expanded);
    return true;
  }

  // Each output is a blob of its own name.
  void GiveOutputs() {
    std::set<std::string> names;
    for (const OnnxPort& output : file_.outputs) {
      const ImportValue& value = values_.at(output.name);
      if (value.levels != nullptr) {
        throw Error(ErrorKind::kBadData, SourcePlace{.file = file_.name},
                    StrCat("output \"", Printable(output.name), "\" is 8-bit integers, and a net gives real numbers"));
      }
      std::string blob = value.constant == nullptr ? value.blob : ConstantOutput(value, output.name);
      const std::string wanted = PlainName(output.name);
      if (blob != wanted || names.contains(blob)) {
        LayerParameter split;
        split.set_type("Split");
        blob = net_.Add(split, wanted, {blob}, {wanted}, {}).front();
      }
      CheckOutput(output, blob);
      names.insert(blob);
      outputs_.push_back(blob);
    }
    net_.SilenceUnread(names);
  }

  std::string ConstantOutput(const ImportValue& value, const std::string& name) {
    try {
      return net_.AddConstant(value.WholeConstant(), name);
    } catch (const Error& error) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = file_.name},
                  StrCat("output \"", Printable(name), "\" cannot be imported: ", error.text()));
    }
  }

  // The shape that the file says an output has must be the one that came out.
  void CheckOutput(const OnnxPort& output, const std::string& blob) const {
    if (!output.has_shape) return;
    const Ints& dims = net_.DimsOf(blob);
    bool is_same = dims.size() == output.dims.size();
    for (size_t i = 0; is_same && i < dims.size(); ++i)
      is_same = output.dims[i] < 0 || output.dims[i] == dims[i] || i == 0;
    if (is_same) return;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file_.name},
                StrCat("output \"", Printable(output.name), "\" is ",
                       Shape(output.dims.size() < 9 ? Known(output.dims) : Ints{}).ToString(),
                       " by the file, and its nodes make ", Shape(dims).ToString()));
  }
  static Ints Known(Ints dims) {
    for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);
    return dims;
  }

  const OnnxFile& file_;
  NetWriter net_;
  FoldBudget budget_;
  ImportValues values_;
  std::vector<std::string> outputs_;
};

// Leaves open what differs between nets for two numbers of images. Errors: kBadData for what cannot be left open.
class Opener {
 public:
  Opener(NetWriter& net, NetWriter& other, std::string file) : net_(net), other_(other), file_(std::move(file)) {}

  void Open() {
    const NetParameter& other = other_.net();
    if (net_.net().layer_size() != other.layer_size()) Fail("the graph", "it has other nodes");
    for (int i = 0; i < other.layer_size(); ++i) OpenLayer(*net_.net().mutable_layer(i), other.layer(i));
    const std::vector<NamedBlob>& weights = net_.weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      if (net_.hashes()[i] == other_.hashes()[i] && weights[i].shape == other_.weights()[i].shape) continue;
      Fail(StrCat("layer \"", weights[i].layer, "\""), "its constants do");
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& what, const std::string& how) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file_},
                StrCat(what, " follows the number of images otherwise than a net's can: ", how),
                "--batch N imports it for one number of images");
  }

  void OpenLayer(LayerParameter& layer, const LayerParameter& other) {
    LayerParameter same = other;
    if (layer.has_input_param() && other.has_input_param() && layer.input_param().shape(0).dim_size() > 0) {
      if (layer.input_param().shape(0).dim(0) != other.input_param().shape(0).dim(0)) {
        layer.mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
        same.mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
      }
    }
    if (layer.has_reshape_param() && other.has_reshape_param()) OpenReshape(layer, same);
    if (layer.SerializeAsString() != same.SerializeAsString())
      Fail(StrCat("layer \"", layer.name(), "\" (", layer.type(), ")"), "its fields do");
  }

  static void OpenReshape(LayerParameter& layer, LayerParameter& other) {
    BlobShape& shape = *layer.mutable_reshape_param()->mutable_shape();
    BlobShape& others = *other.mutable_reshape_param()->mutable_shape();
    if (shape.dim_size() != others.dim_size()) return;
    int open = 0;
    for (int i = 0; i < shape.dim_size(); ++i) open += shape.dim(i) != others.dim(i) ? 1 : 0;
    for (int i = 0; i < shape.dim_size() && open == 1; ++i) {
      if (shape.dim(i) == others.dim(i)) continue;
      shape.set_dim(i, -1);
      others.set_dim(i, -1);
    }
  }

  NetWriter& net_;
  NetWriter& other_;
  std::string file_;
};

void CheckShapes(const OnnxFile& file, const OnnxImportOptions& options) {
  std::vector<std::string> names;
  for (const OnnxPort& input : file.inputs) names.push_back(input.name);
  for (const auto& [name, dims] : options.shapes) {
    const bool is_there = name.empty() ? names.size() == 1 : std::ranges::find(names, name) != names.end();
    if (is_there) continue;
    throw Error(ErrorKind::kUsage, {},
                name.empty()
                    ? StrCat("--shape without a name is for a file with one input, and this has ", names.size())
                    : StrCat("--shape ", Printable(name), ": the file has no such input"),
                name.empty() ? StrCat("inputs are ", Join(names, ", ")) : DidYouMean(name, names));
  }
}

}  // namespace

ImportedNet ImportOnnx(OnnxFile file, const OnnxImportOptions& options) {
  CheckShapes(file, options);
  if (options.batch && !HasOpenBatch(file, options))
    throw Error(ErrorKind::kUsage, {}, "--batch has no use here: no input leaves the number of images open",
                "--shape says sizes in place of the file's");
  if (std::ssize(file.nodes) > kMostNodes) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file.name},
                StrCat("the graph has ", file.nodes.size(), " nodes; the limit is ", kMostNodes));
  }
  SimplifyOnnx(file);
  const bool is_open = HasOpenBatch(file, options) && !options.batch;
  Importer importer(file, true, is_open);
  importer.Run(options, options.batch.value_or(kTwoBatches[0]));
  if (is_open) {
    Importer other(file, false, true);
    other.Run(options, kTwoBatches[1]);
    Opener(importer.net(), other.net(), file.name).Open();
  }
  PutRoundedSummandsLast(importer.net());
  Quantization ranges = RangesOf(importer.net());
  ImportedNet imported{.net = std::move(importer.net().net()),
                       .weights = std::move(importer.net().weights()),
                       .outputs = importer.outputs(),
                       .ranges = std::move(ranges),
                       .is_batch_open = is_open,
                       .nodes = std::ssize(file.nodes)};
  imported.net.set_name(PlainName(file.graph_name.empty() ? "net" : file.graph_name));
  return imported;
}

}  // namespace moka
