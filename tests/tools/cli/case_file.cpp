// Parses a case's head and files and makes the inputs that it describes (images, tensors, databases) in a folder of its
// own.
#include "tests/tools/cli/case_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/text.h"
#include "core/types.h"
#include "data/image/image.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/weights.h"
#include "tests/sanitized.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kAddressSpaceBytes = kIsSanitized ? RLIM_INFINITY : rlim_t{1} << 30U;
constexpr rlim_t kCpuSeconds = kIsSanitized ? 100 : 10;
constexpr auto kWallLimit = std::chrono::seconds(120);  // of a machine that is busy with other work

std::string BytesOfHex(const std::string& text) {
  std::string bytes;
  std::string digits;
  for (const std::string& line : Split(text, '\n')) {
    for (const char c : line.substr(0, line.find('#'))) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
      digits += c;
      if (digits.size() < 2) continue;
      bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
      digits.clear();
    }
  }
  return bytes;
}

// A line of a head: "# key: value" with a key of one word, or more of the title.
void TakeHeadLine(const std::string& line, CaseText& text) {
  const size_t colon = line.find(": ");
  const bool has_key = colon != std::string::npos && line.find(' ', 2) > colon;
  if (has_key) {
    text.head.push_back({line.substr(2, colon - 2), line.substr(colon + 2)});
  } else if (text.head.empty()) {
    text.title += (text.title.empty() ? "" : " ") + line.substr(2);
  }
}

// "1,2.5": the values, and the last again and again until there are `count`.
std::vector<float> Values(const std::string& text, int64_t count) {
  std::vector<float> values;
  for (const std::string& value : Split(text, ',')) values.push_back(std::stof(value));
  values.resize(static_cast<size_t>(count), values.back());
  return values;
}

struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// "NAME:3x64=V,V": a tensor; without values all are 0.01.
NamedTensor TensorOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  const size_t equals = text.find('=', colon == std::string::npos ? 0 : colon);
  NamedTensor tensor;
  tensor.name = colon == std::string::npos ? "" : text.substr(0, colon);
  const size_t first = colon == std::string::npos ? 0 : colon + 1;
  std::vector<int64_t> dims;
  for (const std::string& dim : Split(text.substr(first, equals - first), 'x')) dims.push_back(std::stoll(dim));
  tensor.shape = Shape(dims);
  tensor.values = Values(equals == std::string::npos ? "0.01" : text.substr(equals + 1), tensor.shape.Count());
  return tensor;
}

void MakeWeights(const fs::path& path, const std::vector<std::string>& words) {
  std::vector<NamedBlob> blobs;
  for (size_t i = 2; i < words.size(); ++i) {
    NamedTensor tensor = TensorOf(words[i]);
    const size_t slash = tensor.name.rfind('/');
    blobs.push_back({tensor.name.substr(0, slash), std::stoi(tensor.name.substr(slash + 1)), tensor.shape,
                     std::move(tensor.values)});
  }
  if (path.extension() == ".caffemodel") return WriteCaffemodel(path, {}, blobs);
  if (path.extension() == ".h5") return WriteHdf5Weights(path, {}, blobs);
  WriteSafetensors(path, blobs, {});
}

void MakeHdf5(const fs::path& path, const std::vector<std::string>& words) {
  Hdf5Writer writer(path);
  for (size_t i = 2; i < words.size(); ++i) {
    const NamedTensor tensor = TensorOf(words[i]);
    writer.AddFloats(tensor.name, tensor.shape, tensor.values);
  }
  writer.Commit();
}

void MakePicture(const fs::path& path, const std::vector<std::string>& words) {
  std::vector<int64_t> sides;
  for (const std::string& side : Split(words.at(2), 'x')) sides.push_back(std::stoll(side));
  Image image;
  image.Resize(sides.at(0), sides.at(1), sides.size() > 2 ? sides[2] : 3);
  const std::vector<std::string> values = Split(words.size() > 3 ? words[3] : "0,50,200", ',');
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(std::stoi(values[i % values.size()]));
  }
  std::ofstream(path, std::ios::binary) << (path.extension() == ".jpg" ? EncodeJpeg(image) : EncodePng(image));
}

void Put(const fs::path& path, const std::vector<std::string>& words) {
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(std::stoll(words.at(2)));
  stream << BytesOfHex(words.at(3));
  ASSERT_TRUE(stream.good());
}

// In the child of fork: only async-signal-safe calls.
[[noreturn]] void BecomeMoka(const fs::path& folder, int out, int err, std::vector<char*>& argv) {
  const rlimit space{kAddressSpaceBytes, kAddressSpaceBytes};
  const rlimit cpu{kCpuSeconds, kCpuSeconds};
  const rlimit core{0, 0};
  const bool ready = setrlimit(RLIMIT_AS, &space) == 0 && setrlimit(RLIMIT_CPU, &cpu) == 0 &&
                     setrlimit(RLIMIT_CORE, &core) == 0 && chdir(folder.c_str()) == 0 &&
                     dup2(err, STDERR_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0;
  if (ready) execv(argv[0], argv.data());
  _exit(126);
}

// A number at the start of the line that is near the wanted one: its length, else 0.
size_t NearNumber(std::string_view wanted, std::string_view line) {
  double expected = 0;
  double found = 0;
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), expected);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), found);
  if (error != std::errc()) return 0;
  const bool is_near = std::abs(found - expected) <= std::max(1e-6, 1e-4 * std::abs(expected));
  return is_near ? static_cast<size_t>(end - line.data()) : 0;
}

}  // namespace

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_quoted = false;
  bool has_word = false;
  for (const char c : text) {
    if (c == '\'') is_quoted = !is_quoted;
    if (c == ' ' && !is_quoted) {
      if (has_word) words.push_back(std::move(word));
      word.clear();
      has_word = false;
    } else {
      has_word = true;
      if (c != '\'') word += c;
    }
  }
  if (has_word) words.push_back(std::move(word));
  return words;
}

std::string BytesOf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

CaseText ReadCaseText(const fs::path& path) {
  CaseText read;
  const std::string text = BytesOf(path);
  const bool is_single = path.extension() == ".prototxt";
  if (is_single) read.files.push_back({path.filename().string(), text});
  bool in_head = true;
  std::string form;
  const auto finish = [&] {
    if (form == "hex") read.files.back().bytes = BytesOfHex(read.files.back().bytes);
  };
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    in_head = in_head && line.starts_with("# ");
    if (in_head) {
      TakeHeadLine(line, read);
    } else if (!is_single && line.starts_with("--- ")) {
      finish();
      const std::vector<std::string> words = Words(line);
      form = words.size() > 2 ? words[2] : "";
      read.files.push_back({words.at(1), {}});
    } else if (!is_single) {
      read.files.back().bytes += line + (form == "crlf" ? "\r\n" : "\n");
    }
  }
  finish();
  return read;
}

void PlaceCaseFiles(const fs::path& folder, const std::vector<CaseFile>& files) {
  for (const CaseFile& file : files) {
    fs::create_directories((folder / file.name).parent_path());
    std::ofstream(folder / file.name, std::ios::binary) << file.bytes;
  }
}

void MakeFile(const fs::path& folder, const std::vector<std::string>& words) {
  const fs::path path = folder / words.at(1);
  const std::string& kind = words.at(0);
  fs::create_directories(path.parent_path());
  if (kind == "folder") {
    fs::create_directories(path);
  } else if (kind == "weights") {
    MakeWeights(path, words);
  } else if (kind == "mean") {
    const NamedTensor tensor = TensorOf(words.at(2));
    WriteBlobProtoFile(path, tensor.shape, tensor.values);
  } else if (kind == "hdf5") {
    MakeHdf5(path, words);
  } else if (kind == "picture") {
    MakePicture(path, words);
  } else if (kind == "copy") {
    fs::create_directories((folder / words.at(2)).parent_path());
    fs::copy_file(fs::path(MOKA_SOURCE_DIR) / "tests" / words.at(1), folder / words.at(2));
  } else if (kind == "rename") {
    fs::rename(path, folder / words.at(2));
  } else if (kind == "cut") {
    ASSERT_GT(fs::file_size(path), std::stoull(words.at(2))) << "nothing would be cut";
    fs::resize_file(path, std::stoull(words.at(2)));
  } else if (kind == "put") {
    Put(path, words);
  } else if (kind == "repeat") {
    const std::string part = BytesOfHex(words.at(3));
    std::ofstream stream(path, std::ios::binary);
    for (int i = 0; i < std::stoi(words.at(2)); ++i) stream << part;
  } else {
    FAIL() << "unknown: make: " << kind;
  }
}

MokaOutcome RunMoka(const fs::path& folder, const std::vector<std::string>& words) {
  const fs::path out_path = folder.parent_path() / "stdout";
  const fs::path err_path = folder.parent_path() / "stderr";
  std::vector<std::string> texts = {MOKA_BINARY};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const int out = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int err = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const pid_t child = fork();
  if (child == 0) BecomeMoka(folder, out, err, argv);
  close(out);
  close(err);
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  bool is_late = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!is_late && std::chrono::steady_clock::now() - start > kWallLimit) {
      is_late = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  MokaOutcome outcome;
  outcome.out = BytesOf(out_path);
  outcome.err = BytesOf(err_path);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.end = StrCat(is_late ? "hung, " : "", "signal ", WTERMSIG(status));
  return outcome;
}

bool Fits(std::string_view pattern, std::string_view line) {
  const size_t open = std::min(pattern.find("{*}"), pattern.find("{~"));
  if (open == std::string_view::npos) return pattern == line;
  if (!line.starts_with(pattern.substr(0, open))) return false;
  const std::string_view hole = pattern.substr(open, pattern.find('}', open) - open + 1);
  const std::string_view rest = pattern.substr(open + hole.size());
  if (hole != "{*}") {
    const size_t length = NearNumber(hole.substr(2), line.substr(open));
    return length > 0 && Fits(rest, line.substr(open + length));
  }
  for (size_t i = open; i <= line.size(); ++i) {
    if (Fits(rest, line.substr(i))) return true;
  }
  return false;
}

std::vector<std::string> LinesOf(const std::string& text, const std::vector<std::string>& beginnings) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(text, '\n')) {
    const auto begins = [&](const std::string& beginning) { return line.starts_with(beginning); };
    if (std::ranges::any_of(beginnings, begins)) lines.push_back(line);
  }
  return lines;
}

std::string TestNameOf(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char ch) { return std::isalnum(ch) == 0; }, '_');
  return name;
}

}  // namespace moka
