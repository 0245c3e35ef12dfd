"""Cases of products, recurrent layers, losses and detection.

A case is a name, the fields of the layer under test and its bottoms. Bottoms are named a, b, c ..., tops y, y1, ...; a
text with whole layers in it is used as it is.
"""

from case import Between, Case, Detections, Fixed, Markers, Normal, Plain, Priors, Shares, Truth, Whole


def products():
    for name, text, shape in [
        ("", "", (4, 6)),
        (" no bias", "bias_term: false", (4, 6)),
        (" maps", "", (2, 3, 4, 2)),
        (" axis 2", "axis: 2", (2, 3, 4, 2)),
        (" axis -1", "axis: -1", (2, 3, 5)),
        (" axis 0", "axis: 0", (2, 3)),
        (" transpose", "transpose: true", (4, 6)),
        (" transpose axis", "transpose: true axis: 2", (2, 3, 4)),
    ]:
        yield Case(
            "InnerProduct" + name,
            f'type: "InnerProduct" inner_product_param {{ num_output: 5 {text} }}',
            Normal(*shape),
        )
    yield Case(
        "InnerProduct shared",
        "".join(
            f'layer {{ name: "tested{k}" type: "InnerProduct" bottom: "{k}" top: "y{k}" '
            'param { name: "w" } param { name: "b" } '
            'inner_product_param { num_output: 5 weight_filler { type: "constant" value: 0.2 } } }\n'
            for k in "ab"
        )
        + 'layer { name: "after" type: "Eltwise" bottom: "ya" bottom: "yb" top: "y" '
        "eltwise_param { operation: PROD } }\n",
        Normal(4, 6),
        Normal(4, 6),
    )
    tail = (
        'layer { name: "after" type: "Eltwise" bottom: "e" bottom: "a" top: "y" eltwise_param { operation: PROD } }\n'
    )
    for name, text, shape in [("", "", (4,)), (" no bias", "bias_term: false", (4,)), (" matrix", "", (3, 2))]:
        yield Case(
            "Embed" + name,
            'layer { name: "tested" type: "Embed" bottom: "b" top: "e" '
            f"embed_param {{ num_output: 5 input_dim: 7 {text} }} }}\n" + tail,
            Normal(*shape, 5),
            Whole(7, *shape),
        )


def recurrences():
    for kind in ("LSTM", "RNN"):
        state = 2 if kind == "LSTM" else 1
        param = "recurrent_param { num_output: 4 "
        yield Case(kind, f'type: "{kind}" {param} }}', Normal(5, 2, 3), Markers(5, 2))
        yield Case(f"{kind} maps", f'type: "{kind}" {param} }}', Normal(4, 3, 2, 2), Markers(4, 3))
        yield Case(f"{kind} one step", f'type: "{kind}" {param} }}', Normal(1, 3, 2), Fixed([1], 1, 3))
        yield Case(f"{kind} static", f'type: "{kind}" {param} }}', Normal(5, 2, 3), Markers(5, 2), Normal(2, 6))
        known = "Caffe gives the first hidden state no gradient"
        yield Case(
            f"{kind} hidden",
            f'type: "{kind}" {param} expose_hidden: true }}',
            Normal(3, 2, 3),
            Fixed([1], 3, 2),
            *[Normal(1, 2, 4) for _ in range(state)],
            tops=1 + state,
            weighed=["y"],
            known=known,
        )
        yield Case(
            f"{kind} static hidden",
            f'type: "{kind}" {param} expose_hidden: true }}',
            Normal(3, 2, 3),
            Markers(3, 2),
            Normal(2, 6),
            *[Normal(1, 2, 4) for _ in range(state)],
            tops=1 + state,
            weighed=["y"],
        )
    yield Case(
        "LSTM twice",
        "".join(
            f'layer {{ name: "tested{k}" type: "LSTM" bottom: "{x}" bottom: "b" top: "{y}" '
            "recurrent_param { num_output: 4 } }\n"
            for k, x, y in ((0, "a", "h"), (1, "h", "y"))
        ),
        Normal(6, 2, 3),
        Markers(6, 2),
    )
    yield Case(
        "Embed and LSTM",
        'layer { name: "e" type: "Embed" bottom: "b" top: "e" embed_param { num_output: 3 input_dim: 9 } }\n'
        'layer { name: "s" type: "Eltwise" bottom: "e" bottom: "a" top: "x" }\n'
        'layer { name: "l" type: "LSTM" bottom: "x" bottom: "c" top: "h" recurrent_param { num_output: 4 } }\n'
        'layer { name: "p" type: "InnerProduct" bottom: "h" top: "y" inner_product_param { num_output: 9 axis: 2 } }\n',
        Normal(5, 2, 3),
        Whole(9, 5, 2),
        Markers(5, 2),
    )


def losses():
    scores, labels = Normal(4, 5), Whole(5, 4)
    maps, marks = Normal(2, 5, 3, 4), Whole(5, 2, 3, 4)
    for name, text, a, b in [
        ("", "", scores, labels),
        (" column of labels", "", scores, Whole(5, 4, 1)),
        (" weight", "loss_weight: 0.3", scores, labels),
        (" maps", "", maps, marks),
        (" ignore", "loss_param { ignore_label: 2 }", maps, marks),
        (" ignore full", "loss_param { ignore_label: 2 normalization: FULL }", maps, marks),
        (" batch", "loss_param { normalization: BATCH_SIZE }", maps, marks),
        (" none", "loss_param { normalization: NONE }", maps, marks),
        (" normalize false", "loss_param { normalize: false }", maps, marks),
        (" normalize true", "loss_param { normalize: true ignore_label: 1 }", maps, marks),
        (" axis 2", "softmax_param { axis: 2 }", Normal(2, 3, 5, 4), Whole(5, 2, 3, 4)),
        (" axis -1", "softmax_param { axis: -1 }", Normal(2, 3, 5), Whole(5, 2, 3)),
    ]:
        yield Case("SoftmaxWithLoss" + name, f'type: "SoftmaxWithLoss" {text}', a, b)
    for name, text, shape in [
        ("", "", (4, 5)),
        (" maps", "", (2, 3, 4, 5)),
        (" axis 2", "softmax_param { axis: 2 }", (2, 3, 4, 5)),
        (" axis -1", "softmax_param { axis: -1 }", (2, 3, 4)),
    ]:
        yield Case("Softmax" + name, f'type: "Softmax" {text}', Normal(*shape))
    targets = Between(0, 1, 4, 5)
    targets.has_gradient = False
    for name, text in [
        ("", ""),
        (" weight", "loss_weight: 2"),
        (" valid", "loss_param { normalization: VALID }"),
        (" full", "loss_param { normalization: FULL }"),
        (" none", "loss_param { normalization: NONE }"),
        (" normalize", "loss_param { normalize: true }"),
    ]:
        yield Case("SigmoidCrossEntropyLoss" + name, f'type: "SigmoidCrossEntropyLoss" {text}', scores, targets)
    yield Case(
        "SigmoidCrossEntropyLoss ignore",
        'type: "SigmoidCrossEntropyLoss" loss_param { ignore_label: 1 normalization: VALID }',
        scores,
        Whole(2, 4, 5),
    )
    yield Case("EuclideanLoss", 'type: "EuclideanLoss"', Normal(4, 3, 2), Normal(4, 3, 2))
    yield Case("EuclideanLoss weight", 'type: "EuclideanLoss" loss_weight: 0.1', scores, Plain(4, 5))
    for norm in ("L1", "L2"):
        yield Case(f"HingeLoss {norm}", f'type: "HingeLoss" hinge_loss_param {{ norm: {norm} }}', scores, labels)
    for name, text in [("", ""), (" margin", "margin: 3"), (" legacy", "margin: 2 legacy_version: true")]:
        yield Case(
            "ContrastiveLoss" + name,
            f'type: "ContrastiveLoss" contrastive_loss_param {{ {text} }}',
            Normal(6, 4),
            Normal(6, 4),
            Whole(2, 6),
        )
    yield Case(
        "ContrastiveLoss maps",
        'type: "ContrastiveLoss" contrastive_loss_param { margin: 4 }',
        Normal(6, 4, 1, 1),
        Normal(6, 4, 1, 1),
        Whole(2, 6, 1, 1, 1),
    )
    yield Case("MultinomialLogisticLoss", 'type: "MultinomialLogisticLoss"', Shares(4, 5), labels)
    gain = Plain(1, 1, 5, 5)
    for name, text, a, b in [
        ("", "", scores, labels),
        (" maps", "", maps, marks),
        (" axis", "infogain_loss_param { axis: -1 }", Normal(2, 3, 5), Whole(5, 2, 3)),
        (" ignore", "loss_param { ignore_label: 1 }", maps, marks),
        (" none", "loss_param { normalization: NONE }", maps, marks),
    ]:
        case = Case("InfogainLoss" + name, f'type: "InfogainLoss" {text}', a, b, gain)
        case.needs_release = True  # before, its bottom was a probability
        yield case
    for name, text, a, b in [
        ("", "", Plain(8, 5), Whole(5, 8)),
        (" top_k", "top_k: 2", Plain(8, 5), Whole(5, 8)),
        (" maps", "", Plain(2, 5, 3, 4), Whole(5, 2, 3, 4)),
        (" ignore", "ignore_label: 2", Plain(8, 5), Whole(5, 8)),
        (" axis", "axis: -1 top_k: 2", Plain(2, 3, 5), Whole(5, 2, 3)),
    ]:
        yield Case("Accuracy" + name, f'type: "Accuracy" accuracy_param {{ {text} }}', a, b, phase="TEST")
    yield Case("Accuracy per class", 'type: "Accuracy"', Plain(8, 5), Fixed([0, 1, 3, 3, 4], 8), tops=2, phase="TEST")


def detection():
    """Layers of SSD's Caffe."""
    for name, text in [("", ""), (" order", "order: 0 order: 3 order: 1 order: 2"), (" two", "order: 1 order: 0")]:
        yield Case(
            "Permute" + name,
            f'type: "Permute" permute_param {{ {text or "order: 0 order: 2 order: 3 order: 1"} }}',
            Normal(2, 3, 4, 5),
        )
    for name, text in [
        ("", ""),
        (" per position", "across_spatial: false"),
        (" channels", "across_spatial: false channel_shared: false"),
        (" across channels", "channel_shared: false"),
    ]:
        known = "Caffe's gradient multiplies by the scale last, which is right only if all channels have the same"
        yield Case(
            "Normalize" + name,
            f'type: "Normalize" norm_param {{ {text} }}',
            Normal(2, 3, 4, 5),
            known=known if "channel_shared: false" in text else None,
        )
    for name, text in [
        ("", "min_size: 30"),
        (" max", "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 clip: true"),
        (
            " no flip",
            "min_size: 30 aspect_ratio: 2 flip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2",
        ),
        (" step", "min_size: 20 min_size: 40 step: 16 offset: 0.25"),
        (" step h w", "min_size: 20 step_h: 8 step_w: 16"),
        (" image", "min_size: 20 img_size: 64"),
        (" image h w", "min_size: 20 img_h: 48 img_w: 64 variance: 0.3"),
    ]:
        yield Case(
            "PriorBox" + name, f'type: "PriorBox" prior_box_param {{ {text} }}', Plain(1, 3, 4, 5), Plain(1, 3, 64, 80)
        )
    yield Case("SmoothL1Loss", 'type: "SmoothL1Loss"', Normal(4, 5), Plain(4, 5))
    yield Case("SmoothL1Loss weight", 'type: "SmoothL1Loss" loss_weight: 2', Normal(4, 5, 1, 1), Plain(4, 5, 1, 1))
    priors = 24
    for name, text, each in [
        ("", "", 1),
        (" center", "code_type: CENTER_SIZE", 1),
        (" corner size", "code_type: CORNER_SIZE", 1),
        (" L2", "loc_loss_type: L2 loc_weight: 2", 1),
        (" logistic", "conf_loss_type: LOGISTIC", 1),
        (" bipartite", "match_type: BIPARTITE", 1),
        (" variance", "encode_variance_in_target: true code_type: CENTER_SIZE", 1),
        (" no mining", "mining_type: NONE", 1),
        (" own boxes", "share_location: false mining_type: NONE", 4),
        (" difficult", "use_difficult_gt: false", 1),
        (" per prediction", "use_prior_for_matching: false", 1),
        (" ratio", "neg_pos_ratio: 1 neg_overlap: 0.3", 1),
        (" hard", "mining_type: HARD_EXAMPLE sample_size: 8 nms_param { nms_threshold: 0.5 top_k: 20 }", 1),
        (" background", "background_label_id: 0 ignore_cross_boundary_bbox: true", 1),
    ]:
        yield Case(
            "MultiBoxLoss" + name,
            f'type: "MultiBoxLoss" multibox_loss_param {{ num_classes: 4 overlap_threshold: 0.4 {text} }}',
            Normal(3, priors * 4 * each),
            Normal(3, priors * 4),
            Priors(1, 2, priors * 4),
            Truth(3, 4, 1, 1, 7, 8, difficult=True),
            known="Caffe's gradient leaves out the division by the variance" if "variance" in name else None,
        )
    for name, text, each in [
        ("", "keep_top_k: 40", 1),
        (" center", "code_type: CENTER_SIZE keep_top_k: 12", 1),
        (" corner size", "code_type: CORNER_SIZE", 1),
        (" threshold", "confidence_threshold: 0.3 keep_top_k: 20", 1),
        (" own boxes", "share_location: false keep_top_k: 10", 4),
        (" variance", "variance_encoded_in_target: true code_type: CENTER_SIZE keep_top_k: 9", 1),
        (" top_k", "nms_param { nms_threshold: 0.45 top_k: 6 } keep_top_k: 10", 1),
        (" eta", "nms_param { nms_threshold: 0.8 eta: 0.7 top_k: 20 } keep_top_k: 10", 1),
        (" nothing", "confidence_threshold: 2", 1),
    ]:
        nms = "" if "nms_param" in text else "nms_param { nms_threshold: 0.4 }"
        scores = Between(0, 1, 2, priors * 4)
        scores.has_gradient = False
        deltas = Between(-0.5, 0.5, 2, priors * 4 * each)
        deltas.has_gradient = False
        yield Case(
            "DetectionOutput" + name,
            f'type: "DetectionOutput" detection_output_param {{ num_classes: 4 {nms} {text} }}',
            deltas,
            scores,
            Priors(1, 2, priors * 4),
            phase="TEST",
            known="the rows after those of images without a box are padding" if name == " nothing" else None,
        )
    for name, text in [
        ("", ""),
        (" easy only", "evaluate_difficult_gt: false"),
        (" overlap", "overlap_threshold: 0.3"),
    ]:
        yield Case(
            "DetectionEvaluate" + name,
            f'type: "DetectionEvaluate" detection_evaluate_param {{ num_classes: 4 {text} }}',
            Detections(3, 4, 1, 1, 12, 7),
            Truth(3, 4, 1, 1, 8, 8, difficult=True),
            phase="TEST",
        )
