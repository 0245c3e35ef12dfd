// Expansion is a recursion over layers with a depth and a count, both bounded, so that a small file cannot become a net
// that fills memory. Variables are replaced in the fields' texts after parsing, which keeps each error at its place.
#include "proto/nets/blocks.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "proto/text/field_path.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kTextLimitBytes = 4096;                  // of one text after substitution
constexpr int64_t kTotalLimitBytes = int64_t{256} << 20;  // of all expanded layers

using Values = std::map<std::string, std::string, std::less<>>;

std::vector<std::string> NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

// Replaces every ${x}. Errors: kConfig without a place, which the caller adds.
std::string Substitute(std::string_view text, const Values& values) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = text.find("${", i);
    result += text.substr(i, begin - i);
    if (begin == std::string_view::npos) break;
    const size_t end = text.find('}', begin);
    if (end == std::string_view::npos) {
      throw Error(ErrorKind::kConfig, StrCat("\"", Printable(text), "\" has \"${\" without \"}\""));
    }
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    const auto value = values.find(name);
    if (value == values.end()) {
      throw Error(ErrorKind::kConfig, SourcePlace{},
                  StrCat("\"${", Printable(name), "}\" is no parameter of the block"),
                  DidYouMean(name, NamesOf(values)));
    }
    result += value->second;
    if (result.size() > kTextLimitBytes) {
      throw Error(ErrorKind::kConfig, StrCat("a text grows beyond ", kTextLimitBytes, " bytes by substitution"));
    }
    i = end + 1;
  }
  return result;
}

bool HasVariable(std::string_view text) { return text.find("${") != std::string_view::npos; }

// Substitutes in every text field of the message but its origin.
void SubstituteAll(Message& message, const Values& values) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() == Origin::descriptor() || field->message_type() == BlobProto::descriptor()) continue;
    const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_text && !is_message) continue;
    if (!field->is_repeated()) {
      if (is_message) SubstituteAll(*reflection.MutableMessage(&message, field), values);
      const std::string text = is_text ? reflection.GetString(message, field) : std::string{};
      if (HasVariable(text)) reflection.SetString(&message, field, Substitute(text, values));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      if (is_message) SubstituteAll(*reflection.MutableRepeatedMessage(&message, field, i), values);
      const std::string text = is_text ? reflection.GetRepeatedString(message, field, i) : std::string{};
      if (HasVariable(text)) reflection.SetRepeatedString(&message, field, i, Substitute(text, values));
    }
  }
}

// "block "unit" used by layer "u1" at net.prototxt:9:1".
std::string UseNote(const LayerParameter& use, const std::string& block) {
  const std::string where = PlaceOf(use).ToString();
  return StrCat("in block \"", block, "\" used by layer \"", use.name(), "\"", where.empty() ? "" : " at ", where);
}

// Every parameter is named by a layer of the block, or sets a field. Errors: kConfig at the one that does not.
void CheckParameters(const BlockParameter& block) {
  for (int p = 0; p < block.param_size(); ++p) {
    const BlockArgument& argument = block.param(p);
    const std::string variable = StrCat("${", argument.name(), "}");
    const auto names_it = [&](const LayerParameter& layer) {
      return layer.SerializeAsString().find(variable) != std::string::npos;
    };
    if (argument.to_size() > 0 || std::any_of(block.layer().begin(), block.layer().end(), names_it)) continue;
    throw Error(ErrorKind::kConfig, PlaceOf(block, StrCat("param[", p, "]")),
                StrCat("no layer of block \"", block.name(), "\" reads its parameter \"", argument.name(), "\""),
                StrCat("in the block's texts ", variable, " stands for it, or `to` names fields"));
  }
}

class Expander {
 public:
  explicit Expander(NetParameter& net) : net_(net) {
    for (const BlockParameter& block : net.block()) {
      const auto [at, is_new] = blocks_.emplace(block.name(), &block);
      if (block.name().empty()) throw Error(ErrorKind::kConfig, PlaceOf(block), "a block has no name");
      if (!is_new) {
        throw Error(
            ErrorKind::kConfig, PlaceOf(block, "name"),
            StrCat("block \"", block.name(), "\" is defined twice, first at ", PlaceOf(*at->second).ToString()));
      }
      CheckParameters(block);
    }
  }

  NetParameter Run() {
    NetParameter expanded = net_;
    expanded.clear_block();
    expanded.clear_layer();
    for (const LayerParameter& layer : net_.layer()) Add(layer, 0, *expanded.mutable_layer());
    return expanded;
  }

 private:
  using Layers = google::protobuf::RepeatedPtrField<LayerParameter>;

  // Appends a layer, expanded if it is a block's use. `instance` numbers the outermost use, 0 outside all.
  void Add(const LayerParameter& layer, int instance, Layers& out);
  void Use(const LayerParameter& use, int instance, Layers& out);
  const BlockParameter& Find(const LayerParameter& use) const;
  Values ValuesOf(const LayerParameter& use, const BlockParameter& block) const;
  LayerParameter Instantiate(const LayerParameter& inner, const LayerParameter& use, const BlockParameter& block,
                             const Values& values) const;
  static void SetTyped(const LayerParameter& use, const BlockParameter& block, const Values& values,
                       std::vector<LayerParameter>& layers);
  void CheckEnds(const LayerParameter& use, const Layers& out, int first) const;
  void CheckName(const LayerParameter& layer, int instance);
  void Count(const LayerParameter& layer);

  struct Named {
    int instance = 0;
    SourcePlace place;
  };

  const NetParameter& net_;
  std::map<std::string, const BlockParameter*, std::less<>> blocks_;
  std::vector<std::string> stack_;  // blocks being expanded, outermost first
  std::map<std::string, Named, std::less<>> names_;
  int instances_ = 0;
  int layers_ = 0;
  int64_t bytes_ = 0;
};

void Expander::Count(const LayerParameter& layer) {
  bytes_ += static_cast<int64_t>(layer.ByteSizeLong());
  if (++layers_ > kExpandedLayerLimit) {
    throw ErrorAt(layer, {}, StrCat("blocks expand to more than ", kExpandedLayerLimit, " layers"));
  }
  if (bytes_ > kTotalLimitBytes)
    throw ErrorAt(layer, {}, StrCat("blocks expand to more than ", BytesText(kTotalLimitBytes)));
}

// A name made by a block may not stand anywhere else; plain layers may share one (TRAIN and TEST data).
void Expander::CheckName(const LayerParameter& layer, int instance) {
  const auto [at, is_new] = names_.emplace(layer.name(), Named{.instance = instance, .place = PlaceOf(layer)});
  if (is_new || layer.name().empty() || at->second.instance == instance) return;
  throw ErrorAt(layer, "name",
                StrCat("layer \"", layer.name(), "\" exists already, from ", at->second.place.ToString()),
                "let the block's layer names hold a parameter, as in \"conv${id}\"");
}

void Expander::Add(const LayerParameter& layer, int instance, Layers& out) {
  if (layer.type() != "Block") {
    if (layer.has_block_param()) {
      throw ErrorAt(layer, "block_param",
                    StrCat("layer \"", layer.name(), "\" has a block_param but type \"", layer.type(), "\""),
                    "a use of a block has type: \"Block\"");
    }
    CheckName(layer, instance);
    if (instance > 0) Count(layer);
    *out.Add() = layer;
    return;
  }
  Count(layer);
  Use(layer, instance > 0 ? instance : ++instances_, out);
}

const BlockParameter& Expander::Find(const LayerParameter& use) const {
  const std::string& name = use.block_param().block();
  if (name.empty()) {
    throw ErrorAt(use, "block_param", StrCat("layer \"", use.name(), "\" of type \"Block\" names no block"),
                  "add block_param { block: \"...\" }");
  }
  const auto block = blocks_.find(name);
  if (block != blocks_.end()) return *block->second;
  std::vector<std::string> names;
  for (const auto& [known, ignored] : blocks_) names.push_back(known);
  throw ErrorAt(use, "block_param.block", StrCat("there is no block \"", name, "\""), DidYouMean(name, names));
}

// The use may only say what a use can say.
void CheckUse(const LayerParameter& use) {
  static const std::set<std::string, std::less<>> kAllowed = {"name",    "type",    "bottom",      "top",
                                                              "include", "exclude", "block_param", "origin"};
  std::vector<const FieldDescriptor*> fields;
  use.GetReflection()->ListFields(use, &fields);
  for (const FieldDescriptor* field : fields) {
    if (kAllowed.contains(field->name())) continue;
    throw ErrorAt(use, field->name(),
                  StrCat("layer \"", use.name(), "\" of type \"Block\" cannot have a \"", field->name(), "\""),
                  "give the block a parameter for it");
  }
}

Values Expander::ValuesOf(const LayerParameter& use, const BlockParameter& block) const {
  Values values;
  std::vector<std::string> known;
  for (const BlockArgument& argument : block.param()) {
    known.push_back(argument.name());
    if (argument.has_default_()) values[argument.name()] = argument.default_();
  }
  for (int i = 0; i < use.block_param().set_size(); ++i) {
    const std::string& set = use.block_param().set(i);
    const std::string path = StrCat("block_param.set[", i, "]");
    const size_t equals = set.find('=');
    if (equals == std::string::npos)
      throw ErrorAt(use, path, StrCat("expected \"parameter=value\", found \"", Printable(set), "\""));
    const std::string name(Trim(std::string_view(set).substr(0, equals)));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ErrorAt(use, path, StrCat("block \"", block.name(), "\" has no parameter \"", Printable(name), "\""),
                    DidYouMean(name, known));
    }
    values[name] = std::string(Trim(std::string_view(set).substr(equals + 1)));
  }
  for (const std::string& name : known) {
    if (values.contains(name)) continue;
    throw ErrorAt(
        use, "block_param",
        StrCat("layer \"", use.name(), "\" does not set parameter \"", name, "\" of block \"", block.name(), "\""),
        StrCat("add set: \"", name, "=...\""));
  }
  values["name"] = use.name();
  const auto add_all = [&](const auto& list, const std::string& what) {
    for (int i = 0; i < list.size(); ++i) values[what + std::to_string(i)] = list.Get(i);
    if (!list.empty()) values[what] = list.Get(0);
  };
  add_all(use.bottom(), "bottom");
  add_all(use.top(), "top");
  return values;
}

LayerParameter Expander::Instantiate(const LayerParameter& inner, const LayerParameter& use,
                                     const BlockParameter& block, const Values& values) const {
  LayerParameter layer = inner;
  layer.mutable_origin()->add_note(UseNote(use, block.name()));
  for (const std::string& note : use.origin().note()) layer.mutable_origin()->add_note(note);
  try {
    SubstituteAll(layer, values);
  } catch (const Error& error) {
    throw ErrorAt(layer, {}, error.text(), error.hint());
  }
  const bool has_own = layer.include_size() > 0 || layer.exclude_size() > 0;
  const bool has_outer = use.include_size() > 0 || use.exclude_size() > 0;
  if (has_own && has_outer) {
    throw ErrorAt(layer, "include",
                  StrCat("layer \"", layer.name(), "\" and the use of its block both have include or exclude rules"),
                  "keep them in one place");
  }
  if (has_outer) {
    *layer.mutable_include() = use.include();
    *layer.mutable_exclude() = use.exclude();
  }
  return layer;
}

// The layers of a block by their names as written in it.
using LayersByName = std::map<std::string, std::vector<size_t>, std::less<>>;

// "6*4" of a field of whole numbers is "24": what a block makes of two parameters (boxes a cell times classes). Other
// texts stay, for the schema to judge.
std::string Multiplied(const FieldRef& ref, const std::string& value) {
  const bool is_whole = ref.field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
                        ref.field->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  if (!is_whole || value.find('*') == std::string::npos) return value;
  Size product = 1;
  for (const std::string& factor : Split(value, '*')) {
    const std::string_view digits = Trim(factor);
    uint32_t number = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (fault != std::errc{} || end != digits.data() + digits.size()) return value;
    product = product * Size(number);
  }
  return std::to_string(product.value());
}

// Sets the field that one `to` names. Errors: kConfig at its place.
void SetOne(const std::string& to, const std::string& value, const LayersByName& by_name,
            std::vector<LayerParameter>& layers) {
  // A layer's name may hold dots: the longest that fits counts.
  size_t cut = to.rfind('.');
  while (cut != std::string::npos && cut > 0 && !by_name.contains(to.substr(0, cut))) cut = to.rfind('.', cut - 1);
  const auto named = cut == std::string::npos ? by_name.end() : by_name.find(to.substr(0, cut));
  if (named == by_name.end()) {
    std::vector<std::string> names;
    for (const auto& [name, ignored] : by_name) names.push_back(name);
    throw Error(ErrorKind::kConfig, SourcePlace{}, StrCat("\"", Printable(to), "\" begins with no layer of the block"),
                DidYouMean(to.substr(0, to.find('.')), names));
  }
  for (const size_t i : named->second) {
    const std::vector<FieldRef> refs = FindFields(layers[i], std::string_view(to).substr(cut + 1), PathUse::kAppend);
    for (const FieldRef& ref : refs) SetField(ref, Multiplied(ref, value), false, {});
  }
}

// Sets the fields that the parameters' `to` name.
void Expander::SetTyped(const LayerParameter& use, const BlockParameter& block, const Values& values,
                        std::vector<LayerParameter>& layers) {
  LayersByName by_name;
  for (size_t i = 0; i < layers.size(); ++i) by_name[block.layer(static_cast<int>(i)).name()].push_back(i);
  for (int p = 0; p < block.param_size(); ++p) {
    const BlockArgument& argument = block.param(p);
    for (int t = 0; t < argument.to_size(); ++t) {
      try {
        SetOne(argument.to(t), values.find(argument.name())->second, by_name, layers);
      } catch (const Error& error) {
        Error placed(ErrorKind::kConfig, PlaceOf(block, StrCat("param[", p, "].to[", t, "]")),
                     StrCat("parameter \"", argument.name(), "\": ", error.text()), error.hint());
        placed.AddNote(UseNote(use, block.name()));
        throw Error(placed);
      }
    }
  }
}

// Every bottom of the use is read and every top made by a layer of the block: otherwise the use was a mistake.
void Expander::CheckEnds(const LayerParameter& use, const Layers& out, int first) const {
  std::set<std::string, std::less<>> bottoms;
  std::set<std::string, std::less<>> tops;
  for (int i = first; i < out.size(); ++i) {
    bottoms.insert(out.Get(i).bottom().begin(), out.Get(i).bottom().end());
    tops.insert(out.Get(i).top().begin(), out.Get(i).top().end());
  }
  const std::string& block = use.block_param().block();
  for (int i = 0; i < use.bottom_size(); ++i) {
    if (bottoms.contains(use.bottom(i))) continue;
    throw ErrorAt(use, StrCat("bottom[", i, "]"),
                  StrCat("no layer of block \"", block, "\" reads bottom \"", use.bottom(i), "\""),
                  "in the block, ${bottom} stands for it");
  }
  for (int i = 0; i < use.top_size(); ++i) {
    if (tops.contains(use.top(i))) continue;
    throw ErrorAt(use, StrCat("top[", i, "]"),
                  StrCat("no layer of block \"", block, "\" makes top \"", use.top(i), "\""),
                  "in the block, ${top} stands for it");
  }
}

void Expander::Use(const LayerParameter& use, int instance, Layers& out) {
  CheckUse(use);
  const BlockParameter& block = Find(use);
  if (std::find(stack_.begin(), stack_.end(), block.name()) != stack_.end()) {
    throw ErrorAt(use, "block_param.block",
                  StrCat("block \"", block.name(), "\" uses itself: ", Join(stack_, " -> "), " -> ", block.name()));
  }
  if (stack_.size() == kBlockDepthLimit)
    throw ErrorAt(use, {}, StrCat("blocks use blocks more than ", kBlockDepthLimit, " deep"));
  const Values values = ValuesOf(use, block);
  std::vector<LayerParameter> layers;
  for (const LayerParameter& inner : block.layer()) layers.push_back(Instantiate(inner, use, block, values));
  SetTyped(use, block, values, layers);
  const int first = out.size();
  stack_.push_back(block.name());
  for (const LayerParameter& layer : layers) Add(layer, instance, out);
  stack_.pop_back();
  CheckEnds(use, out, first);
}

}  // namespace

void ExpandBlocks(NetParameter& net) {
  const bool has_uses = std::any_of(net.layer().begin(), net.layer().end(), [](const LayerParameter& layer) {
    return layer.type() == "Block" || layer.has_block_param();
  });
  if (!has_uses && net.block_size() == 0) return;
  NetParameter expanded = Expander(net).Run();
  net.Swap(&expanded);
}

}  // namespace moka
