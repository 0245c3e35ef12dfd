// The rules that a log of MLPerf training must keep, restated from the public checker's (mlcommons/logging,
// mlperf_logging/compliance_checker, version 4.1.59: training_4.0.0/{common,open_common,closed_common,open_resnet,
// closed_resnet,open_ssd,closed_ssd}.yaml, training_3.1.0/closed_resnet_{lars,sgd}.yaml, which 4.0.0's closed_resnet
// sends to, training_4.1.0/{common,open_common,closed_common,open_ssd,closed_ssd}.yaml, and mlp_parser/ruleset_400.py).
// It is as strict as the checker with --werror: a key that must be there once and is there twice is a complaint even
// where both say the same.
#pragma once

#include <string>
#include <vector>

namespace moka {

enum class MlperfRuleset { k400, k410 };

// A sentence for each rule that the log breaks, beginning with the key; none for a log that the checker takes.
std::vector<std::string> MlperfComplaints(const std::string& log, MlperfRuleset ruleset);

// The values of a log's key, and its lines' metadata, as texts of JSON, in their order.
std::vector<std::string> MlperfValues(const std::string& log, const std::string& key);
std::vector<std::string> MlperfMetadata(const std::string& log, const std::string& key, const std::string& field);

}  // namespace moka
