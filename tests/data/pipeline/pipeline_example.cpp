// A data layer's batches in a program of one's own; docs/input.md shows it. Run: pipeline_example DATABASE
#include <cstdio>
#include <exception>

#include "data/pipeline/open_pipeline.h"
#include "proto/text/text_format.h"

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  try {
    moka::LayerParameter layer;
    moka::ParseText(R"(
        name: "pictures" type: "Data" top: "data" top: "label"
        data_param { backend: LMDB batch_size: 32 shuffle: true on_bad_record: SKIP }
        transform_param { crop_size: 24 mirror: true mean_value: 128 scale: 0.0078125 })",
                    "layer", layer);
    layer.mutable_data_param()->set_source(argv[1]);
    const auto pipeline = moka::OpenPipeline(layer, {.phase = moka::TRAIN, .seed = 7});
    for (int i = 0; i < 3; ++i) {
      const std::span<const moka::Tensor> tops = pipeline->NextInPlace();  // valid until the next call
      std::printf("%s, first label %g\n", tops[0].shape().ToString().c_str(),
                  static_cast<double>(tops[1].as<float>()[0]));
    }
    std::printf("sample %lld of %lld an epoch\n", static_cast<long long>(pipeline->position()),
                static_cast<long long>(pipeline->epoch_size()));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
