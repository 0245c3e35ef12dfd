// moka client: what a served model makes of files. It is `moka infer` whose net runs elsewhere: the same files in the
// same order, the same answers. Connections ask ahead of the answer that is shown next, a few files each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "core/text_table.h"
#include "core/trace.h"
#include "data/text/tokens.h"
#include "proto/content.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/tasks.h"
#include "tools/serve/client/model_client.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A picture or text that is sent, and how its answer calls it.
struct SentItem {
  fs::path file;
  std::string name;                 // the server's word for it
  std::optional<std::string> text;  // in place of the file's bytes
};

struct ItemAnswer {
  PictureJson json;
  std::string drawn;  // bytes of a PNG; empty: nothing was drawn
  std::exception_ptr error;
};

struct AskedModel {
  std::string path;  // "/v2/models/NAME"
  const InferTask* task = nullptr;
  const AnswerForm* form = nullptr;  // of the task
  bool is_drawn = false;
};

// Errors: kPeer.
[[noreturn]] void RefuseAnswer(const std::string& file, const std::string& why) {
  throw Error(ErrorKind::kPeer, StrCat("the server's answer to ", Printable(file), " is none of its task: ", why));
}

// The list of answers within a server's JSON.
PictureJson& ListOf(PictureJson& json, const AnswerForm& form) {
  PictureJson& list = form.list.empty() ? json : json.at(form.list);
  if (!list.is_array()) throw PictureJson::type_error::create(302, "no array", &list);
  return list;
}

ItemAnswer AnswerTo(const SentItem& item, const AskedModel& model, ModelClient& client) {
  const std::string bytes = item.text ? *item.text : ReadFile(item.file);
  const std::string path = StrCat(model.path, "/predict/", PathPart(item.name));
  ItemAnswer answer;
  answer.json = client.CallJson("POST", path, bytes, {{"Content-Type", "application/octet-stream"}});
  if (!model.is_drawn) return answer;
  HttpReply drawn =
      client.Call("POST", path, bytes, {{"Content-Type", "application/octet-stream"}, {"Accept", "image/png"}});
  if (!std::string_view(drawn.body).starts_with("\x89PNG\r\n\x1a\n")) RefuseAnswer(item.name, "its drawing is no PNG");
  answer.drawn = std::move(drawn.body);
  return answer;
}

// Errors: those of AnswerTo; what the server refuses names the file as the person who asked did.
ItemAnswer AnswerToFile(const SentItem& item, const AskedModel& model, ModelClient& client) {
  try {
    return AnswerTo(item, model, client);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadData || !error.place().file.empty()) throw;
    const std::string named = StrCat(item.name, ":");
    const bool is_named = error.text().starts_with(named);
    // "story.txt:3: ..." has its line already.
    const std::string rest = is_named ? error.text().substr(named.size()) : StrCat(" ", error.text());
    throw Error(error.kind(), {}, StrCat(item.file.string(), ":", rest), error.hint());
  }
}

// Answers that connections of their own ask for, some items ahead of who takes them.
class AnswersAhead {
 public:
  AnswersAhead(const std::vector<SentItem>& items, const AskedModel& model, const ClientSettings& settings,
               int64_t connections)
      : items_(items), model_(model), settings_(settings), window_(static_cast<size_t>(connections) + 1) {
    for (int64_t i = 0; i < std::min(connections, std::ssize(items)); ++i) threads_.emplace_back([this] { Ask(); });
  }
  AnswersAhead(const AnswersAhead&) = delete;
  AnswersAhead& operator=(const AnswersAhead&) = delete;
  ~AnswersAhead() {
    *settings_.is_stopped = true;
    {
      const std::lock_guard lock(mutex_);
      taken_ = items_.size();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // The next item's. Errors: those of its calls.
  ItemAnswer Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_.contains(taken_); });
    ItemAnswer answer = std::move(answers_.extract(taken_).mapped());
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (answer.error) std::rethrow_exception(answer.error);
    return answer;
  }

 private:
  void Ask() {
    ModelClient client(settings_);
    for (;;) {
      size_t at = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return asked_ < taken_ + window_ || asked_ >= items_.size(); });
        if (asked_ >= items_.size() || *settings_.is_stopped) return;
        at = asked_++;
      }
      ItemAnswer answer;
      try {
        answer = AnswerToFile(items_[at], model_, client);
      } catch (...) {
        answer.error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      answers_[at] = std::move(answer);
      changed_.notify_all();
    }
  }

  const std::vector<SentItem>& items_;
  const AskedModel& model_;
  const ClientSettings& settings_;
  size_t window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, ItemAnswer> answers_;  // that nobody has taken
  size_t asked_ = 0;
  size_t taken_ = 0;
  std::vector<std::thread> threads_;
};

// Answers as they come in, printed or kept for the JSON.
class ShownAnswers {
 public:
  ShownAnswers(const AskedModel& model, const Arguments& arguments)
      : form_(*model.form), as_json_(arguments.Has("json")) {
    if (model.is_drawn) drawings_.emplace(arguments.Get("draw"));
  }

  // Errors: kPeer for an answer of another form.
  void Add(const SentItem& item, ItemAnswer answer) {
    try {
      PictureJson& list = ListOf(answer.json, form_);
      const bool is_picture = form_.asked == AskedKind::kPicture;
      if (is_picture && list.size() != 1) RefuseAnswer(item.name, StrCat("it is of ", list.size(), " pictures"));
      if (is_picture) list[0].at("file") = item.file.string();
      if (!answer.drawn.empty()) {
        const std::string written = drawings_->NameFor(item.file) + form_.drawn_ending;
        PlaceFile(written, answer.drawn);
        list[0][form_.drawn_key] = written;
      }
      for (PictureJson& one : list) {
        ++answers_;
        if (as_json_ || form_.relate != nullptr) {
          all_.push_back(std::move(one));
        } else {
          Show(one);
        }
      }
    } catch (const PictureJson::exception& error) {
      RefuseAnswer(item.name, error.what());
    }
  }
  int64_t answers() const { return answers_; }
  void Finish() {
    try {
      if (form_.relate != nullptr) form_.relate(all_);
      if (!as_json_) {
        for (const PictureJson& one : all_) Show(one);
        return;
      }
    } catch (const PictureJson::exception& error) {
      RefuseAnswer("pictures", error.what());
    }
    PrintJson(form_.list.empty() ? all_ : PictureJson{{form_.list, all_}}, form_.indent);
  }

 private:
  void Show(const PictureJson& one) {
    if (shown_++ > 0) PrintLines(form_.between);
    form_.print(one);
  }

  const AnswerForm& form_;
  bool as_json_;
  int64_t answers_ = 0;
  int64_t shown_ = 0;
  std::optional<OutFolder> drawings_;
  PictureJson all_ = PictureJson::array();
};

// A text's lines; where a server would refuse it for its length, in parts, as each line is an answer.
void AddTexts(const std::string& word, bool are_lines_alone, std::vector<SentItem>& items) {
  constexpr size_t kMostBytes = 1024;  // of a part: others that wait get their turn
  TextLines lines(TextFileOf(word));
  items.push_back({.file = word, .name = fs::path(word).filename().string(), .text = ""});
  while (lines.Next()) {
    if (are_lines_alone && items.back().text->size() + lines.line().size() > kMostBytes) {
      const std::string name = StrCat(fs::path(word).filename().string(), " (from line ", lines.number(), ")");
      items.push_back({.file = word, .name = name, .text = ""});
    }
    *items.back().text += lines.line() + "\n";
  }
}

std::vector<SentItem> ItemsOf(const std::vector<std::string>& words, const AnswerForm& form) {
  std::vector<SentItem> items;
  if (form.asked == AskedKind::kPicture) {
    if (words.empty()) throw Error(ErrorKind::kUsage, "missing argument: at least one picture or folder of pictures");
    for (const fs::path& file : PicturesOf(words))
      items.push_back({.file = file, .name = file.filename().string(), .text = std::nullopt});
    return items;
  }
  const bool are_lines_alone = !form.list.empty();
  if (words.empty()) throw Error(ErrorKind::kUsage, "missing argument: a file of text, or - for the standard input");
  if (!are_lines_alone && words.size() > 1)
    throw Error(ErrorKind::kUsage, "one text is asked about at a time: a story with its questions, or words");
  for (const std::string& word : words) AddTexts(word, are_lines_alone, items);
  return items;
}

ClientSettings SettingsOf(const Arguments& arguments, const ServerPlace& place) {
  ClientSettings settings;
  settings.place = place;
  const bool only_asks = arguments.Has("status");
  const bool loads = arguments.Has("load") || arguments.Has("unload");
  settings.patience = milliseconds(std::llround(1e3 * arguments.Number("patience", only_asks ? 0 : 30, 0, 86400)));
  settings.limits.to_answer =
      milliseconds(std::llround(1e3 * arguments.Number("timeout", loads ? 600 : 60, 0.1, 86400)));
  settings.limits.to_connect = std::min(settings.limits.to_connect, settings.limits.to_answer);
  settings.limits.body_bytes = uint64_t{64} << 20;
  settings.trust = TrustFor(place.http, arguments.Get("ca", ""));
  if (arguments.Has("token-file")) {
    const std::string file = arguments.Get("token-file");
    settings.token = TokenOf(ReadFile(file), file);
  } else if (const char* token = std::getenv("MOKA_TOKEN"); token != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    settings.token = TokenOf(token, "MOKA_TOKEN");
  }
  return settings;
}

// The model to ask: the one that is named, or the only one. Errors: kUsage naming them, kNoInput with the nearest.
std::string ModelNameOf(const std::string& named, ModelClient& client) {
  std::vector<std::string> names;
  for (const ListedModel& model : client.Models()) {
    if (names.empty() || names.back() != model.name) names.push_back(model.name);  // of its versions the highest
  }
  if (names.empty()) throw Error(ErrorKind::kUnavailable, "the server has no models");
  if (named.empty() && names.size() == 1) return names[0];
  if (named.empty())
    throw Error(ErrorKind::kUsage, {}, StrCat("the server has ", names.size(), " models"),
                StrCat("--model says which to ask: ", Join(names, ", ")));
  if (std::ranges::find(names, named) != names.end()) return named;
  const std::string near = DidYouMean(named, names);
  throw Error(ErrorKind::kNoInput, {}, StrCat("the server has no model \"", Printable(named), "\""),
              near.empty() ? StrCat("it has ", Join(names, ", ")) : near);
}

// The model's task and form, from the server's own words. Errors: kPeer, kUsage for what files do not ask.
void FindTask(const std::string& name, ModelClient& client, AskedModel& model) {
  const PictureJson config = client.CallJson("GET", StrCat("/v2/models/", PathPart(name), "/config"));
  const auto word = [&](const char* key) {
    return config.is_object() && config.contains(key) && config[key].is_string() ? config[key].get<std::string>() : "";
  };
  ModelCard::Task task = ModelCard::CLASSIFY;
  if (!ModelCard::Task_Parse(word("task"), &task))
    throw Error(ErrorKind::kPeer, {}, StrCat("the server does not say what model \"", Printable(name), "\" does"),
                "moka client asks servers of moka serve");
  model.task = FindInferTask(task);
  if (model.task != nullptr) {
    const bool has_other = word("asks") == "text" && model.task->form.asked == AskedKind::kPicture;
    model.form = has_other ? &model.task->form_of_texts : &model.task->form;
  }
  if (model.form != nullptr && model.form->print != nullptr) return;
  const std::string path = StrCat("/v2/models/", PathPart(name));
  throw Error(ErrorKind::kUsage, {},
              StrCat("model \"", Printable(name), "\" (task ", ModelCard::Task_Name(task),
                     ") is asked neither by pictures nor by texts of files"),
              word("asks") == "text"
                  ? StrCat("curl -d 'count=16 seed=1' URL", path, "/predict -o sheet.png draws a sheet")
                  : StrCat("tensors go to ", path, "/infer"));
}

int PrintStatus(const PictureJson& server, const std::vector<ListedModel>& models, bool is_ready, bool as_json) {
  const auto text = [&](const char* key) {
    return server.is_object() && server.contains(key) && server[key].is_string() ? server[key].get<std::string>() : "";
  };
  if (as_json) {
    PictureJson json{{"server", text("name")}, {"version", text("version")}, {"ready", is_ready}};
    json["models"] = PictureJson::array();
    for (const ListedModel& model : models) {
      json["models"].push_back(
          {{"name", model.name}, {"version", model.version}, {"state", model.state}, {"reason", model.reason}});
    }
    PrintJson(json);
  } else {
    Print("{} {}: {}\n", text("name"), text("version"), is_ready ? "ready" : "not ready");
    std::vector<std::vector<std::string>> table = {{"model", "version", "state", "reason"}};
    for (const ListedModel& model : models)
      table.push_back(
          {Printable(model.name), Printable(model.version), Printable(model.state), Printable(model.reason)});
    PrintLines(TextTable(table));
  }
  return is_ready ? 0 : static_cast<int>(ErrorKind::kUnavailable);
}

int LoadOrUnload(const std::string& name, bool loads, bool as_json, ModelClient& client) {
  const int64_t begin = NowMicros();
  client.Call("POST", StrCat("/v2/repository/models/", PathPart(name), loads ? "/load" : "/unload"));
  LogInfo(fmt::format("{} is {} ({:.1f} s)", Printable(name), loads ? "loaded" : "unloaded",
                      static_cast<double>(NowMicros() - begin) * 1e-6));
  if (as_json) PrintJson(PictureJson{{"model", name}, {"loaded", loads}});
  return 0;
}

int AskAboutFiles(const Arguments& arguments, const ClientSettings& settings, ModelClient& client) {
  const std::vector<std::string> words(arguments.positionals.begin() + 1, arguments.positionals.end());
  const std::string name = ModelNameOf(arguments.Get("model", settings.place.model), client);
  AskedModel model{.path = StrCat("/v2/models/", PathPart(name))};
  FindTask(name, client, model);
  model.is_drawn = arguments.Has("draw");
  if (model.is_drawn && model.form->drawn_ending.empty())
    throw Error(ErrorKind::kUsage, StrCat("--draw: model \"", Printable(name), "\" (task ",
                                          ModelCard::Task_Name(model.task->task), ") draws nothing"));
  // Texts take long, so that several that wait would soon be refused.
  const bool are_texts = model.form->asked == AskedKind::kText;
  const int64_t connections = arguments.Int("parallel", are_texts ? 2 : 4, 1, 64);
  arguments.WillRead({"json"});
  arguments.RefuseUnread();
  const std::vector<SentItem> items = ItemsOf(words, *model.form);
  ShownAnswers shown(model, arguments);
  const int64_t begin = NowMicros();
  std::vector<fs::path> files(items.size());
  std::ranges::transform(items, files.begin(), &SentItem::file);
  AnswersAhead answers(items, model, settings, connections);
  FilesSeen done;
  size_t next = 0;
  const auto show = [&](const fs::path&) {
    const SentItem& item = items[next++];
    shown.Add(item, answers.Next());
  };
  if (are_texts) {
    std::ranges::for_each(files, show);
  } else {
    done = ForEachFile(files, show);
  }
  shown.Finish();
  LogInfo(fmt::format("{}, {:.1f} ms", Counted(shown.answers(), "answer", "answers"),
                      static_cast<double>(NowMicros() - begin) * 1e-3));
  return done.code;
}

int RunClient(const Arguments& arguments) {
  const ServerPlace place =
      ServerPlaceOf(arguments.Word(0, "the server's address, http://HOST:PORT or https://HOST:PORT"));
  const ClientSettings settings = SettingsOf(arguments, place);
  const std::vector<const char*> calls = {"status", "load", "unload"};
  if (std::ranges::count_if(calls, [&](const char* call) { return arguments.Has(call); }) > 1)
    throw Error(ErrorKind::kUsage, "--status, --load and --unload are calls of their own");
  for (const char* flag : {"status", "load", "unload", "model"}) {
    if (!arguments.Has(flag) || place.model.empty()) continue;
    throw Error(ErrorKind::kUsage, {},
                StrCat("--", flag, " stands beside an address that names a model, ", Printable(place.model)),
                "give the server's address alone: http://HOST:PORT");
  }
  ModelClient client(settings);
  const bool as_json = arguments.Has("json");
  const bool loads = arguments.Has("load");
  if (loads || arguments.Has("unload")) {
    const std::string name = arguments.Get(loads ? "load" : "unload");
    arguments.RefuseUnread();
    return LoadOrUnload(name, loads, as_json, client);
  }
  if (!arguments.Has("status")) return AskAboutFiles(arguments, settings, client);
  arguments.RefuseUnread();
  const bool is_ready = client.WaitUntilReady();
  const PictureJson server = client.CallJson("GET", "/v2");
  return PrintStatus(server, client.Models(), is_ready, as_json);
}

}  // namespace

Verb ClientVerb() {
  Verb verb;
  verb.name = "client";
  verb.summary = "what a served model makes of pictures and texts (moka serve)";
  verb.usage = "http[s]://HOST:PORT PICTURE|FOLDER|TEXTFILE... [--flags]";
  verb.examples = {"moka client http://127.0.0.1:8000 digit.png",
                   "moka client http://127.0.0.1:8000 pictures/ --model cells --draw found --json",
                   "moka client http://127.0.0.1:8000 --status",
                   "moka client http://127.0.0.1:8000 --load cells --token-file admin.token"};
  verb.operands = {{"http[s]://HOST:PORT", "the server, or one of its models: http://HOST:PORT/v2/models/NAME"},
                   {"PICTURE|FOLDER", "as moka infer takes them, answered in the same order"},
                   {"TEXTFILE", "lines to translate, or a story with questions; -: the standard input"}};
  verb.options = {{"model", "NAME", "which to ask, where the server has several"},
                  {"draw", "FOLDER", "answers drawn on the pictures, as moka infer --out writes them", '\0',
                   "a model that draws: task: DETECT, SEGMENT or INSTANCES in its card"},
                  {"parallel", "N", "connections (default 4; of texts 2)"},
                  {"status", "", "the models, once they answer or patience ends; exit code 69 where they do not"},
                  {"load", "NAME", "load a model anew (moka serve --allow-load)"},
                  {"unload", "NAME", "take a model out of service"},
                  {"token-file", "FILE", "the token to show (default: MOKA_TOKEN of the environment)"},
                  {"ca", "FILE", "PEM: the authority of the server's certificate (default: those of this machine)"},
                  {"patience", "S", "how long to try again while the server is away or full (default 30; --status 0)"},
                  {"timeout", "S", "how long an answer may take (default 60; of a load 600)"},
                  {"json", "", "print as JSON, as moka infer does"}};
  verb.run = RunClient;
  verb.computes = false;
  return verb;
}

}  // namespace moka
