// Data: tops read from a database by the data room, which tells their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DatabaseLayer() {
  return {
      .type = "Data",
      .doc =
          "Images [batch_size,C,H,W], and labels [batch_size] if there is a second top, from an LMDB of Datum "
          "records (data_param), encoded or raw, transformed by transform_param.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 2,
      .build = BuildData,
      .page = {
          .params = {"data_param", "transform_param", "sampling_param"},
          .formula =
              "Top 0 is [batch_size,C,H,W]: `y[n,c,i,j] = (pixel[c, i + oy, j + ox] - mean) * scale / std` of the "
              "n-th record, channels in the order B,G,R if there are 3; grey records among coloured ones are three "
              "equal channels. H and W are those of the crop, otherwise "
              "of the records, which then have one size. The crop's corner (oy, ox) is random in TRAIN and central "
              "(rounded down) in TEST; mirror reverses rows with probability 1/2 in both phases.\n\nTop 1, if "
              "there is one, is [batch_size]: the records' labels. Records follow each other in the database's "
              "order, or with shuffle in a new order each epoch; rand_skip leaves out fewer than that many at the "
              "start, a random number. Random choices depend on the seed, the epoch and the record only.\n\nIn TRAIN "
              "transform_param.augment changes the crop at random before mean and scale, and with "
              "transform_param.mixing samples of a batch are mixed and top 1 is [batch_size,classes], each "
              "class's part (docs/augmentation.md).\n\nWhich "
              "record comes at a position is a function of the seed and the position alone, so ranks never "
              "overlap and a run continues anywhere. With sampling_param.block a shuffle reads from few places at "
              "once, for sets larger than memory, and mixes the less: of ten classes in the first 1,000 of 50,000 "
              "records sorted by class, chi-square (9 for a fair draw) and the mean distance of neighbours (1 for "
              "the exact shuffle) are, by block and window,\n\n| block, window | chi-square | distance "
              "|\n|---|---|---|\n| none | 9 | 1.00 |\n| 16, 512 | 15 | 1.00 |\n| 25, 256 | 32 | 1.00 |\n| 64, "
              "128 | 54 | 1.00 |\n| 100, 64 | 104 | 0.98 |\n| 100, 16 | 392 | 0.96 |\n\nso import sorted sets "
              "with `moka data import --shuffle` before reading them in windows. With balance: CLASSES each run of "
              "as many samples as there are classes holds every class once, in a random order, and the records of "
              "a class come equally often; with WEIGHTS each sample is drawn by itself. An epoch is then as many "
              "samples as there are records.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "BVLC Caffe's data_layer and data_transformer. The backend must be LMDB; LEVELDB, the field's "
                    "default, is refused. shuffle, on_bad_record, threads, cache_mb, sampling_param, pad, std_value, "
                    "resize_short, "
                    "rand_resized_crop, augment and mixing are Moka's own.",
          .example = R"(layer {
  name: "data"
  type: "Data"
  top: "data"
  top: "label"
  transform_param { crop_size: 8 mirror: true mean_value: 127 scale: 0.0078125 }
  data_param { source: "train_lmdb" batch_size: 2 backend: LMDB }
})"}};
}

}  // namespace moka
