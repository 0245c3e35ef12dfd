// The structure held by machine: includes point down the rooms table only, headers that show a library stay in their
// room, files keep their budgets, no type shares a message's name. Sizes of functions and classes:
// structure_size_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "layers/net/layer.h"
#include "tests/tools/source_files.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::AllSources;
using testing::FilesOf;
using testing::Included;
using testing::LinesOf;
using testing::SourceFile;

const std::map<std::string, std::set<std::string>>& AllowedIncludes() {
  static const std::map<std::string, std::set<std::string>> allowed = {
      {"core", {"core"}},
      {"proto", {"proto", "core"}},
      {"graph", {"graph", "core", "proto"}},
      {"layers", {"layers", "graph", "core", "proto"}},
      {"data", {"data", "core", "proto"}},
      {"comm", {"comm", "graph", "core", "proto"}},
      {"optim", {"optim", "comm", "data", "layers", "graph", "core", "proto"}},
      {"tools", {"tools", "optim", "comm", "data", "layers", "graph", "core", "proto"}},
  };
  return allowed;
}

TEST(StructureTest, IncludesPointDownTheRoomsTable) {
  for (const SourceFile& file : AllSources()) {
    for (const std::string& line : file.lines) {
      const std::string included = Included(line);
      const std::string room = included.substr(0, included.find('/'));
      if (!AllowedIncludes().contains(room) || included.find('/') == std::string::npos) continue;
      EXPECT_TRUE(AllowedIncludes().at(file.room).contains(room)) << file.path << " includes " << included;
    }
  }
}

TEST(StructureTest, ThirdPartyHeadersStayInTheirRoom) {
  static const std::regex foreign(
      R"(^(dnnl|opencv2/|lmdb\.h|leveldb/|turbojpeg|jpeglib|gif_lib|spng|webp/|nlohmann/|libxml/|spdlog/|fmt/|CLI/|cuda|cudnn|cublas|nccl|mpi\.h|hdf5|google/protobuf/|sodium|tiffio\.h|archive(_entry)?\.h|zip\.h|fontconfig/|ft2build\.h|boost/|simdjson\.h|grpc(pp)?/))");
  static const std::regex messages(R"(^proto/moka\.pb\.h$)");
  const std::vector<SourceFile>& files = AllSources();
  std::map<std::string, std::string> tainted;  // header that shows a library -> its room
  for (const SourceFile& file : files) {
    if (!file.is_header) continue;
    for (const std::string& line : file.lines) {
      const std::string included = Included(line);
      if (std::regex_search(included, foreign)) tainted[file.path] = file.room;
      const bool low_room = file.room == "core" || file.room == "graph";
      EXPECT_FALSE(low_room && std::regex_search(included, messages)) << file.path << " includes " << included;
    }
  }
  for (const SourceFile& file : files) {
    for (const std::string& line : file.lines) {
      const auto it = tainted.find(Included(line));
      EXPECT_TRUE(it == tainted.end() || it->second == file.room) << file.path << " includes " << it->first;
    }
  }
}

// Formats of files and fonts have one reader each, and whoever wants one asks it: sources of other rooms do not include
// these libraries either.
TEST(StructureTest, LibrariesOfFormatsAreIncludedByTheirRoomsOnly) {
  static const std::map<std::string, std::set<std::string>> rooms = {
      {"tiffio.h", {"data"}},       {"archive.h", {"data"}},   {"archive_entry.h", {"data"}},
      {"zip.h", {"proto", "data"}}, {"simdjson.h", {"tools"}}, {"fontconfig/fontconfig.h", {"data"}},
      {"ft2build.h", {"data"}}};
  for (const SourceFile& file : AllSources()) {
    for (const std::string& line : file.lines) {
      const auto library = rooms.find(Included(line));
      EXPECT_TRUE(library == rooms.end() || library->second.contains(file.room))
          << file.path << " includes " << library->first;
    }
  }
}

TEST(StructureTest, FilesKeepTheirBudgets) {
  for (const SourceFile& file : AllSources()) {
    EXPECT_LE(file.lines.size(), file.is_header ? 200U : 500U) << file.path;
  }
}

// A file that is opened says first what it holds, and a comment has a subject.
TEST(StructureTest, FilesSayWhatTheyAre) {
  static const std::regex bare(R"(//\s+(Of|What|Which|Whose) )");
  const auto look = [](const std::string& path, const std::vector<std::string>& lines) {
    ASSERT_FALSE(lines.empty()) << path;
    EXPECT_TRUE(lines[0].starts_with("// ")) << path << " begins with no comment";
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(lines[i], bare))
          << path << ":" << i + 1 << ":" << lines[i] << "\nbegin the comment with its subject";
    }
  };
  for (const SourceFile& file : AllSources()) look(file.path, file.lines);
  for (const fs::path& path : FilesOf("tests")) {
    if (path.extension() == ".h" || path.extension() == ".cpp") look(path.string(), LinesOf(path));
  }
}

// A folder is a page: who looks for something reads its names.
TEST(StructureTest, FoldersKeepTheirBudget) {
  std::map<std::string, int> files;
  for (const SourceFile& file : AllSources()) ++files[fs::path(file.path).parent_path().string()];
  for (const auto& [folder, count] : files) EXPECT_LE(count, 60) << folder;
}

// From a folder or pair to others: an include that makes the arrow.
using Arrows = std::map<std::string, std::map<std::string, std::string>>;

// Whoever can be reached from a start must not reach it.
void ExpectNoCycles(const Arrows& arrows) {
  for (const auto& [start, own] : arrows) {
    std::map<std::string, std::string> ways = own;  // to all that is reached: the includes
    std::vector<std::string> next;
    for (const auto& [to, include] : own) next.push_back(to);
    while (!next.empty() && !ways.contains(start)) {
      const std::string from = next.back();
      next.pop_back();
      const auto further = arrows.find(from);
      if (further == arrows.end()) continue;
      for (const auto& [to, include] : further->second) {
        if (ways.emplace(to, ways.at(from) + "\n" + include).second) next.push_back(to);
      }
    }
    EXPECT_FALSE(ways.contains(start)) << start << " includes itself:\n" << ways[start];
  }
}

// Inside a room, too, arrows point one way: of two folders that include each other neither can be understood first.
TEST(StructureTest, FoldersDependOneWay) {
  // Two folders have to know their parts: the compiler lists its passes, and the reader of prototxt asks what a foreign
  // type is.
  static const std::set<std::pair<std::string, std::string>> excused = {{"graph", "graph/passes"},
                                                                        {"proto/text", "proto/upgrade"}};
  const fs::path root = MOKA_SOURCE_DIR;
  Arrows arrows;
  for (const SourceFile& file : AllSources()) {
    const std::string from = fs::path(file.path).parent_path().string();
    for (const std::string& line : file.lines) {
      const std::string included = Included(line);
      const std::string to = fs::path(included).parent_path().string();
      if (to.empty() || to == from || !fs::exists(root / included) || excused.contains({from, to})) continue;
      arrows[from].emplace(to, file.path + " includes " + included);
    }
  }
  ExpectNoCycles(arrows);
}

// A header and its source are one thing. Of two that include each other, over whatever way, neither can be understood,
// tested or replaced without the other.
TEST(StructureTest, NoPairOfHeaderAndSourceIncludesItself) {
  static const std::map<std::string, std::string> excused = {
      {"comm/transport/communicator -> comm/transport/rank_values", "it refuses what a rank sent in that rank's name"},
      {"core/device/device -> core/device/device_backend", "its private half: what each kind of device brings"},
      {"graph/graph -> graph/op", "a node's types are its op's to infer, and ops build graphs"},
      {"layers/net/net -> layers/net/moot_fields", "a field is moot if the net built without it is the same"},
      {"layers/net/net -> layers/net/net_context", "its private half, which layers reach through their builder"},
      {"optim/step/training_graph -> optim/step/training_passes",
       "its passes, in a file of their own for their length"}};
  Arrows arrows;
  std::set<std::string> pairs;
  for (const SourceFile& file : AllSources()) pairs.insert(fs::path(file.path).replace_extension().string());
  for (const SourceFile& file : AllSources()) {
    const std::string from = fs::path(file.path).replace_extension().string();
    for (const std::string& line : file.lines) {
      const std::string to = fs::path(Included(line)).replace_extension().string();
      if (to == from || !pairs.contains(to) || excused.contains(from + " -> " + to)) continue;
      arrows[from].emplace(to, file.path + " includes " + Included(line));
    }
  }
  ExpectNoCycles(arrows);
}

// Optimisers read as their papers: formulas are terms (graph/term.h), not pieces of text.
TEST(StructureTest, OptimizersAreWrittenInTerms) {
  static const std::regex glued(R"re(Pointwise\((Strings|StrCat|"|texts?)|"expr", (std::string|StrCat|"))re");
  for (const SourceFile& file : AllSources()) {
    if (!file.path.starts_with("optim/optimizers/")) continue;
    for (const std::string& line : file.lines)
      EXPECT_FALSE(std::regex_search(line, glued)) << file.path << ": " << line;
  }
}

// The stem of a path in CamelCase: data/import/import_csv.cpp is ImportCsv.
std::string StemInCamelCase(const std::string& path) {
  std::string name;
  bool begins_word = true;
  for (const char c : fs::path(path).stem().string()) {
    if (c != '_') name += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins_word = c == '_';
  }
  return name;
}

// A name that is a file's own need not say whose it is: constants (kImportCsvLimit) and functions (ImportCsvFieldOf).
TEST(StructureTest, AFilesOwnNamesDoNotCarryItsName) {
  static const std::set<std::string> natural = {"WireTypeOf"};  // the format's term
  for (const SourceFile& file : AllSources()) {
    if (file.is_header || file.room == "layers") continue;  // an op's reference is called after the op
    const std::string stem = StemInCamelCase(file.path);
    const std::regex own("^(?:constexpr .*\\b(k" + stem + "[A-Z]\\w*)|[a-zA-Z].*\\b(" + stem + "[A-Z]\\w*Of)\\()");
    bool is_own = false;
    for (const std::string& line : file.lines) {
      if (line == "namespace {") is_own = true;
      if (line == "}  // namespace") is_own = false;
      std::smatch found;
      if (!is_own || line.find(stem) == std::string::npos || !std::regex_search(line, found, own)) continue;
      const std::string name = found[1].matched ? found[1].str() : found[2].str();
      EXPECT_TRUE(natural.contains(name)) << file.path << ": " << name;
    }
  }
}

// A layer type's row says what is known of it (layers/net/layer_traits.h): a source that compares a type with a name is
// a second list of layers, which the next type will not be in. Named are types only where one is made (set_type), or
// where a row of another room is about it (the data room's readers, evaluators).
TEST(StructureTest, LayerTypesAreNamedByTheirRowsOnly) {
  static const std::map<std::string, std::string> excused = {
      {"proto/upgrade/", "turns the spellings of older nets into today's types, below the rows"},
      {"proto/nets/solver_file.cpp", "AssistedExcitation learns how long the training is when its solver is read"},
      {"tools/bench/", "writes nets of its own"},
      {"tools/exchange/", "names ops of ONNX, of which some are called as layers are"},
      {"tools/stranger/", "rows that a stranger would add to other rooms, and their examples"},
      {"tools/python/bindings/bindings.h", "the type of layers that Python itself makes"}};
  static const std::regex made(R"re(set_type\("\w+"\)|\.type = "\w+",|^  return \{"\w+Evaluate",)re");
  static const std::regex quoted(R"re("(\w+)")re");
  static const std::regex asked(R"(\btype\(\)\.(find|contains|starts_with|ends_with)\()");
  std::set<std::string> types;
  for (const LayerDef& def : AllLayers()) types.insert(def.type);
  ASSERT_TRUE(types.contains("Convolution"));
  for (const SourceFile& file : AllSources()) {
    const auto starts_path = [&](const auto& excuse) { return file.path.starts_with(excuse.first); };
    if (file.room == "layers" || std::ranges::any_of(excused, starts_path)) continue;
    for (const std::string& line : file.lines) {
      const std::string code = std::regex_replace(line.substr(0, line.find("//")), made, "");
      EXPECT_FALSE(std::regex_search(code, asked)) << file.path << ": " << line;
      for (auto it = std::sregex_iterator(code.begin(), code.end(), quoted); it != std::sregex_iterator(); ++it) {
        EXPECT_FALSE(types.contains((*it)[1])) << file.path << ": " << line << "\nask the layer's row: TraitsOf(layer)";
      }
    }
  }
}

// Their names promise it, and nets for deployment, precision and made-up labels go by the trait.
TEST(StructureTest, LossesSayThatTheyAre) {
  for (const LayerDef& def : AllLayers()) {
    if (def.type.find("Loss") != std::string::npos) {
      EXPECT_TRUE(def.traits.is_loss) << def.type;
    }
    EXPECT_TRUE(def.traits.is_loss || (def.traits.scores_type == nullptr && !def.traits.is_regression)) << def.type;
    EXPECT_TRUE(def.traits.scores_type == nullptr || FindLayer(def.traits.scores_type) != nullptr) << def.type;
  }
}

// Layers read as their papers, too: a formula is a term, or a text as it stands, but no text made of pieces.
TEST(StructureTest, LayersGlueNoFormulas) {
  static const std::regex piece(
      R"re("[^" ]*(\b[xt][0-9]\b|(abs|exp|log|sqrt|sign|floor|max|min|pow|l[te]|g[te]|eq|select|rand)\(|[-+*/]x)[^" ]*")re");
  size_t formulas = 0;
  for (const SourceFile& file : AllSources()) {
    const bool is_fork = file.path.starts_with("layers/forks/") && file.path.find("/layers/") != std::string::npos;
    if (!is_fork && !file.path.starts_with("layers/types/")) continue;
    std::string statement;
    for (const std::string& line : file.lines) {
      statement += line;
      formulas += static_cast<size_t>(line.find("Term::Of(") != std::string::npos);
      if (line.empty() || std::string_view(";{}").find(line.back()) == std::string_view::npos) continue;
      const bool is_glued = statement.find("StrCat(") != std::string::npos && std::regex_search(statement, piece);
      EXPECT_FALSE(is_glued) << file.path << ": " << statement;
      statement.clear();
    }
  }
  EXPECT_GT(formulas, 100U);
}

// A build may leave them out (MOKA_FORKS=OFF).
TEST(StructureTest, NothingOutsideForksIncludesThem) {
  const std::string forks = "layers/forks/";
  for (const SourceFile& file : AllSources()) {
    if (file.path.starts_with(forks)) continue;
    for (const std::string& line : file.lines) {
      EXPECT_FALSE(Included(line).starts_with(forks)) << file.path << " includes " << Included(line);
    }
  }
}

// A name given by files or people is escaped where it is printed (tools/cli/print.h), told (core/log.h) or refused
// (tools/cli/error_text.h), so nothing else may write to a terminal.
TEST(StructureTest, TextReachesATerminalThroughItsSinksOnly) {
  static const std::set<std::string> sinks = {"core/log.cpp",
                                              "core/standard_streams.cpp",
                                              "tools/moka.cpp",
                                              "tools/cli/print.cpp",
                                              "tools/cli/progress.cpp",
                                              "tools/launch/child.cpp",
                                              "comm/transport/mpi_world.cpp"};  // whose last words hold no names
  static const std::regex writes(
      R"([(,]\s*std(out|err)\s*[),]|std::(cout|cerr|clog|puts|printf|putchar)\b|fmt::print\(|STD(OUT|ERR)_FILENO)");
  for (const SourceFile& file : AllSources()) {
    const bool is_program_of_its_own = file.path.starts_with("tools/bench/") || file.path.starts_with("tools/faults/");
    if (sinks.contains(file.path) || is_program_of_its_own) continue;
    for (const std::string& line : file.lines) {
      const std::string code = line.substr(0, line.find("//"));
      EXPECT_FALSE(std::regex_search(code, writes))
          << file.path << ": " << line << "\nuse tools/cli/print.h or core/log.h";
    }
  }
}

// Messages and our own types share one namespace, and the precompiled headers show every source all messages: two types
// of one name break that build, and without it the linker may mix them.
TEST(StructureTest, NoTypeIsNamedLikeAMessage) {
  static const std::regex message(R"(^(?:message|enum) (\w+))");
  static const std::regex type(R"(^(?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: :.*)? \{)");
  std::set<std::string> messages;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(MOKA_SOURCE_DIR) / "proto")) {
    if (entry.path().extension() != ".proto") continue;
    std::smatch match;
    for (const std::string& line : LinesOf(entry.path())) {
      if (std::regex_search(line, match, message)) messages.insert(match[1]);
    }
  }
  ASSERT_TRUE(messages.contains("LayerParameter") && messages.contains("Phase"));
  for (const SourceFile& file : AllSources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(file.lines[i], match, type)) continue;
      EXPECT_FALSE(messages.contains(match[1])) << file.path << ":" << i + 1 << ": " << match[1];
    }
  }
}

// The one-definition rule: of two types of one qualified name the linker keeps the functions of either.
TEST(StructureTest, NoTwoFilesDefineATypeOfOneName) {
  static const std::regex open(R"(^(?:inline )?namespace ?([\w:]*) ?\{)");
  static const std::regex close(R"(^\}.*// namespace)");
  static const std::regex type(R"(^(?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: :.*)? \{)");
  std::map<std::string, std::string> defined;  // qualified name -> file
  for (const SourceFile& file : AllSources()) {
    std::vector<std::string> scopes;
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (std::regex_search(line, match, open)) {
        scopes.push_back(match[1]);
      } else if (std::regex_search(line, close) && !scopes.empty()) {
        scopes.pop_back();
      } else if (std::regex_search(line, match, type)) {
        std::string name;
        for (const std::string& scope : scopes) name += scope.empty() ? file.path + "::" : scope + "::";
        const auto [it, is_new] = defined.emplace(name + match[1].str(), file.path);
        EXPECT_TRUE(is_new || it->second == file.path) << it->first << " is in " << it->second << " and " << file.path;
      }
    }
  }
  EXPECT_GT(defined.size(), 500U);
}

// They give a std::ranges::subrange, which clang 14, Debian 12's and the fuzz targets' compiler, cannot compile.
TEST(StructureTest, NoRangeAlgorithmThatGivesARange) {
  static const std::regex algorithm(
      R"(std::ranges::(unique|rotate|equal_range|remove|remove_if|partition|stable_partition|search|find_end|subrange)\b|std::views::)");
  for (const SourceFile& file : AllSources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], algorithm)) << file.path << ":" << i + 1;
    }
  }
}

TEST(StructureTest, NoStubsAndNoPromises) {
  static const std::regex promise(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  for (const SourceFile& file : AllSources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], promise)) << file.path << ":" << i + 1;
      EXPECT_LE(file.lines[i].size(), 140U) << file.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace moka
