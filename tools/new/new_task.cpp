// The list of tasks, and the budgets that --size names.
#include "tools/new/new_task.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<std::pair<std::string_view, NewBudget>, 3> kBudgets = {
    {{"small", {NewSize::kSmall, 5}}, {"medium", {NewSize::kMedium, 15}}, {"large", {NewSize::kLarge, 60}}}};

}  // namespace

NewBudget BudgetNamed(const std::string& name) {
  for (const auto& [known, budget] : kBudgets) {
    if (known == name) return budget;
  }
  throw Error(ErrorKind::kUsage, StrCat("--size wants small, medium or large, found \"", Printable(name), "\""));
}

const std::vector<NewTask>& AllNewTasks() {
  static const std::vector<NewTask> tasks = [] {
    std::vector<NewTask> rows = NewTaskRows();
    std::ranges::sort(rows, {}, &NewTask::name);
    return rows;
  }();
  return tasks;
}

const NewTask& NewTaskNamed(const std::string& name) {
  std::vector<std::string> names;
  for (const NewTask& task : AllNewTasks()) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  const std::string nearest = DidYouMean(name, names);
  throw Error(ErrorKind::kUsage, {}, StrCat("no task is called \"", Printable(name), "\""),
              nearest.empty() ? StrCat("the tasks are ", Join(names, ", ")) : nearest);
}

}  // namespace moka
