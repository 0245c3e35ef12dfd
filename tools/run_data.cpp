#include "tools/run_data.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/content_identity.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

using Contents = std::map<std::string, std::string>;

// The files that texts of the message name; a list's own begin at the root_folder beside it.
void AddContents(const Message& message, Contents& contents) {
  const google::protobuf::Reflection& r = *message.GetReflection();
  std::string root;
  const FieldDescriptor* of_root = message.GetDescriptor()->FindFieldByName("root_folder");
  if (of_root != nullptr && of_root->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    root = r.GetString(message, of_root);
  std::vector<const FieldDescriptor*> set;
  r.ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (field->message_type() == Origin::descriptor()) continue;
    const int count = field->is_repeated() ? r.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddContents(field->is_repeated() ? r.GetRepeatedMessage(message, field, i) : r.GetMessage(message, field),
                    contents);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        const std::string text =
            field->is_repeated() ? r.GetRepeatedString(message, field, i) : r.GetString(message, field);
        if (text.empty() || contents.contains(text)) continue;
        std::string content = ContentOf(text, root);
        if (!content.empty()) contents[text] = std::move(content);
      }
    }
  }
}

void AddNet(const NetParameter& net, Contents& contents) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() > 0) continue;
    LayerParameter fields = layer;
    fields.clear_name();
    fields.clear_type();
    fields.clear_top();
    fields.clear_include();
    fields.clear_exclude();
    AddContents(fields, contents);
  }
}

Contents TrainDataOf(const TrainSetup& setup) {
  Contents contents;
  if (setup.nets.turns.empty()) AddNet(setup.nets.train, contents);
  for (const NetParameter& net : setup.nets.turns) AddNet(net, contents);
  return contents;
}

// Empty where the run says nothing of its data; whoever opens it tells what is wrong with the file.
Contents DataIn(const std::filesystem::path& run) {
  Contents contents;
  try {
    const std::string text = ReadFile(run / "run.json");
    CheckJsonBounds(text, {});
    const nlohmann::json identity = nlohmann::json::parse(text, nullptr, false);
    if (!identity.is_object() || !identity.contains("data") || !identity["data"].is_object()) return contents;
    for (const auto& [name, content] : identity["data"].items()) {
      if (content.is_string()) contents[name] = content.get<std::string>();
    }
  } catch (const Error&) {
    return {};
  }
  return contents;
}

}  // namespace

std::map<std::string, std::string> DataOf(const TrainSetup& setup) {
  Contents contents = TrainDataOf(setup);
  for (const NetParameter& net : setup.nets.tests) AddNet(net, contents);
  return contents;
}

void CheckRunData(const TrainSetup& setup) {
  const Contents before = DataIn(setup.run_folder);
  if (before.empty() && !setup.data.empty()) {
    LogWarning(StrCat((setup.run_folder / "run.json").string(),
                      ": it does not say what data the run was started with, so these are taken for the same"));
    return;
  }
  const Contents trained = TrainDataOf(setup);
  for (const auto& [name, content] : setup.data) {
    const auto was = before.find(name);
    if (was == before.end() || was->second == content) continue;
    const std::string text = StrCat(Printable(name), " is not what the run was started with: it was ",
                                    Printable(was->second), " and is ", content);
    if (!trained.contains(name)) {
      LogWarning(StrCat(text, "; tests before and after are of different data"));
      continue;
    }
    throw Error(ErrorKind::kUsage, {}, text,
                StrCat("to train with it, start a new run from this one's weights: --from ", setup.run_folder.string(),
                       "@last"));
  }
}

}  // namespace moka
