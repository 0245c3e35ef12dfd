// Finds the files that texts of the nets name and keeps their identities; a resume compares them and tells what
// changed.
#include "tools/train/run_data.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/train/content_identity.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;

using Contents = std::map<std::string, std::string>;

// The files that texts of the message name.
void AddContents(const google::protobuf::Message& message, Contents& contents) {
  const google::protobuf::Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  r.ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (field->message_type() == Origin::descriptor() || IsNeverAFile(std::string(field->name()))) continue;
    const std::string root = RootBeside(message, std::string(field->name()));
    const int count = field->is_repeated() ? r.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AddContents(field->is_repeated() ? r.GetRepeatedMessage(message, field, i) : r.GetMessage(message, field),
                    contents);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        const std::string text =
            field->is_repeated() ? r.GetRepeatedString(message, field, i) : r.GetString(message, field);
        std::string name = DataName(text, root);
        if (text.empty() || contents.contains(name)) continue;
        std::string content = ContentOf(text, root);
        if (!content.empty()) contents.emplace(std::move(name), std::move(content));
      }
    }
  }
}

void AddNet(const NetParameter& net, Contents& contents) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() == 0) AddContents(layer, contents);
  }
}

}  // namespace

std::string DataName(const std::string& text, const std::string& root) {
  return root.empty() ? text : StrCat(text, " in ", root);
}

DataOfRun ReadRunData(const SolverNets& nets) {
  DataOfRun data;
  if (nets.turns.empty()) AddNet(nets.train, data.contents);
  for (const NetParameter& net : nets.turns) AddNet(net, data.contents);
  for (const auto& [name, content] : data.contents) data.trained.insert(name);
  for (const NetParameter& net : nets.tests) AddNet(net, data.contents);
  return data;
}

void CheckRunData(const DataOfRun& data, const RunIdentity& identity, const std::filesystem::path& run) {
  const Contents& before = identity.data;
  if (before.empty() && !data.contents.empty()) {
    LogWarning(StrCat((run / "run.json").string(),
                      ": it does not say what data the run was started with, so these are taken for the same"));
    return;
  }
  for (const auto& [name, content] : data.contents) {
    const auto was = before.find(name);
    if (was == before.end() || was->second == content) continue;
    const std::string text = StrCat(Printable(name), " is not what the run was started with: it was ",
                                    Printable(was->second), " and is ", content);
    if (!data.trained.contains(name)) {
      LogWarning(StrCat(text, "; tests before and after are of different data"));
      continue;
    }
    throw Error(ErrorKind::kUsage, {}, text,
                StrCat("to train with it, start a new run from this one's weights: --from ", run.string(), "@last"));
  }
}

}  // namespace moka
