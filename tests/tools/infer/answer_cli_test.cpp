// A memory network from stories to answers, as a person does it: vocabulary, the linear start and the training that
// follows it, test, inference with the memory's attention, in a run that was moved.
#include <gmock/gmock.h>

#include "core/rng.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::Not;

class AnswerCli : public CliTest {
 protected:
  // Who went where: the answer is where the person went last.
  static std::string Stories(int count, uint64_t seed) {
    const std::vector<std::string> people = {"Ann", "Bob", "Cid"};
    const std::vector<std::string> places = {"kitchen", "garden", "office", "hall"};
    RandomStream random(seed, 0);
    std::string text;
    for (int story = 0; story < count; ++story) {
      std::vector<std::string> where(people.size());
      int last = 0;
      for (int line = 1; line <= 4; ++line) {
        last = static_cast<int>(random.Below(people.size()));
        where[static_cast<size_t>(last)] = places[random.Below(places.size())];
        text += StrCat(line, " ", people[static_cast<size_t>(last)], " went to the ", where[static_cast<size_t>(last)],
                       ".\n");
      }
      size_t asked = random.Below(people.size());
      while (where[asked].empty()) asked = (asked + 1) % people.size();
      text += StrCat("5 Where is ", people[asked], "?\t", where[asked], "\n");
    }
    return text;
  }
  static std::string Fields() {
    return "'layer[story].story_data_param.source=[\"train.txt\"]' layer[story].story_data_param.vocabulary=words.txt "
           "'layer[test].story_data_param.source=[\"test.txt\"]' layer[test].story_data_param.vocabulary=words.txt ";
  }
  static std::string Train(const std::string& more) {
    return StrCat("train '", MOKA_SOURCE_DIR, "/models/babi_memn2n' ", Fields(),
                  "'layer[memn2n].block_param.set=[\"words=16\",\"dim=12\"]' 'test_iter=[1]' test_interval=200 "
                  "display=50 --seed 3 ",
                  more);
  }
  // The run, trained once.
  static const std::string& TrainedRun() {
    static const std::string run = [] {
      WriteFileAtomically(folder_ / "train.txt", Stories(600, 1));
      WriteFileAtomically(folder_ / "test.txt", Stories(100, 2));
      EXPECT_EQ(Moka("data vocabulary train.txt words.txt --stories").code, 0);
      const Outcome trained = Moka(Train("max_epochs=40 stepsize=400"));
      EXPECT_EQ(trained.code, 0) << trained.err;
      return std::string("runs/babi_memn2n-0001");
    }();
    return run;
  }
};

TEST_F(AnswerCli, TheLinearStartIsARunThatTheOtherStartsFrom) {
  const fs::path run = folder_ / TrainedRun();
  const Json first = Json::parse(ReadFile(folder_ / "runs/babi_memn2n_linear-0001/run.json"));
  const Json second = Json::parse(ReadFile(run / "run.json"));
  EXPECT_EQ(second.at("parent"), "runs/babi_memn2n_linear-0001@last");
  EXPECT_EQ(first.at("seed"), second.at("seed"));
  // 20 epochs of 540 questions in batches of 32; the override of the length is the second training's.
  EXPECT_THAT(ReadFile(folder_ / "runs/babi_memn2n_linear-0001/status.json"), HasSubstr("338"));
  EXPECT_THAT(ReadFile(run / "config/solver.prototxt"), Not(HasSubstr("first_solver")));
  EXPECT_EQ(ReadFile(run / "config/words.txt"), ReadFile(folder_ / "words.txt"));
}

TEST_F(AnswerCli, ItAnswersQuestionsThatItHasNotSeen) {
  const Outcome tested = Moka(StrCat("test ", TrainedRun(), " --stage test --json ", Fields()));
  ASSERT_EQ(tested.code, 0) << tested.err;
  EXPECT_GT(Json::parse(tested.out).at("outputs").at("accuracy").get<double>(), 0.95);
}

TEST_F(AnswerCli, AMovedRunShowsWhatItLookedAt) {
  fs::create_directories(folder_ / "elsewhere");
  fs::copy(folder_ / TrainedRun(), folder_ / "elsewhere/run",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  WriteFileAtomically(folder_ / "elsewhere/story.txt",
                      "Ann went to the garden.\nBob went to the office.\nAnn went to the kitchen.\nWhere is Bob?\n"
                      "Where is Ann?\thall\n");
  const fs::path elsewhere = folder_ / "elsewhere";
  const auto infer = [&](const std::string& more) {
    return RunShell(StrCat("cd '", elsewhere.string(), "' && OMP_NUM_THREADS=1 '", MOKA_BINARY, "' infer run ", more),
                    folder_, (elsewhere / "story.txt").string());
  };
  const Outcome json = infer("--story story.txt --top 2 --json");
  ASSERT_EQ(json.code, 0) << json.err;
  const Json answers = Json::parse(json.out);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("question"), "Where is Bob?");
  EXPECT_EQ(answers[0].at("answers").size(), 2U);
  EXPECT_EQ(answers[0].at("answers")[0].at("answer"), "office");
  EXPECT_GT(answers[0].at("answers")[0].at("probability").get<double>(), 0.8);
  EXPECT_EQ(answers[1].at("answers")[0].at("answer"), "kitchen");
  EXPECT_EQ(answers[1].at("expected"), "hall");
  // Three sentences in the order of the story, three hops; some hop looks at where Bob went.
  ASSERT_EQ(answers[0].at("memory").size(), 3U);
  EXPECT_EQ(answers[0].at("memory")[1].at("sentence"), "Bob went to the office.");
  double most = 0;
  for (const Json& weight : answers[0].at("memory")[1].at("attention")) most = std::max(most, weight.get<double>());
  EXPECT_EQ(answers[0].at("memory")[1].at("attention").size(), 3U);
  EXPECT_GT(most, 0.5);

  const Outcome text = infer("--story -");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("hop 1"));
  EXPECT_THAT(text.out, HasSubstr("Bob went to the office.   "));
  EXPECT_THAT(text.out, HasSubstr("Where is Bob?\n  0."));
  EXPECT_THAT(text.out, HasSubstr("wrong: it is hall"));
  EXPECT_THAT(text.err, HasSubstr("2 questions, 0 of 1 right"));
}

TEST_F(AnswerCli, MistakesOfInference) {
  const std::string& run = TrainedRun();
  WriteFileAtomically(folder_ / "unknown.txt", "Ann went to the gardn.\nWhere is Ann?\n");
  const Outcome unknown = Moka(StrCat("infer ", run, " --story unknown.txt"));
  EXPECT_EQ(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("does not know the word \"gardn\""));
  EXPECT_THAT(unknown.err, HasSubstr("garden"));
  const Outcome none = Moka(StrCat("infer ", run));
  EXPECT_EQ(none.code, 64);
  EXPECT_THAT(none.err, HasSubstr("missing argument: a story with questions"));
  const Outcome lost = Moka(StrCat("infer ", run, " --story nowhere.txt"));
  EXPECT_EQ(lost.code, 66);
  EXPECT_THAT(lost.err, HasSubstr("nowhere.txt"));
  WriteFileAtomically(folder_ / "words_fewer.txt", "<pad>\n<s>\n</s>\n<unk>\nann\n");
  const Outcome other =
      Moka(StrCat("infer ", run, " --story unknown.txt ", "layer[story].story_data_param.vocabulary=words_fewer.txt"));
  EXPECT_EQ(other.code, 78) << other.err;
  EXPECT_THAT(other.err, HasSubstr("not a probability for each of the 5 words of words_fewer.txt"));
}

TEST_F(AnswerCli, AFirstSolverMustBeThereAndBeTheOnlyOne) {
  TrainedRun();
  const Outcome lost = Moka(Train("first_solver=solver_linaer.prototxt"));
  EXPECT_EQ(lost.code, 66);
  EXPECT_THAT(lost.err, HasSubstr("solver_linaer.prototxt"));
  EXPECT_THAT(lost.err, HasSubstr("solver_linear.prototxt"));
  const Outcome two = Moka(Train("first_solver=solver.prototxt"));
  EXPECT_NE(two.code, 0);
  EXPECT_THAT(two.err, HasSubstr("names one before itself"));
  // If none is named, or weights are given, nothing comes before.
  const size_t runs = static_cast<size_t>(std::distance(fs::directory_iterator(folder_ / "runs"), {}));
  EXPECT_EQ(Moka(Train("first_solver= max_epochs=0 max_iter=2")).code, 0);
  EXPECT_EQ(Moka(Train(StrCat("--from ", TrainedRun(), "@last max_epochs=0 max_iter=2"))).code, 0);
  EXPECT_EQ(static_cast<size_t>(std::distance(fs::directory_iterator(folder_ / "runs"), {})), runs + 2);
}

}  // namespace
}  // namespace moka
