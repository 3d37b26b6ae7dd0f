import sys, facula as fa, torch
import torch.nn.functional as TF
F = fa.nn.functional
def go(dtype, n, c, mag, kind, seed=0, **kw):
    g = torch.Generator().manual_seed(seed)
    x = (torch.randn(n, c, generator=g, dtype=torch.float64) + mag).to(getattr(torch, dtype))
    if kind == "class":
        t = torch.randint(0, c, (n,), generator=g)
    else:
        t = torch.rand(n, c, generator=g, dtype=torch.float64); t = (t / t.sum(1, keepdim=True)).to(x.dtype)
    xr = x.double().requires_grad_()
    ref = TF.cross_entropy(xr, t if kind == "class" else t.double(), **kw); ref.backward()
    xf = fa.from_numpy(x.float().numpy()).to(getattr(fa, dtype)).cuda().requires_grad_()
    tf = fa.from_numpy(t.numpy() if kind == "class" else t.float().numpy())
    tf = tf.cuda() if kind == "class" else tf.to(getattr(fa, dtype)).cuda()
    out = F.cross_entropy(xf, tf, **kw); out.backward()
    e1 = abs(out.item() - ref.item()); e2 = float((torch.from_numpy(xf.grad.cpu().float().numpy()).double() - xr.grad).abs().max() / xr.grad.abs().max())
    print(dtype, n, c, mag, kind, kw, "value err", e1, "grad rel", e2, flush=True)
for dtype in ("float32", "bfloat16", "float16"):
    for n, c in ((7, 10), (64, 50257), (1000, 3), (3, 1), (5, 1025)):
        for mag in (0, 1e4 if dtype != "float32" else 1e6):
            go(dtype, n, c, mag, "class"); go(dtype, n, c, mag, "class", label_smoothing=0.1, reduction="mean")
        go(dtype, n, c, 0, "prob")
