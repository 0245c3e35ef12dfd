// The part that the tests of text layers share: layers from text, batches and their hashes.
#pragma once

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "data/pipeline/prefetch.h"
#include "tests/data/data_fixture.h"

namespace moka {

class TextLayerTest : public DataTest {
 protected:
  TextLayerTest() { SetStderrLevel(LogLevel::kError); }

  // A layer with a top for each output.
  static LayerParameter Layer(const std::string& type, const std::string& text, int tops) {
    LayerParameter layer;
    std::string all = StrCat("name: 'data' type: '", type, "' ", text);
    for (int i = 0; i < tops; ++i) all += StrCat(" top: 't", i, "'");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(all, &layer)) << all;
    return layer;
  }
  std::unique_ptr<Pipeline> Open(const LayerParameter& layer, Phase phase = TRAIN, int64_t threads = 2,
                                 int64_t rank = 0, int64_t world = 1) const {
    return OpenPipeline(
        layer, {.phase = phase, .seed = 42, .rank = rank, .world = world, .threads = threads, .base_folder = folder_});
  }
  // Returns the warnings on stderr when a layer is opened.
  std::string WarningsOf(const LayerParameter& layer, Phase phase = TRAIN) const {
    SetStderrLevel(LogLevel::kWarning);
    testing::internal::CaptureStderr();
    (void)Open(layer, phase);
    const std::string said = testing::internal::GetCapturedStderr();
    SetStderrLevel(LogLevel::kError);
    return said;
  }
  std::string OpenError(const LayerParameter& layer, Phase phase = TRAIN) const {
    return ErrorOf([&] { Open(layer, phase); });
  }
  static std::vector<uint64_t> Hashes(Pipeline& pipeline, int batches) {
    std::vector<OwnedTensor> tops(pipeline.types().begin(), pipeline.types().end());
    std::vector<Tensor> tensors;
    for (const OwnedTensor& top : tops) tensors.push_back(top.tensor());
    std::vector<uint64_t> hashes;
    for (int i = 0; i < batches; ++i) {
      pipeline.Next(tensors);
      hashes.push_back(HashBatch(tensors));
    }
    return hashes;
  }
  // Batches are those of one worker for any number of them, and a pipeline set to any batch goes on as if unbroken.
  void ExpectOneOrder(const LayerParameter& layer, int batches) const {
    const int64_t batch = layer.data_param().batch_size();
    const std::vector<uint64_t> expected = Hashes(*Open(layer, TRAIN, 1), batches + 2);
    for (const int64_t threads : {2, 8}) EXPECT_EQ(Hashes(*Open(layer, TRAIN, threads), batches + 2), expected);
    const auto resumed = Open(layer);
    for (int i = 0; i < 40; ++i) {
      const int at = i * 37 % batches;
      resumed->Seek(at * batch);
      ASSERT_EQ(resumed->position(), at * batch);
      ASSERT_EQ(Hashes(*resumed, 2), std::vector<uint64_t>(expected.begin() + at, expected.begin() + at + 2)) << at;
    }
  }
};

}  // namespace moka
