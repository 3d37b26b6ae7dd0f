"""Processes with different numbers of batches."""

from __future__ import annotations


def test_join(job):
    said = job(
        4,
        """
        import copy
        from facula import nn
        from facula.distributed.algorithms.join import Join, Joinable, JoinHook
        from facula.distributed.optim import ZeroRedundancyOptimizer
        from facula.nn.functional import mse_loss
        from facula.nn.parallel import DistributedDataParallel as DDP
        dist.init_process_group()
        counts = [2, 5, 1, 5]
        g = fa.Generator().manual_seed(2)
        data = fa.randn(4, 5, 3, 6, generator=g, dtype=fa.float64)
        goal = fa.randn(4, 5, 3, 2, generator=g, dtype=fa.float64)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.spare = nn.Linear(6, 40), nn.Linear(40, 2), nn.Linear(2, 2)
                self.register_buffer("seen", fa.zeros(()))
            def forward(self, x):
                if self.training:
                    self.seen += 1
                return self.b(self.a(x).tanh())

        def expected(by_all):
            fa.manual_seed(0)
            net = Net().double()
            optimizer = fa.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            for step in range(max(counts)):
                here = [r for r in range(4) if step < counts[r]]
                optimizer.zero_grad()
                total = sum(mse_loss(net(data[r, step]), goal[r, step]) for r in here)
                (total / (4 if by_all else len(here))).backward()
                optimizer.step()
            return net

        def run(by_all=True, zero=False, accumulate=False, **options):
            fa.manual_seed(0)
            net = Net().double()
            unused = options.get("find_unused_parameters", False)
            if not unused:
                net.spare.requires_grad_(False)
            net = DDP(net, bucket_cap_mb=0.001, **options)
            kind = ZeroRedundancyOptimizer if zero else fa.optim.SGD
            first = (fa.optim.SGD,) if zero else ()
            optimizer = kind(net.parameters(), *first, lr=0.1, momentum=0.9)
            joined = Join([net, optimizer]) if zero else net.join(by_all)
            with joined:
                for step in range(counts[rank]):
                    optimizer.zero_grad()
                    if accumulate:
                        with net.no_sync():
                            (mse_loss(net(data[rank, step]), goal[rank, step]) / 2).backward()
                        (mse_loss(net(data[rank, step]), goal[rank, step]) / 2).backward()
                    else:
                        mse_loss(net(data[rank, step]), goal[rank, step]).backward()
                    optimizer.step()
            wanted = expected(by_all)
            for (name, a), b in zip(wanted.named_parameters(), net.module.parameters()):
                fa.testing.assert_close(b.detach(), a.detach(), rtol=0, atol=1e-12, msg=name)
            if not accumulate:
                assert net.module.seen == 5, net.module.seen  # of the last ones, in all
            # after it, all is as before
            mse_loss(net(data[0, 0]), goal[0, 0]).backward()
            return net

        run()
        run(by_all=False)
        run(zero=True)
        run(accumulate=True)
        run(find_unused_parameters=True)
        run(gradient_as_bucket_view=True)

        net = DDP(nn.Linear(6, 2).double())
        done = 0
        try:
            with net.join(throw_on_early_termination=True):
                for step in range(counts[rank]):
                    mse_loss(net(data[rank, step]), goal[rank, step]).backward()
                    done += 1
            raise SystemExit("no error")
        except RuntimeError as error:
            assert "no inputs left" in str(error) and done == 1
        with net.join(enable=False):
            mse_loss(net(data[rank, 0]), goal[rank, 0]).backward()

        class Counter(Joinable):
            total = 0
            join_device, join_process_group = fa.device("cpu"), dist.group.WORLD
            def __call__(self):
                Join.notify_join_context(self)
                self.add(1)
            def add(self, n):
                t = fa.tensor([n])
                dist.all_reduce(t)
                self.total += t.item()
            def join_hook(self, **kwargs):
                counter, asked = self, kwargs
                class Hook(JoinHook):
                    def main_hook(self):
                        counter.add(0)
                    def post_hook(self, is_last_joiner):
                        asked["box"].append(is_last_joiner)
                return Hook()
        counter, box = Counter(), []
        with Join([counter], box=box):
            for _ in range(counts[rank]):
                counter()
        assert counter.total == sum(counts) and box == [counts[rank] == 5]
        for wrong, kind, text in (
            (lambda: Join([]), ValueError, "empty"),
            (lambda: Join([3]), TypeError, "int is no Joinable"),
            (lambda: DDP(nn.Linear(1, 1), static_graph=True).join(), ValueError, "static_graph"),
        ):
            try:
                wrong()
                raise SystemExit("no error: " + text)
            except kind as error:
                assert text in str(error), error
        print("good")
        """,
    )
    assert said == [["good"]] * 4
