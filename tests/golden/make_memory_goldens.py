"""Records memory networks and the layers they are made of, on small inputs in float64.

Usage: python3 make_memory_goldens.py      writes layers_memory.json, in the format of make_layer_goldens.py

The references are PyTorch's: torch.nn.functional.embedding, weighted and summed as the paper writes it (Sukhbaatar et
al., "End-to-end memory networks", 2015, arXiv 1503.08895), torch.matmul, and the whole net of models/babi_memn2n by
its equations, with and without the softmax of the memories.
"""

import json
import os

import numpy as np
import torch
from google.protobuf import text_format

import prototxt
from make_layer_goldens import exact, rounded, values
from make_recurrent_goldens import CASES, case

HERE = os.path.dirname(os.path.abspath(__file__))


def position_weights(words, columns):
    """l[j,k] of the authors' code, for a sentence of so many words."""
    j = torch.arange(1, words + 1, dtype=torch.float64)[:, None]
    k = torch.arange(1, columns + 1, dtype=torch.float64)[None]
    return 1 + 4 / (columns * words) * (k - (columns + 1) / 2) * (j - (words + 1) / 2)


def sums(index, table, padding, position):
    """[..,words] -> [..,columns]"""
    flat = index.reshape(-1, index.shape[-1])
    rows = []
    for sentence in flat:
        words = sentence[sentence != padding].long()
        row = torch.nn.functional.embedding(words, table)
        if position and len(words):
            row = row * position_weights(len(words), table.shape[1])
        rows.append(row.sum(0))
    return torch.stack(rows).reshape(*index.shape[:-1], table.shape[1])


def embed_sums():
    story = np.array([[[2.0, 5.0, 1.0, 0.0], [3.0, 0.0, 0.0, 0.0]], [[4.0, 4.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]]])

    def run(padding, position, tables):
        def function(x, w):
            y = [sums(x[0].detach(), w[0], padding, position)]
            if tables:
                keep = torch.ones(w[0].shape[0], 1, dtype=torch.float64)
                keep[padding] = 0
                y.append(w[0] * keep)
            return y

        return function

    fields = "embed_sum_param {{ num_output: {} input_dim: 6 {} }}"
    case("embed_sum", "EmbedSum", fields.format(3, ""), [story[0]], [(6, 3)], run(-1, False, False), no_gradient=[0])
    case("embed_sum_position", "EmbedSum", fields.format(5, "encoding: POSITION padding: 0"), [story], [(6, 5)],
         run(0, True, False), no_gradient=[0])
    case("embed_sum_table", "EmbedSum", fields.format(4, "padding: 0"), [story], [(6, 4)], run(0, False, True),
         no_gradient=[0])
    case("embed_sum_table_inside", "EmbedSum", fields.format(2, "padding: 4 encoding: POSITION"), [story], [(6, 2)],
         run(4, True, True), no_gradient=[0])


def products():
    def run(transpose_a, transpose_b):
        def function(x, _):
            a = x[0].transpose(-1, -2) if transpose_a else x[0]
            b = x[1].transpose(-1, -2) if transpose_b else x[1]
            return [torch.matmul(a, b)]

        return function

    case("mat_mul", "MatMul", "", [(2, 3, 4), (2, 4, 5)], [], run(False, False))
    case("mat_mul_transposed", "MatMul", "matmul_param { transpose_a: true transpose_b: true }", [(2, 4, 3), (2, 5, 4)],
         [], run(True, True))
    case("mat_mul_shared", "MatMul", "matmul_param { transpose_b: true }", [(2, 2, 3, 4), (5, 4)], [], run(False, True))
    case("mat_mul_flat", "MatMul", "", [(3, 4), (4, 2)], [], run(False, False))


def net_text(words, dim, times, is_linear):
    """The net of models/babi_memn2n without its data and losses, on inputs x0, x1, x2, its blocks expanded."""
    net = prototxt.messages().NetParameter()
    with open(os.path.join(HERE, "../../models/babi_memn2n/train_val.prototxt"), encoding="utf-8") as file:
        text_format.Parse(file.read(), net)
    use = next(layer for layer in net.layer if layer.name == "memn2n")
    del net.layer[:]
    for field, blobs in (("bottom", ["x0", "x1", "x2"]), ("top", ["y0"])):
        del getattr(use, field)[:]
        getattr(use, field).extend(blobs)
    del use.block_param.set[:]
    use.block_param.set.extend([f"words={words}", f"dim={dim}", f"times={times}"])
    net.layer.append(use)
    prototxt.expand_blocks(net)
    stages = {"linear"} if is_linear else set()
    return " ".join(f"layer {{ {text_format.MessageToString(layer, as_one_line=True)} }}"
                    for layer in prototxt.filter_net(net, prototxt.messages().TEST, 0, stages))


def memory_network(name, is_linear):
    words, dim, hops = 9, 4, 3
    story = np.array([[[4, 5, 6, 0, 0], [7, 8, 4, 5, 3], [6, 0, 0, 0, 0], [0] * 5],
                      [[8, 7, 0, 0, 0], [4, 4, 5, 0, 0], [5, 6, 7, 8, 0], [3, 4, 0, 0, 0]]], dtype=np.float64)
    question = np.array([[4, 8, 0, 0, 0], [5, 6, 7, 0, 0]], dtype=np.float64)
    time = np.array([[1, 3, 4, 0], [1, 2, 3, 4]], dtype=np.float64)
    arrays = [story, question, time]
    x = [torch.tensor(a) for a in arrays]
    tables = [torch.tensor(values(f"{name}/table{k}", (words, dim)), requires_grad=True) for k in range(hops + 1)]
    times = [torch.tensor(values(f"{name}/time{k}", (5, dim)), requires_grad=True) for k in range(hops + 1)]
    memory = [sums(x[0], tables[k], 0, True) + sums(x[2][..., None], times[k], 0, False) for k in range(hops + 1)]
    u = sums(x[1], tables[0], 0, True)
    for hop in range(hops):
        p = torch.einsum("nd,nsd->ns", u, memory[hop])
        p = p if is_linear else torch.softmax(p, dim=1)
        u = u + torch.einsum("ns,nsd->nd", p, memory[hop + 1])
    answers = torch.cat([torch.zeros(1, dim, dtype=torch.float64), tables[hops][1:]])
    y = u @ answers.T
    weight = values(f"{name}/weight0", y.shape)
    (y * torch.tensor(weight)).sum().backward()
    # In the order of the layers; tables 0 and 3 are used twice.
    uses = [blob for k in range(hops + 1) for blob in (tables[k], times[k])] + [tables[0], tables[hops]]
    CASES.append({
        "name": name, "layer": net_text(words, dim, 5, is_linear), "phase": "TEST",
        "bottoms": [{"shape": list(a.shape), "data": exact(a)} for a in arrays],
        "params": [{"shape": list(w.shape), "data": exact(w.detach()), "gradient": rounded(w.grad)} for w in uses],
        "tops": [{"shape": list(y.shape), "data": rounded(y.detach()), "weight": exact(weight)}]})


def main():
    torch.set_num_threads(1)
    CASES.clear()
    embed_sums()
    products()
    memory_network("memory_network", False)
    memory_network("memory_network_linear", True)
    path = os.path.join(HERE, "layers_memory.json")
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
