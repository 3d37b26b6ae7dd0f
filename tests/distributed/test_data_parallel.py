"""Training in several processes is that of one with the whole batch."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("model", "processes"), [("digits", 2), ("gpt", 4)])
def test_examples_are_as_one_process(job, model, processes):
    if model == "digits":
        pytest.importorskip("sklearn")
    words = ["-m", "facula.examples.parallel", "--model", model, "--steps", "6", "--batch", "16"]
    launch = ["-m", "facula.distributed.run", "--nproc-per-node", str(processes)]
    losses = []
    for start in ([], launch):
        done = subprocess.run(
            [sys.executable, *start, *words], capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, done.stdout + done.stderr
        losses.append(float(re.search(r"loss ([\d.]+) after 6 steps", done.stdout).group(1)))
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)


def test_ways_of_averaging(job):
    said = job(
        2,
        """
        import copy
        from facula import nn
        from facula.nn.parallel import DistributedDataParallel as DDP
        from facula.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
        dist.init_process_group()

        def net():
            return nn.Sequential(nn.Linear(6, 300), nn.Tanh(), nn.Linear(300, 3)).double()

        def curve(tolerance=1e-12, hook=None, **options):
            fa.manual_seed(5)
            alone = net()
            fa.manual_seed(5 + rank)  # parameters begin as those of rank 0
            together = DDP(net() if rank else copy.deepcopy(alone), **options)
            if hook is not None:
                together.register_comm_hook(None, hook)
            one = fa.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
            many = fa.optim.SGD(together.parameters(), lr=0.1, momentum=0.9)
            g = fa.Generator().manual_seed(7)
            for step in range(4):
                x = fa.randn(8, 6, generator=g, dtype=fa.float64)
                y = fa.randn(8, 3, generator=g, dtype=fa.float64)
                one.zero_grad()
                nn.functional.mse_loss(alone(x), y).backward()
                one.step()
                many.zero_grad()
                mine = slice(4 * rank, 4 * rank + 4)
                if step == 2:  # two halves, of which the first is not averaged yet
                    with together.no_sync():
                        (nn.functional.mse_loss(together(x[mine][:2]), y[mine][:2]) / 2).backward()
                    (nn.functional.mse_loss(together(x[mine][2:]), y[mine][2:]) / 2).backward()
                else:
                    nn.functional.mse_loss(together(x[mine]), y[mine]).backward()
                many.step()
            for a, b in zip(alone.parameters(), together.module.parameters()):
                fa.testing.assert_close(a, b, rtol=0, atol=tolerance)
            return together

        curve()
        curve(bucket_cap_mb=0.001)
        views = curve(gradient_as_bucket_view=True, bucket_cap_mb=0.001)
        curve(static_graph=True)
        curve(find_unused_parameters=True)
        curve(hook=hooks.allreduce_hook)
        curve(1e-2, hook=hooks.fp16_compress_hook)
        curve(5e-2, hook=hooks.bf16_compress_hook)
        assert sorted(views.state_dict())[0] == "module.0.bias"

        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = (nn.Linear(2, 2) for _ in range(3))
            def forward(self, x):
                return self.a(x) if rank == 0 else self.b(x)

        m = DDP(Branches(), find_unused_parameters=True)
        m.module.c.weight.grad = fa.full((2, 2), 9.0)
        for _ in range(2):
            m.zero_grad(set_to_none=False)
            m(fa.ones(1, 2)).sum().backward()
        assert m.module.a.weight.grad.tolist() == m.module.b.weight.grad.tolist() == [[0.5, 0.5]] *
        2
        assert m.module.c.bias.grad is None
        m = DDP(Branches())
        m(fa.ones(1, 2)).sum().backward()
        try:
            m(fa.ones(1, 2))
            raise SystemExit("not refused")
        except RuntimeError as error:
            assert "c.weight" in str(error) and "find_unused_parameters" in str(error)
        try:
            DDP(nn.Linear(2 + rank, 2))
            raise SystemExit("not refused")
        except RuntimeError as error:
            assert "rank 1: its weight is float32 (2, 3), that of rank 0 is weight" in
            str(error).replace("facula.", ""), error
        print("good")
        """,
    )
    assert said == [["good"]] * 2


def test_batch_norm_over_processes(job):
    """Parts of different sizes, against one process with the whole batch."""
    said = job(
        2,
        """
        from facula import nn
        dist.init_process_group()
        for shape in ((7, 3), (7, 3, 4), (7, 3, 2, 2)):
            fa.manual_seed(0)
            x = fa.randn(shape, dtype=fa.float64)
            w = fa.randn(shape, dtype=fa.float64)
            kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
            alone = kind(3).double()
            nn.init.normal_(alone.weight)
            import copy
            together = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone))
            part = slice(0, 2) if rank == 0 else slice(2, 7)
            whole = x.clone().requires_grad_()
            mine = x[part].clone().requires_grad_()
            for _ in range(2):
                expected, out = alone(whole), together(mine)
            fa.testing.assert_close(out, expected[part])
            (expected * w).sum().backward()
            (out * w[part]).sum().backward()
            fa.testing.assert_close(mine.grad, whole.grad[part])
            grad = together.weight.grad.clone()
            dist.all_reduce(grad)
            fa.testing.assert_close(grad, alone.weight.grad)
            fa.testing.assert_close(together.running_mean, alone.running_mean)
            fa.testing.assert_close(together.running_var, alone.running_var)
            alone.eval(), together.eval()
            fa.testing.assert_close(together(x[part]), alone(x)[part])
        print("good")
        """,
    )
    assert said == [["good"]] * 2
