// moka zoo pack: a run's weights into a model's folder and card.
#include "core/error.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/zoo/entry.h"
#include "tools/zoo/pack.h"

namespace moka {
namespace {

PackOptions::Numbers NumbersNamed(const std::string& name) {
  if (name == "auto") return PackOptions::Numbers::kAuto;
  if (name == "float32") return PackOptions::Numbers::kFloat32;
  if (name == "float16") return PackOptions::Numbers::kFloat16;
  throw Error(ErrorKind::kUsage, {}, StrCat("--dtype is auto, float32 or float16, not \"", Printable(name), "\""),
              DidYouMean(name, {"auto", "float32", "float16"}));
}

int RunZooPack(const Arguments& arguments) {
  const std::string run = arguments.Word(0, "a run");
  const std::string name = arguments.Word(1, "a model's name");
  PackOptions options;
  options.models = ModelsFolder(arguments);
  options.runs = arguments.Get("runs", "runs");
  options.solver = arguments.Get("solver", options.solver);
  options.is_tested = !arguments.Has("untested");
  // Without a test nothing says that float16 is enough.
  options.numbers = NumbersNamed(arguments.Get("dtype", options.is_tested ? "auto" : "float32"));
  options.most_loss = arguments.Number("most-loss", options.most_loss, 0, 1);
  arguments.RefuseUnread();
  const Packed packed = PackWeights(run, name, options);
  const ZooWeights& row = packed.row;
  if (packed.float32) Print("{} = {} by float32\n", row.metric(), ToText(*packed.float32));
  if (packed.float16) Print("{} = {} by float16\n", row.metric(), ToText(*packed.float16));
  Print("wrote {} in {}: {}, {} bytes\n", Join(packed.files, ", "), (options.models / packed.model).string(),
        row.dtype(), row.bytes());
  return 0;
}

}  // namespace

Verb ZooPackVerb() {
  Verb verb;
  verb.name = "pack";
  verb.under = "zoo";
  verb.summary = "put a run's weights into a model's folder and card, tested as its recipe tests";
  verb.usage = "RUN[@WHICH] NAME [--flags]";
  verb.examples = {"moka zoo pack runs/lenet-0001 lenet", "moka zoo pack runs/lenet-0001@last lenet --dtype float32"};
  verb.options = {{"dtype", "NAME", "of filters and matrices: float32, float16, or auto: float16 if the metric holds"},
                  {"most-loss", "PART", "what float16 may take of the metric, as a part of it (default 0.0005)"},
                  {"solver", "FILE", "the recipe that they were trained by (default solver.prototxt)"},
                  {"untested", "", "without a test, and without a metric in the card; float32 unless --dtype says"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"models", "DIR", "where the models are (default ./models, or those it came with)"}};
  verb.most_words = 2;
  verb.run = RunZooPack;
  return verb;
}

}  // namespace moka
