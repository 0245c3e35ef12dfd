// Logs of trainings of full length, drawn by the trainer's writer, keep MLPerf's rules; and of a log that breaks one
// rule, each of them in turn, that one is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "core/text.h"
#include "tests/tools/mlperf/mlperf_logs.h"
#include "tests/tools/mlperf/mlperf_rules.h"

namespace moka {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// 0.759 at 42 epochs.
double ImageAccuracy(double epochs) { return 0.759 * epochs / 42; }

std::string ClosedResNetLog() {
  return DrawnMlperfLog(WithMlperf(ResNetRecipe("8k"), "resnet", "closed"), ImageNetFacts(8192), ImageAccuracy);
}

std::string ClosedSsdLog() {
  return DrawnMlperfLog(WithMlperf(SsdRecipe(), "ssd", "closed"), CocoFacts(256),
                        [](double epochs) { return epochs / 20; });
}

// The log with what matches a pattern replaced in the lines of a key; an empty pattern takes these lines away.
std::string Changed(const std::string& log, const std::string& key, const std::string& from, const std::string& to) {
  std::string text;
  for (const std::string& line : Split(log, '\n')) {
    if (line.empty()) continue;
    if (line.find(StrCat("\"key\": \"", key, "\"")) == std::string::npos) {
      text += line + "\n";
    } else if (!from.empty()) {
      text += std::regex_replace(line, std::regex(from), to) + "\n";
    }
  }
  EXPECT_NE(text, log) << key << " " << from;
  return text;
}

// The log with the lines of a key once more at its end.
std::string Doubled(const std::string& log, const std::string& key) {
  std::string text = log;
  for (const std::string& line : Split(log, '\n')) {
    if (line.find(StrCat("\"key\": \"", key, "\"")) != std::string::npos) text += line + "\n";
  }
  return text;
}

// The complaints are some, and all of them of that key.
void ExpectBroken(const std::string& log, const std::string& key, MlperfRuleset ruleset = MlperfRuleset::k400) {
  const std::vector<std::string> complaints = MlperfComplaints(log, ruleset);
  EXPECT_FALSE(complaints.empty()) << key;
  for (const std::string& complaint : complaints) EXPECT_TRUE(complaint.starts_with(key + ": ")) << complaint;
}

TEST(MlperfRulesTest, TheRecipesOfResNetKeepTheClosedRules) {
  for (const auto& [name, batch] :
       std::vector<std::pair<std::string, int64_t>>{{"8k", 8192}, {"16k", 16384}, {"32k", 32768}, {"64k", 65536}}) {
    SCOPED_TRACE(name);
    const std::string log =
        DrawnMlperfLog(WithMlperf(ResNetRecipe(name), "resnet", "closed"), ImageNetFacts(batch), ImageAccuracy);
    EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), IsEmpty());
    EXPECT_THAT(MlperfMetadata(log, "run_stop", "status"), ElementsAre("\"success\""));
    EXPECT_THAT(MlperfValues(log, "global_batch_size"), ElementsAre(std::to_string(batch)));
  }
}

TEST(MlperfRulesTest, TheKeysOfARecipeHaveItsNumbers) {
  const std::string log = ClosedResNetLog();
  const auto value = [&](const std::string& key) { return Join(MlperfValues(log, key), ","); };
  EXPECT_EQ(value("opt_name"), "\"lars\"");
  EXPECT_EQ(value("lars_opt_base_learning_rate"), "17.0");
  EXPECT_EQ(value("lars_opt_end_learning_rate"), "0.0001");
  EXPECT_EQ(value("lars_opt_learning_rate_decay_steps"), "6095");
  EXPECT_EQ(value("lars_opt_learning_rate_warmup_epochs"), "5");
  EXPECT_EQ(value("lars_opt_momentum"), "0.9");
  EXPECT_EQ(value("lars_opt_weight_decay"), "0.0002");
  EXPECT_EQ(value("lars_epsilon"), "0.0");
  EXPECT_EQ(value("gradient_accumulation_steps"), "1");
  EXPECT_EQ(value("train_samples"), "1281167");
  EXPECT_EQ(value("eval_samples"), "50000");
  EXPECT_EQ(value("seed"), "7");
  EXPECT_EQ(value("model_bn_span"), "32");
  EXPECT_EQ(value("submission_platform"), "\"a \\\"drawn\\\" system\"");
  // Tests lie at ends of epochs: those are the intervals, counted from 1.
  EXPECT_EQ(MlperfMetadata(log, "epoch_start", "epoch_num").front(), "1");
  EXPECT_EQ(MlperfMetadata(log, "epoch_stop", "epoch_num").back(), "42");
  EXPECT_EQ(MlperfMetadata(log, "eval_accuracy", "epoch_num").front(), "1");
  EXPECT_THAT(MlperfValues(log, "block_start"), IsEmpty());
}

TEST(MlperfRulesTest, ABatchNormSgdKeepsTheClosedRules) {
  SolverParameter solver = ResNetRecipe("8k");
  solver.set_type("SGD");
  solver.set_base_lr(3.2F);
  EXPECT_THAT(
      MlperfComplaints(DrawnMlperfLog(WithMlperf(solver, "resnet", "closed"), ImageNetFacts(8192), ImageAccuracy),
                       MlperfRuleset::k400),
      IsEmpty());
}

TEST(MlperfRulesTest, DetectionKeepsTheRulesOfBothRounds) {
  for (const MlperfRuleset ruleset : {MlperfRuleset::k400, MlperfRuleset::k410}) {
    EXPECT_THAT(MlperfComplaints(ClosedSsdLog(), ruleset), IsEmpty());
    // The published schedule of SSD300: SGD, tests not at ends of epochs, in the open division.
    SolverParameter open = WithMlperf(SsdRecipe(), "ssd", "open");
    open.set_type("SGD");
    open.set_weight_decay(0.0005F);
    open.set_test_interval(1000);
    const std::string log = DrawnMlperfLog(open, CocoFacts(32), [](double epochs) { return epochs / 10; });
    EXPECT_THAT(MlperfComplaints(log, ruleset), IsEmpty());
    EXPECT_THAT(MlperfValues(log, "epoch_start"), IsEmpty());
    EXPECT_EQ(MlperfMetadata(log, "block_start", "epoch_count").front(), "0.0273");
    EXPECT_THAT(MlperfMetadata(log, "run_stop", "status"), ElementsAre("\"aborted\"")) << "the quality is not reached";
  }
  ExpectBroken(ClosedResNetLog(), "submission_benchmark", MlperfRuleset::k410);
}

TEST(MlperfRulesTest, EachKeyThatMustBeThereOnceIsCounted) {
  const std::string log = ClosedResNetLog();
  for (const char* key :
       {"submission_org", "submission_platform", "submission_status", "init_stop", "run_start", "run_stop",
        "train_samples", "eval_samples", "gradient_accumulation_steps", "global_batch_size",
        "lars_opt_base_learning_rate", "lars_opt_end_learning_rate", "lars_opt_learning_rate_decay_poly_power",
        "lars_opt_learning_rate_decay_steps", "lars_epsilon", "lars_opt_learning_rate_warmup_epochs",
        "lars_opt_momentum", "lars_opt_weight_decay"}) {
    const auto has = testing::Contains(testing::StartsWith(StrCat(key, ": is there ")));
    EXPECT_THAT(MlperfComplaints(Changed(log, key, "", ""), MlperfRuleset::k400), has) << key;
    EXPECT_THAT(MlperfComplaints(Doubled(log, key), MlperfRuleset::k400), has) << key;
  }
  EXPECT_THAT(MlperfComplaints(Changed(ClosedSsdLog(), "submission_status", "", ""), MlperfRuleset::k410), IsEmpty());
  for (const char* key : {"opt_name", "opt_base_learning_rate", "opt_weight_decay", "opt_learning_rate_warmup_epochs",
                          "opt_learning_rate_warmup_factor", "global_batch_size"}) {
    ExpectBroken(Changed(ClosedSsdLog(), key, "", ""), key, MlperfRuleset::k410);
  }
  for (const char* key : {"cache_clear", "eval_accuracy"}) ExpectBroken(Changed(log, key, "", ""), key);
  EXPECT_THAT(MlperfComplaints(Changed(log, "epoch_start", "", ""), MlperfRuleset::k400),
              testing::Contains("block_start: is not there"));
  EXPECT_THAT(MlperfComplaints(Changed(log, "epoch_stop", "", ""), MlperfRuleset::k400),
              testing::Contains("block_stop: is not there"));
  ExpectBroken(Changed(log, "eval_start", "", ""), "eval_start");
  ExpectBroken(Changed(log, "eval_stop", "", ""), "eval_stop");
  EXPECT_THAT(MlperfComplaints("no log", MlperfRuleset::k400), testing::Contains("parser: no lines"));
}

// A value, a field of the metadata or a moment of one line changed.
TEST(MlperfRulesTest, EachRuleOfALineIsLookedAt) {
  struct Break {
    std::string key;
    std::string from;
    std::string to;
  };
  for (const Break& b : std::vector<Break>{
           {"submission_org", "nobody", ""},
           {"submission_platform", "\"value\": \"[^,]*\"", "\"value\": \"\""},
           {"submission_status", "research", "somewhere"},
           {"submission_benchmark", "resnet", "resnett"},
           {"run_stop", "status", "state"},
           {"epoch_start", "epoch_num", "epoch"},
           {"epoch_stop", "epoch_num", "epoch"},
           {"eval_start", "epoch_num", "epoch"},
           {"eval_stop", "epoch_num", "epoch"},
           {"eval_accuracy", "epoch_num", "epoch"},
           {"eval_accuracy", "\"value\": 0.7[0-9]*", "\"value\": 0.70"},
           {"train_samples", "1281167", "\"\""},
           {"eval_samples", "50000", "\"\""},
           {"gradient_accumulation_steps", "\"value\": 1", "\"value\": 0"},
           {"global_batch_size", "8192", "0"},
           {"lars_opt_end_learning_rate", "0.0001", "0.0002"},
           {"lars_opt_learning_rate_decay_poly_power", "2.0", "1.0"},
           {"lars_epsilon", "\"value\": 0.0", "\"value\": 1e-9"},
           {"lars_opt_weight_decay", "0.0002", "0.0003"},
           {"init_stop", "\"time_ms\": 1796", "\"time_ms\": 1797"},
           {"parser", "", ""},
       }) {
    std::string log = ClosedResNetLog();
    log = b.key == "parser" ? log + ":::MLLOG {\"key\": \"cut\n" : Changed(log, b.key, b.from, b.to);
    EXPECT_THAT(MlperfComplaints(log, MlperfRuleset::k400), testing::Contains(testing::StartsWith(b.key + ": ")))
        << b.key << " " << b.from;
  }
  for (const Break& b : std::vector<Break>{{"opt_name", "adam", "sgd"},
                                           {"opt_weight_decay", "\"value\": 0.0", "\"value\": 0.0005"},
                                           {"opt_base_learning_rate", "0.0001", "-0.0001"},
                                           {"eval_accuracy", "\"value\": 0.3[0-9]*", "\"value\": 0.3"}}) {
    ExpectBroken(Changed(ClosedSsdLog(), b.key, b.from, b.to), b.key, MlperfRuleset::k410);
  }
  EXPECT_THAT(
      MlperfComplaints(Changed(ClosedResNetLog(), "submission_division", "closed", "shut"), MlperfRuleset::k400),
      testing::Contains(testing::StartsWith("submission_division: ")));
}

TEST(MlperfRulesTest, TheOrderOfStartUpAndRunIsLookedAt) {
  const std::string log = ClosedResNetLog();
  const auto moved_to_front = [&](const std::string& key) {
    std::string line;
    for (const std::string& text : Split(log, '\n')) {
      if (text.find(StrCat("\"key\": \"", key, "\"")) != std::string::npos && line.empty()) line = text + "\n";
    }
    std::string rest = log;
    return line + rest.erase(rest.find(line), line.size());
  };
  for (const char* key : {"init_stop", "run_start", "run_stop"}) {
    EXPECT_THAT(MlperfComplaints(moved_to_front(key), MlperfRuleset::k400),
                testing::Contains(testing::StartsWith(StrCat(key, ": comes before"))))
        << key;
  }
  EXPECT_THAT(MlperfComplaints(Doubled(log, "init_start"), MlperfRuleset::k400),
              ElementsAre("init_start: comes behind init_stop or run_start"));
}

}  // namespace
}  // namespace moka
