// Chooses once how each operand reaches a tile (in place, one value, repeated, converted, gathered) and then interprets
// the program a tile at a time: the tiles stay in the first cache, and an instruction's dispatch is paid once a tile
// and not once an element (as in Boncz, Zukowski, Nes: "MonetDB/X100", CIDR 2005).
#include "layers/kernels/cpu/tiles/tile_engine.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "layers/kernels/cpu/tiles/tile_convert.h"
#include "layers/kernels/cpu/tiles/tile_transpose.h"

namespace moka::tile {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line
// Repacked outputs from here on are streamed: all of a net's weights are written between two reads of one.
constexpr int64_t kStreamedBytes = int64_t{1} << 18;

int64_t Lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// The key of rand: an int64 exactly, other dtypes by value.
uint64_t SeedOf(const Tensor& tensor) {
  if (tensor.type().dtype == DType::kInt64) return static_cast<uint64_t>(*static_cast<const int64_t*>(tensor.raw()));
  double value = 0;
  Convert(tensor, 0, 1, &value);
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

}  // namespace

template <class T>
TileEngine<T>::TileEngine(const EngineSpec& spec) : spec_(spec), inputs_(spec.inputs.size()) {
  // Walk operands stand in a fixed order: the inputs, the logical index of random numbers, the repacked outputs, and
  // last the dense outputs or the reduction's result. The rest of this file indexes strides by it.
  std::vector<WalkOperand> operands;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TensorType& type = spec.inputs[i];
    // An operand that lies otherwise than the walk is staged: converted to T and, where the walk pads its blocks,
    // padded as well. Such operands are small (weights of a channel, scalars), and a gather over them needs no test for
    // padding.
    const bool is_dense = type.shape == spec.shape && type.layout == spec.layout;
    operands.push_back({type.shape, is_dense, false});
    Input& input = inputs_[i];
    input.staged_shape = PaddedLike(type.shape, spec.layout);
    input.is_staged = !is_dense && (type.dtype != DTypeOf<T>::value || input.staged_shape != type.shape);
    if (!input.is_staged) continue;
    input.staged_at = staged_;
    staged_ += Lines(input.staged_shape.Count() * static_cast<int64_t>(sizeof(T))) / static_cast<int64_t>(sizeof(T));
  }
  uses_index_ = spec.expression.IsRandom();
  operands.push_back({uses_index_ ? spec.shape : Shape{}, false, true});
  for (const auto& [output, layout] : spec.repacked) operands.push_back({spec.shape, false, false, layout});
  operands.push_back({spec.extra, spec.stores, false});
  for (size_t r = 0; r < spec.outputs.size(); ++r) {
    const auto is_this = [&](const auto& repacked) { return repacked.first == r; };
    if (IsHalf(spec.outputs[r]) && std::ranges::none_of(spec.repacked, is_this)) halves_.push_back(r);
  }
  walk_ = MakeWalk(spec.layout, spec.shape, operands);
}

// Whether stepping through dimensions [from, ..) of the walk moves an operand by one element each time.
template <class T>
bool TileEngine<T>::IsContiguous(const std::vector<int64_t>& strides, int from) const {
  int64_t stride = 1;
  for (int d = walk_.dims() - 1; d >= from; --d) {
    if (strides[static_cast<size_t>(d)] != stride) return false;
    stride *= walk_.extents[static_cast<size_t>(d)];
  }
  return true;
}

// The length after which an operand repeats inside a row: contiguous last dimensions, still ones before; 0 if it does
// not.
template <class T>
int64_t TileEngine<T>::PeriodOf(const std::vector<int64_t>& strides) const {
  int64_t period = 1;
  int d = walk_.dims() - 1;
  for (; d >= outer_dims() && strides[static_cast<size_t>(d)] == period; --d) {
    period *= walk_.extents[static_cast<size_t>(d)];
  }
  for (; d >= outer_dims(); --d) {
    if (strides[static_cast<size_t>(d)] != 0) return 0;
  }
  return period;
}

// Chooses how input i reaches tiles, the cheapest way first. In-place inputs cost nothing: the step reads the tensor.
// All later sources fill a buffer of one tile, which is read back from the first cache.
template <class T>
void TileEngine<T>::ChooseSource(size_t i, int64_t unit) {
  Input& input = inputs_[i];
  const std::vector<int64_t>& strides = walk_.strides[i];
  const auto row = strides.begin() + outer_dims();
  const auto is_still = [](int64_t stride) { return stride == 0; };
  const bool is_native = input.is_staged || spec_.inputs[i].dtype == DTypeOf<T>::value;
  const int64_t period = PeriodOf(strides);
  // The level is how often the input changes: values that stay through a row, or through the whole run, are computed on
  // at that level and not once an element.
  levels_[i] = Level::kTile;
  if (row_dims_ > 0 && std::all_of(row, strides.end(), is_still)) {
    input.source = Source::kOneValue;
    levels_[i] = std::all_of(strides.begin(), row, is_still) ? Level::kUniform : Level::kRow;
  } else if (IsContiguous(strides, outer_dims())) {
    input.source = is_native ? Source::kInPlace : Source::kConverted;
  } else if (is_native && period > 1 && unit % period == 0) {
    input.source = Source::kPeriodic;
    input.period = period;
  } else {
    input.source = Source::kGathered;
  }
  // Sources are enumerated in this order: those from kConverted on fill a buffer.
  const bool needs_buffer = input.source >= Source::kConverted;
  input.buffer = needs_buffer ? buffers_++ : -1;
}

// A small operand that repeats inside a row (a bias of C channels last) is laid out once a row if tiles are a multiple
// of its period, so the tile length becomes one where nothing else asks for a unit.
template <class T>
void TileEngine<T>::SetRow(int row_dims, int64_t unit) {
  row_dims_ = row_dims;
  row_length_ = walk_.RowLength(row_dims);
  for (size_t i = 0; i < inputs_.size() && unit == 1; ++i) {
    const int64_t period = PeriodOf(walk_.strides[i]);
    if (period > 1 && period < row_length_ && period <= kTileLength / 2) unit = period;
  }
  tile_length_ = kTileLength / unit * unit;
  levels_.assign(inputs_.size(), Level::kTile);
  buffers_ = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) ChooseSource(i, unit);
  first_repacked_ = buffers_;
  buffers_ += static_cast<int64_t>(spec_.repacked.size());
  first_half_ = buffers_;
  buffers_ += static_cast<int64_t>(halves_.size());
  sides_.clear();
  for (size_t k = 0; k < spec_.repacked.size(); ++k) {
    const bool is_half = IsHalf(spec_.outputs[spec_.repacked[k].first]);
    sides_.push_back(TransposedSide(walk_.strides[inputs_.size() + 1 + k], is_half));
  }
  is_index_contiguous_ = IsContiguous(walk_.strides[inputs_.size()], outer_dims());
  // The most registers are needed when every output lies on every input.
  StorePlan plan{spec_.stores, std::vector<uint64_t>(spec_.expression.results().size(), ~uint64_t{0})};
  program_ = Compile(spec_.expression, levels_, plan);
}

// A part's memory, in the order in which StateOf takes it: locations, bases, scalars, registers, buffers, index.
template <class T>
int64_t TileEngine<T>::scratch_bytes(int parts) const {
  const auto element = static_cast<int64_t>(sizeof(T));
  const int64_t part = Lines(program_.locations() * int64_t{sizeof(T*)}) +
                       Lines(static_cast<int64_t>(walk_.strides.size()) * int64_t{sizeof(int64_t)}) +
                       Lines(program_.scalars * element) + (program_.registers + buffers_) * kTileLength * element +
                       (uses_index_ ? kTileLength * int64_t{sizeof(uint64_t)} : 0);
  return staged_ * element + part * parts;
}

// Builds a part's table of locations. Steps name operands by location only, so binding a tile is writing pointers,
// whatever the operand is: an input in place, a buffer, a register or an output.
template <class T>
typename TileEngine<T>::State TileEngine<T>::StateOf(int part) const {
  const auto element = static_cast<int64_t>(sizeof(T));
  const int64_t part_bytes = scratch_bytes(1) - staged_ * element;
  std::byte* next = scratch_ + staged_ * element + part * part_bytes;
  const auto take = [&](int64_t bytes) {
    std::byte* taken = next;
    next += Lines(bytes);
    return static_cast<void*>(taken);
  };
  State state;
  state.locations = static_cast<T**>(take(program_.locations() * int64_t{sizeof(T*)}));
  state.bases = static_cast<int64_t*>(take(static_cast<int64_t>(walk_.strides.size()) * int64_t{sizeof(int64_t)}));
  state.scalars = static_cast<T*>(take(program_.scalars * element));
  auto* registers = static_cast<T*>(take(program_.registers * kTileLength * element));
  state.buffers = static_cast<T*>(take(buffers_ * kTileLength * element));
  state.index = static_cast<uint64_t*>(take(0));
  state.at = state.locations;
  for (int s = 0; s < program_.scalars; ++s) {
    state.scalars[s] = uniform_[static_cast<size_t>(s)];
    state.locations[program_.first_scalar() + s] = state.scalars + s;
  }
  for (int r = 0; r < program_.registers; ++r) {
    state.locations[program_.first_register() + r] = registers + r * kTileLength;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    state.locations[i] = input.buffer >= 0 ? state.buffers + input.buffer * kTileLength : input.data;
  }
  return state;
}

template <class T>
void TileEngine<T>::Bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::byte* scratch) {
  scratch_ = scratch;
  tensors_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    const bool is_native = tensors_[i].type().dtype == DTypeOf<T>::value;
    if (is_native) input.data = static_cast<T*>(tensors_[i].raw());
    if (input.is_staged) input.data = static_cast<T*>(static_cast<void*>(scratch)) + input.staged_at;
  }
  // A result that lies on an input must not be stored before the last step that reads this input. Only Bind sees
  // addresses, so the program is compiled again here; it never needs more registers than in SetRow.
  StorePlan plan{spec_.stores, std::vector<uint64_t>(spec_.expression.results().size(), 0)};
  for (size_t r = 0; r < outputs_.size(); ++r) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (outputs_[r].raw() != tensors_[i].raw()) continue;
      plan.overwrites[r] |= InputBit(static_cast<int>(i));
    }
  }
  program_ = Compile(spec_.expression, levels_, plan);
  seeds_.assign(inputs_.size(), 0);
  uniform_.assign(static_cast<size_t>(program_.scalars), T{0});
  for (const auto& [location, value] : program_.constants) {
    uniform_[static_cast<size_t>(location - program_.first_scalar())] = static_cast<T>(value);
  }
  uniform_at_.assign(static_cast<size_t>(program_.locations()), nullptr);
  for (size_t s = 0; s < uniform_.size(); ++s) {
    uniform_at_[static_cast<size_t>(program_.first_scalar()) + s] = &uniform_[s];
  }
  for (size_t i = 0; i < inputs_.size(); ++i) uniform_at_[i] = inputs_[i].data;
}

// Copies an input into its padded, plain, T-typed form.
template <class T>
void TileEngine<T>::Stage(size_t i) const {
  const Input& input = inputs_[i];
  const Shape& own = spec_.inputs[i].shape;
  const Shape& padded = input.staged_shape;
  if (own == padded) {
    Convert(tensors_[i], 0, own.Count(), input.data);
    return;
  }
  std::fill(input.data, input.data + padded.Count(), T{0});
  const int last = own.rank() - 1;
  const int64_t rows = own[last] == 0 ? 0 : own.Count() / own[last];
  std::array<int64_t, Shape::kMaxRank> at{};
  for (int64_t row = 0; row < rows; ++row) {
    int64_t to = 0;
    for (int axis = 0; axis < last; ++axis) to = to * padded[axis] + at[static_cast<size_t>(axis)];
    Convert(tensors_[i], row * own[last], own[last], input.data + to * padded[last]);
    for (int axis = last - 1; axis >= 0; --axis) {
      if (++at[static_cast<size_t>(axis)] < own[axis]) break;
      at[static_cast<size_t>(axis)] = 0;
    }
  }
}

// Values that are the same for all elements are computed here once, by the same steps as tiles, with tiles of one.
template <class T>
void TileEngine<T>::Prepare() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_staged) Stage(i);
    if (uses_index_ && spec_.inputs[i].shape.Count() == 1) seeds_[i] = SeedOf(tensors_[i]);
  }
  const Frame<T> frame{uniform_at_.data(), seeds_.data(), nullptr, 0};
  FunctionsHere<T>().run(program_.uniform_steps.data(), static_cast<int64_t>(program_.uniform_steps.size()), frame, 1);
}

// Offsets are linear in the outer index, so a row's are summed once. Periodic inputs are unrolled to a whole tile,
// after which each tile of the row reads the same buffer.
template <class T>
void TileEngine<T>::EnterRow(State& state, std::span<const int64_t> index) const {
  for (size_t o = 0; o < walk_.strides.size(); ++o) {
    int64_t base = 0;
    for (size_t d = 0; d < index.size(); ++d) base += index[d] * walk_.strides[o][d];
    state.bases[o] = base;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (input.source == Source::kOneValue) state.locations[i] = input.data + state.bases[i];
    if (input.source != Source::kPeriodic) continue;
    T* buffer = state.locations[i];
    const T* pattern = input.data + state.bases[i];
    const int64_t length = std::min(tile_length_, row_length_);
    std::copy_n(pattern, input.period, buffer);
    for (int64_t j = input.period; j < length; ++j) buffer[j] = buffer[j - input.period];
  }
  if (program_.row_steps.empty()) return;
  const Frame<T> frame{state.locations, seeds_.data(), nullptr, 0};
  FunctionsHere<T>().run(program_.row_steps.data(), static_cast<int64_t>(program_.row_steps.size()), frame, 1);
}

// Calls run(offset, stride, position, length) for the stretches of a row's [begin, begin + n) in which an operand moves
// by one stride.
template <class T>
template <class Run>
void TileEngine<T>::VisitRuns(const std::vector<int64_t>& strides, int64_t begin, int64_t n, Run&& run) const {
  std::array<int64_t, Shape::kMaxRank + Layout::kMaxBlocks> at{};
  int64_t offset = 0;
  const auto outer = static_cast<size_t>(outer_dims());
  const auto last = static_cast<size_t>(walk_.dims()) - 1;
  int64_t rest = begin;
  for (size_t d = last + 1; d-- > outer;) {
    at[d] = rest % walk_.extents[d];
    rest /= walk_.extents[d];
    offset += at[d] * strides[d];
  }
  for (int64_t done = 0; done < n;) {
    const int64_t length = std::min(walk_.extents[last] - at[last], n - done);
    run(offset, strides[last], done, length);
    done += length;
    offset += length * strides[last];
    at[last] += length;
    for (size_t d = last; d > outer && at[d] == walk_.extents[d]; --d) {
      offset += strides[d - 1] - at[d] * strides[d];
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

// Makes input i's elements [begin, begin + n) of the row readable at its location.
template <class T>
void TileEngine<T>::Fetch(State& state, size_t i, int64_t begin, int64_t n) const {
  const Input& input = inputs_[i];
  const int64_t base = state.bases[i];
  switch (input.source) {
    case Source::kOneValue:
    case Source::kPeriodic: return;
    case Source::kInPlace: state.locations[i] = input.data + base + begin; return;
    case Source::kConverted: Convert(tensors_[i], base + begin, n, state.locations[i]); return;
    case Source::kGathered: break;
  }
  T* buffer = state.locations[i];
  VisitRuns(walk_.strides[i], begin, n, [&](int64_t offset, int64_t stride, int64_t position, int64_t length) {
    const T* from = input.data + base + offset;
    T* to = buffer + position;
    if (stride == 0) {
      std::fill_n(to, length, *from);
    } else if (stride == 1) {
      std::copy_n(from, length, to);
    } else {
      for (int64_t j = 0; j < length; ++j) to[j] = from[j * stride];
    }
  });
}

// A repacked output is made in a buffer of one tile and scattered from there.
template <class T>
void TileEngine<T>::PlaceOutputs(State& state, int64_t begin) const {
  // Outputs are dense: their offset is the walk's own.
  const int64_t base = state.bases[walk_.strides.size() - 1] + begin;
  for (size_t r = 0; r < outputs_.size(); ++r) {
    state.locations[inputs_.size() + r] = static_cast<T*>(outputs_[r].raw()) + base;
  }
  for (size_t k = 0; k < halves_.size(); ++k) {
    state.locations[inputs_.size() + halves_[k]] = BufferOf(state, first_half_ + static_cast<int64_t>(k));
  }
  for (size_t k = 0; k < spec_.repacked.size(); ++k) {
    state.locations[inputs_.size() + spec_.repacked[k].first] =
        BufferOf(state, first_repacked_ + static_cast<int64_t>(k));
  }
}

// A weight in blocks of 16 x 16 channels that is also written with its block transposed (the layout of the other
// direction) is the common repacking: then whole blocks go through registers instead of single floats. Returns the side
// of such blocks, 0 for any other repacking.
template <class T>
int64_t TileEngine<T>::TransposedSide(const std::vector<int64_t>& strides, bool is_half) const {
  if (row_dims_ < 2 || sizeof(T) != sizeof(float) || is_half) return 0;
  const auto last = static_cast<size_t>(walk_.dims()) - 1;
  const int64_t side = walk_.extents[last];
  const bool is_square = walk_.extents[last - 1] == side && strides[last] == side && strides[last - 1] == 1;
  const bool is_whole = side % 4 == 0 && tile_length_ % (side * side) == 0;
  if (!is_square || !is_whole) return 0;
  const auto is_apart = [&](int64_t stride) { return stride % (side * side) == 0; };
  return std::all_of(strides.begin(), strides.end() - 2, is_apart) ? side : 0;
}

// Large outputs are streamed past the caches: at kStreamedBytes and more a write-allocate would read every line that is
// overwritten and throw out what the next nodes need.
template <class T>
void TileEngine<T>::ScatterBlocks(const State& state, size_t k, int64_t begin, int64_t n, int64_t side) const {
  if constexpr (sizeof(T) == sizeof(float)) {
    const size_t operand = inputs_.size() + 1 + k;
    const std::vector<int64_t>& strides = walk_.strides[operand];
    const size_t output = spec_.repacked[k].first;
    const float* from = state.locations[inputs_.size() + output];
    float* base = static_cast<float*>(outputs_[output].raw()) + state.bases[operand];
    const bool streams = outputs_[output].type().Bytes() >= kStreamedBytes;
    const auto blocks = static_cast<size_t>(walk_.dims()) - 2;
    for (int64_t done = 0; done < n; done += side * side) {
      int64_t rest = (begin + done) / (side * side);
      int64_t offset = 0;
      for (size_t d = blocks; d-- > static_cast<size_t>(outer_dims());) {
        offset += rest % walk_.extents[d] * strides[d];
        rest /= walk_.extents[d];
      }
      TransposeBlock(from + done, side, base + offset, streams);
    }
    if (streams) StreamsDone();
  }
}

// Element by element, where no blocks can be transposed as a whole.
template <class T>
void TileEngine<T>::Scatter(const State& state, size_t k, int64_t begin, int64_t n) const {
  if (sides_[k] > 0) return ScatterBlocks(state, k, begin, n, sides_[k]);
  const size_t operand = inputs_.size() + 1 + k;
  const size_t output = spec_.repacked[k].first;
  const T* from = state.locations[inputs_.size() + output];
  if (IsHalf(outputs_[output].type().dtype)) return ScatterHalf(state, operand, outputs_[output], from, begin, n);
  T* base = static_cast<T*>(outputs_[output].raw()) + state.bases[operand];
  VisitRuns(walk_.strides[operand], begin, n, [&](int64_t offset, int64_t stride, int64_t position, int64_t length) {
    for (int64_t j = 0; j < length; ++j) base[offset + j * stride] = from[position + j];
  });
}

// The same into half values.
template <class T>
void TileEngine<T>::ScatterHalf(const State& state, size_t operand, const Tensor& output, const T* from, int64_t begin,
                                int64_t n) const {
  std::array<uint16_t, kTileLength> halves;
  NarrowTile(output.type().dtype, from, n, halves.data());
  uint16_t* base = static_cast<uint16_t*>(output.raw()) + state.bases[operand];
  VisitRuns(walk_.strides[operand], begin, n, [&](int64_t offset, int64_t stride, int64_t position, int64_t length) {
    const uint16_t* tile = halves.data() + position;
    for (int64_t j = 0; j < length; ++j) base[offset + j * stride] = tile[j];
  });
}

// Rounds the half outputs' tiles to where they lie.
template <class T>
void TileEngine<T>::StoreHalves(const State& state, int64_t begin, int64_t n) const {
  const int64_t base = state.bases[walk_.strides.size() - 1] + begin;
  for (const size_t output : halves_) {
    const Tensor& tensor = outputs_[output];
    NarrowTile(tensor.type().dtype, state.locations[inputs_.size() + output], n,
               static_cast<uint16_t*>(tensor.raw()) + base);
  }
}

// One tile: fetch operands, place results, run the steps, scatter the repacked results. Random numbers are keyed by the
// logical index, which does not depend on layout or threads; it is written out only where the walk is not in logical
// order.
template <class T>
void TileEngine<T>::Evaluate(State& state, int64_t begin, int64_t n) const {
  for (size_t i = 0; i < inputs_.size(); ++i) Fetch(state, i, begin, n);
  Frame<T> frame{state.locations, seeds_.data(), nullptr, 0};
  if (uses_index_) {
    const int64_t base = state.bases[inputs_.size()];
    frame.first = static_cast<uint64_t>(base + begin);
    if (!is_index_contiguous_) {
      frame.index = state.index;
      VisitRuns(walk_.strides[inputs_.size()], begin, n,
                [&](int64_t offset, int64_t stride, int64_t position, int64_t length) {
                  for (int64_t j = 0; j < length; ++j) {
                    state.index[position + j] = static_cast<uint64_t>(base + offset + j * stride);
                  }
                });
    }
  }
  if (!outputs_.empty()) PlaceOutputs(state, begin);
  FunctionsHere<T>().run(program_.tile_steps.data(), static_cast<int64_t>(program_.tile_steps.size()), frame, n);
  StoreHalves(state, begin, n);
  for (size_t k = 0; k < spec_.repacked.size(); ++k) Scatter(state, k, begin, n);
}

template class TileEngine<float>;
template class TileEngine<double>;

}  // namespace moka::tile
