// Runs the layer's pipeline without a net behind it, and compares its batches with those of one worker.
#include "tools/measure/data_bench.h"

#include <chrono>

#include "data/pipeline/open_pipeline.h"

namespace moka {

DataBench::DataBench(const LayerParameter& layer, const PipelineOptions& options)
    : layer_(layer), options_(options), pipeline_(OpenPipeline(layer, options)) {}

std::vector<double> DataBench::Run(int64_t batches) {
  std::vector<double> ms;
  for (int64_t i = 0; i < batches; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    tops_ = pipeline_->NextInPlace();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return ms;
}

bool DataBench::IsReproducible(int64_t batches) {
  PipelineOptions options = options_;
  options.threads = 1;
  DataBench one(layer_, options);
  pipeline_->Seek(0);
  bool same = true;
  for (int64_t i = 0; i < batches && same; ++i) {
    Run(1);
    one.Run(1);
    same = HashBatch(tops_) == HashBatch(one.tops_);
  }
  pipeline_->Seek(0);
  return same;
}

LayerParameter ImageRecipe(const std::string& database, int64_t batch, int64_t side) {
  LayerParameter layer;
  layer.set_name("data");
  layer.set_type("Data");
  layer.add_top("data");
  layer.add_top("label");
  DataParameter& data = *layer.mutable_data_param();
  data.set_source(database);
  data.set_backend(DataParameter::LMDB);
  data.set_batch_size(static_cast<uint32_t>(batch));
  data.set_shuffle(true);
  TransformationParameter& transform = *layer.mutable_transform_param();
  transform.set_mirror(true);
  transform.set_crop_size(static_cast<uint32_t>(side));
  transform.set_force_color(true);
  transform.mutable_rand_resized_crop();
  // ImageNet's, in B, G, R.
  for (const float mean : {103.53F, 116.28F, 123.675F}) transform.add_mean_value(mean);
  for (const float deviation : {57.375F, 57.12F, 58.395F}) transform.add_std_value(deviation);
  return layer;
}

}  // namespace moka
