// Each field of the file either becomes a setting or is refused at its place.
#include "tools/serve/model/model_settings.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "proto/serve.pb.h"
#include "proto/text/places.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

constexpr int64_t kMostRows = 4096;  // of --most-rows, too
constexpr int64_t kMostUs = int64_t{24} * 3600 * 1'000'000;
constexpr int64_t kMostPriorities = 16;

// The file, while its fields become settings.
class SettingsReader {
 public:
  explicit SettingsReader(const ServeConfig& config) : config_(config) {}

  ModelSettings Read() const {
    ModelSettings settings;
    settings.versions = Versions();
    if (config_.has_max_batch_size()) settings.most_rows = Whole("max_batch_size", config_.max_batch_size(), kMostRows);
    ReadBatching(settings);
    ReadQueues(settings);
    ReadSequences(settings);
    ReadDevice(settings);
    for (int i = 0; i < config_.model_warmup_size(); ++i) {
      const std::string field = StrCat("model_warmup[", i, "]");
      const ServeConfig::ModelWarmup& warm_up = config_.model_warmup(i);
      settings.warm_ups.push_back({Whole(field + ".batch_size", warm_up.batch_size(), kMostRows),
                                   Whole(field + ".count", warm_up.count(), kMostRows)});
    }
    const std::pair<bool, const char*> wants[] = {
        {settings.most_rows.value_or(1) > 1, "max_batch_size"},
        {!settings.preferred_rows.empty(), "dynamic_batching.preferred_batch_size[0]"},
        {settings.most_delay.count() > 0, "dynamic_batching.max_queue_delay_microseconds"},
        {!settings.warm_ups.empty(), "model_warmup[0]"}};
    for (const auto& [wants_rows, field] : wants) {
      if (wants_rows && !settings.rows_place) settings.rows_place = Place(field);
    }
    return settings;
  }

 private:
  SourcePlace Place(std::string_view field) const { return PlaceOf(config_.origin(), field); }
  [[noreturn]] void Refuse(std::string_view field, const std::string& text, const std::string& hint) const {
    throw Error(ErrorKind::kConfig, Place(field), text, hint);
  }
  // A whole number from 1. Errors: kConfig.
  int64_t Whole(const std::string& field, int64_t value, int64_t most) const {
    if (value >= 1 && value <= most) return value;
    Refuse(field, StrCat(field.substr(field.rfind('.') + 1), " is ", value), StrCat("expected 1 to ", most));
  }
  std::chrono::microseconds Time(const std::string& field, uint64_t value) const {
    if (value <= static_cast<uint64_t>(kMostUs)) return std::chrono::microseconds(value);
    Refuse(field, StrCat(field.substr(field.rfind('.') + 1), " is ", value), StrCat("a day is the most: ", kMostUs));
  }

  VersionPolicy Versions() const {
    VersionPolicy policy;
    const ServeConfig::VersionPolicy& given = config_.version_policy();
    if (given.has_latest()) {
      policy.latest = given.latest().num_versions();
      if (policy.latest == 0)
        Refuse("version_policy.latest.num_versions", "num_versions is 0", "one version at least is served");
    } else if (given.has_all()) {
      policy.choice = VersionPolicy::Choice::kAll;
    } else if (given.has_specific()) {
      policy.choice = VersionPolicy::Choice::kSpecific;
      policy.specific = SpecificVersions(given.specific());
    }
    return policy;
  }

  std::vector<int64_t> SpecificVersions(const ServeConfig::VersionPolicy::Specific& specific) const {
    std::set<int64_t> versions;
    for (int i = 0; i < specific.versions_size(); ++i) {
      constexpr int64_t kMostVersion = 999'999'999;
      const int64_t version = specific.versions(i);
      if (version < 1 || version > kMostVersion)
        Refuse(StrCat("version_policy.specific.versions[", i, "]"), StrCat(version, " is no version"),
               StrCat("versions are folders called by a number from 1 to ", kMostVersion));
      versions.insert(version);
    }
    if (versions.empty()) Refuse("version_policy.specific", "specific names no version", "versions: [1, 2] names two");
    return {versions.begin(), versions.end()};
  }

  void ReadBatching(ModelSettings& settings) const {
    const ServeConfig::DynamicBatching& batching = config_.dynamic_batching();
    std::set<int64_t> rows;
    for (int i = 0; i < batching.preferred_batch_size_size(); ++i) {
      const std::string field = StrCat("dynamic_batching.preferred_batch_size[", i, "]");
      rows.insert(Whole(field, batching.preferred_batch_size(i), kMostRows));
      if (settings.most_rows && batching.preferred_batch_size(i) > *settings.most_rows)
        Refuse(field, StrCat("a preferred batch has ", batching.preferred_batch_size(i), " rows"),
               StrCat("max_batch_size is ", *settings.most_rows));
    }
    settings.preferred_rows = {rows.begin(), rows.end()};
    settings.most_delay =
        Time("dynamic_batching.max_queue_delay_microseconds", batching.max_queue_delay_microseconds());
    settings.preserves_order = batching.preserve_ordering();
    if (batching.has_priority_levels()) {
      settings.priorities =
          Whole("dynamic_batching.priority_levels",
                static_cast<int64_t>(std::min<uint64_t>(batching.priority_levels(), INT64_MAX)), kMostPriorities);
      settings.usual_priority = (settings.priorities + 1) / 2;
    }
    if (settings.preserves_order) {
      if (settings.priorities > 1 && batching.has_priority_levels())
        Refuse("dynamic_batching.priority_levels", "priority_levels beside preserve_ordering",
               "requests in the order in which they came have one priority");
      settings.priorities = 1;
      settings.usual_priority = 1;
    }
    if (batching.has_default_priority_level()) {
      settings.usual_priority = Whole(
          "dynamic_batching.default_priority_level",
          static_cast<int64_t>(std::min<uint64_t>(batching.default_priority_level(), INT64_MAX)), settings.priorities);
    }
  }

  QueuePolicy Policy(const std::string& field, const ServeConfig::QueuePolicy& given) const {
    if (given.timeout_action() == ServeConfig::QueuePolicy::DELAY)
      Refuse(field + ".timeout_action", "timeout_action DELAY is not done",
             "REJECT answers what waited too long, so that its client may ask elsewhere");
    return {.timeout = Time(field + ".default_timeout_microseconds", given.default_timeout_microseconds()),
            .allows_shorter = given.allow_timeout_override(),
            .most_waiting = given.max_queue_size()};
  }

  void ReadQueues(ModelSettings& settings) const {
    const ServeConfig::DynamicBatching& batching = config_.dynamic_batching();
    settings.queue = Policy("dynamic_batching.default_queue_policy", batching.default_queue_policy());
    for (int i = 0; i < batching.priority_queue_policy_size(); ++i) {
      const std::string field = StrCat("dynamic_batching.priority_queue_policy[", i, "]");
      const ServeConfig::PriorityQueuePolicy& one = batching.priority_queue_policy(i);
      const int64_t priority =
          Whole(field + ".key", static_cast<int64_t>(std::min<uint64_t>(one.key(), INT64_MAX)), settings.priorities);
      const bool is_new = settings.queues.emplace(priority, Policy(field + ".value", one.value())).second;
      if (!is_new) Refuse(field + ".key", StrCat("priority ", priority, " has two policies"), "one is to be left out");
    }
  }

  void ReadSequences(ModelSettings& settings) const {
    if (!config_.has_sequence_batching()) return;
    const ServeConfig::SequenceBatching& batching = config_.sequence_batching();
    const std::string idle = "sequence_batching.max_sequence_idle_microseconds";
    settings.sequences_place = Place("sequence_batching");
    if (batching.has_max_sequence_idle_microseconds()) {
      if (batching.max_sequence_idle_microseconds() == 0)
        Refuse(idle, "max_sequence_idle_microseconds is 0", "each sequence would be forgotten at once");
      settings.sequences.idle = Time(idle, batching.max_sequence_idle_microseconds());
    }
    if (batching.oldest().has_max_candidate_sequences()) {
      constexpr int64_t kMostSequences = 1 << 20;
      settings.sequences.most = Whole("sequence_batching.oldest.max_candidate_sequences",
                                      batching.oldest().max_candidate_sequences(), kMostSequences);
    }
  }

  void ReadDevice(ModelSettings& settings) const {
    if (config_.instance_group_size() > 1)
      Refuse("instance_group[1]", "there are several instance groups",
             "one thread runs the nets of a server, in turns");
    if (config_.instance_group_size() == 0) return;
    const ServeConfig::InstanceGroup& group = config_.instance_group(0);
    if (group.count() != 1)
      Refuse("instance_group[0].count", StrCat("count is ", group.count()),
             "a process has one team of threads, and nets take turns; several servers share a machine by --threads");
    const bool is_said = group.kind() != ServeConfig::InstanceGroup::KIND_AUTO;
    if (group.gpus_size() > 0 && group.kind() != ServeConfig::InstanceGroup::KIND_GPU)
      Refuse("instance_group[0].gpus[0]", "gpus are of KIND_GPU", "kind: KIND_GPU says so");
    if (!is_said) return;
    settings.device = WantedDevice{.is_gpu = group.kind() == ServeConfig::InstanceGroup::KIND_GPU,
                                   .gpus = {group.gpus().begin(), group.gpus().end()},
                                   .place = Place("instance_group[0].kind")};
  }

  const ServeConfig& config_;
};

}  // namespace

std::vector<int64_t> VersionPolicy::Chosen(const std::vector<int64_t>& there) const {
  std::vector<int64_t> chosen;
  if (choice == Choice::kSpecific) {
    std::ranges::set_intersection(there, specific, std::back_inserter(chosen));
  } else {
    const auto count = std::ssize(there);
    chosen.assign(choice == Choice::kAll ? there.begin() : there.end() - std::min<int64_t>(latest, count), there.end());
  }
  return chosen;
}

std::chrono::microseconds QueuePolicy::WaitOf(std::chrono::microseconds own) const {
  const bool counts = own.count() > 0 && allows_shorter && (timeout.count() == 0 || own < timeout);
  return counts ? own : timeout;
}

const QueuePolicy& ModelSettings::QueueOf(int64_t priority) const {
  const auto found = queues.find(priority == 0 ? usual_priority : priority);
  return found == queues.end() ? queue : found->second;
}

std::vector<int64_t> ModelSettings::RowsOfRuns(int64_t usual_most) const {
  std::set<int64_t> rows(preferred_rows.begin(), preferred_rows.end());
  const int64_t most = most_rows.value_or(preferred_rows.empty() ? usual_most : preferred_rows.back());
  for (int64_t n = 2; preferred_rows.empty() && n < most; n *= 2) rows.insert(n);
  rows.insert(most);
  rows.erase(1);
  return {rows.begin(), rows.end()};
}

ModelSettings ReadModelSettings(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return {};
  ServeConfig config;
  ParseText(ReadTextFile(file, "what serving a model is set to"), file.string(), config);
  return SettingsReader(config).Read();
}

}  // namespace moka
