// moka explain: the manual of layers and ops, from the catalogue and the schema.
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/net/catalog.h"
#include "layers/net/layer.h"
#include "layers/net/manual_page.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/layer_page.h"

namespace moka {
namespace {

void ExplainLayer(const std::string& name) {
  const LayerDef* layer = FindLayer(name);
  if (layer == nullptr) {
    std::vector<std::string> types;
    for (const LayerDef& each : AllLayers()) types.push_back(each.type);
    throw Error(ErrorKind::kUsage, {}, StrCat("no layer type \"", Printable(name), "\""), DidYouMean(name, types));
  }
  PrintLines(LayerPageText(*layer));
}

// A page a layer and the index.
void WritePages(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const LayerDef& layer : AllLayers()) {
    WriteFileAtomically(folder / (layer.type + ".md"), LayerPageText(layer));
  }
  WriteFileAtomically(folder / "README.md", LayerIndexText());
  Print("wrote {} pages to {}\n", AllLayers().size(), folder.string());
}

void ExplainOp(const std::string& name) {
  const Catalog& catalog = StandardCatalog();
  const OpDef* op = catalog.FindOp(name);
  if (op == nullptr) {
    std::vector<std::string> names;
    for (const OpDef& each : catalog.ops()) names.push_back(each.name);
    throw Error(ErrorKind::kUsage, {}, StrCat("no op \"", Printable(name), "\""), DidYouMean(name, names));
  }
  Print("{}\n  {}\n", op->name, op->doc);
  for (const AttributeSpec& attribute : op->attributes) {
    Print("  {:<16} {}{}\n", attribute.name, attribute.doc,
          attribute.fallback ? " (default " + ToText(*attribute.fallback) + ")" : "");
  }
  std::vector<std::string> kernels;
  for (const KernelDef* kernel : catalog.KernelsOf(name, DeviceKind::kCpu)) kernels.push_back(kernel->name);
  Print("  CPU kernels: {}{}\n", kernels.empty() ? "" : Join(kernels, ", ") + ", ", "reference");
}

int RunExplain(const Arguments& arguments) {
  const std::string kind = arguments.positionals.empty() ? "" : arguments.positionals[0];
  const std::string name = arguments.positionals.size() > 1 ? arguments.positionals[1] : "";
  arguments.RefuseUnread({"write"});
  if (kind != "layer" && kind != "op") {
    throw Error(ErrorKind::kUsage, {},
                StrCat("moka explain wants \"layer\" or \"op\", found \"", Printable(kind), "\""),
                DidYouMean(kind, {"layer", "op"}));
  }
  if (arguments.Has("write")) {
    if (!name.empty())
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--write writes the pages of all layers, found \"", Printable(name), "\""),
                  StrCat("leave one of them out: moka explain layer ", Printable(name)));
    if (kind != "layer") throw Error(ErrorKind::kUsage, "only layers have pages to write");
    WritePages(arguments.Get("write"));
    return 0;
  }
  if (!name.empty()) {
    kind == "layer" ? ExplainLayer(name) : ExplainOp(name);
    return 0;
  }
  if (kind == "layer") {
    for (const LayerDef& layer : AllLayers()) Print("{:<26} {}\n", layer.type, FirstSentence(ManualPageOf(layer.type)));
  } else {
    for (const OpDef& op : StandardCatalog().ops()) Print("{:<32} {}\n", op.name, op.doc.substr(0, op.doc.find(". ")));
  }
  return 0;
}

}  // namespace

Verb ExplainVerb() {
  Verb verb;
  verb.name = "explain";
  verb.summary = "what a layer or op does: fields, defaults, kernels";
  verb.usage = "layer|op [NAME] [--write FOLDER]";
  verb.examples = {"moka explain layer Convolution", "moka explain op pointwise", "moka explain layer"};
  verb.options = {{"write", "FOLDER", "the reference pages of all layers as Markdown files"}};
  verb.computes = false;
  verb.run = RunExplain;
  verb.most_words = 2;
  return verb;
}

}  // namespace moka
