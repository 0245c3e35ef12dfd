// Data layers of detection, segmentation and video nets. Reading the datasets is not part of them: their tops are
// inputs fed by the caller, of the shapes below, which param_str may change (height, width, batch, rois, boxes).
#include <algorithm>

#include "core/text.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

struct Sizes {
  int64_t batch;
  int64_t height;
  int64_t width;
};

Sizes SizesOf(const PythonFields& fields, const Sizes& fallback) {
  return {fields.Count("batch", fallback.batch, 1), fields.Count("height", fallback.height, 1),
          fields.Count("width", fallback.width, 1)};
}

void Feed(LayerBuilder& l, const std::vector<Shape>& shapes) {
  std::vector<TensorType> types;
  for (const Shape& shape : shapes) types.push_back({DType::kFloat32, shape, {}});
  l.AddData(types);
}

// Returns the role of a top by its name or, failing that, by its place in `order`. Errors: kConfig with the names.
std::string RoleOf(const LayerBuilder& l, int top, const std::vector<std::string>& order,
                   const std::vector<std::string>& roles) {
  const std::string& name = l.param().top(top);
  if (std::ranges::find(roles, name) != roles.end()) return name;
  const auto i = static_cast<size_t>(top);
  l.Check(i < order.size(), StrCat("top[", top, "]"),
          StrCat("top \"", name, "\" is none of this layer's: ", Join(roles, ", ")));
  return order[i];
}

bool HasTop(const LayerBuilder& l, std::string_view name) {
  return std::ranges::find(l.param().top(), name) != l.param().top().end();
}

// R-C3D: one clip and its true windows in time (first frame, last frame, class), for boxes of an image need its size.
void FeedClips(LayerBuilder& l, const PythonFields& fields) {
  const int64_t side = fields.Count("crop_size", 112, 1);
  Feed(l, {Shape{1, 3, fields.Count("length", 512, 1), side, side}, Shape{fields.Count("boxes", 64, 1), 3}});
}

// Detection: with a region proposal network data, im_info and gt_boxes; without one data, rois and what is learnt.
// Forks add attributes of a face (caffe-face-attributes) and give people and heads apart (mtnet).
void BuildRoiData(LayerBuilder& l, const PythonFields& fields) {
  if (l.top_count() == 2 && HasTop(l, "gt_boxes")) return FeedClips(l, fields);
  const std::vector<std::string> learnt = {
      "data", "rois", "labels", "bbox_targets", "bbox_inside_weights", "bbox_outside_weights"};
  std::vector<std::string> roles = learnt;
  for (const char* name : {"im_info", "gt_boxes", "bbox_loss_weights", "rois_shuffled", "labels_shuffled", "face_attrs",
                           "gt_body", "gt_head"}) {
    roles.emplace_back(name);
  }
  const auto is_role = [&](const std::string& top) { return std::ranges::find(roles, top) != roles.end(); };
  if (HasTop(l, "gt_boxes") && l.FeedsPythonData() && !std::ranges::all_of(l.param().top(), is_role)) {
    return l.AddData(l.AskDataTypes());  // a fork's own, which gives more than boxes
  }
  const bool has_truth = HasTop(l, "im_info") || HasTop(l, "gt_boxes");
  const bool has_rois = !has_truth && (l.top_count() > 3 || (l.top_count() > 1 && l.param().top(1) == "rois"));
  const std::vector<std::string> order = has_rois ? learnt : std::vector<std::string>{"data", "im_info", "gt_boxes"};
  const int64_t classes = fields.Count("num_classes", 21, 1);
  // caffe-face-attributes: six images, seven regions each.
  const bool has_faces = HasTop(l, "rois_shuffled");
  const Sizes size = SizesOf(fields, {has_faces ? 6 : has_rois ? 2 : 1, 600, 1000});
  const int64_t rois = fields.Count("rois", has_faces ? 42 : 128, 1);
  const int64_t boxes = fields.Count("boxes", 64, 1);
  // R-FCN learns one box for all objects (AGNOSTIC in its recipes), the background aside, and its loader gives what is
  // learnt four axes.
  const bool is_rfcn = l.NetHas("PSROIPooling");
  const int64_t learnt_boxes = fields.Count("box_classes", is_rfcn ? 2 : classes, 1);
  const auto learnt_shape = [&](int64_t values) { return is_rfcn ? Shape{rois, values, 1, 1} : Shape{rois, values}; };
  std::vector<Shape> shapes;
  for (int i = 0; i < l.top_count(); ++i) {
    const std::string role = RoleOf(l, i, order, roles);
    const bool is_label = role == "labels" || role == "labels_shuffled";
    shapes.push_back(role == "data"                              ? Shape{size.batch, 3, size.height, size.width}
                     : role == "im_info"                         ? Shape{size.batch, 3}
                     : role == "gt_boxes" || role == "gt_head"   ? Shape{boxes, 5}
                     : role == "gt_body"                         ? Shape{boxes, 6}
                     : role == "face_attrs"                      ? Shape{size.batch, 40}
                     : role == "rois" || role == "rois_shuffled" ? Shape{rois, 5}
                     : is_label                                  ? (is_rfcn ? learnt_shape(1) : Shape{rois})
                                                                 : learnt_shape((Size(4) * learnt_boxes).value()));
  }
  Feed(l, shapes);
}

// caffe-face-attributes without regions.
void BuildFaces(LayerBuilder& l, const PythonFields& fields) {
  const Sizes size = SizesOf(fields, {12, 600, 735});
  Feed(l, {Shape{size.batch, 3, size.height, size.width}, Shape{size.batch, 40}});
}

void BuildMncData(LayerBuilder& l, const PythonFields& fields) {
  const Sizes size = SizesOf(fields, {1, 600, 1000});
  const int64_t boxes = fields.Count("boxes", 64, 1);
  std::vector<Shape> shapes = {Shape{1, 3, size.height, size.width}, Shape{1, 3}, Shape{boxes, 5},
                               Shape{boxes, fields.Count("mask_height", 500, 1), fields.Count("mask_width", 500, 1)},
                               Shape{boxes, 3}};
  shapes.resize(static_cast<size_t>(l.top_count()));
  Feed(l, shapes);
}

void BuildCfmData(LayerBuilder& l, const PythonFields& fields) {
  const Sizes size = SizesOf(fields, {1, 600, 1000});
  const int64_t rois = fields.Count("rois", 64, 1);
  const Shape boxes{rois, (Size(4) * fields.Count("num_classes", 21, 2)).value()};
  const Shape mask{rois, 1, 21, 21};
  const std::vector<Shape> shapes = {Shape{size.batch, 3, size.height, size.width},
                                     Shape{rois, 5},
                                     Shape{rois, 1, 14, 14},
                                     Shape{rois, 1},
                                     Shape{rois, 1},
                                     boxes,
                                     mask,
                                     boxes,
                                     boxes,
                                     mask};
  Feed(l, shapes);
}

// One image and its label map.
void FeedSegmentation(LayerBuilder& l, const PythonFields& fields, const Sizes& fallback) {
  const Sizes size = SizesOf(fields, fallback);
  std::vector<Shape> shapes = {Shape{size.batch, 3, size.height, size.width}};
  while (static_cast<int>(shapes.size()) < l.top_count()) shapes.push_back(shapes[0].With(1, 1));
  Feed(l, shapes);
}

void BuildVoc(LayerBuilder& l, const PythonFields& fields) { FeedSegmentation(l, fields, {1, 500, 500}); }
void BuildSiftFlow(LayerBuilder& l, const PythonFields& fields) { FeedSegmentation(l, fields, {1, 256, 256}); }

// param_str's tops: `color` and `hha` have three channels, `depth` and `label` one.
void BuildNyud(LayerBuilder& l, const PythonFields& fields) {
  const Sizes size = SizesOf(fields, {1, 425, 560});
  const std::vector<std::string> tops = fields.Texts("tops", {"color", "label"});
  l.Check(tops.size() == static_cast<size_t>(l.top_count()), "top",
          StrCat("param_str lists ", tops.size(), " tops (", Join(tops, ", "), ") but the layer has ", l.top_count()));
  std::vector<Shape> shapes;
  for (const std::string& top : tops) {
    l.Check(top == "color" || top == "hha" || top == "depth" || top == "label", "python_param.param_str",
            StrCat("python_param.param_str: a top must be color, depth, hha or label, found \"", top, "\""));
    shapes.push_back(Shape{size.batch, top == "color" || top == "hha" ? 3 : 1, size.height, size.width});
  }
  Feed(l, shapes);
}

// LRCN: clips of 16 frames, frame by frame over the videos of a batch.
void BuildVideo(LayerBuilder& l, const PythonFields& fields, int64_t videos) {
  if (l.FeedsPythonData() && l.param().top(2).find("label") != std::string::npos) {
    return l.AddData(l.AskDataTypes());  // another class of that name: no marks of clips
  }
  const int64_t frames = (Size(fields.Count("frames", 16, 1)) * fields.Count("buffer", videos, 1)).value();
  const Sizes size = SizesOf(fields, {frames, 227, 227});
  Feed(l, {Shape{size.batch, 3, size.height, size.width}, Shape{size.batch}, Shape{size.batch}});
}
void BuildTrainVideo(LayerBuilder& l, const PythonFields& fields) { BuildVideo(l, fields, 24); }
void BuildTestVideo(LayerBuilder& l, const PythonFields& fields) { BuildVideo(l, fields, 3); }

PythonLayerDef Source(const char* module, const char* layer, const char* doc, int least, int most,
                      void (*build)(LayerBuilder&, const PythonFields&)) {
  return {.module = module, .layer = layer, .doc = doc, .min_tops = least, .max_tops = most, .build = build};
}

}  // namespace

std::vector<PythonLayerDef> DataPythonLayers() {
  const char* image =
      "fed by the caller: data [1,3,500,500] and label [1,1,500,500] (or param_str's height and width).";
  const char* train =
      "fed by the caller: data [384,3,227,227], label [384], clip_markers [384]; 24 clips of 16 frames.";
  const char* test = "fed by the caller: data [48,3,227,227], label [48], clip_markers [48]; 3 clips of 16 frames.";
  return {
      Source("nyud_layers", "NYUDSegDataLayer",
             "fed by the caller: param_str's tops, color and hha [1,3,425,560], depth and label [1,1,425,560].", 1, 4,
             BuildNyud),
      Source("pascalcontext_layers", "PASCALContextSegDataLayer", image, 2, 2, BuildVoc),
      Source("plain_zf_data_layer.layer", "PlainZFDataLayer",
             "fed by the caller: data [12,3,600,735] and face_attrs [12,40].", 2, 2, BuildFaces),
      Source("pylayer.cfm_data_layer", "CFMDataLayer",
             "fed by the caller: data, 64 rois, masks, box and mask labels, targets and weights of MNC's CFM nets.", 10,
             10, BuildCfmData),
      Source("pylayer.mnc_data_layer", "MNCDataLayer",
             "fed by the caller: data [1,3,600,1000], im_info [1,3], gt_boxes [64,5] (class 0: padding), gt_masks "
             "[64,500,500], mask_info [64,3]; param_str may give height, width, boxes, mask_height and mask_width.",
             3, 5, BuildMncData),
      Source("roi_data_layer.layer", "RoIDataLayer",
             "fed by the caller: data [1,3,600,1000], im_info [1,3], gt_boxes [64,5] (x1, y1, x2, y2, class; class 0: "
             "padding); or data [2,3,600,1000], rois [128,5], labels [128], bbox_targets, bbox_inside_weights and "
             "bbox_outside_weights [128,4*num_classes] (in a net with PSROIPooling labels [128,1,1,1] "
             "and [128,8,1,1]). param_str may give height, "
             "width, batch, boxes, rois and box_classes, the boxes a roi has targets for. R-C3D, two tops: data "
             "[1,3,512,112,112] and gt_boxes [64,3] (first frame, last frame, class), of length and crop_size. mtnet: "
             "gt_body [64,6] and gt_head [64,5] for gt_boxes. caffe-face-attributes: face_attrs [1,40] too; or of 6 "
             "images 42 rois, rois_shuffled, labels_shuffled and face_attrs.",
             1, 6, BuildRoiData),
      Source("sequence_input_layer", "videoReadTest_RGB", test, 3, 3, BuildTestVideo),
      Source("sequence_input_layer", "videoReadTest_flow", test, 3, 3, BuildTestVideo),
      Source("sequence_input_layer", "videoReadTrain_RGB", train, 3, 3, BuildTrainVideo),
      Source("sequence_input_layer", "videoReadTrain_flow", train, 3, 3, BuildTrainVideo),
      Source("siftflow_layers", "SIFTFlowSegDataLayer",
             "fed by the caller: data [1,3,256,256], sem and geo [1,1,256,256].", 3, 3, BuildSiftFlow),
      Source("voc_layers", "SBDDSegDataLayer", image, 2, 2, BuildVoc),
      Source("voc_layers", "VOCSegDataLayer", image, 2, 2, BuildVoc),
  };
}

}  // namespace moka
