// The parts that recipes of all tasks share: texts filled in, batches that divide a set, and the widest net that a
// budget allows by steps measured here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"
#include "tools/new/new_task.h"

namespace moka {

// Values of the places "@name@" of a text.
using Values = std::map<std::string, std::string, std::less<>>;

// Returns the section of a file of sections, which begin with lines "#= NAME". Requires: it is there.
std::string SectionOf(std::string_view text, std::string_view name);
// Several, with an empty line behind those of the head and the data.
std::string SectionsOf(std::string_view text, const std::vector<std::string>& names);
// Returns the text with every "@name@" replaced. Requires: each has a value.
std::string Filled(std::string_view text, const Values& values);
// "mean_value: 114.6 mean_value: 120", one of each.
std::string Repeated(std::string_view field, const std::vector<double>& values);
// A number with so many digits behind the point, and no zeros at its end.
std::string Rounded(double value, int digits);
// A name as it stands in a prototxt's quotes.
std::string Quoted(std::string_view text);

// The batch of a test of `pictures`, `most` or less, with which the fewest pictures are counted twice.
int64_t TestBatch(int64_t pictures, int64_t most);

// A training's length: epochs so that about `samples` pictures are shown, in bounds, or fewer where the budget wants
// it.
struct Length {
  int64_t epochs = 0;
  int64_t iterations = 0;
  int64_t batch = 0;
};

// A step's time, as it was measured here.
struct StepTime {
  double ms = 0;            // the fastest step
  bool is_of_cpus = false;  // by the processors' time, as the clock's was that of other programs too
  int64_t steps = 0;        // that were timed
  int64_t trials = 0;       // in so many stretches
};

// A net that is tried: its width and its text.
struct NetChoice {
  int64_t width = 0;  // of its first stage
  StepTime step;
  double minutes = 0;  // of the whole training
  Length length;
  std::string remark;  // why it is this one
};

struct Search {
  std::vector<int64_t> widths;                          // from the widest
  std::function<std::string(int64_t width)> train_net;  // its train_val.prototxt
  std::map<std::string, Shape> shapes;                  // of the tops of its data layers
  std::string items = "pictures";                       // NewData::items
  int64_t pictures = 0;                                 // trained on
  int64_t batch = 0;
  int64_t samples = 0;  // shown in the whole training
  int64_t least_epochs = 0;
  int64_t most_epochs = 0;
  std::vector<TrainTurn> turns = {};  // of the solver; each is a net of its stages
};

// The widest net whose training fits the budget here, if need be by up to half of the epochs less: width is worth more
// than them. Where none does, the narrowest, for a quarter of the epochs at least. Each is compiled and some of its
// steps are timed. Requires: there are widths.
NetChoice Choose(const Search& search, const NewOptions& options);

// A recipe's net: sections of its template, and what a width gives to their places.
struct Recipe {
  std::string_view text;                             // the template
  std::vector<std::string> front = {};               // before the data
  std::vector<std::string> columns = {};             // of train_val.prototxt alone, behind the data
  std::vector<std::string> net = {};                 // between the data and the losses
  std::vector<std::string> behind = {};              // of deploy.prototxt, behind the net
  void (*set_width)(int64_t width, Values& values);  // the values that a width gives
  bool has_deploy = true;                            // a deploy.prototxt of "input" and the net
};
// train_val.prototxt: the front, the data (and that of the part "test", where there is one), the net and "losses".
std::string TrainNetText(const Recipe& recipe, const NewData& data, Values values, int64_t width);
// Chooses by `search`, whose train_net is the recipe's, and adds what follows from the choice to the values.
NetChoice ChooseNet(const Recipe& recipe, const NewData& data, const NewOptions& options, Search search,
                    Values& values);
// The files of the model but its labels, lines of `what` there is and of what was chosen.
NewModel MakeModel(const Recipe& recipe, const NewData& data, const NetChoice& choice, const std::string& what,
                   const Values& values);

// The values that all recipes of pictures have: name, title, folder, source, parts and their databases.
Values CommonValues(const NewData& data, const NewOptions& options);
// "channels", "depth", "mean", "std", "mean_words".
void AddColors(const ColorFacts& colors, Values& values);
// "test_batch", "test_iter", and "held_out_batch" where there is a part "test".
void AddTestBatches(const NewData& data, int64_t most, Values& values);
// The choice's numbers and all that follow from the length of the training.
void AddLength(const NetChoice& choice, const Search& search, Values& values);
// "w1", "w2", ...: the widths of so many stages, each twice the one before it.
void AddWidths(int64_t width, int stages, Values& values);

// The size of a net's input that whole pictures are resized to: the longer side `most` pixels, or that of half of the
// pictures if that is less, in the shape of the median picture, both multiples of `step`.
struct InputSize {
  int64_t width = 0;
  int64_t height = 0;
  double shape = 1;  // width / height of the median picture
};
InputSize InputSizeOf(const NewPart& train, int64_t most, int64_t step);
// "width", "height", "ratio_min", "ratio_max", "max_side", "size_words", "force" and "colors".
void AddInputSize(const InputSize& size, const NewPart& train, Values& values);

// Pixels, where they are few enough to be read faster than JPEGs are decoded; else JPEGs.
ImportOptions PixelStorage(const NewData& data, int64_t max_side);

// "dress 180, hat 123, ..", "train 1,340 pictures, val 335", "12 minutes".
std::string CountsText(const std::vector<std::string>& names, const std::map<int64_t, int64_t>& counts);
// Counts of classes from 1 as those of classes from 0.
std::map<int64_t, int64_t> Shifted(const std::map<int64_t, int64_t>& counts);
std::string PartsText(const NewData& data);
std::string MsText(double ms);  // "0.21", "4.5", "120"
std::string MinutesText(double minutes);

}  // namespace moka
