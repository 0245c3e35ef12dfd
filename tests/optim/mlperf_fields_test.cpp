// The solver's `mlperf`: words that MLPerf does not have, and solvers that its closed division does not take, are
// refused at their place with the key that differs.
#include "optim/run/mlperf_fields.h"

#include "optim_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr const char* kWords = "mlperf { benchmark: \"resnet\" submission_org: \"o\" platform: \"p\" }\n";

// A text's fields after others: later ones win.
std::string ErrorWith(const std::string& text, const std::string& more) {
  SolverParameter solver = SolverFromText(text, "s.prototxt");
  const SolverParameter last = SolverFromText(more, "s.prototxt");
  solver.MergeFrom(last);
  try {
    CheckMlperf(solver);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.what();
    return error.what();
  }
  return {};
}

std::string Tested() { return StrCat("test_iter: 5 test_interval: 10 max_iter: 100 base_lr: 0.1 ", kWords); }

std::string ClosedLars() {
  return "test_iter: 5 test_interval: 10 max_iter: 100 type: \"LARS\" base_lr: 17 lr_policy: \"poly\" power: 2 min_lr: "
         "0.0001 weight_decay: 0.0002 momentum: 0.9 target_metric: \"accuracy\" target_value: 0.759 mlperf { "
         "benchmark: "
         "\"resnet\" submission_org: \"o\" platform: \"p\" division: \"closed\" }";
}

std::string ClosedSsd() {
  return "test_iter: 5 test_interval: 10 max_iter: 100 type: \"Adam\" base_lr: 0.0001 lr_policy: \"fixed\" "
         "target_metric: \"map\" target_value: 0.34 mlperf { benchmark: \"ssd\" submission_org: \"o\" platform: \"p\" "
         "division: \"closed\" }";
}

TEST(MlperfFieldsTest, WrongWordsAreRefusedAtTheirPlace) {
  EXPECT_EQ(ErrorWith("base_lr: 0.1", ""), "");
  EXPECT_EQ(ErrorWith(Tested(), ""), "");
  const auto place = [](const std::string& words) {
    return ErrorWith(
        "test_iter: 5 test_interval: 10 max_iter: 100\nmlperf { submission_org: \"o\" platform: \"p\"\n" + words + " }",
        "");
  };
  EXPECT_THAT(place("benchmark: \"resnt\""), HasSubstr("s.prototxt:3:1: mlperf.benchmark \"resnt\""));
  EXPECT_THAT(place("benchmark: \"resnt\""), HasSubstr("did you mean \"resnet\"?"));
  EXPECT_THAT(place("benchmark: \"ssd\" status: \"on-prem\""), HasSubstr("did you mean \"onprem\"?"));
  EXPECT_THAT(place("benchmark: \"ssd\" division: \"half\""), HasSubstr("known are closed, open"));
  EXPECT_THAT(place(""), HasSubstr("mlperf.benchmark is not given"));
  EXPECT_THAT(ErrorWith("test_iter: 5 test_interval: 10\nmlperf { benchmark: \"ssd\" platform: \"p\" }", ""),
              HasSubstr("s.prototxt:2:1: mlperf.submission_org is not given"));
  EXPECT_THAT(ErrorWith("test_iter: 5 test_interval: 10\nmlperf { benchmark: \"ssd\" submission_org: \"o\" }", ""),
              HasSubstr("mlperf.platform is not given"));
}

TEST(MlperfFieldsTest, ATrainingWithoutTestsOrOfTurnsHasNoLog) {
  EXPECT_THAT(ErrorWith(StrCat("max_iter: 100 ", kWords), ""), HasSubstr("this training has no test"));
  EXPECT_THAT(ErrorWith(Tested(), "max_iter: 5 test_initialization: false"), HasSubstr("this training has no test"));
  EXPECT_EQ(ErrorWith(Tested(), "max_iter: 5"), "");
  EXPECT_THAT(ErrorWith(Tested(), "turn { name: \"a\" }"), HasSubstr("this training has turns"));
}

TEST(MlperfFieldsTest, TheClosedDivisionNamesTheKeyThatDiffers) {
  EXPECT_EQ(ErrorWith(ClosedLars(), ""), "");
  EXPECT_EQ(ErrorWith(ClosedLars(), "type: \"SGD\" power: 1"), "");
  EXPECT_EQ(ErrorWith(ClosedSsd(), ""), "");
  struct Wrong {
    std::string solver;
    std::string more;
    std::string key;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {ClosedLars(), "target_value: 0.75", "eval_accuracy"},
           {ClosedLars(), "mlperf { metric: \"loss\" }", "eval_accuracy"},
           {ClosedLars(), "type: \"Adam\"", "opt_name"},
           {ClosedLars(), "type: \"SGD\" larc: true", "opt_name"},
           {ClosedLars(), "lr_policy: \"step\"", "lars_opt_learning_rate_decay_poly_power"},
           {ClosedLars(), "power: 1", "lars_opt_learning_rate_decay_poly_power"},
           {ClosedLars(), "min_lr: 0", "lars_opt_end_learning_rate"},
           {ClosedLars(), "weight_decay: 0.0003", "lars_opt_weight_decay"},
           {ClosedLars(), "weight_decay: 0", "lars_opt_weight_decay"},
           {ClosedLars(), "type: \"SGD\" base_lr: 0.1005", "sgd_opt_base_learning_rate"},
           {ClosedLars(), "type: \"SGD\" min_lr: 0.001", "sgd_opt_end_learning_rate"},
           {ClosedSsd(), "type: \"SGD\"", "opt_name"},
           {ClosedSsd(), "weight_decay: 0.0005", "opt_weight_decay"},
           {ClosedSsd(), "target_value: 0.3", "eval_accuracy"},
       }) {
    EXPECT_THAT(ErrorWith(wrong.solver, wrong.more), HasSubstr(StrCat(": ", wrong.key, " must be "))) << wrong.more;
    const std::string open = "mlperf { division: \"open\" }";
    EXPECT_EQ(ErrorWith(wrong.solver, wrong.more + " " + (wrong.more.starts_with("mlperf") ? "" : open)).empty(),
              !wrong.more.starts_with("mlperf"))
        << wrong.more;
  }
}

}  // namespace
}  // namespace moka
