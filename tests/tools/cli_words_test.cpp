// What the command line says and understands: completion, hints, which run is meant, progress.
#include <tuple>
#include <vector>

#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

TEST_F(CliTest, CompletionKnowsVerbsAndFlags) {
  EXPECT_EQ(Moka("completion bash").code, 0);
  const Outcome words = Moka("completion --line='data import '");
  EXPECT_NE(words.out.find("--resize="), std::string::npos);
  EXPECT_EQ(Moka("completion --line='data im'").out, "import\n");
  EXPECT_NE(Moka("completion --line=").out.find("train"), std::string::npos);
  EXPECT_EQ(Moka("completion --line=--h").out, "--help\n");
  const std::string infer = Moka("completion --line='infer '").out;
  for (const char* flag : {"--dry-run\n", "--explain=\n", "--kernels=\n", "--disable-pass=\n", "--trace=\n"}) {
    EXPECT_NE(infer.find(flag), std::string::npos) << flag;
  }
  EXPECT_EQ(infer.find("--recompute"), std::string::npos);
}

TEST_F(CliTest, CompletionKnowsRunsFieldsLayersAndValues) {
  const auto completed = [](const std::string& line) { return Moka(StrCat("completion --line=\"", line, "\"")).out; };
  const std::string run = Run() + "\n";
  EXPECT_NE(completed("test ").find(run), std::string::npos);
  EXPECT_NE(completed("train --resume=").find(StrCat("--resume=", run)), std::string::npos);
  const std::string lenet = StrCat("train ", MOKA_SOURCE_DIR, "/models/lenet ");
  EXPECT_EQ(completed(lenet + "base_"), "base_lr=\n");
  EXPECT_EQ(completed(lenet + "layer[ip"), "layer[ip1].\nlayer[ip2].\n");
  EXPECT_EQ(completed(lenet + "layer[ip1].inner_product_param.num"), "layer[ip1].inner_product_param.num_output=\n");
  EXPECT_EQ(completed(lenet + "solver_mode="), "solver_mode=CPU\nsolver_mode=GPU\n");
  EXPECT_EQ(completed(lenet + "test_initialization="), "test_initialization=true\ntest_initialization=false\n");
  EXPECT_EQ(completed("train /nowhere layer["), "");
}

// As a person types it: bash breaks words at "=", which the candidates must not repeat.
TEST_F(CliTest, BashCompletesBeyondTheFirstWord) {
  const std::string script = R"sh(
    moka() { "$MOKA" "$@"; }
    source <(moka completion bash)
    type_line() {
      COMP_LINE="$1"; COMP_POINT=${#1}; COMP_WORDS=($1)
      case "$1" in *" ") COMP_WORDS+=("") ;; esac
      COMP_WORDS[0]="$MOKA"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
      _moka; echo "${COMPREPLY[*]}"
    }
    type_line "moka tra"; type_line "moka data insp"; type_line "moka train $LENET base_l"
    type_line "moka train $LENET solver_mode=G"; type_line "moka train $LENET layer[ip2].inner_product_param.num_")sh";
  WriteFileAtomically(folder_ / "typed.sh", script);
  const Outcome outcome = RunShell(StrCat("cd '", folder_.string(), "' && MOKA='", MOKA_BINARY, "' LENET='",
                                          MOKA_SOURCE_DIR, "/models/lenet' bash typed.sh"),
                                   folder_);
  EXPECT_EQ(outcome.out, "trace train\ninspect\nbase_lr=\nGPU\nlayer[ip2].inner_product_param.num_output=\n")
      << outcome.err;
}

TEST_F(CliTest, WordsOfOtherToolsHaveHints) {
  const std::string lenet = StrCat("train '", MOKA_SOURCE_DIR, "/models/lenet' ");
  for (const auto& [line, hint] :
       std::vector<std::pair<std::string, std::string>>{{"predict", "moka infer"},
                                                        {"export", "moka model convert"},
                                                        {"val", "moka test"},
                                                        {lenet + "epochs=3", "max_epochs"},
                                                        {lenet + "lr=0.1", "base_lr"},
                                                        {lenet + "batch_size=8", "layer[NAME].data_param.batch_size=N"},
                                                        {lenet + "--epochs 3", "max_epochs"},
                                                        {lenet + "--learning-rate=3", "base_lr"},
                                                        {"infer x --source y", "moka infer RUN PICTURE"}}) {
    const Outcome outcome = Moka(line);
    EXPECT_EQ(outcome.code, 64) << line;
    EXPECT_NE(outcome.err.find("help: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(hint), std::string::npos) << outcome.err;
  }
}

TEST_F(CliTest, ResumeTakesTheRunThatSpokeLast) {
  ASSERT_EQ(Moka(Solver() + " --runs order --run zebra max_iter=3 snapshot=2 --iterations 3").code, 0);
  ASSERT_EQ(Moka(Solver() + " --runs order --run ant max_iter=3 snapshot=2").code, 0);
  for (const auto& [name, state, heartbeat] :
       {std::tuple("zebra-0001", "running", "2026-01-01T00:00:00Z"), {"ant-0001", "running", "2026-01-02T00:00:00Z"}}) {
    const fs::path file = folder_ / "order" / name / "status.json";
    Json status = Json::parse(ReadFile(file));
    status["state"] = state;
    status["heartbeat"] = heartbeat;
    WriteFileAtomically(file, status.dump());
  }
  const Outcome resumed = Moka("train --resume --runs order max_iter=4");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("order/ant-0001"), std::string::npos) << resumed.err;
  EXPECT_EQ(fs::read_symlink(folder_ / "order" / "latest"), "ant-0001");
}

TEST_F(CliTest, LatestIsNeverAFailedRun) {
  ASSERT_EQ(Moka(Solver() + " --runs fate max_iter=2").code, 0);
  const Outcome diverged = Moka(Solver() + " --runs fate max_iter=40 base_lr=1e30");
  EXPECT_EQ(diverged.code, 20) << diverged.err;
  ASSERT_TRUE(fs::is_directory(folder_ / "fate" / "lenet-0002"));
  EXPECT_EQ(fs::read_symlink(folder_ / "fate" / "latest"), "lenet-0001");
}

TEST_F(CliTest, ProgressComesInLinesAwayFromATerminal) {
  const Outcome trained = Moka(SolverWithoutTests() + " --runs lines max_iter=100000 --max-time 4s");
  EXPECT_EQ(trained.code, 75) << trained.err;
  EXPECT_NE(trained.err.find("\niter "), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("/100000  loss "), std::string::npos) << trained.err;
  EXPECT_EQ(trained.err.find('\r'), std::string::npos);
  const Outcome silent = Moka(SolverWithoutTests() + " --runs lines max_iter=100000 --max-time 3s --quiet");
  EXPECT_EQ(silent.err.find("iter "), std::string::npos) << silent.err;
}

}  // namespace
}  // namespace moka
