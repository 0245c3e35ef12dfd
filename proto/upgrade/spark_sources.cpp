// A MemoryData layer over an LMDB of this machine becomes a Data layer; other sources need Spark and are refused when
// the net is built, with the way to a database.
#include "proto/upgrade/spark_sources.h"

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr std::string_view kPackage = "com.yahoo.ml.caffe.";

// The class without its package.
std::string ClassOf(const LayerParameter& layer) {
  const std::string& name = layer.source_class();
  return name.starts_with(kPackage) ? name.substr(kPackage.size()) : name;
}

// "file:/data/mnist" and "file:///data/mnist" are /data/mnist; empty for another machine's, as hdfs://.
std::string LocalPath(std::string_view source) {
  const bool is_local = source.starts_with("file:");
  if (!is_local && source.find(':') != std::string_view::npos) return {};
  if (is_local) source.remove_prefix(std::string_view("file:").size());
  while (source.starts_with("//")) source.remove_prefix(1);
  while (source.size() > 1 && source.ends_with("/")) source.remove_suffix(1);
  return std::string(source);
}

}  // namespace

bool UpgradeSparkSources(NetParameter& net) {
  bool changed = false;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "MemoryData" || ClassOf(layer) != "LMDB") continue;
    const MemoryDataParameter memory = layer.memory_data_param();
    const std::string path = LocalPath(memory.source());
    if (path.empty()) continue;  // refused where the net is built
    layer.set_type("Data");
    DataParameter& data = *layer.mutable_data_param();
    data.set_source(path);
    data.set_backend(DataParameter::LMDB);
    if (memory.has_batch_size()) data.set_batch_size(memory.batch_size());
    layer.clear_memory_data_param();
    layer.clear_source_class();
    LogWarning(
        StrCat(PlaceOf(layer, "source_class").ToString(), ": layer \"", Printable(layer.name()),
               "\" is read as Data over the LMDB ", Printable(path), "; its pictures are as large as its records",
               memory.has_height()
                   ? StrCat(", which are to be ", memory.channels(), " x ", memory.height(), " x ", memory.width())
                   : ""));
    changed = true;
  }
  return changed;
}

void RefuseSparkSource(const LayerParameter& layer) {
  if (layer.type() != "CoSData" && !layer.has_source_class()) return;
  const std::string name = ClassOf(layer);
  const std::string what = layer.type() == "CoSData"      ? "columns of a Spark data frame"
                           : name == "SeqImageDataSource" ? "a Hadoop sequence file of pictures"
                           : name == "ImageDataFrame" || name == "DataFrameSource" ? "a Spark data frame"
                           : name == "LMDB" ? StrCat("an LMDB at ", Printable(layer.memory_data_param().source()))
                                            : StrCat("the class ", Printable(layer.source_class()));
  const std::string hint =
      name == "LMDB" && layer.type() == "MemoryData"
          ? "copy it to this machine: source: \"file:/FOLDER\""
          : "export its records as pictures in class folders or as a table, and make a database with "
            "`moka data import FOLDER OUT` or `moka data table TABLE OUT` for a layer of type Data";
  throw ErrorAt(layer, layer.has_source_class() ? "source_class" : "type",
                StrCat("layer \"", layer.name(), "\" reads ", what, ", which only CaffeOnSpark can"), hint);
}

}  // namespace moka
