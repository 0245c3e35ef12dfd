// Where a run computes as a person sees it: kernels it keeps over a resume and times again, threads and their cores.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "core/device/device.h"
#include "core/threads/cpu_list.h"
#include "core/threads/cpus.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

constexpr const char* kTested = "resize_short: 32 crop_size: 32";

// Every time of a file of times replaced by its inverse: the slowest kernel is then the fastest. "inf" stays.
std::string Inverted(const std::string& text) {
  std::string inverted;
  for (const std::string& line : Split(text, '\n')) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const double ms = std::strtod(line.c_str(), nullptr);
    inverted += StrCat(std::isinf(ms) ? ms : 1 / ms, line.substr(tab), "\n");
  }
  return inverted;
}

// "kernels" and counts of --dry-run.
std::string KernelLines(const std::string& dry_run) {
  std::string lines;
  for (const std::string& line : Split(dry_run, '\n')) {
    if (line.find(" x ") != std::string::npos) lines += line + "\n";
  }
  return lines;
}

TEST_F(CliTest, AResumedRunChoosesTheKernelsOfTheRunWhateverBecameOfTheCache) {
  Run();
  const std::string cache = "XDG_CACHE_HOME=\"$PWD/cache\"";
  const std::string at_a_rate =
      Solver() + " lr_policy=fixed snapshot=4 --kernels=fastest";  // LeNet's own hangs on max_iter
  const std::string start = at_a_rate + " max_iter=8";
  ASSERT_EQ(Moka(start + " --run whole", cache).code, 0);
  const std::string chosen = KernelLines(Moka(start + " --dry-run", cache).out);
  ASSERT_FALSE(chosen.empty());
  const Outcome cut = Moka(at_a_rate + " max_iter=4 --run again", cache);
  ASSERT_EQ(cut.code, 0) << cut.err;
  const std::string kept = ReadFile(folder_ / "runs/again-0001/config/kernels.tsv");
  EXPECT_TRUE(kept.starts_with("# moka kernels 1 fastest crc32c ")) << kept;
  const std::vector<fs::path> files = ListFiles(folder_ / "cache/moka", ".tsv");
  ASSERT_EQ(files.size(), 1U);
  WriteFileAtomically(files[0], Inverted(ReadFile(files[0])));
  EXPECT_NE(KernelLines(Moka(start + " --dry-run", cache).out), chosen) << "another choice would be seen";
  for (const std::string& resumed_cache : {cache, std::string("XDG_CACHE_HOME=\"$PWD/lost\"")}) {
    const Outcome looked = Moka("train --resume=runs/again-0001 max_iter=8 --dry-run", resumed_cache);
    EXPECT_EQ(KernelLines(looked.out), chosen) << resumed_cache << looked.err;
  }
  const Outcome resumed = Moka("train --resume=runs/again-0001 max_iter=8", cache);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("warning"), std::string::npos) << resumed.err;
  EXPECT_EQ(ReadFile(folder_ / "runs/again-0001/config/kernels.tsv"), kept);
  EXPECT_EQ(ReadFile(folder_ / "runs/again-0001/checkpoints/iter_0000008.safetensors"),
            ReadFile(folder_ / "runs/whole-0001/checkpoints/iter_0000008.safetensors"));
}

TEST_F(CliTest, AnotherChoiceOfKernelsOnResumeIsSaid) {
  Run();
  const std::string cache = "XDG_CACHE_HOME=\"$PWD/cache2\"";
  const auto warning = [&](const std::string& flags) {
    const std::string err = Moka("train --resume=runs/said-0001 max_iter=8 --dry-run " + flags, cache).err;
    const size_t at = err.find("warning");
    return at == std::string::npos ? std::string() : err.substr(at, err.find('\n', at) - at);
  };
  ASSERT_EQ(Moka(Solver() + " max_iter=4 snapshot=4 --run said --kernels listed", cache).code, 0);
  EXPECT_EQ(warning(""), "");
  EXPECT_EQ(warning("--kernels=listed"), "");
  EXPECT_FALSE(fs::exists(folder_ / "cache2/moka")) << "what the run lists is not timed";
  EXPECT_NE(warning("--kernels=fastest").find("chooses other kernels than the run did"), std::string::npos);
  fs::remove(folder_ / "runs/said-0001/config/kernels.tsv");
  EXPECT_NE(warning("").find("did not keep its kernels"), std::string::npos);
}

TEST_F(CliTest, AResumedRunLeavesOutWhatTheRunLeftOut) {
  Run();
  const std::string flags = " --disable-kernel=matmul/onednn,convolution/onednn --disable-pass=fuse";
  const std::string start = Solver() + " max_iter=4 snapshot=4 --run less --kernels listed";
  const std::string chosen = KernelLines(Moka(start + flags + " --dry-run").out);
  ASSERT_NE(KernelLines(Moka(start + " --dry-run").out), chosen) << "what is left out would be seen";
  const Outcome cut = Moka(start + flags);
  ASSERT_EQ(cut.code, 0) << cut.err;
  const fs::path file = folder_ / "runs/less-0001/config/kernels.tsv";
  const std::string kept = ReadFile(file);
  EXPECT_NE(kept.find("\n# disable-kernel convolution/onednn,matmul/onednn\n# disable-pass fuse\n"), std::string::npos)
      << kept;
  const auto resumed = [&](const std::string& more) {
    return Moka("train --resume=runs/less-0001 max_iter=8 --dry-run" + more);
  };
  EXPECT_EQ(KernelLines(resumed("").out), chosen);
  EXPECT_EQ(resumed("").err.find("was started with"), std::string::npos);
  EXPECT_EQ(resumed(flags).err.find("was started with"), std::string::npos);
  const Outcome other = resumed(" --disable-kernel=matmul/onednn");
  EXPECT_NE(
      other.err.find(
          "--disable-kernel=matmul/onednn is not what the run was started with (convolution/onednn,matmul/onednn)"),
      std::string::npos)
      << other.err;
  EXPECT_NE(KernelLines(other.out), chosen);
  EXPECT_NE(resumed(" --prefer-kernel=matmul/onednn").err.find("was started with (none)"), std::string::npos);
  ASSERT_EQ(Moka("train --resume=runs/less-0001 max_iter=8").code, 0);
  EXPECT_EQ(ReadFile(file), kept) << "and it goes on keeping them";
  std::string damaged = kept;
  damaged.replace(damaged.find("fuse"), 4, "fuze");
  WriteFileAtomically(file, damaged);
  EXPECT_NE(resumed("").err.find("its checksum does not fit"), std::string::npos);
}

// Where the records end within a batch, its values are in a smaller program: 7 records in a batch of 25 have the ranges
// of one of 7, and in one of 4 and one of 3 those within a bin of the histogram, which grows with what it meets.
TEST_F(CliTest, RangesAreThoseOfAllRecordsWhateverTheBatch) {
  ASSERT_EQ(Moka("data import glyphs:7:3 data/seven").code, 0);
  const auto ranges_of = [](int batch, int batches) {
    const Outcome outcome =
        Moka(StrCat("quantise ", Run(), " --batches ", batches, " --iterations 1 --out seven.json ",
                    "'layer[0].data_param.source=data/seven' 'layer[0].data_param.batch_size=", batch, "'"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(ReadFile(folder_ / "seven.json")).at("convolutions");
  };
  const Json whole = ranges_of(7, 1);
  EXPECT_FALSE(whole.empty());
  EXPECT_EQ(ranges_of(25, 1), whole);
  const Json parts = ranges_of(4, 2);
  for (const auto& [layer, ranges] : whole.items()) {
    for (const char* side : {"input", "output"}) {
      for (size_t end : {0, 1}) {
        const double wanted = ranges.at(side).at(end);
        EXPECT_NEAR(double{parts.at(layer).at(side).at(end)}, wanted, 0.01 * std::abs(wanted)) << layer << " " << side;
      }
    }
  }
}

TEST_F(CliTest, QuantiseLooksInsideWithoutMeasuringAndTraces) {
  const std::string quantise = StrCat("quantise ", Run(), " --batches 1 --iterations 1 --out ranges.json ");
  const Outcome dry = Moka(quantise + "--dry-run");
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("program calibrate\n"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("program float32\n"), std::string::npos) << dry.out;
  const Outcome explained = Moka(quantise + "--explain=ip1");
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("ip1"), std::string::npos) << explained.out;
  EXPECT_FALSE(fs::exists(folder_ / "ranges.json")) << "nothing was measured";
  const Outcome refused = Moka(quantise + "--int8 ranges.json");
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.err.find("--int8 has no use here"), std::string::npos) << refused.err;
  const Outcome traced = Moka(quantise + "--trace quantise.json");
  ASSERT_EQ(traced.code, 0) << traced.err;
  EXPECT_GE(Json::parse(ReadFile(folder_ / "quantise.json")).at("traceEvents").size(), 4U);
  EXPECT_TRUE(fs::exists(folder_ / "ranges.json"));
}

// The digits are smaller than the training's crops, which enlarge what they cut.
TEST_F(CliTest, QuantiseMeasuresTheTrainingsPicturesAsTestsSeeThem) {
  (void)Run();
  const auto write = [&](const std::string& name, const std::string& trained) {
    std::string net = "name: 'crops'\n";
    for (const auto& [phase, transform] : {std::pair{"TRAIN", trained}, std::pair{"TEST", std::string(kTested)}}) {
      net += StrCat("layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: ", phase,
                    " } data_param { source: 'data/", phase == std::string("TRAIN") ? "train" : "test",
                    "' batch_size: 8 backend: LMDB } transform_param { ", transform, " } }\n");
    }
    net +=
        "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { num_output: 4 "
        "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip' inner_product_param { num_output: 10 "
        "weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
    WriteFileAtomically(folder_ / (name + ".prototxt"), net);
  };
  write("crops", "rand_resized_crop {} crop_size: 32");
  write("plain", kTested);
  WriteFileAtomically(folder_ / "crops_solver.prototxt",
                      "net: 'crops.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 random_seed: 1");
  ASSERT_EQ(Moka("train crops_solver.prototxt --run crops").code, 0);
  for (const std::string name : {"crops", "plain"}) {
    const Outcome measured = Moka(StrCat("quantise ", name, ".prototxt --weights runs/crops-0001/checkpoints/",
                                         "iter_0000001.safetensors --batches 2 --iterations 1 --out ", name, ".json"));
    ASSERT_EQ(measured.code, 0) << measured.err;
  }
  EXPECT_EQ(ReadFile(folder_ / "crops.json"), ReadFile(folder_ / "plain.json"));
}

TEST_F(CliTest, KernelsAreTimedAgainWhenAsked) {
  const std::string lenet = StrCat("time '", MOKA_SOURCE_DIR, "/models/lenet' --iterations 1 --warmup 0 ");
  const std::string cache = "XDG_CACHE_HOME=\"$PWD/cache3\"";
  ASSERT_EQ(Moka(lenet, cache).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "cache3/moka")) << "a rule chooses unless asked otherwise";
  ASSERT_EQ(Moka(lenet + "--kernels fastest", cache).code, 0);
  const fs::path file = ListFiles(folder_ / "cache3/moka", ".tsv").at(0);
  const std::string first = ReadFile(file);
  ASSERT_EQ(Moka(lenet + "--kernels fastest", cache).code, 0);
  // The file begins as before: on a busy machine, times of an idle moment are added behind.
  EXPECT_TRUE(ReadFile(file).starts_with(first));
  ASSERT_EQ(Moka(lenet + "--kernels renew", cache).code, 0);
  const std::string renewed = ReadFile(file);
  EXPECT_TRUE(renewed.starts_with(first));
  EXPECT_NE(renewed.find("\n-\t"), std::string::npos);
}

// Built with CUDA or without, with a GPU or none: what there is, or why there is nothing, is said once.
TEST_F(CliTest, DeviceSaysWhatThereIsOfCuda) {
  const Outcome outcome = Moka("device");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const Json json = Json::parse(Moka("device --json").out);
  const std::string runtime = CudaRuntime();
  EXPECT_EQ(json.at("cuda"), runtime.empty() ? Json() : Json(runtime));
  EXPECT_EQ(json.at("gpus").empty(), !json.at("no_gpu").is_null());
  std::vector<std::string> lines;
  for (const std::string& line : Split(outcome.out, '\n')) {
    if (line.starts_with("CUDA") || line.starts_with("GPU")) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 1 + json.at("gpus").size());
  if (runtime.empty()) {
    EXPECT_EQ(lines[0], "CUDA     not built in");
  } else if (json.at("gpus").empty()) {
    EXPECT_THAT(lines[0], testing::StartsWith("CUDA     " + runtime));
    EXPECT_THAT(lines[0], testing::EndsWith("; no NVIDIA GPU: " + json.at("no_gpu").get<std::string>()));
  } else {
    EXPECT_EQ(lines[0], StrCat("CUDA     ", runtime, ", driver ", json.at("cuda_driver").get<std::string>()));
    EXPECT_THAT(lines[1], testing::HasSubstr(json.at("gpus")[0].at("name").get<std::string>()));
  }
  EXPECT_THAT(Moka("version").out, testing::HasSubstr("\ncuda " + (runtime.empty() ? "not built in" : runtime) + "\n"));
}

TEST_F(CliTest, TheTeamIsPinnedWhenAsked) {
  const auto device = [&](const std::string& flags, const std::string& variables = "") {
    const Outcome outcome = Moka("device --json " + flags, "env -u OMP_NUM_THREADS " + variables);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  };
  const Json free = device("");
  EXPECT_EQ(free.at("is_pinned"), false);
  const std::string allowed = free.at("allowed_cpus");
  const int threads = free.at("threads");
  EXPECT_EQ(free.at("team_cpus"), Json(std::vector<std::string>(static_cast<size_t>(threads), allowed)));
  const Json cores = device("--pin cores");
  EXPECT_EQ(cores.at("is_pinned"), true);
  EXPECT_EQ(cores.at("threads"), threads);
  EXPECT_EQ(cores.at("allowed_cpus"), allowed) << "the process may run where it might";
  std::set<int> used;
  for (const std::string cpu : cores.at("team_cpus")) EXPECT_TRUE(used.insert(std::stoi(cpu)).second) << cpu;
  EXPECT_EQ(used.size(), static_cast<size_t>(threads));
  const std::string last = Split(Split(allowed, ',').back(), '-').back();
  EXPECT_EQ(device("--pin " + last).at("team_cpus"), Json({last}));
  EXPECT_EQ(device("--threads 1 --pin none").at("is_pinned"), false);
  EXPECT_EQ(device("--pin cores", "OMP_NUM_THREADS=1").at("threads"), 1);
  // A thread that the user bound is left so, and seen.
  EXPECT_EQ(device("--threads 1", "OMP_PLACES='{" + last + "}' OMP_PROC_BIND=true").at("team_cpus"), Json({last}));
  const Outcome both = Moka("device --pin cores", "OMP_PROC_BIND=true");
  EXPECT_EQ(both.code, 64);
  EXPECT_NE(both.err.find("--pin and the environment both say where threads run"), std::string::npos) << both.err;
  EXPECT_TRUE(both.out.empty());
}

TEST_F(CliTest, ThreadsSpinShortlyUnlessTheUserSaysOtherwise) {
  const auto wait = [&](const std::string& variables, const std::string& flags = "") {
    const Outcome outcome =
        Moka("device --json " + flags, "env -u OMP_NUM_THREADS -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + variables);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out).at("wait").get<std::string>();
  };
  const std::string bounded = "spins 200 us, then sleeps";
  EXPECT_EQ(wait("", "--threads 2"), bounded);
  EXPECT_EQ(wait("", "--threads 2 --pin cores"), bounded) << "one restart does both";
  EXPECT_EQ(wait("OMP_WAIT_POLICY=passive", "--threads 2"), "waits as the environment says");
  EXPECT_EQ(wait("GOMP_SPINCOUNT=7", "--threads 2"), "waits as the environment says");
  EXPECT_EQ(wait("", "--threads 1"), "waits as the OpenMP runtime does by default") << "one thread waits for none";
  // The marker of another process is not taken for this one's.
  EXPECT_EQ(wait("MOKA_RESTARTED_BY='1 0 500'", "--threads 2"), bounded);
}

TEST_F(CliTest, RanksOfABoxShareItsCores) {
  std::set<int> used;
  int cpus = 0;
  for (const std::string rank : {"0", "1"}) {
    const Outcome outcome =
        Moka("device --json --pin cores", "env -u OMP_NUM_THREADS LOCAL_WORLD_SIZE=2 LOCAL_RANK=" + rank);
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json.at("local_ranks"), 2);
    cpus = static_cast<int>(ParseCpuList(json.at("allowed_cpus").get<std::string>())->size());
    if (cpus == 1) GTEST_SKIP() << "there is only one CPU";
    for (const std::string cpu : json.at("team_cpus")) EXPECT_TRUE(used.insert(std::stoi(cpu)).second) << cpu;
  }
  EXPECT_GE(used.size(), 2U);
  EXPECT_LE(used.size(), static_cast<size_t>(cpus));
}

TEST_F(CliTest, APinnedTrainingGivesTheSameWeights) {
  Run();
  const std::string flags = " max_iter=4 snapshot=4 --threads 2 --kernels listed --run pinned";
  for (const char* pin : {"", " --pin cores"}) {
    const Outcome trained = Moka(Solver() + flags + pin);
    ASSERT_EQ(trained.code, 0) << trained.err;
    const bool is_pinned = trained.err.find("2 threads pinned to CPUs ") != std::string::npos;
    EXPECT_EQ(is_pinned, std::string(pin) != "") << trained.err;
  }
  EXPECT_EQ(ReadFile(folder_ / "runs/pinned-0001/checkpoints/iter_0000004.safetensors"),
            ReadFile(folder_ / "runs/pinned-0002/checkpoints/iter_0000004.safetensors"));
}

// The chosen precision is the run's: what goes on from it, or tests it, does not choose again.
TEST_F(CliTest, PrecisionAutoIsChosenOnceAndSaid) {
  Run();
  const Outcome trained = Moka(Solver() + " max_iter=2 --run auto --precision auto --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, testing::ContainsRegex("precision auto: (bfloat16|float32) \\("));
  const std::string solver = ReadFile(folder_ / "runs/auto-0001/config/solver.prototxt");
  EXPECT_THAT(solver, testing::ContainsRegex("precision: \"(bfloat16|float32)\""));
  const Outcome resumed = Moka("train --resume=runs/auto-0001 max_iter=3 --device cpu");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::Not(testing::HasSubstr("precision auto")));
  for (const char* words : {"time runs/auto-0001 --iterations 1", "bench model runs/auto-0001 --infer --iterations 1",
                            "test runs/auto-0001 --iterations 1"}) {
    const Outcome chosen = Moka(StrCat(words, " --precision auto --device cpu"));
    EXPECT_EQ(chosen.code, 0) << chosen.err;
    EXPECT_THAT(chosen.err, testing::HasSubstr("precision auto: ")) << words;
  }
  const Outcome refused = Moka("quantise runs/auto-0001 --precision auto");
  EXPECT_EQ(refused.code, 64) << refused.err;
}

TEST_F(CliTest, EmulatedPrecisionIsSaidWithItsPrice) {
  Run();
  const Outcome trained = Moka(Solver() + " max_iter=1 --run half --precision float16 --device cpu");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err,
              testing::ContainsRegex("half precision is emulated here: .*[0-9]+ steps convert to float32 and "
                                     "back \\(.*convolution.*\\); expect 0\\.[0-9] times the speed"));
  EXPECT_EQ(trained.err.find("is emulated"), trained.err.rfind("is emulated")) << "once: " << trained.err;
}

}  // namespace
}  // namespace moka
