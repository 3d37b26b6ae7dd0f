"""The training loop and its plugins."""

from __future__ import annotations

import builtins
import io
import subprocess
import sys
import textwrap

import facula as fa
import numpy as np
import pytest
from facula import nn, optim
from facula.utils.data import DataLoader, TensorDataset
from facula.utils.trainer import (
    Checkpoints,
    EarlyStopping,
    Plugin,
    ProgressBar,
    TensorBoardLog,
    Trainer,
)


def data(n=24, batch=8, shuffle=True):
    rng = np.random.default_rng(0)
    x = fa.tensor(rng.standard_normal((n, 3)).astype(np.float32))
    y = x @ fa.tensor([[1.0], [-2.0], [0.5]])
    return DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=shuffle)


def trainer(seed=0, **options):
    fa.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    options.setdefault("scheduler", optim.lr_scheduler.StepLR(optimizer, 3, 0.5))
    return Trainer(model, nn.MSELoss(), optimizer, **options)


def parameters(t):
    return [p.detach().numpy().copy() for p in t.model.parameters()]


def test_it_does_what_a_loop_by_hand_does():
    t = trainer()
    history = t.fit(data(), 3)
    by_hand = trainer()
    model, optimizer, scheduler = by_hand.model, by_hand.optimizer, by_hand.scheduler
    losses = []
    for _ in range(3):
        total = 0.0
        for x, y in data():
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / 24)
        scheduler.step()
    for a, b in zip(parameters(t), parameters(by_hand), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose([h["loss"] for h in history], losses, rtol=1e-6)
    assert (t.epoch, t.iteration, t.updates) == (3, 9, 9)


def test_accumulated_batches_are_one_step():
    def run(batch, accumulate):
        t = trainer(accumulate=accumulate)
        t.model[2].p = 0.0
        t.fit(data(batch=batch, shuffle=False), 2)
        return t

    a, b = run(8, 1), run(4, 2)
    assert a.updates == b.updates == 6 and b.iteration == 12
    for p, q in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-6)


def test_gradients_are_clipped():
    norms = []

    class Norms(Plugin):
        def on_batch(self, t, values):
            norms.append(values["loss"])

    t = trainer(clip_norm=1e-9, plugins=[Norms()])
    t.optimizer = optim.SGD(t.model.parameters(), lr=1.0)
    t.scheduler = None
    before = parameters(t)
    t.fit(data(), 1)
    for a, b in zip(before, parameters(t), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    assert len(norms) == 3


def test_metrics_and_validation_are_averages_over_samples():
    def error(out, y):
        return (out - y).abs().max()

    t = trainer(metrics={"error": error})
    (averages,) = t.fit(data(), 1, valid=data(n=20, batch=8, shuffle=False))
    assert set(averages) == {"loss", "error", "valid_loss", "valid_error"}
    t.model.eval()
    batches = list(data(n=20, batch=8, shuffle=False))
    losses = [((t.model(x) - y) ** 2).mean().item() for x, y in batches]
    np.testing.assert_allclose(
        averages["valid_loss"], np.average(losses, weights=[8, 8, 4]), rtol=1e-6
    )
    t.model.train()
    t.evaluate(batches)
    assert t.model.training


def test_events_come_in_order():
    log = []

    class Log(Plugin):
        def __getattribute__(self, name):
            if name.startswith("on_"):
                return lambda t, *a: log.append(name[3:])
            return super().__getattribute__(name)

    trainer(plugins=[Log()]).fit(data(n=8, batch=4), 1)
    wanted = ["start", "epoch_start", *["update", "batch"] * 2, "epoch_end", "end"]
    assert log == wanted


def test_a_resumed_training_is_the_one_that_was_not_interrupted(tmp_path):
    whole = trainer()
    whole.fit(data(), 6)
    first = trainer(plugins=[Checkpoints(tmp_path, keep=2)])
    first.fit(data(), 4)
    names = [f.name for f in sorted(tmp_path.iterdir())]
    assert names == ["epoch_00003.pt", "epoch_00004.pt"]
    second = trainer(seed=99, plugins=[Checkpoints(tmp_path, keep=2)])
    assert second.resume(str(tmp_path)) and second.epoch == 4
    second.fit(data(), 6)
    for a, b in zip(parameters(whole), parameters(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert second.history == whole.history
    assert not trainer().resume(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="scheduler"):
        trainer(scheduler=None).resume(str(tmp_path))


def test_the_best_state_is_kept(tmp_path):
    class Turn(Plugin):
        def on_epoch_end(self, t, averages):
            averages["score"] = [1.0, 3.0, 2.0][t.epoch - 1]

    t = trainer(plugins=[Turn(), Checkpoints(tmp_path, best="score", mode="max")])
    t.fit(data(), 3)
    assert fa.load(str(tmp_path / "best.pt"))["epoch"] == 2
    with pytest.raises(KeyError, match="nothing"):
        trainer(plugins=[Checkpoints(tmp_path, best="nothing")]).fit(data(), 1)


def test_it_ends_when_nothing_becomes_better():
    class Turn(Plugin):
        def on_epoch_end(self, t, averages):
            averages["valid_loss"] = [5.0, 4.0, 4.5, 4.2, 1.0, 1.0][t.epoch - 1]

    t = trainer(plugins=[Turn(), EarlyStopping(patience=2)])
    t.fit(data(), 6)
    assert t.epoch == 4 and "valid_loss" in t.stopped
    with pytest.raises(ValueError, match="mode"):
        EarlyStopping(mode="up")


def test_progress_is_shown_by_tqdm_or_by_lines(monkeypatch):
    out = io.StringIO()
    trainer(plugins=[ProgressBar(bar=False, file=out)]).fit(data(), 2)
    first, second = out.getvalue().splitlines()
    assert first.startswith("epoch 1/2: loss ") and second.startswith("epoch 2/2")
    real = builtins.__import__

    def without(name, *args):
        if name == "tqdm":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    out = io.StringIO()
    trainer(plugins=[ProgressBar(file=out)]).fit(data(), 1)
    assert out.getvalue().startswith("epoch 1/1")
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    out = io.StringIO()
    trainer(plugins=[ProgressBar(file=out)]).fit(data(), 2)
    assert "epoch 2/2: 100%" in out.getvalue() and "3/3" in out.getvalue()


def test_logs_for_tensorboard():
    class Writer:
        def __init__(self):
            self.found = []

        def add_scalar(self, tag, value, step):
            self.found.append((tag, step))

        def flush(self):
            self.found.append("flush")

    writer = Writer()
    trainer(plugins=[TensorBoardLog(writer, every=2)]).fit(data(), 1)
    assert writer.found == [("batch/loss", 2), ("epoch/loss", 1), ("epoch/lr", 1), "flush"]


def test_the_end_comes_by_an_error_too():
    ended = []

    class End(Plugin):
        def on_end(self, t):
            ended.append(1)

        def on_batch(self, t, values):
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        trainer(plugins=[End()]).fit(data(), 1)
    assert ended == [1]


def test_schedules_by_validation():
    t = trainer(scheduler=None)
    t.scheduler = optim.lr_scheduler.ReduceLROnPlateau(t.optimizer, patience=0, factor=0.1)
    t.criterion = lambda out, y: (out * 0).sum() + 1.0
    t.fit(data(), 3, valid=data())
    assert t.optimizer.param_groups[0]["lr"] == pytest.approx(0.02 * 0.01)


def test_autocast_and_what_cannot_be():
    dtypes = []
    t = trainer(autocast=fa.bfloat16, metrics={"m": lambda o, y: dtypes.append(o.dtype) or 0.0})
    t.fit(data(), 1)
    assert set(dtypes) == {fa.bfloat16}
    with pytest.raises(ValueError, match="no batch"):
        trainer().fit([], 1)
    with pytest.raises(TypeError, match="pair"):
        trainer().fit([fa.ones(3)], 1)
    with pytest.raises(ValueError, match="accumulate"):
        trainer(accumulate=0)
    with pytest.raises(ValueError, match="metric"):
        trainer(metrics={"loss": None})


def test_without_tensorboard_it_says_what_to_install():
    code = """
        import sys
        sys.modules["tensorboard"] = None
        try:
            from facula.utils.tensorboard import SummaryWriter
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert "pip install tensorboard" in done.stdout
