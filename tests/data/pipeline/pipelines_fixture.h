// Pipelines over small databases, and their batches.
#pragma once

#include <google/protobuf/text_format.h>

#include "core/log.h"
#include "data/pipeline/open_pipeline.h"
#include "tests/data/data_fixture.h"

namespace moka {

class Pipelines : public DataTest {
 protected:
  Pipelines() { SetStderrLevel(LogLevel::kError); }

  static LayerParameter Layer(const std::string& text) {
    LayerParameter layer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer)) << text;
    return layer;
  }
  static LayerParameter DataLayer(const std::string& fields, const std::string& more = "") {
    return Layer("name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' backend: LMDB " +
                 fields + " } " + more);
  }
  PipelineOptions Options(int64_t threads = 2) const {
    return {.phase = TRAIN, .seed = 42, .threads = threads, .base_folder = folder_};
  }

  // 3x6x6 records whose labels are their numbers.
  void WriteRecords(int count) const {
    std::vector<Datum> datums;
    for (int i = 0; i < count; ++i) datums.push_back(RawDatum(3, 6, 6, i * 11, i));
    WriteDatabase(At("db"), datums);
  }

  struct Batch {
    std::vector<float> data;
    std::vector<float> labels;
    friend bool operator==(const Batch&, const Batch&) = default;
  };
  static Batch NextOf(Pipeline& pipeline) {
    const OwnedTensor data(pipeline.types()[0]);
    if (pipeline.types().size() == 1) {
      pipeline.Next(std::vector<Tensor>{data.tensor()});
      return {{data.as<float>().begin(), data.as<float>().end()}, {}};
    }
    const OwnedTensor labels(pipeline.types()[1]);
    pipeline.Next(std::vector<Tensor>{data.tensor(), labels.tensor()});
    return {{data.as<float>().begin(), data.as<float>().end()}, {labels.as<float>().begin(), labels.as<float>().end()}};
  }
  static std::vector<float> LabelsOf(Pipeline& pipeline, int batches) {
    std::vector<float> labels;
    for (int i = 0; i < batches; ++i) {
      const Batch batch = NextOf(pipeline);
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    }
    return labels;
  }
};

}  // namespace moka
