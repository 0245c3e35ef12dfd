// moka count: how many layers of each type a net has.
#include <map>

#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

int RunCount(const Arguments& arguments) {
  const NetParameter net = ReadNet(FindConfig(arguments.Word(0, "a prototxt or model folder"), "train_val.prototxt"));
  arguments.RefuseUnread();
  std::map<std::string, int> layers;
  for (const LayerParameter& layer : net.layer()) ++layers[layer.type()];
  for (const auto& [type, count] : layers) Print("{:>6} {}\n", count, type);
  return 0;
}

}  // namespace

Verb CountVerb() {
  Verb verb;
  verb.name = "count";
  verb.summary = "count a net's layers by their types";
  verb.usage = "NET";
  verb.examples = {"moka count models/lenet"};
  verb.computes = false;
  verb.most_words = 1;
  verb.run = RunCount;
  return verb;
}

}  // namespace moka
