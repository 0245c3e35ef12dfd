// Something other than a regular file, wherever a user or a folder names one, is refused by what it is, at once, and
// nothing is read or written somewhere else.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "core/error.h"
#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/data/measured_run.h"

namespace moka {
namespace {

// One input of the program: a command in which @ is the path, and a file that the command reads and @ stands in.
struct Input {
  std::string command;
  std::string file = {};    // in.prototxt, or the list in.txt
  std::string ending = {};  // of the path's name
};

std::string NetOf(const std::string& data) {
  return StrCat(
      "layer { name: 'data' type: ", data, " }\n",
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }");
}

const std::vector<Input>& Inputs() {
  const std::string test = "test --model in.prototxt --weights w.safetensors";
  const std::string infer = "infer --model deploy.prototxt --weights w.safetensors";
  static const std::vector<Input> inputs = {
      {"model show @"},
      {"model check @"},
      {"model draw @ o.dot"},
      {"time @"},
      {"train @"},
      {"train in.prototxt", "net: '@' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1"},
      {"train in.prototxt",
       "train_net: 'deploy.prototxt' test_net: '@' test_iter: 1 test_interval: 1 base_lr: 0.1 "
       "lr_policy: 'fixed' max_iter: 1"},
      {"train solver.prototxt --weights @"},
      {"train solver.prototxt --snapshot @"},
      {"train solver.prototxt weights=@"},
      {"test --model @ --weights w.safetensors"},
      {"infer --model deploy.prototxt --weights @ p.png"},
      {infer + " @", {}, ".png"},
      {infer + " @", {}, ".avi"},
      {infer + " p.png --labels @"},
      {infer + " p.png --mean @", {}, ".binaryproto"},
      {infer + " p.png --int8 @"},
      {"model convert @ o.safetensors"},
      {"import @ --net torch --out o.safetensors"},
      {"import w.safetensors --net @ --out o.safetensors"},
      {"model convert w.safetensors o.caffemodel --model @"},
      {"compare deploy.prototxt @"},
      {"compare @ b.npz"},
      {"quantise --model @ --weights w.safetensors"},
      {"simulate @ --topology t"},
      {"simulate @ --topology t", {}, ".tsv"},
      {"simulate deploy.prototxt --step-ms 3 --topology @"},
      {"simulate deploy.prototxt --topology t --times @"},
      {"trace @"},
      {"launch -n 2 --hostfile @ -- train solver.prototxt"},
      {"data vocabulary @ o.txt"},
      {"upgrade_net_proto_text @ o.prototxt"},
      {"upgrade_solver_proto_text @ o.prototxt"},
      {"data table @ o --target y"},
      {"data inspect @"},
      {"data verify @"},
      {"data mean @ o.binaryproto"},
      {"data shuffle @ o"},
      {"data split @ --parts a=1"},
      {"data export @ o"},
      {"data preview @"},
      {"data import list:@,. o"},
      {"data import csv:@ o"},
      {"data import coco:@,. o"},
      {"data import boxes:@,in.txt o", "item { name: 'a' label: 1 }"},
      {"data import boxes:pairs.txt,@ o"},
      {"data import idx:@,@ o"},
      {"data import cifar10:@ o"},
      {"data import tar:@ o", {}, ".tar"},
      {"data import shards:@ o", {}, ".tar"},
      {"data import lmdb:@ o"},
      {"data import leveldb:@ o"},
      {"data import list:in.txt o", "@ 1\n"},
      {"data import voc:.,s,@ o"},
      {"data import masks:@,. o", {}, ".tar"},
      {test, NetOf("'Data' top: 'x' data_param { source: '@' backend: LMDB batch_size: 1 }")},
      {test, NetOf("'ImageData' top: 'x' top: 'y' image_data_param { source: '@' batch_size: 1 }")},
      {test, NetOf("'ImageData' top: 'x' top: 'y' image_data_param { source: 'p.txt' batch_size: 1 } "
                   "transform_param { mean_file: '@' }")},
      {test, NetOf("'HDF5Data' top: 'x' hdf5_data_param { source: '@' batch_size: 1 }")},
      {test, NetOf("'WindowData' top: 'x' top: 'y' window_data_param { source: '@' batch_size: 1 crop_size: 2 }")},
      {"train in.prototxt",
       "net_param { layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 1 dim: 2 } } } "
       "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' loss_weight: 1 inner_product_param { "
       "num_output: 2 weight_filler { type: 'file' file: '@' } } } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1"},
  };
  return inputs;
}

class HostileFiles : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    Write("deploy.prototxt",
          "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }\n"
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }\n"
          "layer { name: 'p' type: 'Softmax' bottom: 'ip' top: 'p' }");
    Write("train.prototxt",
          "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 2 dim: 4 } shape { "
          "dim: 2 } data_filler { type: 'uniform' } data_filler { type: 'constant' } } }\n"
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 "
          "weight_filler { type: 'xavier' } } }\n"
          "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }");
    Write("solver.prototxt",
          "net: 'train.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 snapshot: 2 display: 1");
    fs::create_directories(folder_ / "ImageSets" / "Main");
    Write("ImageSets/Main/s.txt", "p\n");
    fs::create_directories(folder_ / "torch");
    fs::copy(folder_ / "deploy.prototxt", folder_ / "torch/train_val.prototxt", fs::copy_options::overwrite_existing);
    Write("torch/names.torch.tsv", "@module\tm\nfc.weight\tip/0\nfc.bias\tip/1\n");
    Write("pairs.txt", "p.png p.xml\n");
    Write("p.txt", "p.png 0\n");
    Write("p", "p 1\n");
    NamedBlob weight{.layer = "ip", .index = 0, .shape = Shape({2, 4}), .values = std::vector<float>(8)};
    NamedBlob bias{.layer = "ip", .index = 1, .shape = Shape({2}), .values = std::vector<float>(2)};
    WriteSafetensors(folder_ / "w.safetensors", std::vector<NamedBlob>{weight, bias}, {});
  }

  static void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  static MeasuredRun Measured(const std::string& command, const std::string& path = "@") {
    return RunMeasured(WordsOf(command, "@", path), folder_);
  }

  static void ExpectRefused(const MeasuredRun& run, const std::string& what) {
    ExpectWithinLimits(run, what);
    EXPECT_EQ(run.signal, 0) << what;
    EXPECT_GT(run.code, 0) << what << "\n" << run.said;
    EXPECT_NE(run.code, static_cast<int>(ErrorKind::kInternal)) << what << "\n" << run.said;
  }
};

void MakeSocket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(static_cast<char*>(address.sun_path), name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(fd);
}

TEST_F(HostileFiles, EveryInputThatIsNoFileIsRefusedAtOnce) {
  using Make = std::function<void(const fs::path&)>;
  struct Kind {
    std::string name;
    std::string word;  // that the message has
    Make make;
  };
  const std::vector<Kind> kinds = {
      {"FIFO", "FIFO", [](const fs::path& path) { mkfifo(path.c_str(), 0600); }},
      {"folder", "", [](const fs::path& path) { fs::create_directory(path); }},
      {"device", "device", [](const fs::path& path) { fs::create_symlink("/dev/zero", path); }},
      {"dangling link", "", [](const fs::path& path) { fs::create_symlink("absent", path); }},
      {"socket", "socket", MakeSocket},
      {"link to itself", "", [](const fs::path& path) { fs::create_symlink(path.filename(), path); }},
      {"file of the kernel", "the kernel", [](const fs::path& path) { fs::create_symlink("/proc/self/stat", path); }},
  };
  for (size_t i = 0; i < Inputs().size(); ++i) {
    const Input& input = Inputs()[i];
    const std::string name = "hostile" + input.ending;
    if (!input.file.empty()) {
      Write(input.command.find("in.txt") != std::string::npos ? "in.txt" : "in.prototxt",
            Join(WordsOf(input.file, "@", name), " ") + "\n");
    }
    // FIFOs and folders for each, and of those that are alike to the system one.
    for (const Kind& kind : {kinds[0], kinds[1], kinds[2 + i % 3 * 2], kinds[3 + i % 2 * 2]}) {
      const std::string what = StrCat(kind.name, ": ", input.command, " ", input.file);
      kind.make(folder_ / name);
      const MeasuredRun run = Measured(input.command, name);
      ExpectRefused(run, what);
      EXPECT_NE(run.said.find(name), std::string::npos) << what << "\n" << run.said;
      const bool is_folder_wanted = run.said.find("Not a directory") != std::string::npos ||
                                    run.said.find("neither a folder nor") != std::string::npos;
      EXPECT_TRUE(is_folder_wanted || run.said.find(kind.word) != std::string::npos) << what << "\n" << run.said;
      fs::remove(folder_ / name);
      fs::remove_all(folder_ / "o");
    }
  }
}

// A stopped run, of which a copy is resumed after one of its files became something else.
class HostileRuns : public HostileFiles {
 protected:
  static void SetUpTestSuite() {
    HostileFiles::SetUpTestSuite();
    const Outcome trained = Moka("train solver.prototxt --run whole max_iter=2");
    ASSERT_EQ(trained.code, 0) << trained.err;
    Write("victim", "mine\n");
  }
  static fs::path Whole() { return folder_ / "runs" / "whole-0001"; }
  static MeasuredRun ResumedWith(const fs::path& inside, const std::function<void(const fs::path&)>& make) {
    const fs::path copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(Whole(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove_all(copy / inside);
    make(copy / inside);
    return Measured("train --resume=copy max_iter=4");
  }
};

TEST_F(HostileRuns, AWholeRunGoesOn) {
  fs::remove_all(folder_ / "copy");
  fs::copy(Whole(), folder_ / "copy", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  EXPECT_EQ(Measured("train --resume=copy max_iter=4").code, 0);
}

TEST_F(HostileRuns, NothingInARunThatIsNoFileIsOpened) {
  std::vector<fs::path> inside = {"ranks", "outputs", "stray"};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(Whole())) {
    inside.push_back(entry.path().lexically_relative(Whole()));
  }
  ASSERT_GT(inside.size(), 12U);
  for (const fs::path& path : inside) {
    const MeasuredRun fifo = ResumedWith(path, [](const fs::path& at) { mkfifo(at.c_str(), 0600); });
    ExpectRefused(fifo, StrCat("FIFO ", path.string()));
    const bool is_folder_wanted =
        fifo.said.find("Not a directory") != std::string::npos || fifo.said.find("no folder") != std::string::npos;
    EXPECT_TRUE(is_folder_wanted || fifo.said.find("FIFO") != std::string::npos) << path << "\n" << fifo.said;
    const MeasuredRun link = ResumedWith(path, [](const fs::path& at) { fs::create_symlink(folder_ / "victim", at); });
    ExpectRefused(link, StrCat("link ", path.string()));
  }
  EXPECT_EQ(ReadFile(folder_ / "victim"), "mine\n");
}

// A run's files are as little to be trusted: the newest checkpoint, its identity, its metrics.
TEST_F(HostileRuns, FilesThatLieTakeNoMemory) {
  const std::string deep(2 << 20, '[');
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(Whole())) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path().lexically_relative(Whole()));
  }
  for (const fs::path& path : files) {
    for (const bool is_sparse : {false, true}) {
      const MeasuredRun run = ResumedWith(path, [&](const fs::path& at) {
        std::ofstream(at) << (is_sparse ? "{" : deep);
        if (is_sparse) fs::resize_file(at, uintmax_t{3} << 30U);
      });
      const std::string what = StrCat(is_sparse ? "holes in " : "a deep ", path.string());
      EXPECT_EQ(run.signal, 0) << what;
      EXPECT_NE(run.code, static_cast<int>(ErrorKind::kInternal)) << what << "\n" << run.said;
      ExpectWithinLimits(run, what);
    }
  }
}

TEST_F(HostileRuns, FilesOfAnotherUserAreNotWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes files of another user";
  constexpr uid_t kOther = 12345;
  // Root of a user namespace has no other users where no more than its own is mapped.
  Write("trial", "");
  if (chown((folder_ / "trial").c_str(), kOther, kOther) != 0) {
    GTEST_SKIP() << "files cannot be given to user " << kOther << " here";
  }
  for (const char* path : {"log.txt", "lock", "metrics.jsonl", "checkpoints", "config/solver.prototxt"}) {
    const MeasuredRun run = ResumedWith(
        "stray", [&](const fs::path& at) { ASSERT_EQ(chown((at.parent_path() / path).c_str(), kOther, kOther), 0); });
    ExpectRefused(run, path);
    EXPECT_EQ(run.code, static_cast<int>(ErrorKind::kNotAllowed)) << path << "\n" << run.said;
    EXPECT_NE(run.said.find(StrCat(path, " belongs to another user")), std::string::npos) << run.said;
  }
}

TEST_F(HostileRuns, LinksOfRunsStayWhereTheyAre) {
  fs::remove_all(folder_ / "elsewhere");
  fs::create_directories(folder_ / "elsewhere");
  fs::copy(Whole(), folder_ / "elsewhere" / "run", fs::copy_options::recursive);
  fs::remove(folder_ / "runs" / "latest");
  fs::create_symlink(folder_ / "elsewhere" / "run", folder_ / "runs" / "latest");
  for (const char* command : {"infer runs/latest p.png", "train --resume=latest max_iter=4", "test latest"}) {
    const MeasuredRun run = Measured(command);
    ExpectRefused(run, command);
    EXPECT_NE(run.said.find("outside of its folder"), std::string::npos) << command << "\n" << run.said;
  }
}

TEST_F(HostileRuns, TheCacheOfKernelsIsPassedOverWhereItIsNoFile) {
  const fs::path cache = folder_ / "cache";
  Write(
      "in.prototxt",
      "net_param { layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 8 dim: 9 dim: 9 "
      "} } } layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' loss_weight: 1 convolution_param { "
      "num_output: 8 kernel_size: 3 } } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1");
  const std::string run = "train in.prototxt --run cached --kernels fastest";
  const std::string before = StrCat("XDG_CACHE_HOME='", cache.string(), "'");
  ASSERT_EQ(Moka(run, before).code, 0);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(cache)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  ASSERT_FALSE(files.empty());
  const std::vector<std::function<void(const fs::path&)>> kinds = {
      [](const fs::path& at) { mkfifo(at.c_str(), 0600); },
      [](const fs::path& at) { fs::create_symlink(folder_ / "victim", at); },
      [](const fs::path& at) { fs::create_symlink("/dev/zero", at); },
  };
  for (const auto& make : kinds) {
    for (const fs::path& file : files) {
      fs::remove(file);
      make(file);
    }
    const Outcome timed = Moka(run, before);
    EXPECT_EQ(timed.code, 0) << timed.err;
    EXPECT_NE(timed.err.find("times of kernels"), std::string::npos) << timed.err;
  }
  EXPECT_EQ(ReadFile(folder_ / "victim"), "mine\n");
}

TEST_F(HostileFiles, FilesOfNetsStayBelowTheirFolder) {
  const std::string net = ReadFile(folder_ / "train.prototxt") +
                          "\nlayer { name: 'o' type: 'HDF5Output' bottom: 'ip' bottom: 'y' include { phase: TEST } "
                          "hdf5_output_param { file_name: '@' } }";
  const std::string test = "test --model net.prototxt --weights w.safetensors --iterations 1";
  const std::string far = (folder_.parent_path() / StrCat(folder_.filename().string(), "_far.h5")).string();
  const auto with = [&](const std::string& name) { Write("net.prototxt", Join(WordsOf(net, "@", name), " ")); };
  with("near.h5");
  EXPECT_EQ(Measured(test).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "near.h5"));
  fs::create_symlink(folder_.parent_path(), folder_ / "way");
  for (const std::string& name :
       {far, StrCat("../", fs::path(far).filename().string()), StrCat("way/", fs::path(far).filename().string())}) {
    with(name);
    const MeasuredRun run = Measured(test);
    EXPECT_EQ(run.code, static_cast<int>(ErrorKind::kConfig)) << name << "\n" << run.said;
    EXPECT_NE(run.said.find("net.prototxt:4:"), std::string::npos) << run.said;
    EXPECT_FALSE(fs::exists(far)) << name;
    EXPECT_EQ(Measured(StrCat(test, " --allow-outputs ..")).code, 0) << name;
    EXPECT_TRUE(fs::remove(far)) << name;
  }
  EXPECT_EQ(Measured(StrCat(test, " layer[o].hdf5_output_param.file_name=", far)).code, 0);
  EXPECT_TRUE(fs::remove(far));
  with("tested.h5");
  Write("in.prototxt", "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 test_iter: 1 test_interval: 2");
  EXPECT_EQ(Measured("train in.prototxt --run tested").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "runs" / "tested-0001" / "outputs" / "tested.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "tested.h5"));
  Write("in.prototxt", StrCat("net: 'train.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 snapshot_prefix: '",
                              (folder_ / "elsewhere" / "far").string(), "'"));
  const MeasuredRun run = Measured("train in.prototxt --run far");
  EXPECT_EQ(run.code, 0) << "whoever starts a solver means its prefix: " << run.said;
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere" / "far_iter_2.caffemodel"));
}

// A file with a picture's name in a folder is read or refused, never passed over: the number would be another set's.
TEST_F(HostileFiles, FoldersOfPicturesAreReadOrRefused) {
  const fs::path set = folder_ / "set";
  fs::create_directories(folder_ / "more");
  fs::create_directories(set / "inside");
  const std::string picture = "P5 2 2 255\n";
  for (const char* name : {"set/a.pgm", "set/b.pgm", "set/inside/c.pgm", "more/d.pgm"}) {
    Write(name, picture + std::string(4, name[4]));
  }
  const std::string frechet = "frechet --model deploy.prototxt --weights w.safetensors set set";
  const std::string infer = "infer --model deploy.prototxt --weights w.safetensors set";
  EXPECT_EQ(Measured(frechet).code, 0);
  const std::vector<std::function<void(const fs::path&)>> kinds = {
      [](const fs::path& at) { mkfifo(at.c_str(), 0600); },
      [](const fs::path& at) { fs::create_symlink("absent", at); },
      [](const fs::path& at) { fs::create_symlink("/dev/zero", at); },
      [](const fs::path& at) { fs::create_symlink(at.filename(), at); },
      MakeSocket,
  };
  for (const auto& make : kinds) {
    make(set / "x.pgm");
    for (const std::string& command : {frechet, infer}) {
      const MeasuredRun run = Measured(command);
      ExpectRefused(run, command);
      EXPECT_NE(run.said.find("x.pgm"), std::string::npos) << run.said;
    }
    fs::remove(set / "x.pgm");
  }
  fs::create_symlink(folder_ / "more", set / "link");
  fs::create_symlink(set, set / "inside" / "loop");
  fs::create_symlink("absent", set / "nowhere");
  const MeasuredRun linked = Measured(frechet);
  EXPECT_EQ(linked.code, 0) << linked.said;
  EXPECT_NE(linked.said.find("4 and 4 pictures"), std::string::npos) << linked.said;
  EXPECT_NE(linked.said.find("left out, links to folders of the set itself: 1"), std::string::npos) << linked.said;
  EXPECT_NE(linked.said.find("left out, links that lead nowhere: 1"), std::string::npos) << linked.said;
  EXPECT_EQ(linked.said.find("filesystem error"), std::string::npos) << linked.said;
}

TEST_F(HostileFiles, NamesOfClassesThatSayNoneAreRefused) {
  Write("p.pgm", "P5 2 2 255\nabcd");
  const std::string infer = "infer --model deploy.prototxt --weights w.safetensors p.pgm --labels names.txt";
  const auto with = [&](const std::string& names) {
    Write("names.txt", names);
    return Measured(infer);
  };
  for (const auto& [names, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "no names"}, {"\n\n", "no names"}, {"a\n\nb\n", "names.txt:2:1"}, {"1 b\n0 a\n", "names.txt:1:1"}}) {
    const MeasuredRun run = with(names);
    EXPECT_EQ(run.code, static_cast<int>(ErrorKind::kBadData)) << names << run.said;
    EXPECT_NE(run.said.find(what), std::string::npos) << names << run.said;
  }
  const MeasuredRun twice = with("cat\ncat\n");
  EXPECT_EQ(twice.code, 0);
  EXPECT_NE(twice.said.find("names.txt:2:1: \"cat\" is also the name in line 1"), std::string::npos) << twice.said;
  EXPECT_EQ(with("5 cents\n1 cent\n").code, 0);
}

TEST_F(HostileFiles, PicturesAreResizedWithinBounds) {
  Write("p.pgm", "P5 2 2 255\nabcd");
  const std::string infer = "infer --model deploy.prototxt --weights w.safetensors p.pgm";
  for (const char* flag : {"--resize 60000x60000", "--resize 16384x16384", "--resize-short 60000"}) {
    const MeasuredRun run = Measured(StrCat(infer, " ", flag));
    ExpectRefused(run, flag);
    EXPECT_EQ(run.code, static_cast<int>(ErrorKind::kUsage)) << flag << run.said;
    EXPECT_EQ(Measured(StrCat("frechet --model deploy.prototxt --weights w.safetensors ", flag, " . .")).code,
              static_cast<int>(ErrorKind::kUsage))
        << flag;
  }
  EXPECT_EQ(Measured(infer + " --resize 64x64").code, 0);
  for (const char* size : {"resize_height: 60000 resize_width: 60000", "resize_short: 60000"}) {
    Write("model.prototxt", StrCat("input { ", size, " }"));
    const MeasuredRun run = Measured(infer);
    ExpectRefused(run, size);
    EXPECT_EQ(run.code, static_cast<int>(ErrorKind::kConfig)) << size << run.said;
  }
  fs::remove(folder_ / "model.prototxt");
}

TEST_F(HostileFiles, OutputsReplaceNoDevice) {
  Write("in.prototxt", ReadFile(folder_ / "deploy.prototxt"));
  for (const char* to : {"/dev/null", "/dev/stdout", "/dev/full", "/proc/self/mem"}) {
    const MeasuredRun run = Measured(StrCat("model expand in.prototxt ", to));
    ExpectRefused(run, to);
    EXPECT_NE(run.said.find(to), std::string::npos) << run.said;
  }
  struct stat status {};
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

}  // namespace
}  // namespace moka
