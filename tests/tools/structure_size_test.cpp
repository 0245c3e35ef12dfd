// The budgets of functions and classes held by machine. Who is excused says why here, and is excused no more than it
// needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/source_files.h"
#include "tests/tools/source_scan.h"

namespace moka {
namespace {

using testing::AllSources;
using testing::ScannedFunction;
using testing::ScannedSource;
using testing::ScannedType;
using testing::ScanSource;
using testing::SourceFile;

// Who may be larger than the budget, how large it is, and why.
struct Excuse {
  int most = 0;
  std::string why;
};
using Excuses = std::map<std::string, Excuse>;

// Holds sizes to a budget, but for excuses, which have to be exact.
class Budget {
 public:
  Budget(int most, Excuses excuses) : most_(most), excuses_(std::move(excuses)) {}

  void Take(const std::string& name, int size, const SourceFile& file, int line) {
    ++measured_;
    int& largest = largest_[name];
    largest = std::max(largest, size);
    if (!excuses_.contains(name)) {
      EXPECT_LE(size, most_) << file.path << ":" << line << ": " << name;
    }
  }

  void ExpectExcusesAreExact() {
    for (const auto& [name, excuse] : excuses_) {
      EXPECT_GT(largest_[name], most_) << name << ": remove its excuse";
      EXPECT_EQ(largest_[name], excuse.most) << name << ": lower or remove its excuse";
    }
  }

  int measured() const { return measured_; }

 private:
  int most_;
  Excuses excuses_;
  std::map<std::string, int> largest_;
  int measured_ = 0;
};

constexpr int kFunctionLines = 60;
constexpr int kPublicMethods = 15;

TEST(StructureSizeTest, FunctionsKeepTheirBudget) {
  const Excuses excuses = {// Tables: a line a message and its fields.
                           {"FieldsLayersDoNotRead", {182, "a table"}},
                           {"FieldsNothingReads", {159, "a table"}}};
  Budget budget(kFunctionLines, excuses);
  for (const SourceFile& file : AllSources()) {
    for (const ScannedFunction& function : ScanSource(file.lines).functions) {
      budget.Take(function.name, function.lines, file, function.first_line);
    }
  }
  budget.ExpectExcusesAreExact();
  EXPECT_GT(budget.measured(), 9000);
}

TEST(StructureSizeTest, ClassesKeepTheirBudget) {
  const Excuses excuses = {
      {"Graph", {29, "each pass edits it: its accessors are the language of passes, its mutators keep its invariants"}},
      {"LayerBuilder", {30, "the vocabulary that layers are written in"}},
      {"ParameterUpdate", {23, "the vocabulary that optimizers are written in"}},
      {"Communicator", {25, "what ranks can tell each other, over one transport and one way to wait for a rank"}},
      {"RunFolder", {22, "one lock and all files that are written under it"}}};
  Budget budget(kPublicMethods, excuses);
  for (const SourceFile& file : AllSources()) {
    for (const ScannedType& type : ScanSource(file.lines).types) {
      budget.Take(type.name, static_cast<int>(type.public_methods.size()), file, type.line);
    }
  }
  budget.ExpectExcusesAreExact();
  EXPECT_GT(budget.measured(), 1400);
}

// The budgets are as good as the scanner that they are measured by.
TEST(StructureSizeTest, TheScannerTellsFunctionsFromEverythingElseInBraces) {
  const std::vector<std::string> lines = {
      "#define OPEN {",
      "namespace a {",
      "const std::map<int, std::string> kTable = {{1, \"}\"}, {2, R\"x()\" })x\"}};  // not a function() {",
      "template <typename T = int>",
      "[[nodiscard]] std::vector<T> Free(Options options = {}, char c = '{') {",
      "  auto inner = [](int x) {",
      "    return x;",
      "  };",
      "  struct Local { int Method() { return 1; } };",
      "  return inner(1'000);",
      "}",
      "class Outer final : public Other<int()> {",
      " public:",
      "  explicit Outer(int x) : x_{x}, names_(2) {}",
      "  ~Outer();",
      "  Outer& operator=(const Outer&) = delete;",
      "  bool operator()(int x) const { return x > 0; }",
      "  friend bool Same(const Outer& a, const Outer& b);",
      "  using Call = std::function<void(int)>;",
      "  std::unique_ptr<Outer> Take();",
      "  int size() const { return x_; }",
      "  virtual void Run(int x = 0) const noexcept = 0;",
      "  virtual void Run(const std::function<void()>& call) = 0;",
      "  struct Inner {",
      "    int value = 0;",
      "    std::function<int(int)> call = {};",
      "    int Twice() const;",
      "  };",
      " protected:",
      "  void Hidden();",
      " private:",
      "  enum class Kind { kOne };",
      "  int x_{3};",
      "};",
      "Outer::~Outer() {",
      "}",
      "}  // namespace a",
  };
  const ScannedSource scanned = ScanSource(lines);
  std::map<std::string, std::pair<int, int>> functions;
  for (const ScannedFunction& function : scanned.functions) {
    functions[function.name] = {function.first_line, function.lines};
  }
  const std::map<std::string, std::pair<int, int>> expected = {{"Free", {5, 7}},
                                                               {"Outer::Outer", {14, 1}},
                                                               {"Outer::operator", {17, 1}},
                                                               {"Outer::size", {21, 1}},
                                                               {"Outer::~Outer", {35, 2}}};
  EXPECT_EQ(functions, expected);
  ASSERT_EQ(scanned.types.size(), 2U);
  EXPECT_EQ(scanned.types[0].name, "Outer");
  EXPECT_EQ(scanned.types[0].public_methods, (std::vector<std::string>{"Take", "size", "Run", "Run"}));
  EXPECT_EQ(scanned.types[1].name, "Outer::Inner");
  EXPECT_EQ(scanned.types[1].public_methods, std::vector<std::string>{"Twice"});
}

}  // namespace
}  // namespace moka
