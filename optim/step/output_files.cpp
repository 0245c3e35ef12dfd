// The bottoms of HDF5Output layers are made outputs of the program, so that no graph node has an effect beside its
// results.
#include "optim/step/output_files.h"

#include <map>

#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

std::string OutputName(const std::string& layer, int bottom) { return StrCat("file ", layer, " ", bottom); }

}  // namespace

void AddFileOutputs(BuiltNet& net) {
  // The value a blob has when the layer reads it: a later layer may work on it in place.
  std::map<std::string, ValueId> results;
  for (const auto& [name, value] : net.trace) results.emplace(name, value);
  std::map<std::string, ValueId> now;
  for (const LayerParameter& layer : net.param.layer()) {
    for (int i = 0; TraitsOf(layer).writes_file && i < layer.bottom_size(); ++i) {
      net.graph.AddOutput(OutputName(layer.name(), i), now.at(layer.bottom(i)));
    }
    for (const std::string& top : layer.top()) now[top] = results.at(StrCat(layer.name(), ":", top));
  }
}

void WarnOfOutputFiles(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (!TraitsOf(layer).writes_file) continue;
    LogWarning(StrCat("layer \"", Printable(layer.name()), "\": ", layer.type(),
                      " writes nothing in a training; give it include ", "{ phase: TEST }, and the tests write"));
  }
}

OutputFiles::OutputFiles(const NetParameter& net, const std::filesystem::path& base_folder) {
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).writes_file) sinks_.push_back({layer.name(), std::make_unique<Hdf5Sink>(layer, base_folder)});
  }
}

void OutputFiles::Append(const Program& program) {
  for (const Sink& sink : sinks_) {
    const Tensor data = program.output(OutputName(sink.layer, 0));
    const Tensor label = program.output(OutputName(sink.layer, 1));
    sink.file->Append(data.as<float>(), data.type().shape, label.as<float>(), label.type().shape);
  }
}

void OutputFiles::Finish() {
  for (const Sink& sink : sinks_) sink.file->Finish();
}

void OutputFiles::Discard() {
  for (const Sink& sink : sinks_) sink.file->Discard();
}

}  // namespace moka
