// BuildNet: from a NetParameter to a graph. Layers are added in file order; a layer with a mistake leaves its tops
// unknown, and layers that read unknown blobs are passed over, so each mistake is reported once.
#include "layers/net/net.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "core/utf8.h"
#include "graph/layer_names.h"
#include "layers/net/catalog.h"
#include "layers/net/fork_types.h"
#include "layers/net/loss_gradient.h"
#include "layers/net/moot_fields.h"
#include "layers/net/named_layers.h"
#include "layers/net/net_context.h"
#include "layers/net/unread_fields.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"
#include "proto/upgrade/spark_sources.h"

namespace moka {
namespace {

// Nets of several phases, lengths and ranks have the same layers: what is wrong with them is said once a process.
void SayOnce(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) LogWarningOnce(sentence);
}

class NetBuilder {
 public:
  NetBuilder(const NetParameter& net, const NetOptions& options)
      : net_(FilterNet(net, options.state), Graph(StandardCatalog())), context_(net_, options) {}

  BuiltNet Build() {
    AddLayers();
    SayOnce(context_.unused);
    if (errors_.size() == 1) throw Error(errors_.front());
    if (!errors_.empty()) throw ErrorList(std::move(errors_));
    if (TellsFields()) SayOnce(MootNetFields(shaped_));
    JoinLosses();
    for (const auto& [name, blob] : blobs_) net_.tops[name] = blob.value;
    for (const std::string& name : available_) {
      net_.outputs.push_back({name, blobs_[name].value, blobs_[name].loss_weight});
    }
    return std::move(net_);
  }

  NetAttempt Attempt() {
    AddLayers();
    NetAttempt attempt{.builds = errors_.empty(),
                       .may_fit = errors_.size() == failures_.size(),
                       .failures = std::move(failures_),
                       .is_built = std::move(is_built_),
                       .blobs = {},
                       .data = std::move(net_.data)};
    for (const auto& [name, blob] : blobs_) {
      if (blob.value != kNoId) attempt.blobs[name] = net_.graph.shape(blob.value);
    }
    return attempt;
  }

 private:
  bool TellsFields() const { return context_.options.tells_fields && !IsQuiet(); }

  void AddLayers() {
    CheckSize();
    CheckFields();
    CheckNetNumbers(net_.param);
    if (TellsFields()) SayOnce(UnreadNetFields(net_.param));
    NameLayers();
    FindProducers();
    for (const LayerParameter& layer : net_.param.layer()) AddLayer(layer);
  }

  // The last layer that wrote a blob. value is kNoId when that layer could not be built.
  struct Blob {
    ValueId value = kNoId;
    const LayerParameter* layer = nullptr;
    double loss_weight = 0;
  };
  struct Loss {
    ValueId value;
    double weight;
    const LayerParameter* layer;
    bool is_total;  // made by a loss layer, which says itself what it is over
  };

  static std::string Quoted(const LayerParameter& layer) { return StrCat("layer \"", layer.name(), "\""); }
  static Error At(const LayerParameter& layer, std::string_view field, const std::string& text,
                  const std::string& hint = {}) {
    return ErrorAt(layer, field, Printable(StrCat(Quoted(layer), ": ", text)), Printable(hint));
  }

  void CheckFields() {
    for (Error& error : UnknownFieldsOf(net_.param.origin())) errors_.push_back(std::move(error));
  }

  void CheckSize() const {
    Require(net_.param.layers_size() == 0 && net_.param.input_size() == 0, "BuildNet is given an upgraded net");
    if (net_.param.layer_size() == 0) {
      throw Error(ErrorKind::kConfig, PlaceOf(net_.param),
                  StrCat("the net has no layer in phase ", Phase_Name(context_.options.state.phase())),
                  "check its layers' include and exclude rules");
    }
    if (net_.param.layer_size() <= kMaxLayers) return;
    throw Error(ErrorKind::kConfig, PlaceOf(net_.param),
                StrCat("the net has ", net_.param.layer_size(), " layers; the limit is ", kMaxLayers));
  }

  void FindProducers() {
    for (const LayerParameter& layer : net_.param.layer()) {
      for (const std::string& top : layer.top()) producers_.emplace(top, &layer);
    }
  }

  void Report(Error error, const LayerParameter& layer) {
    if (error.place().file.empty()) error.SetPlace(PlaceOf(layer));  // an override's place has no line
    for (const std::string& note : layer.origin().note()) {
      if (std::ranges::find(error.notes(), note) == error.notes().end()) error.AddNote(note);
    }
    errors_.push_back(std::move(error));
  }

  void AddLayer(const LayerParameter& layer) {
    const size_t errors_before = errors_.size();
    const LayerDef* def = nullptr;
    bool is_known = true;  // whether every bottom has a value
    std::vector<ValueId> bottoms;
    try {
      context_.layers.emplace(layer.name(), &layer);
      def = FindType(layer);
      for (Error& error : UnknownFieldsOf(layer.origin())) Report(std::move(error), layer);
      CheckCounts(layer, *def);
      is_known = FindBottoms(layer, bottoms);
      CheckTops(layer);
    } catch (const SizeOverflow& error) {  // the net's mistake, not that of a data file
      Report(At(layer, {}, error.text()), layer);
    } catch (const Error& error) {
      Report(error, layer);
    }
    const bool is_tried = errors_.size() == errors_before && is_known;
    if (is_tried) {
      BuildLayer(layer, *def, std::move(bottoms));
    } else {
      context_.tops.clear();
    }
    is_built_.push_back(is_tried && errors_.size() == errors_before);
    WriteTops(layer);
  }

  // Names go into checkpoints and records of JSON, which hold no other bytes: said here, not at the first checkpoint.
  void CheckUtf8(const LayerParameter& layer) {
    const auto check = [&](const std::string& name, std::string_view field) {
      if (IsUtf8(name)) return;
      Report(At(layer, field, StrCat(field, " \"", name, "\" is no UTF-8"), "write the file in UTF-8"), layer);
    };
    check(layer.name(), "name");
    for (const std::string& bottom : layer.bottom()) check(bottom, "bottom");
    for (const std::string& top : layer.top()) check(top, "top");
    for (const ParamSpec& param : layer.param()) check(param.name(), "param");
  }

  void NameLayers() {
    for (const LayerParameter& layer : net_.param.layer()) {
      if (layer.name().find(kBetweenLayers) != std::string::npos) {
        Report(At(layer, "name", "the name has the control character 0x1f, which is kept for what joins names"), layer);
      }
      CheckUtf8(layer);
    }
    for (const std::string& sentence : moka::NameLayers(net_.param)) LogWarning(sentence);
  }

  const LayerDef* FindType(const LayerParameter& layer) const {
    if (layer.type().empty()) throw At(layer, {}, "no type is given", "add type: \"...\"");
    RefuseSparkSource(layer);
    const LayerDef* def = FindLayer(layer.type());
    if (def != nullptr) return def;
    if (errors_.size() >= ErrorList::kMaxErrors) throw At(layer, "type", "unknown layer type");  // hints take time
    std::vector<std::string> types;
    for (const LayerDef& known : AllLayers()) types.push_back(known.type);
    const std::string hint = IsLeftOut(layer.type()) ? kWithoutForks : DidYouMean(layer.type(), types);
    throw At(layer, "type", StrCat("unknown layer type \"", layer.type(), "\""), hint);
  }

  // "1 bottom", "2 or 3 bottoms", "at least 2 bottoms", "no bottom".
  static std::string CountText(int least, int most, std::string_view noun) {
    if (most == 0) return StrCat("no ", noun);
    const std::string number = most < 0            ? StrCat("at least ", least)
                               : least == most     ? StrCat(least)
                               : least + 1 == most ? StrCat(least, " or ", most)
                                                   : StrCat(least, " to ", most);
    return StrCat(number, " ", noun, std::max(least, most) > 1 ? "s" : "");
  }

  static void CheckCount(const LayerParameter& layer, int found, int least, int most, const std::string& noun) {
    if (found >= least && (most < 0 || found <= most)) return;
    const std::string field = found > 0 && most >= 0 && found > most ? StrCat(noun, "[", most, "]") : noun;
    throw At(layer, field, StrCat(layer.type(), " takes ", CountText(least, most, noun), ", found ", found));
  }

  static void CheckCounts(const LayerParameter& layer, const LayerDef& def) {
    CheckCount(layer, layer.bottom_size(), def.min_bottoms, def.max_bottoms, "bottom");
    CheckCount(layer, layer.top_size(), def.auto_tops ? 0 : def.min_tops, def.max_tops, "top");
    if (def.equal_counts && layer.top_size() != layer.bottom_size()) {
      throw At(layer, "top",
               StrCat(layer.type(), " takes a top for each bottom, found ", layer.bottom_size(), " bottoms and ",
                      layer.top_size(), " tops"));
    }
    if (layer.propagate_down_size() != 0 && layer.propagate_down_size() != layer.bottom_size()) {
      throw At(layer, "propagate_down",
               StrCat("propagate_down is given ", layer.propagate_down_size(), " times for ", layer.bottom_size(),
                      " bottoms; give it once a bottom or not at all"));
    }
    const int tops = def.auto_tops ? std::max(def.min_tops, layer.top_size()) : layer.top_size();
    if (layer.loss_weight_size() != 0 && layer.loss_weight_size() != tops) {
      throw At(layer, "loss_weight",
               StrCat("loss_weight is given ", layer.loss_weight_size(), " times for ", tops,
                      " tops; give it once a top or not at all"));
    }
    for (int i = 0; i < layer.loss_weight_size(); ++i) {
      if (std::isfinite(layer.loss_weight(i))) continue;
      throw At(layer, StrCat("loss_weight[", i, "]"), "loss_weight must be a finite number");
    }
  }

  // False if some bottom comes from a layer with a mistake. Every bottom nobody has produced is reported.
  bool FindBottoms(const LayerParameter& layer, std::vector<ValueId>& values) {
    bool is_known = true;
    for (int i = 0; i < layer.bottom_size(); ++i) {
      const auto found = blobs_.find(layer.bottom(i));
      if (found == blobs_.end()) {
        Report(UnknownBottom(layer, i), layer);
        blobs_[layer.bottom(i)] = {};  // told once
        continue;
      }
      is_known = is_known && found->second.value != kNoId;
      values.push_back(found->second.value);
      available_.erase(layer.bottom(i));
    }
    return is_known;
  }

  Error UnknownBottom(const LayerParameter& layer, int i) const {
    const std::string field = StrCat("bottom[", i, "]");
    const std::string& name = layer.bottom(i);
    const auto producer = producers_.find(name);
    if (producer != producers_.end() && producer->second == &layer) {
      return At(layer, field, StrCat("bottom \"", name, "\" is its own top; no layer before it produces that blob"));
    }
    if (producer != producers_.end()) {
      return At(layer, field,
                StrCat("bottom \"", name, "\" is produced only later, by the ", Located(*producer->second)),
                "a layer reads tops of layers before it: change the order, or break the cycle");
    }
    if (errors_.size() >= ErrorList::kMaxErrors)
      return At(layer, field, StrCat("no layer produces bottom \"", name, "\""));
    for (const LayerParameter& out : LayersLeftOut(net_.param)) {
      if (std::ranges::find(out.top(), name) == out.top().end()) continue;
      return At(layer, field,
                StrCat("bottom \"", name, "\" is not in this net: the ", Located(out), " makes it by ", RulesText(out),
                       ", and this is ", StateText(context_.options.state)),
                HowToAdmit(out, context_.options.state));
    }
    std::vector<std::string> known;
    for (const auto& [blob, source] : blobs_) {
      if (source.layer != nullptr) known.push_back(blob);
    }
    std::string hint = DidYouMean(name, known);
    const std::vector<std::string> near = NearestNames(name, known);
    if (!near.empty()) hint += StrCat(" (top of the ", Located(*blobs_.at(near.front()).layer), ")");
    return At(layer, field, StrCat("no layer produces bottom \"", name, "\""), hint);
  }

  static bool HasRuleBesidePhase(const LayerParameter& layer) {
    const auto has = [](const NetStateRule& rule) {
      return rule.stage_size() > 0 || rule.not_stage_size() > 0 || rule.has_min_level() || rule.has_max_level();
    };
    return std::ranges::any_of(layer.include(), has) || std::ranges::any_of(layer.exclude(), has);
  }

  // Refuses tops that are there already, unless the layer works in place: top i is bottom i.
  void CheckTops(const LayerParameter& layer) {
    std::set<std::string_view> own;
    for (int i = 0; i < layer.top_size(); ++i) {
      const std::string& top = layer.top(i);
      const std::string field = StrCat("top[", i, "]");
      if (top.empty()) throw At(layer, field, "a top has no name");
      if (!own.insert(top).second) throw At(layer, field, StrCat("top \"", top, "\" is given twice"));
      if (i < layer.bottom_size() && layer.bottom(i) == top) continue;
      const auto found = blobs_.find(top);
      if (found == blobs_.end() || found->second.layer == nullptr) continue;
      const LayerParameter& other = *found->second.layer;
      throw At(layer, field, StrCat("top \"", top, "\" is already produced by the ", Located(other)),
               HintForTwoTops(other, layer, i));
    }
  }

  // Returns what would keep two layers, the second with top i, from producing one blob.
  std::string HintForTwoTops(const LayerParameter& first, const LayerParameter& second, int i) const {
    if (HasRuleBesidePhase(first) || HasRuleBesidePhase(second)) {
      return StrCat(StateText(context_.options.state), " lets both in, the first by ", RulesText(first),
                    ", this one by ", RulesText(second), ": let the rules leave one of them out there");
    }
    const bool are_data = first.bottom_size() == 0 && second.bottom_size() == 0;
    if (are_data) return "give one of them include { phase: TRAIN } and the other include { phase: TEST }";
    return StrCat("rename one of them; in place is only top ", i, " equal to bottom ", i);
  }

  void BuildLayer(const LayerParameter& layer, const LayerDef& def, std::vector<ValueId> bottoms) {
    Graph& graph = net_.graph;
    const int values_before = graph.value_count();
    context_.first_blob = net_.blobs.size();
    const size_t tops = static_cast<size_t>(std::max(layer.top_size(), def.auto_tops ? def.min_tops : 0));
    context_.tops.assign(tops, kNoId);
    context_.loss_weights.assign(tops, 0.0);
    try {
      const GraphBuilder b(graph, {.layer = layer.name(), .place = PlaceOf(layer), .pass = {}});
      for (int i = 0; i < layer.propagate_down_size(); ++i) {
        ValueId& bottom = bottoms[static_cast<size_t>(i)];
        if (!layer.propagate_down(i)) bottom = b.Add1("stop_gradient", {bottom});
      }
      if (!bottoms.empty() && !IsQuiet()) {
        ShapedLayer& shaped = shaped_.emplace_back(ShapedLayer{&layer, {}});
        for (const ValueId bottom : bottoms) shaped.bottoms.push_back(graph.shape(bottom));
      }
      LayerBuilder builder(context_, layer, std::move(bottoms));
      def.build(builder);
      CheckParamCount(layer);
      for (ValueId id = values_before; id < graph.value_count(); ++id) {
        CheckValueType(StrCat(Quoted(layer), ": a result"), graph.type(id));
      }
      for (const ValueId top : context_.tops) Require(top != kNoId, "a layer sets all its tops");
      CheckLossWeights(layer, builder.bottoms());
    } catch (const SizeOverflow& error) {
      Fail(At(layer, {}, error.text()), layer);
    } catch (const Error& error) {
      Fail(error, layer);
    }
  }

  // A layer that was not built.
  void Fail(const Error& error, const LayerParameter& layer) {
    failures_.push_back({static_cast<int>(is_built_.size()), error.text()});
    Report(error, layer);
    context_.tops.clear();
  }

  // A weighted top adds to the loss; where no gradient of it reaches what is trained before it, the number is there and
  // nothing learns by it. Caffe ends with an abort there, but for further tops of losses, whose gradient it ignores.
  void CheckLossWeights(const LayerParameter& layer, std::span<const ValueId> bottoms) const {
    if (context_.options.state.phase() != TRAIN) return;
    for (int i = 0; i < std::min(layer.loss_weight_size(), static_cast<int>(context_.tops.size())); ++i) {
      const auto top = static_cast<size_t>(i);
      if (layer.loss_weight(i) == 0 || context_.loss_weights[top] != 0) continue;
      std::set<ValueId> trained;
      std::vector<ValueId> reached(bottoms.begin(), bottoms.end());
      for (size_t k = 0; k < net_.blobs.size(); ++k) {
        const NetBlob& blob = net_.blobs[k];
        if (blob.role == ParameterRole::kStatistic || blob.lr_mult == 0) continue;
        trained.insert(blob.state);
        if (k >= context_.first_blob) reached.push_back(blob.state);
      }
      const bool is_trained = DependsOn(net_.graph, context_.tops[top], trained);
      if (is_trained && GradientReaches(net_.graph, context_.tops[top], reached)) continue;
      const std::string field = StrCat("loss_weight[", i, "]");
      const bool is_loss = std::ranges::any_of(context_.loss_weights, [](double weight) { return weight != 0; });
      const std::string weight = StrCat("loss_weight ", layer.loss_weight(i), " adds ",
                                        i < layer.top_size() ? StrCat("\"", layer.top(i), "\"") : StrCat("top ", i),
                                        " to the loss and trains nothing: ");
      if (is_trained && !is_loss) {
        throw At(layer, field, StrCat(weight, layer.type(), " has no gradient"),
                 "leave out loss_weight, or give it to a layer with a gradient");
      }
      LogWarning(Printable(StrCat(PlaceOf(layer, field).ToString(), ": ", Quoted(layer), ": ", weight,
                                  is_trained ? "that top has no gradient" : "no weight that learns goes into it")));
    }
  }

  void CheckParamCount(const LayerParameter& layer) const {
    const size_t blobs = net_.blobs.size() - context_.first_blob;
    if (static_cast<size_t>(layer.param_size()) <= blobs) return;
    throw At(layer, StrCat("param[", blobs, "]"),
             StrCat("param is given ", layer.param_size(), " times but the layer has ", blobs, " parameters"));
  }

  // Names the tops of the layer just built; unknown ones if it was not (context_.tops is empty then).
  void WriteTops(const LayerParameter& layer) {
    for (size_t i = 0; i < std::max(context_.tops.size(), static_cast<size_t>(layer.top_size())); ++i) {
      const bool is_built = i < context_.tops.size();
      const int index = static_cast<int>(i);
      const ValueId value = is_built ? context_.tops[i] : kNoId;
      double weight = 0;
      if (is_built) {
        weight =
            layer.loss_weight_size() > 0 ? static_cast<double>(layer.loss_weight(index)) : context_.loss_weights[i];
        if (weight != 0) losses_.push_back({value, weight, &layer, context_.loss_weights[i] != 0});
      }
      if (index >= layer.top_size()) continue;  // made without a name
      const std::string& name = layer.top(index);
      blobs_[name] = {value, &layer, weight};
      if (!is_built) continue;
      available_.insert(name);
      net_.trace.emplace_back(StrCat(layer.name(), ":", name), value);
      const Value& made = net_.graph.value(value);
      if (made.kind == ValueKind::kResult && made.name.empty()) net_.graph.SetName(value, name);
    }
  }

  // Where a top has an item for each sample its sum is over the samples of all ranks; a loss is the mean of theirs.
  double FactorOfRanks(const Loss& loss) {
    const Shape shape = net_.graph.shape(loss.value);
    const bool is_total = loss.is_total || shape.rank() == 0 || loss.layer->type() == "Python";
    if (context_.options.ranks == 1 || is_total || !context_.ReadsData(loss.value)) return 1;
    if (shape.Count() > 1) return static_cast<double>(context_.options.ranks);
    net_.unequal.emplace_back(loss.layer->name(),
                              "has one number as its loss, which may be of one sample or of a batch: with one sample a "
                              "rank that cannot be told, and a mean is taken");
    return 1;
  }

  // loss = sum of weights * sums of elements.
  void JoinLosses() {
    std::vector<ValueId> sums;
    std::string expression;
    for (const Loss& loss : losses_) {
      const GraphBuilder b(net_.graph, {.layer = loss.layer->name(), .place = PlaceOf(*loss.layer), .pass = {}});
      const std::string x = StrCat("x", sums.size());
      const double weight = loss.weight * FactorOfRanks(loss);
      const std::string term = weight == 1 ? x : StrCat(x, "*(", weight, ")");
      expression += expression.empty() ? term : StrCat("+", term);
      sums.push_back(b.SumAll(loss.value));
    }
    if (sums.empty()) return;
    if (expression == "x0") {
      net_.loss = sums.front();
      return;
    }
    const LayerParameter& last = *losses_.back().layer;
    const GraphBuilder b(net_.graph, {.layer = last.name(), .place = PlaceOf(last), .pass = {}});
    net_.loss = b.Pointwise(expression, sums);
    net_.graph.SetName(net_.loss, "loss");
  }

  BuiltNet net_;
  LayerBuilder::Context context_;
  std::map<std::string, Blob> blobs_;
  std::set<std::string> available_;  // tops nobody has read, sorted: Caffe's order
  std::map<std::string, const LayerParameter*> producers_;
  std::vector<Loss> losses_;
  std::vector<ShapedLayer> shaped_;  // layers with bottoms
  std::vector<Error> errors_;
  std::vector<NetAttempt::Failure> failures_;  // those of errors_ that came up while a layer was built
  std::vector<bool> is_built_;                 // a layer each, those so far
};

}  // namespace

BuiltNet BuildNet(const NetParameter& net, const NetOptions& options) { return NetBuilder(net, options).Build(); }

NetAttempt AttemptNet(const NetParameter& net, const NetOptions& options) { return NetBuilder(net, options).Attempt(); }

}  // namespace moka
