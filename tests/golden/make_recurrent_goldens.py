"""Records recurrent layers, embeddings and reductions by the k largest, on small inputs in float64.

Usage: python3 make_recurrent_goldens.py      writes layers_recurrent.json, in the format of make_layer_goldens.py

The references are PyTorch's: torch.nn.LSTM, torch.nn.GRU and torch.nn.RNN run on each stretch of a stream between marks
of 0 (LSTM's gates in the order i, f, g, o, so rows are permuted), two layers of torch.nn.GRU at once,
torch.nn.functional.embedding, torch.topk. What PyTorch has not, gradients clipped before the gates, is a loop with
hooks.
"""

import json
import os

import numpy as np
import torch

from make_layer_goldens import exact, rounded, values

CASES = []


def case(name, kind, fields, bottoms, params, function, no_gradient=(), silent_tops=(), phase="TRAIN", text=None):
    """function(bottoms, params) -> tops, all float64 tensors. no_gradient: bottoms that get none. text: of several
    layers, instead of one of this kind and fields."""
    arrays = [b if isinstance(b, np.ndarray) else values(f"{name}/bottom{i}", b) for i, b in enumerate(bottoms)]
    fixed = [p if isinstance(p, np.ndarray) else values(f"{name}/param{i}", p) for i, p in enumerate(params)]
    x = [torch.tensor(a, dtype=torch.float64, requires_grad=i not in no_gradient) for i, a in enumerate(arrays)]
    w = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in fixed]
    tops = function(x, w)
    if text is None:
        text = f'layer {{ name: "{name}" type: "{kind}" '
        text += "".join(f'bottom: "x{i}" ' for i in range(len(arrays)))
        text += "".join(f'top: "y{i}" ' for i in range(len(tops))) + fields + " }"
    entry = {"name": name, "layer": text, "phase": phase, "bottoms": [], "params": [], "tops": []}
    objective = torch.zeros((), dtype=torch.float64)
    for i, y in enumerate(tops):
        top = {"shape": list(y.shape), "data": rounded(y.detach())}
        if i not in silent_tops:
            weight = values(f"{name}/weight{i}", y.shape)
            top["weight"] = exact(weight)
            objective = objective + (y * torch.tensor(weight)).sum()
        entry["tops"].append(top)
    objective.backward()
    for rows, tensors in (("bottoms", x), ("params", w)):
        for tensor in tensors:
            row = {"shape": list(tensor.shape), "data": exact(tensor.detach())}
            if tensor.requires_grad:
                row["gradient"] = rounded(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)
            entry[rows].append(row)
    CASES.append(entry)


# ---- Recurrence: a stream is cut where its mark is 0, each stretch runs through PyTorch's module -------------------


def stretches(marks):
    """[(begin, end)] of a stream's steps, cut before each mark of 0."""
    cuts = [0] + [t for t in range(1, len(marks)) if marks[t] == 0] + [len(marks)]
    return list(zip(cuts[:-1], cuts[1:]))


def module(kind, inputs, hidden, tensors):
    """A torch module whose parameters are the given tensors of the graph: a functional call."""
    net = kind(inputs, hidden).double()

    def run(x, state):
        return torch.func.functional_call(net, tensors, (x, state))

    return run


def gates_as_torch(w):
    """Rows i, f, o, g -> i, f, g, o."""
    i, f, o, g = torch.chunk(w, 4)
    return torch.cat([i, f, g, o])


def streams(run, x, marks, first, is_lstm):
    """x [T,N,D]; first: tuple of [N,H]. Returns h [T,N,H] and the last states."""
    columns, lasts = [], []
    for n in range(x.shape[1]):
        state = tuple(s[n:n + 1] for s in first)
        parts = []
        for begin, end in stretches(marks[:, n]):
            if marks[begin, n] == 0:
                state = tuple(torch.zeros_like(s) for s in state)
            y, state = run(x[begin:end, n], state if is_lstm else state[0])
            state = state if is_lstm else (state,)
            parts.append(y)
        columns.append(torch.cat(parts))
        lasts.append(state)
    last = tuple(torch.cat([s[i] for s in lasts]) for i in range(len(first)))
    return torch.stack(columns, dim=1), last


def lstm(x, marks, hidden, first, w_x, bias, w_h, fixed=None):
    """fixed: what is added to the gates of each stream at each step, [N,4H]."""
    if fixed is not None:  # as inputs: x and a one-hot of the stream
        n = x.shape[1]
        x = torch.cat([x, torch.eye(n, dtype=x.dtype).expand(x.shape[0], n, n)], dim=2)
        w_x = torch.cat([w_x, fixed.t()], dim=1)
    tensors = {"weight_ih_l0": gates_as_torch(w_x), "weight_hh_l0": gates_as_torch(w_h),
               "bias_ih_l0": gates_as_torch(bias), "bias_hh_l0": torch.zeros_like(bias)}
    return streams(module(torch.nn.LSTM, x.shape[2], hidden, tensors), x, marks, first, True)


def rnn(x, marks, hidden, first, w_x, bias, w_h, fixed=None):
    if fixed is not None:
        n = x.shape[1]
        x = torch.cat([x, torch.eye(n, dtype=x.dtype).expand(x.shape[0], n, n)], dim=2)
        w_x = torch.cat([w_x, fixed.t()], dim=1)
    tensors = {"weight_ih_l0": w_x, "weight_hh_l0": w_h, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    return streams(module(torch.nn.RNN, x.shape[2], hidden, tensors), x, marks, first, False)


def gru_tensors(layer, w_x, b_x, w_h, b_n):
    """Parameters of torch.nn.GRU; its second bias counts for n alone here."""
    inner = torch.cat([torch.zeros(2 * b_n.shape[0], dtype=b_n.dtype), b_n])
    return {f"weight_ih_l{layer}": w_x, f"weight_hh_l{layer}": w_h, f"bias_ih_l{layer}": b_x,
            f"bias_hh_l{layer}": inner}


def gru(x, marks, hidden, first, w_x, b_x, w_h, b_n, fixed=None):
    if fixed is not None:
        n = x.shape[1]
        x = torch.cat([x, torch.eye(n, dtype=x.dtype).expand(x.shape[0], n, n)], dim=2)
        w_x = torch.cat([w_x, fixed.t()], dim=1)
    return streams(module(torch.nn.GRU, x.shape[2], hidden, gru_tensors(0, w_x, b_x, w_h, b_n)), x, marks, first, False)


def zeros(n, hidden, count):
    return tuple(torch.zeros(n, hidden, dtype=torch.float64) for _ in range(count))


def marks_of(steps, n, zero_at):
    marks = np.ones((steps, n))
    for t, stream in zero_at:
        marks[t, stream] = 0
    return marks


def recurrent():
    steps, n, d, h = 5, 3, 4, 3
    marks = marks_of(steps, n, [(0, 0), (0, 1), (2, 1), (4, 2), (3, 1)])
    fields = f"recurrent_param {{ num_output: {h} }}"
    shapes = [(4 * h, d), (4 * h,), (4 * h, h)]

    def plain(x, w):
        y, _ = lstm(x[0].flatten(2), marks, h, zeros(n, h, 2), *w)
        return [y]

    case("lstm", "LSTM", fields, [(steps, n, d), marks], shapes, plain, no_gradient=[1])
    case("lstm_many_axes", "LSTM", fields, [(steps, n, 2, 2), marks], shapes, plain, no_gradient=[1])
    case("lstm_dialect", "LSTM", f"lstm_param {{ num_output: {h} }}", [(steps, n, d), marks], shapes, plain,
         no_gradient=[1])

    def one_step(x, w):
        y, _ = lstm(x[0], np.zeros((1, 2)), h, zeros(2, h, 2), *w)
        return [y]

    case("lstm_one_step", "LSTM", fields, [(1, 2, d), np.zeros((1, 2))], shapes, one_step, no_gradient=[1])

    def static(x, w):
        y, _ = lstm(x[0], marks, h, zeros(n, h, 2), w[0], w[1], w[3], x[2].flatten(1) @ w[2].t())
        return [y]

    case("lstm_static", "LSTM", fields, [(steps, n, d), marks, (n, 5)],
         [shapes[0], shapes[1], (4 * h, 5), shapes[2]], static, no_gradient=[1])
    case("lstm_static_axes", "LSTM", fields, [(steps, n, d), marks, (n, 3, 2)],
         [shapes[0], shapes[1], (4 * h, 6), shapes[2]], static, no_gradient=[1])

    exposed = f"recurrent_param {{ num_output: {h} expose_hidden: true }}"

    def hidden(x, w):
        y, (h_last, c_last) = lstm(x[0], marks, h, (x[2][0], x[3][0]), *w)
        return [y, h_last[None], c_last[None]]

    case("lstm_exposed", "LSTM", exposed, [(steps, n, d), marks, (1, n, h), (1, n, h)], shapes, hidden,
         no_gradient=[1])

    def static_hidden(x, w):
        y, (h_last, c_last) = lstm(x[0], marks, h, (x[3][0], x[4][0]), w[0], w[1], w[3], x[2] @ w[2].t())
        return [y, h_last[None], c_last[None]]

    case("lstm_static_exposed", "LSTM", exposed, [(steps, n, d), marks, (n, 2), (1, n, h), (1, n, h)],
         [shapes[0], shapes[1], (4 * h, 2), shapes[2]], static_hidden, no_gradient=[1])

    # RNN: blobs W_xh, b_h, (W_xh_static), W_hh, W_ho, b_o.
    shapes = [(h, d), (h,), (h, h), (h, h), (h,)]

    def output(y, w_o, b_o):
        return torch.tanh(y @ w_o.t() + b_o)

    def plain_rnn(x, w):
        y, _ = rnn(x[0], marks, h, zeros(n, h, 1), *w[:3])
        return [output(y, *w[3:])]

    case("rnn", "RNN", fields, [(steps, n, d), marks], shapes, plain_rnn, no_gradient=[1])

    def static_rnn(x, w):
        y, _ = rnn(x[0], marks, h, zeros(n, h, 1), w[0], w[1], w[3], x[2] @ w[2].t())
        return [output(y, *w[4:])]

    case("rnn_static", "RNN", fields, [(steps, n, d), marks, (n, 2)],
         [shapes[0], shapes[1], (h, 2)] + shapes[2:], static_rnn, no_gradient=[1])

    def hidden_rnn(x, w):
        y, (last,) = rnn(x[0], marks, h, (x[2][0],), *w[:3])
        return [output(y, *w[3:]), last[None]]

    case("rnn_exposed", "RNN", exposed, [(steps, n, d), marks, (1, n, h)], shapes, hidden_rnn, no_gradient=[1])


def gated():
    steps, n, d, h = 5, 3, 4, 3
    marks = marks_of(steps, n, [(0, 0), (0, 1), (2, 1), (4, 2), (3, 1)])
    fields = f"recurrent_param {{ num_output: {h} }}"
    exposed = f"recurrent_param {{ num_output: {h} expose_hidden: true }}"
    shapes = [(3 * h, d), (3 * h,), (3 * h, h), (h,)]

    def plain(x, w):
        y, _ = gru(x[0].flatten(2), marks, h, zeros(n, h, 1), *w)
        return [y]

    case("gru", "GRU", fields, [(steps, n, d), marks], shapes, plain, no_gradient=[1])
    case("gru_many_axes", "GRU", fields, [(steps, n, 2, 2), marks], shapes, plain, no_gradient=[1])

    def one_step(x, w):
        y, _ = gru(x[0], np.zeros((1, 2)), h, zeros(2, h, 1), *w)
        return [y]

    case("gru_one_step", "GRU", fields, [(1, 2, d), np.zeros((1, 2))], shapes, one_step, no_gradient=[1])

    def hidden(x, w):
        y, (last,) = gru(x[0], marks, h, (x[2][0],), *w)
        return [y, last[None]]

    case("gru_exposed", "GRU", exposed, [(steps, n, d), marks, (1, n, h)], shapes, hidden, no_gradient=[1])

    def static_hidden(x, w):
        y, (last,) = gru(x[0], marks, h, (x[3][0],), w[0], w[1], w[3], w[4], x[2].flatten(1) @ w[2].t())
        return [y, last[None]]

    case("gru_static_exposed", "GRU", exposed, [(steps, n, d), marks, (n, 3, 2), (1, n, h)],
         [shapes[0], shapes[1], (3 * h, 6)] + shapes[2:], static_hidden, no_gradient=[1])

    def stacked(x, w):
        net = torch.nn.GRU(d, h, 2).double()
        tensors = gru_tensors(0, *w[:4]) | gru_tensors(1, *w[4:])
        y, last = torch.func.functional_call(net, tensors, (x[0], torch.cat([x[2], x[3]])))
        return [y, last[:1], last[1:]]

    text = "".join(
        f'layer {{ name: "{name}" type: "GRU" bottom: "{x}" bottom: "x1" bottom: "{first}" top: "{y}" top: "{last}" '
        f"{exposed} }} "
        for name, x, first, y, last in (("lower", "x0", "x2", "between", "y1"), ("upper", "between", "x3", "y0", "y2")))
    case("gru_stacked", "GRU", "", [(steps, n, d), np.ones((steps, n)), (1, n, h), (1, n, h)],
         shapes + [(3 * h, h)] + shapes[1:], stacked, no_gradient=[1], text=text.strip())


def packed():
    """Streams of different lengths, as torch.nn.utils.rnn.pack_padded_sequence has them."""
    steps, n, d, h = 5, 4, 3, 2
    lengths = np.array([2.0, 5.0, 1.0, 4.0])

    def run(net, tensors, x, state):
        rows = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths).long(), enforce_sorted=False)
        y, last = torch.func.functional_call(net.double(), tensors, (rows, state))
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=steps)
        return y, last

    def of_lstm(x, w):
        w_x, bias, w_h = (gates_as_torch(p) for p in w)
        tensors = {"weight_ih_l0": w_x, "weight_hh_l0": w_h, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
        y, (h_last, c_last) = run(torch.nn.LSTM(d, h), tensors, x[0], (x[3], x[4]))
        return [y, h_last, c_last]

    def of_gru(x, w):
        y, last = run(torch.nn.GRU(d, h), gru_tensors(0, *w), x[0], x[3])
        return [y, last]

    exposed = f"recurrent_param {{ num_output: {h} expose_hidden: true }}"
    bottoms = [(steps, n, d), np.ones((steps, n)), lengths]
    case("lstm_lengths", "LSTM", exposed, bottoms + [(1, n, h)] * 2, [(4 * h, d), (4 * h,), (4 * h, h)], of_lstm,
         no_gradient=[1, 2])
    case("gru_lengths", "GRU", exposed, bottoms + [(1, n, h)], [(3 * h, d), (3 * h,), (3 * h, h), (h,)], of_gru,
         no_gradient=[1, 2])


def units():
    n, h = 3, 4

    def unit(x, _):
        # Gates as they are: the input weights are the identity over [N,4H].
        tensors = {"weight_ih": gates_as_torch(torch.eye(4 * h, dtype=torch.float64)),
                   "weight_hh": torch.zeros(4 * h, h, dtype=torch.float64),
                   "bias_ih": torch.zeros(4 * h, dtype=torch.float64),
                   "bias_hh": torch.zeros(4 * h, dtype=torch.float64)}
        cell = torch.nn.LSTMCell(4 * h, h).double()
        c = x[0][0] * x[2].detach().t()
        y, c = torch.func.functional_call(cell, tensors, (x[1][0], (torch.zeros_like(c), c)))
        return [c[None], y[None]]

    case("lstm_unit", "LSTMUnit", "", [(1, n, h), (1, n, 4 * h), np.array([[1.0, 0.0, 1.0]])], [], unit,
         no_gradient=[2])


# ---- caffe-lstm ------------------------------------------------------------------------------------------------------


def clipped_lstm(x, marks, w_i, w_h, bias, threshold):
    """Step by step, with the gradient of the gates before their nonlinearities cut by a hook."""
    hidden = w_h.shape[1]
    h = c = torch.zeros(x.shape[1], hidden, dtype=torch.float64)
    out = []
    for t in range(x.shape[0]):
        going = torch.tensor(marks[t]).reshape(-1, 1)
        gates = x[t] @ w_i.t() + bias + (going * h) @ w_h.t()
        gates.register_hook(lambda g: g.clamp(-threshold, threshold))
        i, f, o, g = torch.chunk(gates, 4, dim=1)
        c = going * torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return torch.stack(out)


def caffe_lstm():
    steps, n, d, h = 4, 2, 3, 3
    shapes = [(4 * h, d), (4 * h, h), (4 * h,)]
    begins = marks_of(steps, n, [(0, 0), (0, 1)])

    def unmarked(x, w):
        y, _ = lstm(x[0].reshape(steps, n, d), begins, h, zeros(n, h, 2), w[0], w[2], w[1])
        return [y.reshape(steps * n, h)]

    case("caffe_lstm", "Lstm", f"lstm_param {{ num_output: {h} batch_size: {n} }}", [(steps * n, d)], shapes, unmarked)

    def single(x, w):
        y, _ = lstm(x[0].reshape(steps, 1, d), begins[:, :1], h, zeros(1, h, 2), w[0], w[2], w[1])
        return [y.reshape(steps, h)]

    case("caffe_lstm_one_stream", "Lstm", f"lstm_param {{ num_output: {h} }}", [(steps, d, 1, 1)], shapes, single)

    def three_axes(x, w):
        y, _ = lstm(x[0], begins, h, zeros(n, h, 2), w[0], w[2], w[1])
        return [y]

    case("caffe_lstm_three_axes", "Lstm", f"lstm_param {{ num_output: {h} }}", [(steps, n, d)], shapes, three_axes)

    marks = marks_of(steps, n, [(0, 0), (2, 1)])

    def marked(x, w):
        y, _ = lstm(x[0].reshape(steps, n, d), marks, h, zeros(n, h, 2), w[0], w[2], w[1])
        return [y.reshape(steps * n, h)]

    case("caffe_lstm_marks", "Lstm", f"lstm_param {{ num_output: {h} batch_size: {n} }}",
         [(steps * n, d), marks.reshape(-1)], shapes, marked, no_gradient=[1])

    def cut(x, w):
        return [clipped_lstm(x[0].reshape(steps, n, d), marks, *w, 0.0625).reshape(steps * n, h)]

    case("caffe_lstm_clipped", "Lstm",
         f"lstm_param {{ num_output: {h} batch_size: {n} clipping_threshold: 0.0625 }}",
         [(steps * n, d), marks.reshape(-1)], shapes, cut, no_gradient=[1])


# ---- Embeddings and reductions ---------------------------------------------------------------------------------------


def embeddings():
    index = np.array([[2.0, 0.0, 5.0], [2.0, 2.0, 1.0]])

    def embed(x, w):
        y = torch.nn.functional.embedding(x[0].detach().long(), w[0])
        return [y + w[1] if len(w) > 1 else y]

    case("embed", "Embed", "embed_param { num_output: 4 input_dim: 6 }", [index], [(6, 4), (4,)], embed,
         no_gradient=[0])
    case("embed_no_bias", "Embed", "embed_param { num_output: 3 input_dim: 7 bias_term: false }", [index.reshape(-1)],
         [(7, 3)], embed, no_gradient=[0])


def reductions():
    def top(axis, k, coeff=1.0):
        def run(x, _):
            rows = x[0].flatten(axis)
            return [torch.topk(rows, k, dim=axis).values.mean(dim=axis) * coeff]

        return run

    case("reduction_topk", "Reduction", "reduction_param { operation: TOPK k: 3 axis: 1 }", [(2, 3, 4)], [], top(1, 3))
    case("reduction_topk_coeff", "Reduction", "reduction_param { operation: TOPK k: 2 axis: -1 coeff: 0.5 }",
         [(2, 3, 5)], [], top(2, 2, 0.5))

    def batch(name, fields, shape, function):
        case(name, "BatchReduction", f"batch_reduction_param {{ {fields} }}", [shape], [], lambda x, _: [function(x[0])])

    batch("batch_reduction_sum", "reduction_param { axis: 1 }", (2, 3, 4), lambda x: x.sum(1))
    batch("batch_reduction_mean", "reduction_param { axis: 0 operation: MEAN }", (5, 2, 3), lambda x: x.mean(0))
    batch("batch_reduction_topk", "reduction_param { axis: 1 operation: TOPK k: 2 }", (2, 5, 3),
          lambda x: torch.topk(x, 2, dim=1).values.mean(1))
    batch("batch_reduction_levels", "level: 1 level: 2 reduction_param { axis: 1 operation: MEAN }", (2, 5, 3),
          lambda x: torch.stack([x[:, :1].mean(1), x[:, 1:].mean(1)], dim=1))
    batch("batch_reduction_one_level", "level: 2 reduction_param { axis: 1 operation: TOPK k: 3 }", (2, 4, 3),
          lambda x: torch.topk(x, 3, dim=1).values.mean(1, keepdim=True))
    batch("batch_reduction_pos", "level: 2 pos: true reduction_param { axis: 1 operation: MEAN }", (2, 4, 4, 3),
          lambda x: torch.diagonal(x, dim1=1, dim2=2).mean(2)[:, None])
    batch("batch_reduction_pos_whole", "pos: true reduction_param { axis: 1 }", (2, 3, 3),
          lambda x: torch.diagonal(x, dim1=1, dim2=2).sum(1))


def main():
    torch.set_num_threads(1)
    recurrent()
    gated()
    packed()
    units()
    caffe_lstm()
    embeddings()
    reductions()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_recurrent.json")
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
