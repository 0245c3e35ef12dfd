// moka model check: whether nets and solvers are understood, a line each.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/optimizers/solver_fields.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/text_format.h"
#include "proto/text/text_scan.h"
#include "tools/check/net_check.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/net_source.h"
#include "tools/train/overrides.h"

namespace moka {
namespace {

using Json = nlohmann::json;

constexpr int kCurvePoints = 10;

// Whether the fields outside all blocks are a solver's.
bool IsSolver(const std::string& text) {
  const TextScan scan = ScanText(text, 0);
  int votes = 0;
  for (const OpenBlock& field : scan.top_fields) {
    const std::string name(field.field);
    votes += SolverParameter::descriptor()->FindFieldByName(name) != nullptr ? 1 : 0;
    votes -= NetParameter::descriptor()->FindFieldByName(name) != nullptr ? 1 : 0;
  }
  return votes > 0;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

Json JsonOf(const Shape& shape) { return std::vector<int64_t>(shape.dims().begin(), shape.dims().end()); }

// One state of a net as a row: what was found, or the first error.
Json StateRow(const StateCheck& check) {
  Json row = {{"phase", Phase_Name(check.phase)}, {"stages", check.stages}, {"ok", check.error.empty()}};
  if (!check.error.empty()) {
    row["error"] = check.error;
    return row;
  }
  row["layers"] = check.layers;
  row["parameters"] = check.parameters;
  row["statistics"] = check.statistics;
  Json tops = Json::array();
  for (const auto& [name, shape] : check.tops) tops.push_back({name, JsonOf(shape)});
  row["tops"] = std::move(tops);
  Json assumed = Json::array();
  for (const auto& [name, shape] : check.assumed) assumed.push_back({name, JsonOf(shape)});
  row["assumed"] = std::move(assumed);
  row["open_classes"] = check.open_classes;
  row["python"] = check.elsewhere;
  return row;
}

// "; assuming data [1,3,448,448], ip2 [1,10] (--shape sets shapes, layer[ip2].inner_product_param.num_output=N sets the
// classes)"; nothing if the net's text says all of it.
std::string Assumptions(const Json& row) {
  std::vector<std::string> shapes;
  for (const Json& top : row["assumed"])
    shapes.push_back(
        StrCat(top[0].get<std::string>(), " ", top[1].dump(-1, ' ', false, Json::error_handler_t::replace)));
  std::vector<std::string> ways;
  if (shapes.size() > row["open_classes"].size()) ways.emplace_back("--shape sets shapes");
  if (!row["open_classes"].empty()) {
    const bool is_one = row["open_classes"].size() == 1;
    ways.push_back(StrCat("layer[", row["open_classes"][0].get<std::string>(), "].inner_product_param.num_output=N ",
                          is_one ? "sets" : "and so on set", " the classes"));
  }
  return shapes.empty() ? "" : StrCat("; assuming ", Join(shapes, ", "), " (", Join(ways, ", "), ")");
}

// "; runs in Python only, for layer.Norm".
std::string Elsewhere(const Json& row) {
  if (row["python"].empty()) return "";
  return StrCat("; runs in Python only, for ", Join(row["python"].get<std::vector<std::string>>(), ", "));
}

void PrintModelCheck(const Json& row, const std::string& file) {
  const std::string state = StrCat(
      row["phase"].get<std::string>(),
      row["stages"].empty() ? "" : StrCat(" ", row["stages"].dump(-1, ' ', false, Json::error_handler_t::replace)));
  if (row["ok"].get<bool>()) {
    Print("ok    {}: {}: {} layers, {} parameters, {} statistics{}{}\n", file, state, row["layers"].get<int>(),
          row["parameters"].get<int64_t>(), row["statistics"].get<int64_t>(), Elsewhere(row), Assumptions(row));
  } else {
    Print("fails {}: {}: {}\n", file, state, FirstLine(row["error"].get<std::string>()));
  }
}

// A phase counts as understood when the net builds in it with some set of stages: many nets are whole only with one.
bool CheckNetFile(const std::string& file, const std::string& text, const Arguments& arguments, Json& result,
                  std::set<std::string>& tops) {
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "model check");
  const NetParameter net = NetFromText(text, file, read);
  AddTops(net, tops);
  std::map<std::string, bool> phases;
  result["kind"] = "net";
  result["states"] = Json::array();
  const std::map<std::string, Shape> shapes = ParseShapes(arguments.Get("shape"));
  for (const NetState& state : DeclaredStates(net)) {
    const Json row = StateRow(CheckNet(net, state, shapes));
    bool& is_ok = phases[row["phase"].get<std::string>()];
    is_ok = is_ok || row["ok"].get<bool>();
    if (!arguments.Has("json")) PrintModelCheck(row, file);
    result["states"].push_back(row);
  }
  return std::ranges::all_of(phases, [](const auto& phase) { return phase.second; });
}

void CheckSolverFile(const std::string& file, const std::string& text, const Arguments& arguments, Json& result) {
  result["kind"] = "solver";
  SolverParameter solver = SolverFromText(text, file);
  // Templates leave the rate to the command line; their curve is that of a rate of 1.
  const bool is_relative = !solver.has_base_lr() && solver.lr_policy() != "multifixed";
  if (is_relative) solver.set_base_lr(1);
  CheckSolverNumbers(solver);
  for (const std::string& sentence : UnreadSolverFields(solver)) LogWarning(sentence);
  const std::vector<std::pair<int64_t, double>> curve = RateCurve(solver, kCurvePoints);
  result["rates"] = curve;
  result["needs_base_lr"] = is_relative;
  if (!arguments.Has("json")) {
    Print("ok    {}: solver: rate {:g}{} at 0, {:g} at {}\n", file, curve.front().second,
          is_relative ? " of base_lr=RATE, which is to be given," : "", curve.back().second, curve.back().first);
  }
}

// Adds the tops of the file's net.
bool CheckFile(const std::string& file, const Arguments& arguments, std::set<std::string>& tops) {
  Json result = {{"file", file}};
  bool is_ok = true;
  try {
    const std::string text = ReadTextFile(file, "a net or a solver");
    if (IsSolver(text)) {
      CheckSolverFile(file, text, arguments, result);
    } else {
      is_ok = CheckNetFile(file, text, arguments, result, tops);
    }
  } catch (const Error& error) {
    is_ok = false;
    result["error"] = error.what();
    if (!arguments.Has("json")) Print("fails {}: {}\n", file, FirstLine(error.what()));
  }
  result["ok"] = is_ok;
  if (arguments.Has("json")) PrintJson(result, -1);
  return is_ok;
}

int RunCheck(const Arguments& arguments) {
  if (arguments.positionals.empty()) throw Error(ErrorKind::kUsage, "missing argument: prototxt files");
  size_t understood = 0;
  std::set<std::string> tops;
  for (const std::string& file : arguments.positionals) understood += CheckFile(file, arguments, tops) ? 1 : 0;
  if (understood == arguments.positionals.size()) RefuseUnknownTops(ParseShapes(arguments.Get("shape")), tops);
  if (!arguments.Has("json")) Print("{} of {} files understood\n", understood, arguments.positionals.size());
  return understood == arguments.positionals.size() ? 0 : static_cast<int>(ErrorKind::kConfig);
}

}  // namespace

Verb ModelCheckVerb() {
  Verb verb;
  verb.name = "check";
  verb.under = "model";
  verb.summary = "whether nets build in every phase and solvers give their rates";
  verb.usage = "FILE ... [--shape 'TOP=N,C,H,W;...']";
  verb.examples = {"moka model check models/*/*.prototxt", "moka model check net.prototxt --shape 'data=1,1,28,28'"};
  verb.options = {
      {"json", "", "one JSON object a file, with every shape and which of them were assumed"},
      {"shape", "SHAPES", "shapes of data layers' tops; others follow from the layers' fields and readers", ';'}};
  verb.computes = false;
  verb.run = RunCheck;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
