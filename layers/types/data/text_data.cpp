// SkipGramData, StoryData and TextPairData: words of texts as numbers, read by the data room, which tells their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPairs(LayerBuilder& l) {
  l.Check(l.param().text_pair_data_param().output_size() == l.top_count(), "text_pair_data_param.output",
          "each top holds one output of text_pair_data_param");
  l.AddData(l.AskDataTypes());
}

void BuildSkipGrams(LayerBuilder& l) {
  l.Check(l.param().skip_gram_data_param().output_size() == l.top_count(), "skip_gram_data_param.output",
          "each top holds one output of skip_gram_data_param");
  l.AddData(l.AskDataTypes());
}

void BuildStories(LayerBuilder& l) {
  l.Check(l.param().story_data_param().output_size() == l.top_count(), "story_data_param.output",
          "each top holds one output of story_data_param");
  l.AddData(l.AskDataTypes());
}

constexpr const char* kGradient = "None: the tops are inputs of the net.";

}  // namespace

LayerDef TextPairDataLayer() {
  return {
      .type = "TextPairData",
      .doc =
          "Sentences and what they become, [T,N] and time first as recurrent layers take them, from two text files "
          "whose lines belong together; each top is one output of text_pair_data_param. data_param has batch_size, "
          "shuffle, prefetch, threads, rand_skip and on_bad_record.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 8,
      .build = BuildPairs,
      .page = {
          .params = {"text_pair_data_param", "data_param"},
          .formula =
              "The files are UTF-8, a sentence a line, plain or .gz. A word is the number of its line in the "
              "vocabulary, from 0, whose first lines are the marks `<pad>`, `<s>`, `</s>` and `<unk>` "
              "(docs/data.md); a word it lacks is 3. With T source_length or target_length, a pair of the source a b c "
              "and the target x y is\n\n| output | at steps 0 .. T-1, for T = 6 |\n|---|---|\n| SOURCE | 0 0 a b c 2 "
              "|\n| SOURCE, with reverse_source | 0 0 c b a 2 |\n| SOURCE_CONT | 0 0 0 1 1 1 |\n| SOURCE_MASK | 0 0 1 "
              "1 1 1 |\n| TARGET | 1 x y 0 0 0 |\n| TARGET_MASK | 1 1 1 0 0 0 |\n| NEXT | x y 2 -1 -1 -1 "
              "|\n\nSOURCE_LENGTH is 4 and TARGET_LENGTH 3, `[N]`. The source ends at T-1, so a recurrent layer with "
              "SOURCE_CONT as its cont holds there the state of the whole sentence. A decoder that begins with that "
              "state takes TARGET_MASK as cont; one that begins with none takes ContinuationIndicator. -1 is the "
              "ignore_label for the loss over NEXT.\n\nIn TRAIN pairs with a longer sentence are left out, in TEST "
              "sentences are cut to T - 1 words and the mark. An empty sentence and bytes that are no UTF-8 are errors "
              "at file:line, or with `on_bad_record: SKIP` their pairs are left out and counted in a warning.\n\nWith "
              "bucket (which needs `shuffle: true`) the pairs of a batch in TRAIN are of one bucket by the longer of "
              "their lengths, in batches that come in a new random order each epoch; what is left of each bucket below "
              "a batch is joined with that of its neighbours, and the last few pairs share a batch with the next "
              "epoch's first, so that each pair comes once an epoch. T stays the same; lengths and masks tell where "
              "words are, and LSTM and GRU leave out streams that have ended if they are given TARGET_LENGTH. Of the "
              "places up to a batch's longest sentence 53.5 % (German) and 51.9 % (English) hold no word on Multi30k "
              "in "
              "batches of 128, with buckets of 10, 12, 14, 17, 21 and 27 words 14.3 % and 11.0 %.",
          .gradient = kGradient,
          .source = "Moka's own. Sources read backwards: Sutskever, Vinyals and Le, \"Sequence to sequence learning "
                    "with neural networks\", 2014, arXiv 1409.3215, whose batches are of one length too.",
          .example = R"(layer {
  name: "pairs"
  type: "TextPairData"
  top: "source"
  top: "source_cont"
  top: "target"
  top: "next"
  data_param { batch_size: 2 shuffle: true }
  text_pair_data_param {
    output: SOURCE output: SOURCE_CONT output: TARGET output: NEXT
    source_file: "train.de.gz" target_file: "train.en.gz"
    source_vocabulary: "de.txt" target_vocabulary: "en.txt"
    source_length: 8 target_length: 8 bucket: 4 bucket: 6
  }
})"}};
}

LayerDef StoryDataLayer() {
  return {
      .type = "StoryData",
      .doc =
          "Questions about stories for memory networks, from text files of bAbI's form; each top is one output of "
          "story_data_param. data_param has batch_size, shuffle, prefetch, threads, rand_skip and on_bad_record.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 6,
      .build = BuildStories,
      .page = {
          .params = {"story_data_param", "data_param"},
          .formula =
              "Lines are `NUMBER SENTENCE`, a number of 1 begins a new story; a question has a tab, the answer and, "
              "after another tab, the numbers of the sentences that support it. Words are lower-cased and punctuation "
              "is left out; an answer is one word, several are joined by commas. Numbers are those of the vocabulary "
              "(docs/data.md).\n\nA sample is a question with the last S of the sentences before it, other questions "
              "left out. STORY `[N,S,W]` holds at s the words of the sentence s before the last, from w = 0 on; "
              "QUESTION `[N,W]`, ANSWER `[N]`. SUPPORT `[N,S]` is 1 at sentences that support the answer, SENTENCES "
              "`[N]` how many there are. 0 is where there is none.\n\nTIME `[N,S]` is s + 1. With time_noise in TRAIN "
              "there are in addition to the L sentences b empty places, b drawn from 0 to `ceil(L * time_noise)`; "
              "sentences take L of the L + b places, drawn in their order, and TIME is the place, from 1, at most "
              "S.\n\nWith validation the layer in TRAIN leaves out that part of all questions, and the one in TEST, "
              "given the same sources, shows these only. Which they are depends on the number of questions alone, so "
              "that they are the same in each run.\n\nAn answer that the vocabulary lacks is an error in TRAIN and "
              "with validation. With "
              "`on_bad_record: SKIP` bad lines are left out and counted in a warning.",
          .gradient = kGradient,
          .source = "Moka's own; the form is that of Weston et al., \"Towards AI-complete question answering: a set "
                    "of prerequisite toy tasks\", 2015, arXiv 1502.05698; last sentences, their times and the noise "
                    "are those of Sukhbaatar et al., \"End-to-end memory networks\", 2015, arXiv 1503.08895.",
          .example = R"(layer {
  name: "story"
  type: "StoryData"
  top: "story"
  top: "question"
  top: "answer"
  top: "time"
  data_param { batch_size: 2 shuffle: true }
  story_data_param {
    output: STORY output: QUESTION output: ANSWER output: TIME
    source: "qa1_train.txt" vocabulary: "words.txt" sentences: 5 words: 6 time_noise: 0.1
  }
})"}};
}

LayerDef SkipGramDataLayer() {
  return {
      .type = "SkipGramData",
      .doc =
          "Words of text files with a word near each and words drawn at random, for word vectors learned by skip-grams "
          "with negative sampling; each top is one output of skip_gram_data_param. data_param has batch_size, shuffle, "
          "prefetch, threads and rand_skip.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 3,
      .build = BuildSkipGrams,
      .page = {
          .params = {"skip_gram_data_param", "data_param"},
          .formula =
              "Files are UTF-8, a sentence a line, plain or .gz. Words are numbers of the vocabulary (docs/data.md); "
              "what it lacks is left out as if it were not there, and so are lines of fewer than two words. A record "
              "is "
              "a word of the text, so an epoch has as many pairs as the text has words.\n\nCENTER `[N]` is the word. "
              "WORDS `[N,1+K]`, K negatives, begins with a word near it, followed by K words drawn from the whole "
              "text with probabilities of `count^power`, none of them the near one. IS_NEAR `[N,1+K]` is 1 and K "
              "zeros.\n\nA word whose share f of the text is above subsample is passed over with probability `1 - "
              "sqrt(subsample / f)`: where the record's word is, another place of the text is drawn instead, so that "
              "each word is a centre as often as it is kept. Of its sentence's other words those that are kept count: "
              "the near one is any of the b next ones on each side, with b drawn from 1 to window.",
          .gradient = kGradient,
          .source = "Moka's own; Mikolov et al., \"Distributed representations of words and phrases and their "
                    "compositionality\", 2013, arXiv 1310.4546. The authors' program takes every word of a window, so "
                    "an epoch has about `window` times the pairs of one here.",
          .example = R"(layer {
  name: "words"
  type: "SkipGramData"
  top: "center"
  top: "words"
  top: "is_near"
  data_param { batch_size: 2 shuffle: true }
  skip_gram_data_param {
    output: CENTER output: WORDS output: IS_NEAR
    source: "train.en.gz" vocabulary: "en.txt" window: 5 negatives: 3
  }
})"}};
}

}  // namespace moka
