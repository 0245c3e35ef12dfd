"""Records layers of generative adversarial nets: their losses, and spectral normalisation as PyTorch's hook does it.

Usage: python3 make_gan_goldens.py      writes layers_gan.json, in the format of make_layer_goldens.py

Spectral normalisation is torch.nn.utils.spectral_norm on PyTorch's own modules. In eval mode the hook reads a stored v
where Moka makes it from u: it is given that v.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from make_layer_goldens import values
from single_layers import case, write


def losses():
    functions = {
        "LOGISTIC": (lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
                     lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x)),
                     lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x))),
        "HINGE": (lambda x: F.relu(1 - x).mean(), lambda x: F.relu(1 + x).mean(), lambda x: -x.mean()),
        "WASSERSTEIN": (lambda x: -x.mean(), lambda x: x.mean(), lambda x: -x.mean()),
        "LEAST_SQUARES": (lambda x: F.mse_loss(x, torch.ones_like(x)) / 2, lambda x: F.mse_loss(x, torch.zeros_like(x)) / 2,
                          lambda x: F.mse_loss(x, torch.ones_like(x)) / 2),
    }
    for kind, sides in functions.items():
        for side, function in zip(("REAL", "FAKE", "GENERATOR"), sides):
            case(f"gan_{kind}_{side}".lower(), "GanLoss", f"gan_loss_param {{ kind: {kind} side: {side} }}", [(6, 2)],
                 lambda x, p, f=function: [f(x[0])], low=-3)
    # Far from zero the exponential must not overflow.
    case("gan_far", "GanLoss", "gan_loss_param { side: FAKE }", [np.array([900.0, -900.0, 30.0])],
         lambda x, p: [F.softplus(x[0]).mean()])


def spectral(name, kind, fields, module, bottom, phase="TRAIN", steps=1, dim=0):
    """The module's forward and gradients with its weight under the hook; params: weight, bias if any, u."""
    shapes = [tuple(module.weight.shape)] + ([tuple(module.bias.shape)] if module.bias is not None else [])
    rows = module.weight.shape[dim]
    params = [values(f"{name}/param{i}", shape) for i, shape in enumerate(shapes)]
    u = values(f"{name}/u", (rows,))
    hooked = nn.utils.spectral_norm(module.double(), n_power_iterations=steps, eps=1e-12, dim=dim)
    hooked.train(phase == "TRAIN")
    after = {}

    def run(x, p):
        matrix = p[0].detach().transpose(0, dim).reshape(rows, -1)
        start = F.normalize(p[-1].detach(), dim=0, eps=1e-12)
        own = {"weight_orig": p[0], "weight_u": start.clone(),
               "weight_v": F.normalize(matrix.t() @ start, dim=0, eps=1e-12)}
        if len(p) == 3:
            own["bias"] = p[1]
        y = torch.func.functional_call(hooked, own, (x[0],))
        after[len(p) - 1] = own["weight_u"] if phase == "TRAIN" else p[-1].detach()
        return [y]

    p = [torch.tensor(a) for a in (*params, u)]
    run([torch.tensor(values(f"{name}/bottom0", bottom))], p)  # what becomes of u
    iterations = f"spectral_norm_param {{ iterations: {steps} }}"
    case(name, kind, f"{fields} {iterations}", [bottom], run, [*params, u], phase=phase, after=dict(after))


def spectral_norms():
    conv = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }"
    spectral("sn_conv", "Convolution", conv, nn.Conv2d(3, 4, 3, padding=1), (2, 3, 4, 4))
    spectral("sn_conv_three", "Convolution", conv, nn.Conv2d(3, 4, 3, padding=1), (2, 3, 4, 4), steps=3)
    spectral("sn_conv_test", "Convolution", conv, nn.Conv2d(3, 4, 3, padding=1), (2, 3, 4, 4), phase="TEST")
    spectral("sn_conv_group", "Convolution",
             "convolution_param { num_output: 4 group: 2 kernel_size: 3 bias_term: false }",
             nn.Conv2d(4, 4, 3, groups=2, bias=False), (2, 4, 4, 4))
    spectral("sn_ip", "InnerProduct", "inner_product_param { num_output: 5 }", nn.Linear(6, 5), (3, 6))
    spectral("sn_deconv", "Deconvolution", "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 }",
             nn.ConvTranspose2d(3, 2, 4, 2, 1), (2, 3, 3, 3), dim=1)


def main():
    losses()
    spectral_norms()
    write("layers_gan.json")


if __name__ == "__main__":
    main()
