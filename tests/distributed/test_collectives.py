"""Each collective against NumPy, of three processes."""

from __future__ import annotations


def test_values(job):
    said = job(
        3,
        """
        import numpy as np
        dist.init_process_group()
        assert (dist.get_rank(), dist.get_world_size()) == (rank, size) == (rank, 3)
        rng = np.random.default_rng(0)

        def same(t, expected):
            np.testing.assert_allclose(t.numpy(), expected, rtol=1e-12)

        fa.set_default_dtype(fa.float64)
        every = rng.normal(size=(3, 4, 5))
        mine = fa.from_numpy(every[rank].copy())
        ops = {ReduceOp.SUM: every.sum(0), ReduceOp.AVG: every.mean(0), ReduceOp.MAX: every.max(0),
               ReduceOp.MIN: every.min(0), ReduceOp.PRODUCT: every.prod(0)}
        for op, expected in ops.items():
            t = mine.clone()
            dist.all_reduce(t, op)
            same(t, expected)
            t = mine.clone()
            dist.reduce(t, 1, op)
            same(t, expected if rank == 1 else every[rank])
            out = fa.empty(5)
            dist.reduce_scatter(out, [t for t in mine[:3]], op)
            whole = fa.empty(1, 5)
            dist.reduce_scatter_tensor(whole, mine[:3].contiguous(), op)
            row = {ReduceOp.SUM: np.sum, ReduceOp.AVG: np.mean, ReduceOp.MAX: np.max,
                   ReduceOp.MIN: np.min, ReduceOp.PRODUCT: np.prod}[op](every[:, rank], axis=0)
            same(out, row)
            same(whole[0], row)

        t = mine.clone()
        dist.broadcast(t, 2)
        same(t, every[2])
        parts = [fa.empty(4, 5) for _ in range(3)]
        dist.all_gather(parts, mine)
        same(fa.stack(parts), every)
        for shape in ((3, 4, 5), (12, 5)):
            out = fa.empty(shape)
            dist.all_gather_into_tensor(out, mine)
            same(out, every.reshape(shape))
        dist.gather(mine, parts if rank == 0 else None)
        if rank == 0:
            same(fa.stack(parts), every)
        t = fa.empty(5)
        dist.scatter(t, list(mine[:3]) if rank == 1 else None, src=1)
        same(t, every[1, rank])

        t = fa.empty(3, 5)
        dist.all_to_all_single(t, mine[:3].contiguous())
        same(t, every[:, rank])
        gives = [[0, 1, 3], [2, 2, 0], [1, 0, 3]]
        takes = [row[rank] for row in gives]
        t = fa.empty(sum(takes), 5)
        dist.all_to_all_single(t, mine, takes, gives[rank])
        starts = np.cumsum([[0, *row[:-1]] for row in gives], axis=1)
        same(t, np.concatenate([every[i, starts[i][rank]:starts[i][rank] + n]
                                for i, n in enumerate(takes)]))
        outs = [fa.empty(n, 5) for n in takes]
        dist.all_to_all(outs, list(mine.split(gives[rank])))
        same(fa.cat(outs), t.numpy())

        # layouts: what is not contiguous is filled in its place
        t = fa.from_numpy(every[rank].copy()).T
        dist.all_reduce(t)
        same(t, every.sum(0).T)
        t = fa.zeros(4, 10)[:, ::2]
        dist.broadcast(t.copy_(mine), 1)
        same(t, every[1])
        t = fa.zeros(0, 3)
        dist.all_reduce(t)
        dist.broadcast(t)
        t = fa.tensor(float(rank))
        dist.all_reduce(t)
        assert t.item() == 3 and t.shape == ()

        # several at once, waited for in another order
        ts = [fa.full((1000,), float(rank + i)) for i in range(8)]
        works = [dist.all_reduce(t, async_op=True) for t in ts]
        for work in reversed(works):
            assert work.wait() and work.is_completed() and work.is_success()
        assert [t[0].item() for t in ts] == [3.0 + 3 * i for i in range(8)]
        work = dist.all_reduce(fa.ones(2), async_op=True)
        assert work.get_future().then(lambda f: f.value()[0] * 2).wait().tolist() == [6, 6]
        ts = [fa.ones(2), fa.ones(3).float()]
        dist.all_reduce_coalesced(ts)
        assert [t.tolist() for t in ts] == [[3, 3], [3, 3, 3]]

        # meta tensors check shapes alone
        dist.all_reduce(fa.empty(3, device="meta"))
        dist.destroy_process_group()
        print("good")
        """,
    )
    assert said == [["good"]] * 3


def test_dtypes(job):
    """Whole numbers: every dtype that holds them gives the same. NaN goes through, in any order."""
    said = job(
        2,
        """
        dist.init_process_group()
        kinds = [fa.uint8, fa.int8, fa.int16, fa.int32, fa.int64, fa.uint16, fa.uint32, fa.uint64,
                 fa.float16, fa.bfloat16, fa.float32, fa.float64, fa.complex64, fa.complex128,
                 fa.float8_e4m3fn]
        for kind in kinds:
            t = fa.tensor([1, 2, 3]).to(kind)
            dist.all_reduce(t)
            assert t.dtype == kind and t.to(fa.complex128).real.tolist() == [2, 4, 6], kind
        t = fa.tensor([2**64 - 3 - rank, 2**63], dtype=fa.uint64)
        dist.all_reduce(t, ReduceOp.MAX)
        assert t.tolist() == [2**64 - 3, 2**63]
        for kind in (fa.float16, fa.float32, fa.float64):
            rows = [[1.0, fa.nan, -0.0, -5.0, fa.inf, -fa.inf], [2.0, 7.0, 0.0, fa.nan, 1.0, 1.0]]
            t = fa.tensor(rows[rank], dtype=kind)
            dist.all_reduce(t, ReduceOp.MAX)
            assert str(t.tolist()) == "[2.0, nan, 0.0, nan, inf, 1.0]", t
            t = fa.tensor(rows[rank], dtype=kind)
            dist.all_reduce(t, ReduceOp.MIN)
            assert str(t.tolist()) == "[1.0, nan, -0.0, nan, 1.0, -inf]", t
        # sixteen bits are summed in float32: 2048 + 1 + ... rounds once
        t = fa.tensor([2048.0 if rank == 0 else 3.0], dtype=fa.float16)
        dist.all_reduce(t, ReduceOp.AVG)
        assert t.item() == 1025.5 or t.item() == 1026.0
        flags = fa.tensor([True, False, rank == 0])
        expected = {ReduceOp.SUM: [1, 0, 1], ReduceOp.PRODUCT: [1, 0, 0], ReduceOp.MIN: [1, 0, 0],
                    ReduceOp.MAX: [1, 0, 1], ReduceOp.BAND: [1, 0, 0], ReduceOp.BOR: [1, 0, 1],
                    ReduceOp.BXOR: [0, 0, 1]}
        for op, values in expected.items():
            t = flags.clone()
            dist.all_reduce(t, op)
            assert t.dtype == fa.bool and t.int().tolist() == values, op
        t = fa.tensor([12 if rank else 10])
        dist.all_reduce(t, ReduceOp.BXOR)
        assert t.item() == 6
        for op, kind in ((ReduceOp.BAND, fa.float32), (ReduceOp.AVG, fa.int32), (ReduceOp.MAX,
        fa.complex64)):
            try:
                dist.all_reduce(fa.ones(1, dtype=kind), op)
                raise SystemExit("not refused")
            except TypeError as error:
                assert op.name in str(error)
        print("good")
        """,
    )
    assert said == [["good"]] * 2


def test_messages_and_objects(job):
    said = job(
        3,
        """
        dist.init_process_group()
        right, left = (rank + 1) % 3, (rank - 1) % 3
        t = fa.empty(2, dtype=fa.int64)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, fa.tensor([rank, 7]), right),
                                        dist.P2POp(dist.irecv, t, left)])
        for work in works:
            work.wait()
        assert t.tolist() == [left, 7]
        if rank == 0:
            dist.send(fa.ones(3), 2, tag=4)
        elif rank == 2:
            t = fa.empty(6)[::2]
            assert dist.recv(t, tag=4) == 0 and t.tolist() == [1, 1, 1]
        if rank == 0:
            dist.send(fa.ones(3), 1)
        elif rank == 1:
            try:
                dist.recv(fa.empty(4), 0)
                raise SystemExit("not refused")
            except RuntimeError as error:
                assert "12 bytes" in str(error) and "16" in str(error)
        got = [None] * 3
        dist.all_gather_object(got, {"rank": rank, "text": "x" * rank * 1000})
        assert [g["rank"] for g in got] == [0, 1, 2] and len(got[2]["text"]) == 2000
        items = [fa.arange(3), "a"] if rank == 1 else [None, None]
        dist.broadcast_object_list(items, src=1)
        assert items[0].tolist() == [0, 1, 2] and items[1] == "a"
        out = [None]
        dist.scatter_object_list(out, [10, 11, 12] if rank == 0 else None)
        assert out == [10 + rank]
        got = [None] * 3 if rank == 2 else None
        dist.gather_object(rank * rank, got, dst=2)
        assert rank != 2 or got == [0, 1, 4]
        if rank == 0:
            dist.send_object_list(["hello", 5], 1)
        elif rank == 1:
            box = [None, None]
            assert dist.recv_object_list(box) == 0 and box == ["hello", 5]
        dist.barrier()
        print("good")
        """,
    )
    assert said == [["good"]] * 3


def test_groups_and_meshes(job):
    said = job(
        4,
        """
        import warnings
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
        assert mesh.get_coordinate() == [rank // 2, rank % 2] and mesh.shape == (2, 2)
        t = fa.tensor([float(rank)])
        dist.all_reduce(t, group=mesh.get_group("columns"))
        assert t.item() == [1, 1, 5, 5][rank]
        t = fa.tensor([float(rank)])
        dist.all_reduce(t, group=mesh["rows"].get_group())
        assert t.item() == [2, 4, 2, 4][rank]
        assert mesh["columns"].mesh.tolist() == [[0, 1], [2, 3]][rank // 2]
        group = dist.new_group([1, 3])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            t = fa.tensor([float(rank)])
            dist.all_reduce(t, group=group)
        if rank in (1, 3):
            assert t.item() == 4 and dist.get_rank(group) == rank // 2 and not caught
            assert dist.get_global_rank(group, 1) == 3 and dist.get_group_rank(group, 3) == 1
            assert dist.get_process_group_ranks(group) == [1, 3]
        else:
            assert t.item() == rank and dist.get_rank(group) == -1 and "not in the group" in
            str(caught[0].message)
        mine, groups = dist.new_subgroups(2)
        assert len(groups) == 2 and mine.ranks == ((0, 1), (2, 3))[rank // 2]
        for wrong in ([0, 0], [9], []):
            try:
                dist.new_group(wrong)
                raise SystemExit("not refused")
            except ValueError as error:
                assert str(wrong) in str(error)
        # a job after a job
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group("gloo")
        t = fa.ones(1)
        dist.all_reduce(t)
        assert t.item() == 4 and dist.get_backend() == "gloo"
        print("good")
        """,
    )
    assert said == [["good"]] * 4


def test_gradients(job):
    """Against the same sums in one process: the loss is the sum of all processes' losses."""
    said = job(
        2,
        """
        import facula.distributed.nn as dn
        dist.init_process_group()
        fa.manual_seed(0)
        inputs = [fa.randn(2, 3, dtype=fa.float64, requires_grad=True) for _ in range(2)]
        weights = [fa.randn(2, 2, 3, dtype=fa.float64) for _ in range(2)]

        def alone(results):
            loss = sum((r * w[: r.shape[0]]).sum() for r, w in zip(results, weights))
            return fa.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)

        x = inputs
        a, b = x
        cases = {
            "all_reduce": (lambda t: dn.all_reduce(t), [(a + b)[None]] * 2),
            "average": (lambda t: dn.all_reduce(t, ReduceOp.AVG), [(a + b)[None] / 2] * 2),
            "all_gather": (lambda t: fa.stack(dn.all_gather(t)), [fa.stack([a, b])] * 2),
            "broadcast": (lambda t: dn.broadcast(t, 1), [b[None]] * 2),
            "reduce": (lambda t: dn.reduce(t, 0) * (rank == 0), [(a + b)[None], b[None] * 0]),
            "reduce_scatter": (lambda t: dn.reduce_scatter(fa.empty(3), list(t)),
                               [(a[0] + b[0])[None, None], (a[1] + b[1])[None, None]]),
            "gather": (lambda t: fa.stack(dn.gather(t, 1)),
                       [fa.stack([a, b]) * 0, fa.stack([a, b])]),
            "scatter": (lambda t: dn.scatter(list(t), 0), [a[0][None, None], a[1][None, None]]),
            "all_to_all": (lambda t: dn.all_to_all_single(fa.empty(2, 3), t),
                           [fa.stack([a[0], b[0]])[None], fa.stack([a[1], b[1]])[None]]),
        }
        for name, (collective, results) in cases.items():
            mine = inputs[rank].detach().clone().requires_grad_()
            result = collective(mine)
            r = results[rank]
            fa.testing.assert_close(result.reshape(r.shape), r, msg=name)
            loss = (result.reshape(r.shape) * weights[rank][: r.shape[0]]).sum()
            (grad,) = fa.autograd.grad(loss, mine)
            fa.testing.assert_close(grad, alone(results)[rank], msg=name)
        # second order
        mine = fa.tensor([1.0 + rank], dtype=fa.float64, requires_grad=True)
        (first,) = fa.autograd.grad(dn.all_reduce(mine**2) ** 2, mine, create_graph=True)
        (second,) = fa.autograd.grad(first, mine)
        # f = (sum of losses) = 2 * (1 + 4)^2 as a function of both numbers
        assert first.item() == 2 * 2 * 5 * 2 * (1 + rank)
        try:
            dn.all_reduce(mine, ReduceOp.MAX)
            raise SystemExit("not refused")
        except NotImplementedError as error:
            assert "MAX" in str(error)
        print("good")
        """,
    )
    assert said == [["good"]] * 2


def test_bad_arguments(job):
    said = job(
        2,
        """
        try:
            dist.all_reduce(fa.ones(1))
            raise SystemExit("not refused")
        except ValueError as error:
            assert "init_process_group" in str(error)
        dist.init_process_group()

        def refused(kind, words, call, *args, **kwargs):
            try:
                call(*args, **kwargs)
            except kind as error:
                assert words in str(error), error
            else:
                raise SystemExit(f"{call} took {args}")

        one = fa.ones(2)
        refused(TypeError, "give a Tensor", dist.all_reduce, [1.0])
        refused(TypeError, "ReduceOp", dist.all_reduce, one, "sum")
        refused(TypeError, "new_group returned", dist.all_reduce, one, group=5)
        refused(ValueError, "src is 2", dist.broadcast, one, 2)
        refused(ValueError, "not both", dist.broadcast, one, 0, group_src=1)
        refused(ValueError, "list of 2 tensors", dist.all_gather, [one], one)
        refused(ValueError, "must be alike", dist.all_gather, [one, fa.ones(3)], one)
        refused(ValueError, "(2, 2) or (4,)", dist.all_gather_into_tensor, fa.ones(3), one)
        refused(ValueError, "one dtype", dist.all_gather_into_tensor, fa.ones(4).int(), one)
        refused(ValueError, "do not divide", dist.all_to_all_single, fa.ones(3), fa.ones(3))
        refused(ValueError, "whose sum is 2", dist.all_to_all_single, one, one, [1, 2], [1, 1])
        refused(ValueError, "this process itself", dist.send, one, rank)
        refused(ValueError, "tag is -1", dist.isend, one, 1 - rank, tag=-1)
        refused(ValueError, "in a job", dist.init_process_group)
        print("good")
        """,
    )
    assert said == [["good"]] * 2
