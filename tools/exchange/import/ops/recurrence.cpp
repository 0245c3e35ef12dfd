// LSTM, GRU and RNN. Gates are i, o, f, c in ONNX and i, f, o, g here, z, r, h there and r, z, n here. A plain RNN is a
// GRU whose reset gate is always 1 and whose update gate is always 0, as its own layer here has a product more. What
// runs backwards runs forwards between two layers that turn the steps round. First states of zeros, and where the
// number of images is open marks of beginnings, are made of the input, so that they follow it.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

// Sigmoid(100) is 1 in float32, and Sigmoid(-100) is 0 beside any other number.
constexpr float kWideOpen = 100;

struct CellForm {
  std::string_view layer;
  Ints order;                                 // gate i of the layer is gate order[i] of ONNX
  int states = 1;                             // hidden, and cell
  std::vector<std::string> activations = {};  // of one direction
};

CellForm CellFormOf(const std::string& type) {
  if (type == "LSTM") return {"LSTM", {0, 2, 1, 3}, 2, {"sigmoid", "tanh", "tanh"}};
  if (type == "GRU") return {"GRU", {1, 0, 2}, 1, {"sigmoid", "tanh"}};
  return {"GRU", {0}, 1, {"tanh"}};
}

// A constant of real numbers with these axes.
OnnxConstant RealsAt(const ImportNode& n, int i, const char* what, size_t axes) {
  OnnxConstant constant = n.Constant(i);
  if (constant == nullptr) n.Refuse(StrCat("its ", what, " are computed, where a layer has some that are learned"));
  if (constant->is_whole || constant->dims.size() != axes) n.Refuse(StrCat("its ", what, " are of another form"));
  return constant;
}

bool AreZeros(const OnnxConstant& constant) {
  const auto is_zero = [](auto value) { return value == 0; };
  return constant != nullptr && std::ranges::all_of(constant->floats, is_zero) &&
         std::ranges::all_of(constant->ints, is_zero);
}

class RecurrenceReader {
 public:
  explicit RecurrenceReader(ImportNode& n) : n_(n), form_(CellFormOf(n.proto().op_type())) {}

  void Read() {
    CheckFields();
    ReadWeights();
    const bool gives_states = Gives(1) || Gives(2);
    std::vector<std::vector<std::string>> tops;
    for (int64_t d = 0; d < directions_; ++d) tops.push_back(AddDirection(d, gives_states));
    const int64_t units = recurrent_->dims[2];
    if (Gives(0)) {
      std::vector<std::string> parts;
      const Ints dims{x_[0], 1, x_[1], units};
      if (directions_ == 1) GiveReshaped(n_, tops[0][0], dims);
      for (const auto& own : tops) parts.push_back(directions_ == 1 ? own[0] : Reshaped(n_, own[0], dims));
      if (directions_ == 2) n_.Give(Joined(1), parts);
    }
    for (int i = 1; i <= form_.states; ++i) {
      if (!Gives(i)) continue;
      std::vector<std::string> parts;
      for (const auto& own : tops) parts.push_back(own[static_cast<size_t>(i)]);
      GiveBlob(n_, directions_ == 1 ? parts[0] : n_.Add(Joined(0), parts), i);
    }
  }

 private:
  bool Gives(int output) const { return output < n_.proto().output_size() && !n_.proto().output(output).empty(); }

  static LayerParameter Joined(int axis) {
    LayerParameter layer = LayerOf("Concat");
    layer.mutable_concat_param()->set_axis(axis);
    return layer;
  }

  void CheckFields() {
    const NodeAttributes a = n_.attributes();
    const std::string direction = a.Text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      n_.Refuse(StrCat("its direction is \"", Printable(direction), "\""));
    directions_ = direction == "bidirectional" ? 2 : 1;
    begins_backwards_ = direction == "reverse";
    if (a.Has("clip")) n_.Refuse("it cuts off what goes into its gates (clip)");
    if (a.Int("layout", 0) != 0) n_.Refuse("its sequences come one after another (layout 1)");
    if (a.Int("input_forget", 0) != 0) n_.Refuse("its forget gate is that of its input (input_forget)");
    if (n_.proto().op_type() == "GRU" && a.Int("linear_before_reset", 0) == 0)
      n_.Refuse("its reset gate stands before the product (linear_before_reset 0)");
    if (n_.Has(7) && !AreZeros(n_.Constant(7))) n_.Refuse("its gates see the cell (peepholes)");
    CheckActivations();
  }

  void CheckActivations() const {
    if (!n_.attributes().Has("activations")) return;
    for (const onnx::AttributeProto& attribute : n_.proto().attribute()) {
      if (attribute.name() != "activations") continue;
      bool are_usual = attribute.strings_size() == directions_ * std::ssize(form_.activations);
      for (int i = 0; are_usual && i < attribute.strings_size(); ++i) {
        const auto usual = static_cast<size_t>(i) % form_.activations.size();
        are_usual = AsciiLower(attribute.strings(i)) == form_.activations[usual];
      }
      if (!are_usual) n_.Refuse(StrCat("its activations are not ", Join(form_.activations, ", ")));
    }
  }

  void ReadWeights() {
    x_ = n_.x(0).dims;
    if (x_.size() != 3 || n_.x(0).is_whole) n_.Refuse("its input is no [steps, sequences, values]");
    input_ = RealsAt(n_, 1, "weights", 3);
    recurrent_ = RealsAt(n_, 2, "weights of the step before", 3);
    if (n_.Has(3)) bias_ = RealsAt(n_, 3, "biases", 2);
    const int64_t rows = input_->dims[1];
    const int64_t units = recurrent_->dims[2];
    const bool fits = units > 0 && rows == units * std::ssize(form_.order) &&
                      input_->dims == Ints{directions_, rows, x_[2]} &&
                      recurrent_->dims == Ints{directions_, rows, units} &&
                      (bias_ == nullptr || bias_->dims == Ints{directions_, 2 * rows});
    if (!fits) n_.Refuse("its weights do not go with its input and direction");
    const int64_t said = n_.attributes().Int("hidden_size", units);
    if (said != units) n_.Refuse(StrCat("its hidden_size is ", said, ", its weights are of ", units));
  }

  // The gates of one direction of a constant, in the layer's order; `at`: the first of them, of so many values each.
  std::vector<float> Gates(const OnnxTensor& constant, int64_t at, int64_t each) const {
    std::vector<float> out;
    for (const int64_t gate : form_.order) {
      const auto first = constant.floats.begin() + at + gate * each;
      out.insert(out.end(), first, first + each);
    }
    return out;
  }

  // The learned blobs of a direction. Of a plain RNN two gates are put in front of its only one.
  std::vector<LayerBlob> BlobsOf(int64_t d) const {
    const int64_t units = recurrent_->dims[2];
    const int64_t own_rows = input_->dims[1];
    std::vector<float> inner(static_cast<size_t>(own_rows), 0);
    std::vector<float> bias = inner;
    if (bias_ != nullptr) {
      bias = Gates(*bias_, 2 * d * own_rows, units);
      inner = Gates(*bias_, (2 * d + 1) * own_rows, units);
    }
    std::vector<float> w = Gates(*input_, d * own_rows * x_[2], units * x_[2]);
    std::vector<float> r = Gates(*recurrent_, d * own_rows * units, units * units);
    const bool is_plain = form_.order.size() == 1;
    if (is_plain) {
      const auto u = static_cast<size_t>(units);
      w.insert(w.begin(), 2 * u * static_cast<size_t>(x_[2]), 0);
      r.insert(r.begin(), 2 * u * u, 0);
      bias.insert(bias.begin(), u, -kWideOpen);
      bias.insert(bias.begin(), u, kWideOpen);
      inner.insert(inner.begin(), 2 * u, 0);
    }
    const int64_t rows = is_plain ? 3 * units : own_rows;
    // The second bias counts apart for a GRU's last gate alone.
    const int64_t joined = form_.layer == "GRU" ? rows - units : rows;
    for (size_t i = 0; i < static_cast<size_t>(joined); ++i) bias[i] += inner[i];
    std::vector<LayerBlob> blobs{
        {Shape{rows, x_[2]}, std::move(w)}, {Shape{rows}, std::move(bias)}, {Shape{rows, units}, std::move(r)}};
    if (joined != rows) blobs.push_back({Shape{units}, std::vector<float>(inner.begin() + joined, inner.end())});
    return blobs;
  }

  // The number of steps of each sequence; empty: all have all.
  std::string Lengths() {
    if (!n_.Has(4)) return {};
    const OnnxConstant constant = n_.Constant(4);
    if (!n_.x(4).is_whole) n_.Refuse("its numbers of steps are no whole numbers");
    const auto is_all = [&](int64_t length) { return length == x_[0]; };
    if (constant != nullptr && std::ranges::all_of(constant->ints, is_all)) return {};
    return n_.In(4);
  }

  // The steps the other way round, within their lengths.
  std::string TurnedRound(const std::string& blob, const std::string& lengths) {
    if (lengths.empty()) return n_.Add(LayerOf("Reverse"), {blob});
    return n_.Add(LayerOf("ReverseTime"), {blob, lengths});
  }

  // The first value of each row of the first `steps` steps: [steps,N,1].
  std::string Column(int64_t steps) { return n_.net().Cut(n_.net().Cut(n_.In(0), 0, 0, steps), 2, 0, 1); }

  // Marks [T,N]: 1, but 0 at the first step where no state comes before it and the number of images is known.
  std::string Marks(bool goes_on) {
    if (n_.net().has_open_batch()) return n_.Add(FormulaOf("eq(x0,x0)"), {Reshaped(n_, Column(x_[0]), {x_[0], x_[1]})});
    LayerParameter begins = LayerOf("ContinuationIndicator");
    begins.mutable_continuation_indicator_param()->set_time_step(static_cast<uint32_t>(x_[0]));
    begins.mutable_continuation_indicator_param()->set_batch_size(static_cast<uint32_t>(x_[1]));
    const std::string marks = n_.Add(begins, {});
    if (!goes_on) return marks;
    LayerParameter ones = LayerOf("Power");
    ones.mutable_power_param()->set_scale(0);
    ones.mutable_power_param()->set_shift(1);
    return n_.Add(ones, {marks});
  }

  // [1,N,units] of zeros.
  std::string NoState() {
    const int64_t units = recurrent_->dims[2];
    const std::string column = n_.Add(FormulaOf("min(abs(x0),0)"), {Column(1)});
    LayerParameter tile = LayerOf("Tile");
    tile.mutable_tile_param()->set_axis(2);
    tile.mutable_tile_param()->set_tiles(static_cast<int32_t>(units));
    return units == 1 ? column : n_.Add(tile, {column});
  }

  bool HasState(int state) const { return n_.Has(5 + state) && !AreZeros(n_.x(5 + state).constant); }

  // The first state of a direction: [1,N,units].
  std::string FirstState(int state, int64_t d) {
    if (!HasState(state)) return NoState();
    const Ints& dims = n_.x(5 + state).dims;
    if (dims != Ints{directions_, x_[1], recurrent_->dims[2]}) n_.Refuse("its first state is of another shape");
    return n_.net().Cut(n_.In(5 + state), 0, d, 1);
  }

  // The layer of one direction: hidden states of all steps, then the last states where they are asked for.
  std::vector<std::string> AddDirection(int64_t d, bool gives_states) {
    const bool is_backwards = begins_backwards_ || d == 1;
    const bool goes_on = HasState(0) || (form_.states > 1 && HasState(1));
    const bool exposes = gives_states || goes_on || n_.net().has_open_batch();
    const std::string lengths = Lengths();
    LayerParameter layer = LayerOf(std::string(form_.layer).c_str());
    RecurrentParameter& p = *layer.mutable_recurrent_param();
    p.set_num_output(static_cast<uint32_t>(recurrent_->dims[2]));
    if (exposes) p.set_expose_hidden(true);
    std::vector<std::string> bottoms{is_backwards ? TurnedRound(n_.In(0), lengths) : n_.In(0), Marks(goes_on)};
    if (!lengths.empty()) bottoms.push_back(lengths);
    for (int state = 0; exposes && state < form_.states; ++state) bottoms.push_back(FirstState(state, d));
    std::vector<std::string> tops = n_.AddTops(layer, bottoms, BlobsOf(d), exposes ? 1 + form_.states : 1);
    if (is_backwards && Gives(0)) tops[0] = TurnedRound(tops[0], lengths);
    return tops;
  }

  ImportNode& n_;
  CellForm form_;
  int64_t directions_ = 1;
  bool begins_backwards_ = false;
  Ints x_;                            // [T,N,D]
  OnnxConstant input_ = nullptr;      // [directions,rows,D]
  OnnxConstant recurrent_ = nullptr;  // [directions,rows,units]
  OnnxConstant bias_ = nullptr;       // [directions,2*rows]; null: none
};

void ReadRecurrence(ImportNode& n) { RecurrenceReader(n).Read(); }

}  // namespace

OnnxImportOp ImportRecurrence() {
  return {.types = {"LSTM", "GRU", "RNN"},
          .read = ReadRecurrence,
          .takes_whole = true,
          .idle = {"activation_alpha", "activation_beta"}};
}

}  // namespace moka
