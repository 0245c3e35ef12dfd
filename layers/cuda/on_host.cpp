// Ops without a kernel for GPUs, and why: the sentence stands in the announcement that the CPU does them and in
// --explain.
#include "layers/cuda/on_host.h"

#include <array>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace moka {
namespace {

struct Reason {
  std::string_view op;
  std::string_view why;
};

constexpr std::string_view kSuppresses = "it sorts and suppresses one box after another";
constexpr std::string_view kMatches = "it matches boxes with objects one after another";
constexpr std::string_view kChooses = "it chooses rows one after another, by numbers drawn in order";
constexpr std::string_view kEvaluates = "it counts a few boxes for a report";
constexpr std::string_view kCells = "it goes through the objects of a picture one after another";
constexpr std::string_view kDecodes = "it goes through a sequence one step after another";
constexpr std::string_view kLattice = "it builds a hash table of lattice points";
constexpr std::string_view kAugments = "it draws and changes a picture at a time, as the data layers do";
constexpr std::string_view kMasks = "it works on a few masks of regions";
constexpr std::string_view kPeaks = "it looks for a few peaks of each map";
constexpr std::string_view kSplits = "ranks on GPUs have whole layers so far";
constexpr std::string_view kFlood = "it follows connected pixels one after another";
constexpr std::string_view kRare = "no net that trains on GPUs has needed it";

// By op.
constexpr auto kReasons = std::to_array<Reason>({
    {"all_gather_begin", "each rank on GPUs updates all weights so far"},
    {"anchor_targets", kMatches},
    {"augment_choices", kAugments},
    {"augment_colour", kAugments},
    {"augment_place", kAugments},
    {"border_weight", kFlood},
    {"box_coverage", kCells},
    {"box_excitation", kCells},
    {"branch_accuracy", kEvaluates},
    {"branch_proposals", kSuppresses},
    {"branch_targets", kMatches},
    {"center_grid_loss", kCells},
    {"center_grids", kCells},
    {"center_peaks", kPeaks},
    {"class_detections", kSuppresses},
    {"cluster_boxes", kSuppresses},
    {"convolution_int8", "products of 8-bit integers are made for CPUs"},
    {"ctc_decode", kDecodes},
    {"ctc_loss", kDecodes},
    {"ctc_loss_backward", kDecodes},
    {"cubic_mean", kPeaks},
    {"decode_regions", kChooses},
    {"detection_evaluate", kEvaluates},
    {"detection_output", kSuppresses},
    {"edit_distance", kDecodes},
    {"embed_sum", kRare},
    {"embed_sum_backward", kRare},
    {"embed_update", "it updates single rows by an expression of its own"},
    {"eval_detection", kEvaluates},
    {"eval_squares", kEvaluates},
    {"exchange_columns", kSplits},
    {"exchange_rows", kSplits},
    {"face_scores", kEvaluates},
    {"flow_warp", kRare},
    {"flow_warp_backward", kRare},
    {"gather_rows", kSplits},
    {"hard_regions", kSuppresses},
    {"hard_rows", kChooses},
    {"heat_peaks", kPeaks},
    {"lattice_filter", kLattice},
    {"map_maxima", kPeaks},
    {"mask_cuts", kMasks},
    {"mask_labels", kMasks},
    {"mask_overlaps", kEvaluates},
    {"mask_resize", kMasks},
    {"mask_resize_backward", kMasks},
    {"mask_targets", kMasks},
    {"mean_over_ranks", "ranks on GPUs take the statistics of their own batches so far"},
    {"multibox_match", kMatches},
    {"near_negatives", kChooses},
    {"pick_boxes", kChooses},
    {"pick_boxes_backward", kChooses},
    {"picture_regions", kMatches},
    {"proposal_targets", kMatches},
    {"proposals", kSuppresses},
    {"pyramid_anchor_targets", kMatches},
    {"pyramid_proposals", kSuppresses},
    {"rand_score", kFlood},
    {"region_accuracy", kEvaluates},
    {"region_detections", kSuppresses},
    {"region_loss", kCells},
    {"region_targets", kMatches},
    {"resample", kRare},
    {"roi_warp", kMasks},
    {"roi_warp_backward", kMasks},
    {"row_channels", kChooses},
    {"sample_triplets", kChooses},
    {"scale_rows", kChooses},
    {"scatter_rows", kSplits},
    {"score_boxes", kEvaluates},
    {"split_softmax_loss", kSplits},
    {"split_softmax_loss_backward", kSplits},
    {"squares_loss", kCells},
    {"triplet_rows_loss", kChooses},
    {"winner_mask", kPeaks},
    {"yolo_cells_loss", kCells},
    {"yolo_detections", kSuppresses},
    {"yolov3_loss", kCells},
});

std::string RefuseOnHost(const KernelQuery& query) {
  for (const Reason& reason : kReasons) {
    if (reason.op == query.node.op->name) return StrCat(reason.why, ": the CPU does it");
  }
  throw Error(ErrorKind::kInternal, StrCat("no reason is listed for ", query.node.op->name));
}

}  // namespace

std::vector<KernelDef> KernelsOnHost() {
  std::vector<KernelDef> rows;
  for (const Reason& reason : kReasons) {
    rows.push_back({.name = "none", .op = std::string(reason.op), .device = DeviceKind::kCuda, .refuse = RefuseOnHost});
  }
  return rows;
}

}  // namespace moka
