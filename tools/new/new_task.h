// The tasks that `moka new` has: a row a task, a function `NewTask NAME()` in the file of its recipe, which the build
// finds. A row reads the layout of its sources and writes a model's files from what was seen in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/import/import_options.h"
#include "graph/program.h"
#include "tools/nets/test_source.h"
#include "tools/new/new_data.h"

namespace moka {

enum class NewSize : uint8_t { kSmall, kMedium, kLarge };

// The time that a training may take here, by --size.
struct NewBudget {
  NewSize size = NewSize::kMedium;
  double minutes = 0;
};
// Errors: kUsage for a name that is none.
NewBudget BudgetNamed(const std::string& name);

struct NewOptions {
  std::string name;                 // of the model: the last part of --out
  std::string folder;               // --out as it was typed
  std::filesystem::path databases;  // where train and val will lie, absolute
  NewBudget budget;
  CompileOptions compile;               // as a training would have them
  std::optional<TestSource> from = {};  // the net that is fine-tuned
  std::string from_word = {};           // as --from says it
};

// The files of a model's folder, and how its databases are made.
struct NewModel {
  std::map<std::string, std::string> files;                           // by name
  std::vector<std::pair<std::filesystem::path, std::string>> copies;  // files, and their names in the folder
  ImportOptions storage;
  std::vector<std::string> lines;  // for whoever typed the command: what was chosen, and why
};

// A source that a task reads by itself.
struct NewSource {
  std::string word;                 // as it was typed
  std::filesystem::path databases;  // where a database of each part is to be written
  std::vector<SplitPart> shares;    // of its parts
  bool has_shares = false;          // they were typed
  std::function<void(const std::vector<std::string>& remarks)> tell = {};
};

struct NewTask {
  std::string name;    // as it is typed: "classify"
  std::string source;  // what SOURCE is
  // For sources that are no pictures: reads and parts the source, writes the databases, and derives the model; the
  // three below are null then. Errors: those of derive and find.
  NewModel (*make)(const NewSource& source, const NewOptions& options) = nullptr;
  // The parts that the source's words name; `folder` is for files that they need. Errors: kBadData, kNoInput with what
  // was seen and what was expected.
  std::vector<PartSource> (*find)(const std::string& source, const std::filesystem::path& folder) = nullptr;
  // LookOptions::number_classes; `folder` is for a file of their names. May be null.
  std::filesystem::path (*number)(const PictureFacts& first, const std::filesystem::path& folder,
                                  std::vector<PartSource>& sources) = nullptr;
  // Errors: kBadData for data that no net can be trained on.
  NewModel (*derive)(const NewData& data, const NewOptions& options) = nullptr;
  bool takes_start = false;  // NewOptions::from
};

// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<NewTask> NewTaskRows();
// Sorted by name. Errors of the second: kUsage with the nearest name.
const std::vector<NewTask>& AllNewTasks();
const NewTask& NewTaskNamed(const std::string& name);

}  // namespace moka
