// Regression: a table's rows in, a number for each out. Columns are found by the names that the model has of them
// (labels.txt: the inputs in their order, "COLUMN=TEXT" for one that is 1 where the column has that text, then the
// targets) and go in as the net's input says, with mean and deviation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/files/text_table.h"
#include "proto/text/places.h"
#include "tools/cli/print.h"
#include "tools/infer/infer_program.h"
#include "tools/infer/tasks.h"
#include "tools/nets/deploy_net.h"
#include "tools/train/program_options.h"
#include "tools/train/record_sizes.h"

namespace moka {
namespace {

constexpr int64_t kMostRows = 256;  // a pass, unless --batch says another number

// An input of the net, or its target, and the table's column that has it.
struct TableColumn {
  std::string name;
  std::optional<std::string> value;  // it is 1 where the column has this text
  size_t column = 0;
};

struct TableColumns {
  std::vector<TableColumn> inputs;
  std::optional<TableColumn> target;  // where the table has it
};

// Errors: kBadData where the table has no such column.
size_t ColumnIn(const Table& table, const std::string& name, bool* is_missing = nullptr) {
  if (const auto found = std::ranges::find(table.header, name); found != table.header.end())
    return static_cast<size_t>(found - table.header.begin());
  for (size_t c = 0; table.header.empty() && c < table.columns(); ++c) {
    if (NameOf(table, c) == name) return c;
  }
  if (is_missing != nullptr) {
    *is_missing = true;
    return 0;
  }
  const std::string near = DidYouMean(name, table.header);
  throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = std::max(1, table.header_line)},
              StrCat("the table has no column \"", Printable(name), "\", which the net takes"),
              near.empty()
                  ? StrCat("it has ", table.columns(), " columns", table.header.empty() ? " without names" : "")
                  : near);
}

// The column of a name of the model: "origin=2" is of "origin", unless a column is called so as a whole.
TableColumn ColumnOfName(const Table& table, const std::string& name) {
  const size_t equals = name.rfind('=');
  if (equals == std::string::npos || std::ranges::find(table.header, name) != table.header.end())
    return {name, std::nullopt, ColumnIn(table, name)};
  return {name, name.substr(equals + 1), ColumnIn(table, name.substr(0, equals))};
}

// Errors: kConfig where the model's names are not the net's; kBadData where the table is another.
TableColumns ColumnsFor(const Table& table, const InferSource& source, int64_t inputs) {
  TableColumns columns;
  const int64_t names = std::ssize(source.names);
  if (names == 0) {
    if (std::ssize(table.rows.front()) != inputs) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(table.path, ": it has ", table.columns(), " columns, and the net takes ", inputs),
                  "labels.txt beside the net names its columns");
    }
    for (size_t c = 0; c < table.columns(); ++c) columns.inputs.push_back({NameOf(table, c), std::nullopt, c});
    return columns;
  }
  if (names != inputs && names != inputs + 1) {
    throw Error(ErrorKind::kConfig, StrCat("labels.txt has ", names, " names, and the net takes ", inputs,
                                           " columns: expected these, and the target's behind them"));
  }
  for (int64_t i = 0; i < inputs; ++i)
    columns.inputs.push_back(ColumnOfName(table, source.names[static_cast<size_t>(i)]));
  if (names == inputs) return columns;
  bool is_missing = false;
  const size_t target = ColumnIn(table, source.names.back(), &is_missing);
  if (!is_missing) columns.target = TableColumn{source.names.back(), std::nullopt, target};
  return columns;
}

// The rows that have an answer, as every column of theirs is known. Errors: kBadData at the row for a text that the net
// has no input for.
std::vector<bool> KnownRows(const Table& table, const TableColumns& columns) {
  std::map<size_t, std::set<std::string>> texts;  // of each column that is read; none of one of numbers
  for (const TableColumn& input : columns.inputs) {
    auto& known = texts[input.column];
    if (input.value) known.insert(*input.value);
  }
  std::vector<bool> are_known(table.rows.size(), true);
  for (const auto& [column, values] : texts) {
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const std::string& text = table.rows[row][column];
      if (values.contains(text)) continue;
      if (IsUnknownCell(text)) are_known[row] = false;
      if (values.empty() || IsUnknownCell(text)) continue;
      const std::string near = DidYouMean(text, {values.begin(), values.end()});
      throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = table.lines[row]},
                  StrCat("\"", NameOf(table, column), "\" is \"", Printable(text), "\", which the net has not met"),
                  near.empty() ? StrCat("it knows ", Join({values.begin(), values.end()}, ", ")) : near);
    }
  }
  return are_known;
}

// Columns that nothing reads, for whoever expects them to count.
void TellUnread(const Table& table, const TableColumns& columns) {
  std::vector<std::string> unread;
  for (size_t c = 0; c < table.columns(); ++c) {
    const auto is_it = [&](const TableColumn& input) { return input.column == c; };
    if (std::ranges::any_of(columns.inputs, is_it) || (columns.target && is_it(*columns.target))) continue;
    unread.push_back(StrCat("\"", Printable(NameOf(table, c)), "\""));
  }
  if (!unread.empty()) LogInfo(StrCat("the net does not read ", Join(unread, ", ")));
}

// A compiled net that takes rows. One thread.
class RowNet {
 public:
  RowNet(const InferSource& source, int64_t batch) : store_(source.compile.device) {
    const NetParameter net = InferNet(source);
    const LayerParameter& input = InputOf(net);
    scales_ = input.transform_param();
    std::vector<int64_t> dims = DimsOf(input, source);
    inputs_ = 1;
    for (size_t i = 1; i < dims.size(); ++i) inputs_ *= dims[i];
    dims[0] = batch;
    const NetParameter deploy = DeployNet(net, Shape(std::span<const int64_t>(dims)));
    made_ = CompileForInference(source, deploy, {}, store_);
    top_ = ImageInput(deploy).top(0);
    made_.outputs = FilledOutputs(program(), deploy, {top_}, made_.outputs);
    const Shape out = output().shape();
    if (out.rank() < 1 || out[0] != batch || out.Count() != batch) {
      throw Error(ErrorKind::kConfig,
                  StrCat("output \"", made_.outputs.back(), "\" is ", out.ToString(), ", not a number for each row"));
    }
    for (const int count : {scales_.mean_value_size(), scales_.std_value_size()}) {
      if (count <= 1 || count == inputs_) continue;
      throw Error(ErrorKind::kConfig, PlaceOf(input, "transform_param"),
                  StrCat("transform_param has ", count, " values, and the net takes ", inputs_, " columns"));
    }
    if (scales_.mean_value_size() == 0 && scales_.std_value_size() == 0)
      LogInfo("the net's input has neither mean nor deviation: numbers go in as they are");
  }

  const Program& program() const { return *made_.program; }
  int64_t inputs() const { return inputs_; }

  // A row's number, as the net's input takes it.
  void Set(int64_t slot, int64_t input, float value) {
    const auto of = [&](const auto& values, float fallback) {
      return values.empty() ? fallback : values[values.size() == 1 ? 0 : static_cast<int>(input)];
    };
    const float scaled = (value - of(scales_.mean_value(), 0.0F)) / of(scales_.std_value(), 1.0F) * scales_.scale();
    program().input(top_).as<float>()[static_cast<size_t>(slot * inputs_ + input)] = scaled;
  }
  void Run() { made_.program->Run(); }
  float At(int64_t slot) const { return output().as<const float>()[static_cast<size_t>(slot)]; }

 private:
  // The first layer that nothing feeds: an Input, or what reads the database of features.
  static const LayerParameter& InputOf(const NetParameter& net) {
    const auto found =
        std::ranges::find_if(net.layer(), [](const LayerParameter& layer) { return layer.bottom_size() == 0; });
    if (found != net.layer().end() && found->top_size() > 0) return *found;
    throw Error(ErrorKind::kConfig, StrCat("net \"", net.name(), "\" has no input"));
  }
  // [rows,columns,..] of an Input; of a layer that reads a database those of the records that it was trained with.
  static std::vector<int64_t> DimsOf(const LayerParameter& input, const InferSource& source) {
    std::vector<int64_t> dims;
    if (input.input_param().shape_size() > 0) {
      const auto& given = input.input_param().shape(0).dim();
      dims.assign(given.begin(), given.end());
    } else if (const auto kept = KeptRecordSize(source.folder, input.name())) {
      dims = {1, kept->channels, kept->height, kept->width};
    }
    if (dims.size() >= 2 && dims.size() <= 4) return dims;
    throw Error(ErrorKind::kConfig, PlaceOf(input, "input_param"), "the net's input has no shape [rows,columns]",
                "deploy.prototxt of the model has an Input with one");
  }
  Tensor output() const { return program().output(made_.outputs.back()); }

  ParameterStore store_;
  InferProgram made_;
  TransformationParameter scales_;
  std::string top_;
  int64_t inputs_ = 0;
};

// The net's answers, a row each; none where a column is not known.
std::vector<std::optional<float>> AnswersOf(const Table& table, const TableColumns& columns, int64_t batch, RowNet& net,
                                            TableFloats& floats) {
  const std::vector<bool> are_known = KnownRows(table, columns);
  std::vector<size_t> rows;
  for (size_t row = 0; row < are_known.size(); ++row) {
    if (are_known[row]) rows.push_back(row);
  }
  std::vector<std::optional<float>> answers(table.rows.size());
  for (int64_t first = 0; first < std::ssize(rows); first += batch) {
    const std::span<const size_t> part = std::span(rows).subspan(
        static_cast<size_t>(first), static_cast<size_t>(std::min(batch, std::ssize(rows) - first)));
    for (size_t slot = 0; slot < part.size(); ++slot) {
      for (int64_t i = 0; i < net.inputs(); ++i) {
        const TableColumn& input = columns.inputs[static_cast<size_t>(i)];
        const float is_value = input.value && table.rows[part[slot]][input.column] == *input.value ? 1.0F : 0.0F;
        net.Set(static_cast<int64_t>(slot), i, input.value ? is_value : floats.At(part[slot], input.column));
      }
    }
    net.Run();
    for (size_t slot = 0; slot < part.size(); ++slot) answers[part[slot]] = net.At(static_cast<int64_t>(slot));
  }
  return answers;
}

// Answers as they are printed, in lines or as JSON, and how far they are from the table's.
class AnswerList {
 public:
  AnswerList(std::string target, bool as_json) : target_(std::move(target)), as_json_(as_json) {}

  void Add(int line, std::optional<float> answer, std::optional<float> truth) {
    if (answer && truth) {
      error_ += std::abs(static_cast<double>(*answer - *truth));
      ++compared_;
    }
    if (as_json_) {
      json_.push_back({{"line", line}, {"target", target_}, {"value", nullptr}});
      if (answer) json_.back()["value"] = *answer;
      if (truth) json_.back()["truth"] = *truth;
      return;
    }
    Print("line {}: {} {}{}\n", line, Printable(target_),
          answer ? fmt::format("= {:g}", *answer) : "has no answer: a column is unknown there",
          truth ? fmt::format(" (the table has {:g})", *truth) : "");
  }
  void Finish() const {
    if (as_json_) PrintJson(json_);
  }
  // "mean error 0.5"; empty where nothing was compared.
  std::string ErrorText() const {
    return compared_ == 0 ? "" : fmt::format(", mean error {:.4g}", error_ / static_cast<double>(compared_));
  }

 private:
  std::string target_;
  bool as_json_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  double error_ = 0;
  int64_t compared_ = 0;
};

int RunRegress(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const bool looks = LooksInside(arguments);
  if (inputs.size() > 1) {
    throw Error(ErrorKind::kUsage, StrCat("one table is read at a time, found also \"", Printable(inputs[1]), "\""));
  }
  if (inputs.empty() && !looks) throw Error(ErrorKind::kUsage, "missing argument: a table of rows");
  std::optional<Table> table;
  if (!inputs.empty()) table = ReadTable(TextFileOf(inputs[0]));
  const int64_t rows = table ? std::ssize(table->rows) : 1;
  const int64_t batch = arguments.Int("batch", std::min(rows, kMostRows), 1, 65536);
  RowNet net(source, batch);
  RefuseUnreadBeforeLook(arguments, {"json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  const TableColumns columns = ColumnsFor(*table, source, net.inputs());
  TellUnread(*table, columns);
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  TableFloats floats(*table);
  const std::vector<std::optional<float>> answers = AnswersOf(*table, columns, batch, net, floats);
  AnswerList list(source.names.empty() ? "value" : source.names.back(), arguments.Has("json"));
  for (size_t row = 0; row < answers.size(); ++row) {
    std::optional<float> truth;
    if (columns.target && !IsUnknownCell(table->rows[row][columns.target->column]))
      truth = floats.At(row, columns.target->column);
    list.Add(table->lines[row], answers[row], truth);
  }
  EndTrace(arguments);
  list.Finish();
  if (const std::string warning = floats.Warning(); !warning.empty()) LogWarning(warning);
  LogInfo(fmt::format("{} row{}{}, {:.1f} ms", rows, rows == 1 ? "" : "s", list.ErrorText(),
                      static_cast<double>(NowMicros() - begin) * 1e-3));
  return 0;
}

}  // namespace

InferTask RegressTask() { return {.task = ModelCard::REGRESS, .run = RunRegress, .input = "TABLE"}; }

}  // namespace moka
