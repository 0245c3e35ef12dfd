// The words that the command line says and understands: completion, hints, which run is meant, progress.
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
  // A verb that reads a net alone is offered its layers and no field of a solver.
  const std::string shown = StrCat("model show ", MOKA_SOURCE_DIR, "/models/lenet ");
  EXPECT_EQ(completed(shown + "layer[ip"), "layer[ip1].\nlayer[ip2].\n");
  EXPECT_EQ(completed(shown + "base_"), "");
  EXPECT_EQ(completed("data inspect db layer"), "");
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

TEST_F(CliTest, HelpOfAVerbIsItsHelp) {
  for (const std::string verb : {"train", "data", "data import"}) {
    const std::string text = Moka(verb + " --help").out;
    EXPECT_TRUE(text.starts_with(StrCat("moka ", verb, ": "))) << text;
    for (const char* help : {"help ", "-h ", "--help "}) EXPECT_EQ(Moka(help + verb).out, text) << help << verb;
  }
  for (const auto& [line, hint] : {std::pair("help trian", "train"),
                                   {"help --nope", "no verb \"--nope\""},
                                   {"-h nope", "no verb \"nope\""},
                                   {"help data imprt", "import"},
                                   {"help train x", "moka train has no subverbs, found \"x\""}}) {
    const Outcome outcome = Moka(line);
    EXPECT_EQ(outcome.code, 64) << line;
    EXPECT_EQ(outcome.out, "") << line;
    EXPECT_NE(outcome.err.find(hint), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(Moka("completion --line='help data im'").out, "import\n");
}

TEST_F(CliTest, WordsWithoutUseAreToldBeforeTheAnswer) {
  for (const char* line : {"version foo", "--version foo", "version a=b", "device foo", "explain layer ReLU foo",
                           "explain layer ReLU a=b", "completion bash foo"}) {
    const Outcome outcome = Moka(line);
    EXPECT_EQ(outcome.code, 64) << line;
    EXPECT_EQ(outcome.out, "") << line;
  }
}

// Such as a script's --resume=$RUN where RUN is not set.
TEST_F(CliTest, AnEmptyRunIsNoRun) {
  for (const char* flag : {"--resume=", "--resume ''", "-resume="}) {
    const Outcome outcome = Moka(StrCat("train ", flag));
    EXPECT_EQ(outcome.code, 64) << flag;
    EXPECT_NE(outcome.err.find("--resume= has no value"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("write --resume=RUN, or --resume alone"), std::string::npos) << outcome.err;
  }
}

TEST_F(CliTest, RanksThatWorkAloneAreTold) {
  const std::string told = "a launcher started this as rank 1 of 2, and moka version works alone";
  EXPECT_NE(Moka("version", "WORLD_SIZE=2 RANK=1").err.find(told), std::string::npos);
  EXPECT_NE(Moka("version", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1").err.find(told), std::string::npos);
  EXPECT_NE(Moka("version", "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 WORLD_SIZE=2 RANK=1").err.find(told),
            std::string::npos)
      << "torchrun in a step of one task";
  EXPECT_NE(Moka("version", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1").err.find("has worked alone"),
            std::string::npos);
  for (const char* variables : {"WORLD_SIZE=2", "RANK=1", "WORLD_SIZE=1 RANK=0", "WORLD_SIZE=two RANK=1"})
    EXPECT_EQ(Moka("version", variables).err, "") << variables;
}

TEST_F(CliTest, ThreadsOfTheEnvironmentAreANumberInRange) {
  for (const std::string value : {"5000", "99999999999999", "4294967297", "4097,1"}) {
    const Outcome outcome = Moka("device", "OMP_NUM_THREADS=" + value);
    EXPECT_EQ(outcome.code, 64) << value;
    EXPECT_NE(outcome.err.find(StrCat("OMP_NUM_THREADS is \"", value, "\", expected from 1 to 4096 threads")),
              std::string::npos)
        << outcome.err;
  }
  for (const std::string value : {"0", "abc", "", "-3", "2,x"}) {
    const Outcome outcome = Moka("device --json", StrCat("OMP_NUM_THREADS='", value, "'"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string told =
        StrCat("OMP_NUM_THREADS is \"", value,
               "\", which is no number of threads: ", Json::parse(outcome.out).at("threads").get<int>(), " thread");
    EXPECT_NE(outcome.err.find(told), std::string::npos) << outcome.err;
    EXPECT_EQ(Moka("device --threads 1", StrCat("OMP_NUM_THREADS='", value, "'")).err.find("which is no"),
              std::string::npos);
  }
  EXPECT_EQ(Json::parse(Moka("device --json", "OMP_NUM_THREADS=' 3 ,2'").out).at("threads"), 3);
}

TEST_F(CliTest, ARunKeepsThreadsThatTheEnvironmentGave) {
  (void)Run();  // for its data
  for (const auto& [value, is_kept] : {std::pair("1", true), {"abc", false}, {"", false}, {"0", false}}) {
    const std::string runs = StrCat("threads", is_kept ? "_kept" : "", value);
    const Outcome outcome =
        Moka(StrCat(SolverWithoutTests(), " max_iter=1 --runs ", runs), StrCat("OMP_NUM_THREADS='", value, "'"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string solver = ReadFile(folder_ / runs / "lenet-0001" / "config" / "solver.prototxt");
    EXPECT_EQ(solver.find("threads: 1\n") != std::string::npos, is_kept) << value << "\n" << solver;
    EXPECT_EQ(solver.find("threads:") != std::string::npos, is_kept) << value << "\n" << solver;
  }
}

TEST_F(CliTest, WordsOfOtherToolsHaveHints) {
  const std::string lenet = StrCat("train '", MOKA_SOURCE_DIR, "/models/lenet' ");
  for (const auto& [line, hint] :
       std::vector<std::pair<std::string, std::string>>{{"predict", "moka infer"},
                                                        {"export", "moka export --help"},
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

TEST_F(CliTest, TrainingEndsBeforeItsJob) {
  const auto train = [](const std::string& end, const std::string& more) {
    return Moka(SolverWithoutTests() + " --runs job " + more, "SLURM_JOB_END_TIME=" + end);
  };
  const Outcome ended = train("$(($(date +%s) + 5))", "max_iter=100000");
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_NE(ended.err.find("the job ends in 0:0"), std::string::npos) << ended.err;
  EXPECT_TRUE(fs::exists(folder_ / "job" / "lenet-0001" / "checkpoints" / "last")) << ended.err;
  for (const char* longer : {"--max-time 10h", "max_time=10h"}) {
    const Outcome cut = train("$(($(date +%s) + 5))", StrCat("max_iter=100000 ", longer));
    EXPECT_EQ(cut.code, 75) << cut.err;
    EXPECT_NE(cut.err.find("the job ends in 0:0"), std::string::npos) << cut.err;
  }
  for (const char* shorter : {"--max-time 2s", "max_time=2s"}) {
    const Outcome chosen = train("$(($(date +%s) + 3600))", StrCat("max_iter=100000 ", shorter));
    EXPECT_EQ(chosen.code, 75) << chosen.err;
    EXPECT_EQ(chosen.err.find("SLURM_JOB_END_TIME"), std::string::npos) << chosen.err;
  }
  for (const auto& [end, told] : {std::pair("5", "\"5\", which is past: it limits nothing"),
                                  {"soon", "\"soon\", expected seconds since 1970: it limits nothing"}}) {
    const Outcome outcome = train(end, "max_iter=2");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(told), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace moka
