// Writes dot with one node a layer; blobs are the edges.
#include "tools/nets/net_drawing.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "tools/nets/training_nets.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::string Quoted(const std::string& text) {
  std::string s = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + "\"";
}

// Lines of text as one label. Each line is quoted by itself: a backslash of a name is no line break.
std::string Label(const std::vector<std::string>& lines) {
  std::string s = "\"";
  for (const std::string& line : lines) {
    const std::string quoted = Quoted(line);
    s += (s.size() > 1 ? "\\n" : "") + quoted.substr(1, quoted.size() - 2);
  }
  return s + "\"";
}

const char* ColorOf(const LayerTraits& traits) {
  switch (traits.is_loss || traits.is_accuracy ? DrawnAs::kScores : traits.drawn_as) {
    case DrawnAs::kWeights: return "#f4b183";
    case DrawnAs::kPooling: return "#a9d18e";
    case DrawnAs::kScaling: return "#ffe699";
    case DrawnAs::kScores: return "#ff9999";
    case DrawnAs::kData: return "#9dc3e6";
    case DrawnAs::kPlain: break;
  }
  return "#e7e6e6";
}

// "3", or "3x5" where the two sides differ; the text of the field of both, unless _h and _w are given.
std::string Extent(const std::string& both, uint32_t height, uint32_t width) {
  if (height == 0 && width == 0) return both;
  return height == width ? fmt::format("{}", height) : fmt::format("{}x{}", height, width);
}

std::string Joined(const google::protobuf::RepeatedField<uint32_t>& values, uint32_t absent) {
  if (values.empty()) return fmt::format("{}", absent);
  if (std::all_of(values.begin(), values.end(), [&](uint32_t v) { return v == values[0]; })) {
    return fmt::format("{}", values[0]);
  }
  return fmt::format("{}", fmt::join(values, "x"));
}

template <typename Fields>
std::string WindowText(const Fields& p) {
  const std::string kernel = Extent(Joined(p.kernel_size(), 1), p.kernel_h(), p.kernel_w());
  const std::string stride = Extent(Joined(p.stride(), 1), p.stride_h(), p.stride_w());
  const std::string pad = Extent(Joined(p.pad(), 0), p.pad_h(), p.pad_w());
  return StrCat(kernel, stride == "1" ? "" : StrCat(" stride ", stride), pad == "0" ? "" : StrCat(" pad ", pad));
}

// Returns what a reader of the picture wants to know of a layer besides its name and type; empty: nothing.
std::string Details(const LayerParameter& layer) {
  const LayerTraits& traits = TraitsOf(layer);
  if (traits.is_product) return fmt::format("{}", layer.inner_product_param().num_output());
  if (traits.drawn_as == DrawnAs::kWeights) {
    const ConvolutionParameter& p = layer.convolution_param();
    return StrCat(p.num_output(), ", ", WindowText(p));
  }
  if (traits.drawn_as == DrawnAs::kPooling) {
    const PoolingParameter& p = layer.pooling_param();
    const std::string method = PoolingParameter_PoolMethod_Name(p.pool());
    if (p.global_pooling()) return StrCat(method, ", global");
    return StrCat(method, ", ", WindowText(p));
  }
  return {};
}

std::string NodeLabel(const LayerParameter& layer, bool show_lr_mult) {
  std::vector<std::string> lines = {layer.name(), layer.type()};
  if (const std::string details = Details(layer); !details.empty()) lines.push_back(details);
  if (show_lr_mult && TraitsOf(layer).drawn_as == DrawnAs::kWeights) {
    const auto rate = [&](int i) { return layer.param_size() > i ? layer.param(i).lr_mult() : 1.0F; };
    lines.push_back(fmt::format("lr_mult {:g}, {:g}", rate(0), rate(1)));
  }
  return Label(lines);
}

// Graphviz's dot, started directly: no shell reads the names. Whether it succeeded.
bool RunDot(const std::string& format, const fs::path& from, const fs::path& to) {
  std::vector<std::string> words = {"dot", "-T" + format, "-o", fs::absolute(to).string(), fs::absolute(from).string()};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  posix_spawnattr_t attributes;
  sigset_t defaults = StreamSignals();
  if (posix_spawnattr_init(&attributes) != 0) return false;
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int failure = posix_spawnp(&child, "dot", nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Adds a node a layer, of names that begin with the prefix, and the edges between them.
void AddNet(const DrawnNet& drawn, const DrawingOptions& options, const std::string& prefix, std::string& dot) {
  // Who writes a blob: the last layer in place, else one layer, or one of each phase where all phases are drawn.
  std::map<std::string, std::vector<int>> producers;
  for (int i = 0; i < drawn.net.layer_size(); ++i) {
    const LayerParameter& layer = drawn.net.layer(i);
    dot += StrCat("  ", prefix, i, " [label=", NodeLabel(layer, options.show_lr_mult), ", fillcolor=\"",
                  ColorOf(TraitsOf(layer)), "\"];\n");
    for (const std::string& bottom : layer.bottom()) {
      const auto shape = drawn.shapes.find(bottom);
      const std::string text = shape == drawn.shapes.end() ? bottom : StrCat(bottom, " ", shape->second);
      for (const int producer : producers[bottom]) {
        dot += StrCat("  ", prefix, producer, " -> ", prefix, i, " [label=", Quoted(text), "];\n");
      }
    }
    for (const std::string& top : layer.top()) {
      std::vector<int>& of_top = producers[top];
      const bool continues = std::find(layer.bottom().begin(), layer.bottom().end(), top) != layer.bottom().end();
      if (continues) of_top.clear();
      of_top.push_back(i);
    }
  }
}

}  // namespace

std::string NetsToDot(const std::vector<DrawnNet>& nets, const DrawingOptions& options) {
  const std::string& name = nets.at(0).net.name();
  std::string dot = StrCat("digraph ", Quoted(name.empty() ? "net" : name), " {\n  rankdir=", options.direction,
                           ";\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];\n"
                           "  edge [fontname=\"sans-serif\", fontsize=9];\n");
  if (nets.size() == 1) {
    AddNet(nets[0], options, "l", dot);
    return dot + "}\n";
  }
  for (size_t i = 0; i < nets.size(); ++i) {
    dot += StrCat("  subgraph cluster_", i, " {\n  label=", Quoted(NameWithStages(nets[i].net)),
                  ";\n  fontname=\"sans-serif\";\n");
    AddNet(nets[i], options, StrCat("n", i, "_l"), dot);
    dot += "  }\n";
  }
  return dot + "}\n";
}

void WriteDrawing(const std::string& dot, const fs::path& out) {
  static constexpr std::array<std::string_view, 5> kEndings = {".dot", ".gv", ".svg", ".png", ".pdf"};
  const std::string ending = out.extension().string();
  if (std::find(kEndings.begin(), kEndings.end(), ending) == kEndings.end()) {
    throw Error(ErrorKind::kUsage, StrCat("the picture's name ends in .svg, .png, .pdf, .dot or .gv, found \"",
                                          Printable(out.string()), "\""));
  }
  if (ending == ".dot" || ending == ".gv") {
    WriteFileAtomically(out, dot);
    return;
  }
  const fs::path source = fs::path(out).concat(".dot");
  const fs::path unfinished = fs::path(out).concat(".part");
  WriteFileAtomically(source, dot);
  if (!RunDot(ending.substr(1), source, unfinished)) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("dot could not draw ", Printable(source.string()), ", which is kept"),
                "install the package graphviz");
  }
  fs::rename(unfinished, out);
  fs::remove(source);
}

}  // namespace moka
