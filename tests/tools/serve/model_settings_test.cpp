// serve.pbtxt: what each field becomes, and where it is refused.
#include "tools/serve/model/model_settings.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelSettingsTest : public testing::Test {
 protected:
  ModelSettingsTest() : file_(fs::temp_directory_path() / StrCat("moka_settings_", int64_t{getpid()}, ".pbtxt")) {}
  ~ModelSettingsTest() override { fs::remove(file_); }
  ModelSettings Read(const std::string& text) const {
    WriteFileAtomically(file_, text);
    return ReadModelSettings(file_);
  }
  void Refused(const std::string& text, const std::string& place, const std::string& words) const {
    try {
      Read(text);
      ADD_FAILURE() << text << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig) << text;
      EXPECT_THAT(error.what(), HasSubstr(StrCat(".pbtxt:", place, ": "))) << text;
      EXPECT_THAT(error.what(), HasSubstr(words)) << text;
    }
  }

 private:
  fs::path file_;
};

TEST_F(ModelSettingsTest, WhatIsLeftOutIsDerived) {
  const ModelSettings settings = ReadModelSettings("/nowhere/serve.pbtxt");
  EXPECT_THAT(settings.versions.Chosen({1, 2, 7}), ElementsAre(7));
  EXPECT_THAT(settings.RowsOfRuns(16), ElementsAre(2, 4, 8, 16));
  EXPECT_THAT(settings.RowsOfRuns(6), ElementsAre(2, 4, 6));
  EXPECT_THAT(settings.RowsOfRuns(1), ElementsAre());
  EXPECT_EQ(settings.priorities, 16);
  EXPECT_EQ(settings.usual_priority, 8);
  EXPECT_EQ(settings.queue.WaitOf(std::chrono::microseconds(0)).count(), 0);
  EXPECT_EQ(settings.queue.WaitOf(std::chrono::microseconds(9)).count(), 9);
  EXPECT_EQ(Read("# nothing\nmodel_warmup {}\n").warm_ups.size(), 1U);
}

TEST_F(ModelSettingsTest, EachFieldBecomesASetting) {
  const ModelSettings settings = Read(R"(
    max_batch_size: 12
    version_policy { latest { num_versions: 2 } }
    dynamic_batching {
      preferred_batch_size: [ 8, 4 ]
      max_queue_delay_microseconds: 500
      priority_levels: 3
      default_priority_level: 3
      default_queue_policy { default_timeout_microseconds: 100 max_queue_size: 7 }
      priority_queue_policy { key: 1 value { default_timeout_microseconds: 50 allow_timeout_override: false } }
    }
    sequence_batching { max_sequence_idle_microseconds: 2000000 oldest { max_candidate_sequences: 5 } }
    instance_group [ { count: 1 kind: KIND_GPU gpus: [ 1 ] } ]
    model_warmup { name: "once" batch_size: 4 count: 2 }
  )");
  EXPECT_THAT(settings.versions.Chosen({1, 2, 7}), ElementsAre(2, 7));
  EXPECT_THAT(settings.RowsOfRuns(16), ElementsAre(4, 8, 12));
  EXPECT_EQ(settings.most_delay.count(), 500);
  EXPECT_EQ(settings.usual_priority, 3);
  using Us = std::chrono::microseconds;
  EXPECT_EQ(settings.QueueOf(0).most_waiting, 7);
  EXPECT_EQ(settings.QueueOf(0).WaitOf(Us(0)).count(), 100);
  EXPECT_EQ(settings.QueueOf(2).WaitOf(Us(40)).count(), 40);
  EXPECT_EQ(settings.QueueOf(2).WaitOf(Us(400)).count(), 100);  // only shorter
  EXPECT_EQ(settings.QueueOf(1).WaitOf(Us(40)).count(), 50);
  EXPECT_EQ(settings.QueueOf(1).most_waiting, 0);
  EXPECT_EQ(settings.sequences.idle, std::chrono::seconds(2));
  EXPECT_EQ(settings.sequences.most, 5);
  EXPECT_TRUE(settings.device->is_gpu);
  EXPECT_THAT(settings.device->gpus, ElementsAre(1));
  EXPECT_EQ(settings.warm_ups[0].rows, 4);
  EXPECT_EQ(settings.warm_ups[0].runs, 2);
  EXPECT_EQ(settings.rows_place->line, 2);
  EXPECT_EQ(Read("dynamic_batching { preserve_ordering: true }").priorities, 1);
  EXPECT_EQ(Read("dynamic_batching { priority_levels: 4 }").usual_priority, 2);
  EXPECT_THAT(Read("version_policy { all {} }").versions.Chosen({1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(Read("version_policy { specific { versions: [3, 1, 3] } }").versions.Chosen({1, 2}), ElementsAre(1));
}

TEST_F(ModelSettingsTest, WhatCannotBeIsRefusedAtItsPlace) {
  Refused("max_batch_size: 0", "1:1", "max_batch_size is 0; expected 1 to 4096");
  Refused("\nmax_batch_sise: 4", "2:1", "did you mean \"max_batch_size\"?");
  Refused("dynamic_batching { preferred_batch_size: 0 }", "1:20", "expected 1 to 4096");
  Refused("max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }", "1:38", "max_batch_size is 4");
  Refused("dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }", "1:20", "a day is the most");
  Refused("dynamic_batching { priority_levels: 17 }", "1:20", "expected 1 to 16");
  Refused("dynamic_batching { priority_levels: 2 default_priority_level: 3 }", "1:39", "expected 1 to 2");
  Refused("dynamic_batching { priority_levels: 2 preserve_ordering: true }", "1:20", "have one priority");
  Refused("dynamic_batching { default_queue_policy { timeout_action: DELAY } }", "1:43", "DELAY is not done");
  Refused("dynamic_batching { priority_queue_policy { value {} } }", "1:20", "key is 0");
  Refused("dynamic_batching { priority_queue_policy { key: 1 } priority_queue_policy { key: 1 } }", "1:77",
          "priority 1 has two policies");
  Refused("sequence_batching { max_sequence_idle_microseconds: 0 }", "1:21", "forgotten at once");
  Refused("sequence_batching { oldest { max_candidate_sequences: -1 } }", "1:30", "expected 1 to");
  Refused("instance_group { count: 2 }", "1:18", "nets take turns");
  Refused("instance_group {} instance_group {}", "1:19", "several instance groups");
  Refused("instance_group { gpus: 0 }", "1:18", "kind: KIND_GPU says so");
  Refused("instance_group { kind: KIND_TPU }", "1:24", "KIND_TPU");
  Refused("model_warmup { count: 0 }", "1:16", "count is 0");
  Refused("version_policy { latest { num_versions: 0 } }", "1:27", "num_versions is 0");
  Refused("version_policy { specific { versions: [1, 0] } }", "1:29", "0 is no version");
  Refused("version_policy { specific {} }", "1:18", "names no version");
}

}  // namespace
}  // namespace moka
