"""The example programs, with fewer steps: they learn, and the same seed gives the same numbers."""

from __future__ import annotations

import facula as fa
import pytest
from facula.examples import (
    _text,
    gan,
    gaussian_process,
    hogwild,
    karate,
    lstm_text,
    ode,
    policy_gradient,
    series,
    transfer,
    vae,
)


@pytest.fixture(autouse=True)
def one_thread():
    before = fa.get_num_threads()
    fa.set_num_threads(1)
    yield
    fa.set_num_threads(before)


def test_autoencoder(capsys):
    pytest.importorskip("sklearn")
    losses = vae.run(epochs=4, seed=0)
    assert losses == sorted(losses, reverse=True) and losses[-1] < 30
    assert len(capsys.readouterr().out.strip("\n").split("\n")) == 3 + 8 - 1
    assert vae.run(epochs=1, seed=0)[0] == losses[0]


def test_adversaries():
    heaps, share = gan.run(steps=400, seed=0)
    assert heaps >= 3 and 0 < share <= 1
    heaps, share = gan.found(gan.real(1000))
    assert heaps == gan.HEAPS and share > 0.99
    assert gan.found(fa.zeros(10, 2)) == (0, 0.0)


def test_poem():
    text = lstm_text.poem()
    assert text.startswith("The Zen of Python") and len(text) > 800
    loss, said = lstm_text.run(steps=40, seed=0)
    assert loss < 2 and len(said) == len("Beautiful is") + 200
    assert set(said) <= set(text)


def test_balance():
    lengths = policy_gradient.run(rounds=16, seed=0)
    assert sum(lengths[-4:]) > 1.5 * sum(lengths[:4])
    carts = policy_gradient.Carts(3)
    carts.state = fa.tensor([[0.0, 0, 0, 0], [2.5, 0, 0, 0], [0, 0, 0.5, 0]])
    assert carts.push(fa.ones(3)).tolist() == [True, False, False]


def test_karate_club():
    links = karate.graph()
    assert fa.equal(links, links.mT) and int((links > 0).sum()) == 2 * 78 + 34
    assert len(karate.FRIENDS.split()) == 78
    assert karate.run(steps=100, seed=0) > 0.9


def test_wave():
    assert series.run(steps=4, seed=0, length=40, future=20) < 0.05


def test_processes():
    pytest.importorskip("sklearn")
    assert hogwild.run(processes=2, epochs=3, seed=0) > 0.85


def test_layers_of_a_file(tmp_path):
    pytest.importorskip("sklearn")
    file = tmp_path / "layers.pt"
    with_file, without = transfer.run(file, epochs=8, seed=0)
    assert with_file > without and with_file > 0.75
    assert sorted(fa.load(file)) == sorted(transfer.Net().state_dict())
    assert transfer.run(file, epochs=8, seed=1)[0] > 0.7  # the file is used again


def test_law_of_a_motion():
    first, _ = ode.run(steps=1, seed=0)
    loss, distance = ode.run(steps=120, seed=0)
    assert loss < first / 4 and distance < 3
    # One step of the method has an error of the fifth order: here against e^-h.
    end = ode.path(lambda x: -x, fa.ones(1, 2, dtype=fa.float64), 1, 0.1)[-1]
    assert abs(end[0, 0].item() - 0.9048374180359595) < 1e-7


def test_process_of_curves():
    model, loss, inside = gaussian_process.run(steps=80, seed=0)
    assert loss < 10 and inside > 0.7
    x = fa.tensor([0.0, 1.0], dtype=fa.float64)
    y = fa.tensor([1.0, -1.0], dtype=fa.float64)
    mean, sigma = model.predict(x, y, fa.tensor([50.0], dtype=fa.float64))
    assert abs(mean.item()) < 1e-6  # far from all that is known, nothing is
    assert sigma.item() == pytest.approx(model.height.exp().item(), rel=1e-6)


def test_pictures_of_characters():
    assert _text.picture(fa.tensor([[0.0, 1.0], [-1.0, 2.0]])) == "  @@\n  @@"
    assert _text.beside(["a\nb", "c\nd"]) == "a  c\nb  d"
    points = {".": fa.tensor([[0.0, 0.0], [1.0, 1.0]])}
    assert _text.scatter(points, width=3, height=2) == "  .\n."


@pytest.mark.parametrize("module", [vae, gan, karate, hogwild, transfer])
def test_programs_say_what_they_take(module, capsys):
    with pytest.raises(SystemExit) as exit:
        module.main(["--help"])
    assert exit.value.code == 0 and "--seed" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        module.main(["--none", "1"])
