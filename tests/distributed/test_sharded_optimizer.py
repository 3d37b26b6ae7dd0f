"""State spread over processes: the steps are those of the optimizer alone."""

from __future__ import annotations


def test_steps_and_states(job):
    said = job(
        3,
        """
        from facula import nn, optim
        from facula.distributed.optim import ZeroRedundancyOptimizer
        dist.init_process_group()

        def net():
            fa.manual_seed(3)
            return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4)).double()

        def steps(model, optimizer, scheduler, first, count):
            for i in range(first, first + count):
                g = fa.Generator().manual_seed(i)
                x = fa.randn(6, 5, generator=g, dtype=fa.float64)
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                scheduler.step()

        def groups(model):
            return [{"params": model[0].parameters(), "lr": 0.02}, {"params":
            model[2].parameters()}]

        kinds = [(optim.Adam, {"lr": 0.01}), (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
                 (optim.AdamW, {"lr": 0.01, "weight_decay": 0.1})]
        for kind, options in kinds:
            alone, shared = net(), net()
            one = kind(groups(alone), **options)
            many = ZeroRedundancyOptimizer(groups(shared), kind, **options)
            s1 = optim.lr_scheduler.StepLR(one, 2, 0.5)
            s2 = optim.lr_scheduler.StepLR(many, 2, 0.5)
            steps(alone, one, s1, 0, 4)
            steps(shared, many, s2, 0, 4)
            held = sum(1 for _ in many.optim.state) if many.optim else 0
            assert held < 4
            try:
                many.state_dict()
                raise SystemExit("not refused")
            except RuntimeError as error:
                assert f"consolidate_state_dict(to={rank})" in str(error)
            many.consolidate_state_dict(to=1)
            box = [many.state_dict() if rank == 1 else None]
            dist.broadcast_object_list(box, src=1)
            state = box[0]
            assert sorted(state["state"]) == [0, 1, 2, 3]
            theirs = one.state_dict()
            for i in range(4):
                for key, value in theirs["state"][i].items():
                    if isinstance(value, fa.Tensor):
                        fa.testing.assert_close(state["state"][i][key], value, check_dtype=False)
            assert [g["lr"] for g in state["param_groups"]] == [g["lr"] for g in
            theirs["param_groups"]]
            # goes on from the state, in a new optimizer, and in the optimizer alone
            again = net()
            again.load_state_dict(shared.state_dict())
            more = ZeroRedundancyOptimizer(groups(again), kind, **options)
            more.load_state_dict(state)
            alone_again = net()
            alone_again.load_state_dict(shared.state_dict())
            single = kind(groups(alone_again), **options)
            single.load_state_dict(state)
            for model, optimizer in ((alone, one), (shared, many), (again, more), (alone_again,
            single)):
                class Constant:
                    def step(self): pass
                steps(model, optimizer, Constant(), 10, 3)
            for a, b, c, d in zip(alone.parameters(), shared.parameters(), again.parameters(),
                                  alone_again.parameters()):
                fa.testing.assert_close(b, a)
                fa.testing.assert_close(c, a)
                fa.testing.assert_close(d, a)
        print("good")
        """,
    )
    assert said == [["good"]] * 3
