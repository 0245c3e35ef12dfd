#include "tools/train_data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

using testing::HasSubstr;

class TrainDataChecks : public testing::Test {
 protected:
  TrainDataChecks() : folder_(std::filesystem::temp_directory_path() / StrCat("moka_data_checks_", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TrainDataChecks() override { std::filesystem::remove_all(folder_); }

  // A net that reads a database of these classes.
  NetParameter Reading(const std::string& database, const std::string& names) const {
    std::filesystem::create_directories(folder_ / database);
    PlaceFile(folder_ / database / "labels.txt", names);
    NetParameter net;
    LayerParameter* data = net.add_layer();
    data->set_name("pictures");
    data->set_type("Data");
    data->add_top("data");
    data->mutable_data_param()->set_source((folder_ / database).string());
    return net;
  }
  static std::string WarningsOf(const SolverNets& nets, bool are_overridden = false) {
    testing::internal::CaptureStderr();
    CheckTestData(nets, are_overridden);
    return testing::internal::GetCapturedStderr();
  }

  std::filesystem::path folder_;
};

TEST_F(TrainDataChecks, ClassesHaveOneNumber) {
  const NetParameter train = Reading("train", "cat\ndog\nhorse\n");
  EXPECT_EQ(WarningsOf({train, {Reading("same", "cat\ndog\nhorse\n")}}), "");
  EXPECT_EQ(WarningsOf({train, {Reading("fewer", "cat\ndog\n")}}), "") << "the numbers of those there are agree";
  EXPECT_EQ(WarningsOf({train, {Reading("nameless", "")}}), "");
  try {
    CheckTestData({train, {Reading("other", "dog\nhorse\n")}}, false);
    FAIL() << "dog has two numbers";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(error.text(), StrCat("layer \"pictures\": class 0 of ", (folder_ / "other").string(),
                                   " is \"dog\", in the training's data \"cat\""));
    EXPECT_EQ(error.hint(), "import both with one list of classes");
  }
}

TEST_F(TrainDataChecks, ATestOfWhatIsTrainedOnIsTold) {
  const NetParameter train = Reading("train", "cat\n");
  EXPECT_THAT(WarningsOf({train, {train}}), HasSubstr("train, which is trained on: they say nothing of other data\n"));
  EXPECT_THAT(WarningsOf({train, {train}}, true),
              HasSubstr("other data (an override of layer[NAME] is for every layer"))
      << "where there is one";
  EXPECT_EQ(WarningsOf({train, {train, Reading("val", "cat\n")}}), "") << "one of the tests is of other data";
  EXPECT_EQ(WarningsOf({train, {}}), "");
}

TEST_F(TrainDataChecks, PairsAreMadeAlike) {
  const std::string marks = "<pad>\n<s>\n</s>\n<unk>\n";
  PlaceFile(folder_ / "words.txt", marks + "the\ndog\n");
  PlaceFile(folder_ / "copy.txt", marks + "the\ndog\n");
  PlaceFile(folder_ / "other.txt", marks + "dog\nthe\n");
  NetParameter train;
  LayerParameter* layer = train.add_layer();
  layer->set_name("pairs");
  layer->set_type("TextPairData");
  layer->mutable_text_pair_data_param()->set_source_vocabulary((folder_ / "words.txt").string());
  layer->mutable_text_pair_data_param()->set_target_vocabulary((folder_ / "words.txt").string());
  const auto told = [&](const std::function<void(TextPairDataParameter&)>& change) {
    NetParameter test = train;
    change(*test.mutable_layer(0)->mutable_text_pair_data_param());
    testing::internal::CaptureStderr();
    CheckVocabularies({train, {test}});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told([](TextPairDataParameter&) {}), "");
  EXPECT_EQ(told([&](TextPairDataParameter& p) { p.set_source_vocabulary((folder_ / "copy.txt").string()); }), "");
  EXPECT_THAT(told([&](TextPairDataParameter& p) { p.set_source_vocabulary((folder_ / "other.txt").string()); }),
              HasSubstr("layer \"pairs\": source_vocabulary is "));
  EXPECT_THAT(told([&](TextPairDataParameter& p) { p.set_target_vocabulary((folder_ / "other.txt").string()); }),
              HasSubstr("target_vocabulary is "));
  EXPECT_THAT(told([](TextPairDataParameter& p) { p.set_tokens(BLANKS); }), HasSubstr("tokens is BLANKS"));
  EXPECT_THAT(told([](TextPairDataParameter& p) { p.set_reverse_source(true); }),
              HasSubstr("reverse_source is true, and layer \"pairs\" trains with false"));
}

TEST_F(TrainDataChecks, WordsHaveRows) {
  PlaceFile(folder_ / "words.txt", "<pad>\n<s>\n</s>\n<unk>\nthe\ndog\n");
  NetParameter net;
  LayerParameter* data = net.add_layer();
  data->set_name("text");
  data->set_type("SkipGramData");
  for (const char* top : {"center", "words", "is_near"}) data->add_top(top);
  SkipGramDataParameter& p = *data->mutable_skip_gram_data_param();
  p.add_output(SkipGramDataParameter::CENTER);
  p.add_output(SkipGramDataParameter::WORDS);
  p.add_output(SkipGramDataParameter::IS_NEAR);
  p.set_vocabulary((folder_ / "words.txt").string());
  LayerParameter* embed = net.add_layer();
  embed->set_type("Embed");
  embed->add_bottom("words");
  embed->mutable_embed_param()->set_input_dim(6);
  EXPECT_NO_THROW(CheckVocabularies({net, {}}));
  net.mutable_layer(1)->mutable_embed_param()->set_input_dim(5);
  try {
    CheckVocabularies({{}, {net}});
    FAIL() << "\"dog\" has no row";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(error.text(), StrCat("layer \"text\": ", (folder_ / "words.txt").string(),
                                   " has 6 words, and a layer that \"words\" goes to has 5 rows (input_dim)"));
    EXPECT_EQ(error.hint(), "set input_dim to 6, or make a shorter list with moka data vocabulary --most 1");
  }
}

}  // namespace
}  // namespace moka
