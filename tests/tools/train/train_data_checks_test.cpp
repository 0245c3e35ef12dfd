// Classes and vocabularies of trainings and tests that disagree are refused by both names.
#include "tools/train/train_data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "data/import/import.h"
#include "tools/train/record_sizes.h"
#include "tools/train/run_data.h"

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
    EXPECT_EQ(error.hint(), "import both with one list of classes: moka data import --classes FILE");
  }
}

// A test of the trained net refuses what its training refuses.
TEST_F(TrainDataChecks, ATestNumbersTheClassesAsTheRunDid) {
  const auto text_of = [&](const std::string& database) {
    return StrCat("layer { name: 'pictures' type: 'Data' top: 'data' include { phase: TRAIN } data_param { source: '",
                  (folder_ / database).string(), "' batch_size: 1 } }");
  };
  Reading("train", "cat\ndog\nhorse\n");
  const NetParameter same = Reading("same", "cat\ndog\n");
  const NetParameter other = Reading("other", "dog\nhorse\n");
  PlaceFile(folder_ / "net.prototxt", text_of("train"));
  CheckTestedClasses(folder_ / "net.prototxt", {}, same);
  EXPECT_THROW(CheckTestedClasses(folder_ / "net.prototxt", {}, other), Error);
  // The override is for the layers of that name in all phases, and says nothing of what was trained on.
  const std::vector<std::string> overrides = {
      StrCat("layer[pictures].data_param.source=\"", folder_.string(), "/other\"")};
  EXPECT_THROW(CheckTestedClasses(folder_ / "net.prototxt", overrides, other), Error);
  // A run's list stands although its data are gone.
  std::filesystem::create_directories(folder_ / "r-0001/checkpoints");
  std::filesystem::create_directories(folder_ / "r-0001/config");
  PlaceFile(folder_ / "r-0001/config/net.prototxt", text_of("gone"));
  PlaceFile(folder_ / "r-0001/config/labels.txt", "cat\ndog\nhorse\n");
  CheckTestedClasses(folder_ / "r-0001/config/net.prototxt", {}, same);
  EXPECT_THROW(CheckTestedClasses(folder_ / "r-0001/config/net.prototxt", {}, other), Error);
  PlaceFile(folder_ / "r-0001/config/labels.txt", "tabby\npoodle\n");
  CheckTestedClasses(folder_ / "r-0001/config/net.prototxt", {}, other);
}

// A run that was moved away from its data knows the size of its records, whether or not a crop is cut from them.
TEST_F(TrainDataChecks, SizesOfRecordsAreKept) {
  NetParameter net = Reading("empty", "");
  std::filesystem::remove_all(folder_ / "empty");
  EXPECT_EQ(RecordSizesText({&net}), "") << "there is no database";
  Image picture;
  picture.Resize(30, 20, 3);
  std::filesystem::create_directories(folder_ / "set/a");
  PlaceFile(folder_ / "set/a/1.png", EncodePng(picture));
  Import((folder_ / "set").string(), folder_ / "empty", {});
  NetParameter bounded = Reading("bounded", "");
  std::filesystem::remove_all(folder_ / "bounded");
  Import((folder_ / "set").string(), folder_ / "bounded", {.max_dim = 15});
  bounded.mutable_layer(0)->set_name("small");
  PlaceFile(folder_ / kRecordSizesFile, RecordSizesText({&net, &bounded}));
  const std::optional<StoredPictures> kept = KeptRecordSize(folder_, "pictures");
  ASSERT_TRUE(kept);
  EXPECT_EQ(std::vector<int64_t>({kept->channels, kept->height, kept->width, kept->max_side}),
            std::vector<int64_t>({3, 20, 30, 0}));
  const std::optional<StoredPictures> small = KeptRecordSize(folder_, "small");
  ASSERT_TRUE(small);
  EXPECT_EQ(std::vector<int64_t>({small->channels, small->height, small->width, small->max_side}),
            std::vector<int64_t>({3, 10, 15, 15}));
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

TEST_F(TrainDataChecks, ARunsDataIsKnownByNameAndFolder) {
  const std::string list = (folder_ / "list.txt").string();
  const std::string word = (folder_ / "gaussian").string();
  PlaceFile(list, "p.bin 0\n");
  PlaceFile(word, "a file that is called as a filler is");
  const auto reading = [&](const std::string& folder, const std::string& bytes) {
    std::filesystem::create_directories(folder_ / folder);
    PlaceFile(folder_ / folder / "p.bin", bytes);
    NetParameter net;
    LayerParameter* data = net.add_layer();
    data->set_name(word);
    data->set_type("ImageData");
    data->add_param()->set_name(word);
    data->mutable_image_data_param()->set_source(list);
    data->mutable_image_data_param()->set_root_folder((folder_ / folder / "").string());
    data->mutable_dummy_data_param()->add_data_filler()->set_type(word);
    return net;
  };
  const auto name = [&](const char* folder) { return StrCat(list, " in ", (folder_ / folder / "").string()); };
  const SolverNets nets{reading("train", "one"), {reading("test", "other")}};
  const DataOfRun data = ReadRunData(nets);
  EXPECT_NE(data.contents.at(name("train")), data.contents.at(name("test")));
  EXPECT_THAT(data.contents.at(name("train")), HasSubstr("1 of the files it names"));
  EXPECT_FALSE(data.contents.contains(word)) << "words name no file";
  EXPECT_EQ(data.contents.size(), 4U) << "and the two folders";
  EXPECT_TRUE(data.trained.contains(name("train")));
  EXPECT_FALSE(data.trained.contains(name("test")));

  const auto told = [&](const std::string& identity) {
    PlaceFile(folder_ / "run.json", identity);
    testing::internal::CaptureStderr();
    CheckRunData(data, IdentityOfRun(folder_), folder_);
    return testing::internal::GetCapturedStderr();
  };
  for (const char* none : {"{}", "[]", "{\"data\": 1}", "no JSON"})
    EXPECT_THAT(told(none), HasSubstr("it does not say what data the run was started with")) << none;
  EXPECT_EQ(told(StrCat("{\"data\": {\"", name("test"), "\": \"", data.contents.at(name("test")), "\"}}")), "");
  EXPECT_THAT(told(StrCat("{\"data\": {\"", name("test"), "\": \"another\"}}")),
              HasSubstr("; tests before and after are of different data"));
  try {
    PlaceFile(folder_ / "run.json", StrCat("{\"data\": {\"", name("train"), "\": \"another\"}}"));
    CheckRunData(data, IdentityOfRun(folder_), folder_);
    FAIL() << "the training reads other pictures";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.text(), StrCat(name("train"), " is not what the run was started with: it was another and is ",
                                   data.contents.at(name("train"))));
  }
}

}  // namespace
}  // namespace moka
