// The reader runs once a batch; the writer's program is compiled for a few lengths and its states are gathered by the
// beams that go on.
#include "tools/infer/translation_net.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/text_pairs.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "proto/nets/data_fields.h"
#include "tools/infer/infer_program.h"
#include "tools/measure/calibration.h"

namespace moka {
namespace {

using PairOutput = TextPairDataParameter;

constexpr uint64_t kTranslationSeed = 1;  // of blobs that no weights file fills; those are warned about
constexpr int64_t kStepsApart = 8;        // lengths of programs: few of them, and few steps without words

std::vector<std::pair<std::string, Shape>> InputsOf(const TranslationParts& parts, bool is_source, int64_t steps,
                                                    int64_t rows) {
  std::vector<std::pair<std::string, Shape>> inputs;
  const PairOutput& fields = parts.pairs.text_pair_data_param();
  for (int i = 0; i < fields.output_size(); ++i) {
    const PairOutput::Output output = fields.output(i);
    if (IsOfSource(output) != is_source || output == PairOutput::NEXT) continue;
    inputs.emplace_back(parts.pairs.top(i), IsLength(output) ? Shape{rows} : Shape{steps, rows});
  }
  return inputs;
}

}  // namespace

TranslationNet::TranslationNet(const InferSource& source, int64_t rows)
    : source_(source), rows_(rows), store_(source.compile.device) {
  const TranslationCard& card = source.card.translation();
  parts_ = SplitTranslation(InferNet(source), card.whole_prefix());
  attention_ = card.attention();
  source_words_ = std::make_unique<Vocabulary>(VocabularyFile(source, parts_.pairs, fields().source_vocabulary()));
  target_words_ = std::make_unique<Vocabulary>(VocabularyFile(source, parts_.pairs, fields().target_vocabulary()));
}

TranslationNet::~TranslationNet() = default;

int64_t TranslationNet::most_target_words() const {
  return parts_.is_whole ? int64_t{fields().target_length()} : INT32_MAX;
}

BuiltNet TranslationNet::BuildPart(const NetParameter& part, const std::vector<std::pair<std::string, Shape>>& inputs) {
  NetParameter net = part;
  net.clear_layer();
  LayerParameter* input = net.add_layer();
  input->set_name("(texts)");
  input->set_type("Input");
  for (const auto& [top, shape] : inputs) {
    input->add_top(top);
    BlobShape* dims = input->mutable_input_param()->add_shape();
    for (const int64_t dim : shape.dims()) dims->add_dim(dim);
  }
  for (const LayerParameter& layer : part.layer()) *net.add_layer() = layer;
  NetOptions options;
  options.state.set_phase(TEST);
  options.state.add_stage("deploy");
  return BuildNet(net, options);
}

std::unique_ptr<Program> TranslationNet::CompilePart(BuiltNet& net, const std::string& name) {
  CompileOptions compile = InferenceOptions(source_, net.param);
  compile.name = name;
  compile.releases_states = false;  // reader and writer share them, and each length has its own two
  return Compile(std::move(net.graph), store_, compile);
}

TranslationNet::Programs TranslationNet::Build(int64_t steps) {
  const std::vector<std::pair<std::string, Shape>> sources = InputsOf(parts_, true, steps, rows_);
  BuiltNet reader = BuildPart(parts_.reader, sources);
  const int64_t target_steps = parts_.is_whole ? most_target_words() : 1;
  std::vector<std::pair<std::string, Shape>> inputs = InputsOf(parts_, false, target_steps, rows_);
  const auto is_text = [&](const std::string& top) {
    return std::ranges::any_of(sources, [&](const auto& one) { return one.first == top; });
  };
  const auto from_reader = [&](const std::string& top, const std::string& input) {
    inputs.emplace_back(input, reader.graph.shape(reader.tops.at(top)));
    if (!is_text(top)) reader.graph.AddOutput(StrCat("to ", input), reader.tops.at(top));
  };
  for (const std::string& top : parts_.memory) from_reader(top, top);
  for (const TranslationParts::State& state : parts_.states) from_reader(state.first, state.input);
  BuiltNet writer = BuildPart(parts_.writer, inputs);
  const auto top_of_writer = [&](const std::string& top) {
    const auto found = writer.tops.find(top);
    if (found != writer.tops.end()) return found->second;
    throw Error(ErrorKind::kConfig, StrCat(top == attention_ ? "the card's attention" : "the net's top", " \"",
                                           Printable(top), "\" is no top of the layers that write the target"));
  };
  const Shape scores = writer.graph.shape(top_of_writer(parts_.scores));
  if (scores.rank() != 3 || scores[0] != target_steps || scores[1] != rows_ || scores[2] < target_words_->size()) {
    throw Error(ErrorKind::kConfig,
                StrCat("\"", parts_.scores, "\" is ", scores.ToString(), ", not a score [", target_steps, ",", rows_,
                       ",words] for each of the ", target_words_->size(), " words of ",
                       VocabularyFile(source_, parts_.pairs, fields().target_vocabulary()).string()));
  }
  writer.graph.AddOutput("scores", top_of_writer(parts_.scores));
  if (!attention_.empty()) {
    const Shape seen = writer.graph.shape(top_of_writer(attention_));
    const bool is_per_head = seen.rank() == 4;
    if (seen != (is_per_head ? Shape{rows_, seen[1], target_steps, steps} : Shape{rows_, target_steps, steps})) {
      throw Error(ErrorKind::kConfig, StrCat("the card's attention \"", attention_, "\" is ", seen.ToString(),
                                             ", not a part of each source word [", rows_, ",", target_steps, ",", steps,
                                             "], or a head's [", rows_, ",heads,", target_steps, ",", steps, "]"));
    }
    writer.graph.AddOutput("attention", top_of_writer(attention_));
  }
  for (const TranslationParts::State& state : parts_.states) {
    writer.graph.AddOutput(StrCat("after ", state.input), top_of_writer(state.next));
  }
  if (!has_weights_) {
    std::vector<NetBlob> blobs = reader.blobs;
    blobs.insert(blobs.end(), writer.blobs.begin(), writer.blobs.end());
    AddBlobs(blobs, kTranslationSeed, store_);
    LoadWeightsFor(source_.compile, source_.weights, blobs, store_);
    has_weights_ = true;
  }
  AddKept(reader, "reader", store_);
  AddKept(writer, "writer", store_);
  Programs programs{.steps = steps, .reader = CompilePart(reader, "reader"), .writer = CompilePart(writer, "writer")};
  return programs;
}

TranslationNet::Programs& TranslationNet::ProgramsFor(int64_t words) {
  const int64_t most = most_source_words() + 1;
  const int64_t steps = std::min(most, (words + kStepsApart) / kStepsApart * kStepsApart);  // with the end
  const auto found = programs_.find(steps);
  return found != programs_.end() ? found->second : programs_.emplace(steps, Build(steps)).first->second;
}

const Program& TranslationNet::WriterFor(int64_t words) { return *ProgramsFor(words).writer; }

// As TextPairData writes them: the source ends at the last step.
void TranslationNet::FillSource(Program& program, std::span<const std::vector<int32_t>> sources) const {
  const auto fill = [&](PairOutput::Output output, auto&& value_at) {
    const std::string top = TopOf(parts_.pairs, output);
    if (top.empty() || !program.HasInput(top)) return;
    const std::span<float> values = program.input(top).as<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i % static_cast<size_t>(rows_);
      const auto length = static_cast<int64_t>(sources[row].size()) + 1;
      const int64_t at = static_cast<int64_t>(i) / rows_ - (now_->steps - length);
      values[i] = static_cast<float>(value_at(sources[row], at, length));
    }
  };
  const bool is_reversed = fields().reverse_source();
  using Words = std::vector<int32_t>;
  fill(PairOutput::SOURCE, [&](const Words& words, int64_t at, int64_t length) {
    if (at < 0) return kNoWord;
    if (at == length - 1) return kEndWord;
    return words[static_cast<size_t>(is_reversed ? length - 2 - at : at)];
  });
  fill(PairOutput::SOURCE_CONT, [](const Words&, int64_t at, int64_t) { return at > 0 ? 1 : 0; });
  fill(PairOutput::SOURCE_MASK, [](const Words&, int64_t at, int64_t) { return at >= 0 ? 1 : 0; });
  fill(PairOutput::SOURCE_LENGTH, [](const Words&, int64_t, int64_t length) { return length; });
}

void TranslationNet::Read(std::span<const std::vector<int32_t>> sources) {
  size_t longest = 1;
  lengths_.clear();
  for (const std::vector<int32_t>& words : sources) {
    longest = std::max(longest, words.size());
    lengths_.push_back(static_cast<int64_t>(words.size()) + 1);
  }
  now_ = &ProgramsFor(static_cast<int64_t>(longest));
  step_ = 0;
  written_.assign(static_cast<size_t>(rows_), {});
  FillSource(*now_->reader, sources);
  FillSource(*now_->writer, sources);
  now_->reader->Run();
  const auto hand_over = [&](const std::string& input) {
    const std::vector<std::string> outputs = now_->reader->OutputNames();
    if (!now_->writer->HasInput(input) || std::ranges::find(outputs, "to " + input) == outputs.end()) return;
    const Tensor to = now_->writer->input(input);
    std::memcpy(to.raw(), now_->reader->output("to " + input).raw(), static_cast<size_t>(to.type().Bytes()));
  };
  for (const std::string& top : parts_.memory) hand_over(top);
  for (const TranslationParts::State& state : parts_.states) hand_over(state.input);
}

// The states after the last word, [1,N,H], of the rows that go on.
void TranslationNet::CarryStates(std::span<const int64_t> parents) {
  for (const TranslationParts::State& state : parts_.states) {
    if (!now_->writer->HasInput(state.input)) continue;
    const std::span<const float> after = now_->writer->output(StrCat("after ", state.input)).as<const float>();
    const std::span<float> to = now_->writer->input(state.input).as<float>();
    const size_t width = to.size() / static_cast<size_t>(rows_);
    carried_.resize(to.size());
    for (size_t r = 0; r < parents.size(); ++r) {
      const auto from = after.subspan(static_cast<size_t>(parents[r]) * width, width);
      std::ranges::copy(from, carried_.begin() + static_cast<std::ptrdiff_t>(r * width));
    }
    std::ranges::copy(carried_, to.begin());
  }
}

// The last word alone, or all of them with nothing after.
void TranslationNet::FillTarget(std::span<const int32_t> words, std::span<const int64_t> parents) {
  if (parts_.is_whole) {
    std::vector<std::vector<int32_t>> next(written_.size());
    for (size_t r = 0; r < next.size(); ++r) {
      if (step_ > 0) next[r] = written_[static_cast<size_t>(parents[r])];
      next[r].push_back(words[r]);
    }
    written_ = std::move(next);
  }
  const int64_t length = parts_.is_whole ? step_ + 1 : 1;
  const auto fill = [&](PairOutput::Output output, auto&& value_at) {
    const std::string top = TopOf(parts_.pairs, output);
    if (top.empty() || !now_->writer->HasInput(top)) return;
    const std::span<float> values = now_->writer->input(top).as<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(value_at(i % words.size(), static_cast<int64_t>(i / words.size())));
    }
  };
  fill(PairOutput::TARGET, [&](size_t row, int64_t at) {
    if (!parts_.is_whole) return words[row];
    return at < length ? written_[row][static_cast<size_t>(at)] : kNoWord;
  });
  fill(PairOutput::TARGET_MASK, [&](size_t, int64_t at) { return at < length ? 1 : 0; });
  fill(PairOutput::TARGET_LENGTH, [&](size_t, int64_t) { return length; });
}

std::span<const float> TranslationNet::Next(std::span<const int32_t> words, std::span<const int64_t> parents) {
  if (step_ > 0) CarryStates(parents);
  FillTarget(words, parents);
  now_->writer->Run();
  const std::span<const float> scores = now_->writer->output("scores").as<const float>();
  const int64_t at = parts_.is_whole ? step_ : 0;
  ++step_;
  const size_t count = scores.size() / static_cast<size_t>(parts_.is_whole ? most_target_words() : 1);
  return scores.subspan(static_cast<size_t>(at) * count, count);
}

std::vector<float> TranslationNet::Attention(int64_t row) const {
  const Tensor all = now_->writer->output("attention");
  const Shape& shape = all.shape();  // [N,T,S] or [N,heads,T,S]
  const int64_t heads = shape.rank() == 4 ? shape[1] : 1;
  const int64_t steps = shape[shape.rank() - 1];
  const int64_t words = shape[shape.rank() - 2];
  const int64_t at = parts_.is_whole ? step_ - 1 : 0;
  const int64_t length = lengths_[static_cast<size_t>(row)];
  std::vector<float> seen(static_cast<size_t>(length));
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t begin = ((row * heads + head) * words + at) * steps + steps - length;
    const auto part = all.as<const float>().subspan(static_cast<size_t>(begin), seen.size());
    for (size_t i = 0; i < seen.size(); ++i) seen[i] += part[i] / static_cast<float>(heads);
  }
  if (fields().reverse_source()) std::reverse(seen.begin(), seen.end() - 1);
  return seen;
}

}  // namespace moka
