"""Random numbers within vmap, of functions and layers, of distributions and their checks."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import distributions as D
from facula import nn
from facula.func import grad, vmap

F = nn.functional
DRAWS = {
    "Dropout": (nn.Dropout(), (40,)),
    "Dropout1d": (nn.Dropout1d(), (40, 3)),
    "Dropout2d": (nn.Dropout2d(), (40, 3, 2)),
    "Dropout3d": (nn.Dropout3d(), (40, 3, 2, 2)),
    "AlphaDropout": (nn.AlphaDropout(), (40,)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(), (1, 40, 3)),
    "RReLU": (lambda x: F.rrelu(-x, training=True), (40,)),
    "gumbel_softmax": (F.gumbel_softmax, (40,)),
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x.cumsum(-1), 2, output_size=4),
        (9, 12, 12),
    ),
    "MultiheadAttention": (
        lambda x: F.scaled_dot_product_attention(x, x, x.cumsum(-2), dropout_p=0.5),
        (2, 9, 4),
    ),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_differ_or_are_the_same(name: str, shared: bool) -> None:
    draw, shape = DRAWS[name]
    x = fa.ones(3, *shape, dtype=fa.float64)

    def run(randomness: str) -> Any:
        fa.manual_seed(5)
        if shared:  # what is drawn for does not differ, the draws do
            return vmap(lambda _: draw(x[0]), randomness=randomness)(fa.zeros(3))
        return vmap(draw, randomness=randomness)(x)

    different = run("different")
    assert not fa.equal(different[0], different[1])
    same = run("same")
    assert fa.equal(same[0], same[1])
    assert fa.equal(same[1], same[2])
    fa.manual_seed(5)
    assert fa.equal(same[0], draw(x[0]))
    with pytest.raises(RuntimeError, match="randomness"):
        run("error")


@pytest.mark.parametrize("name", ["Dropout2d", "AlphaDropout", "FeatureAlphaDropout"])
def test_gradients_of_each_sample_go_through_them(name: str) -> None:
    draw, shape = DRAWS[name]
    x = fa.tensor(np.random.default_rng(0).standard_normal((3, *shape)))

    def loss(row: Any) -> Any:
        return draw(row).square().sum()

    fa.manual_seed(1)
    got = vmap(grad(loss), randomness="different")(x)
    fa.manual_seed(1)
    out = vmap(draw, randomness="different")(x)
    kept = got != 0
    assert 0.2 < kept.double().mean().item() < 0.8
    # y = a x + b where it is kept, and a constant elsewhere: the slope of y^2 is 2 a y.
    slopes = (got / (2 * out))[kept]
    assert (slopes - slopes[0]).abs().max() < 1e-9
    assert out[~kept].unique().numel() == 1


def rows() -> Any:
    return fa.tensor(np.random.default_rng(3).standard_normal((4, 6)))


eye = fa.eye(6, dtype=fa.float64)
three = fa.tensor(3.0, dtype=fa.float64)
FAMILIES = {
    "Normal": lambda a: D.Normal(a, 1.0),
    "Categorical": lambda a: D.Categorical(logits=a),
    "Bernoulli": lambda a: D.Bernoulli(probs=a.sigmoid()),
    "Binomial": lambda a: D.Binomial(three, logits=a),
    "Geometric": lambda a: D.Geometric(probs=a.sigmoid()),
    "NegativeBinomial": lambda a: D.NegativeBinomial(three, logits=a),
    "Multinomial": lambda a: D.Multinomial(3, logits=a),
    "OneHotCategorical": lambda a: D.OneHotCategorical(logits=a),
    "Poisson": lambda a: D.Poisson(a.exp()),
    "MultivariateNormal": lambda a: D.MultivariateNormal(a, eye * a[0].exp()),
    "LowRank": lambda a: D.LowRankMultivariateNormal(a, eye[:, :2], a.exp()),
    "Uniform": lambda a: D.Uniform(a, a + 1),
    "Wishart": lambda a: D.Wishart(7 + a[0].abs(), eye * a[1].exp()),
    "Dirichlet": lambda a: D.Dirichlet(a.exp()),
    "Gamma": lambda a: D.Gamma(a.exp(), 1.0),
    "InverseGamma": lambda a: D.InverseGamma(a.exp(), 1.0),
    "Beta": lambda a: D.Beta(a.exp(), 1.0),
    "StudentT": lambda a: D.StudentT(a.exp() + 1),
    "FisherSnedecor": lambda a: D.FisherSnedecor(a.exp(), 2.0),
    "VonMises": lambda a: D.VonMises(a, a.exp()),
    "Exponential": lambda a: D.Exponential(a.exp()),
    "Laplace": lambda a: D.Laplace(a, 1.0),
    "Cauchy": lambda a: D.Cauchy(a, 1.0),
    "HalfCauchy": lambda a: D.HalfCauchy(a.exp()),
    "HalfNormal": lambda a: D.HalfNormal(a.exp()),
    "Gumbel": lambda a: D.Gumbel(a, 1.0),
    "LogNormal": lambda a: D.LogNormal(a, 1.0),
    "Pareto": lambda a: D.Pareto(a.exp(), 1.0),
    "Weibull": lambda a: D.Weibull(a.exp(), 1.0),
    "Kumaraswamy": lambda a: D.Kumaraswamy(a.exp(), three),
    "ContinuousBernoulli": lambda a: D.ContinuousBernoulli(logits=a),
    "RelaxedBernoulli": lambda a: D.RelaxedBernoulli(three, logits=a),
    "RelaxedOneHot": lambda a: D.RelaxedOneHotCategorical(three, logits=a),
    "LKJCholesky": lambda a: D.LKJCholesky(3, a[0].exp()),
    "Mixture": lambda a: D.MixtureSameFamily(D.Categorical(logits=a), D.Normal(a, 1.0)),
    "Independent": lambda a: D.Independent(D.Normal(a, 1.0), 1),
    "Transformed": lambda a: D.TransformedDistribution(
        D.Normal(a, 1.0), [D.AffineTransform(0.0, a.exp()), D.SigmoidTransform()]
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_distributions_and_their_checks(name: str) -> None:
    make, a = FAMILIES[name], rows()
    fa.manual_seed(2)
    different = vmap(lambda r: make(r).sample((50,)), randomness="different")(a)
    assert different.shape[:2] == (4, 50)
    alike = vmap(lambda _: make(a[0]).sample((50,)), randomness="different")(fa.zeros(2))
    assert not fa.equal(alike[0], alike[1])
    fa.manual_seed(3)
    same = vmap(lambda r: make(r).sample((5,)), randomness="same")(a)
    if name != "VonMises":  # within vmap all rows try until the last one has its number
        fa.manual_seed(3)
        np.testing.assert_allclose(same[0].numpy(), make(a[0]).sample((5,)).numpy(), rtol=1e-12)
    got = vmap(lambda r, x: make(r).log_prob(x))(a, different)
    want = fa.stack([make(r).log_prob(x) for r, x in zip(a, different, strict=True)])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-10)


def test_a_row_that_is_wrong_is_found() -> None:
    scale = fa.tensor([1.0, 2.0, -1.0])
    with pytest.raises(ValueError, match="scale"):
        vmap(lambda s: D.Normal(0.0, s).mean)(scale)
    with pytest.raises(ValueError, match="scale"):
        vmap(grad(lambda s: D.Normal(0.0, s).log_prob(fa.tensor(0.1))))(scale)
    with pytest.raises(ValueError, match="support"):
        vmap(lambda x: D.Exponential(1.0).log_prob(x))(scale)
    with pytest.raises(ValueError, match="low"):
        vmap(lambda x: D.Uniform(0.0, x).mean)(scale)
    assert vmap(lambda s: D.Normal(0.0, s, validate_args=False).mean)(scale).shape == (3,)


def test_a_batch_of_no_rows_draws_nothing() -> None:
    assert vmap(lambda r: r.normal_(), randomness="same")(fa.empty(0, 3)).shape == (0, 3)


PARAMETERS = {
    "bernoulli": (fa.bernoulli, lambda shape: fa.rand(*shape)),
    "poisson": (fa.poisson, lambda shape: fa.rand(*shape) * 9),
    "binomial": (lambda p: fa.binomial(fa.tensor(20.0), p), lambda shape: fa.rand(*shape)),
    "normal": (fa.normal, lambda shape: fa.rand(*shape)),
    "normal of deviations": (lambda s: fa.normal(1.0, s), lambda shape: fa.rand(*shape)),
    "filled": (lambda p: fa.empty_like(p).bernoulli_(p), lambda shape: fa.rand(*shape)),
    "rand_like": (fa.rand_like, lambda shape: fa.rand(*shape)),
    "dropout": (F.dropout, lambda shape: fa.rand(*shape) + 1),
    "dropout of halves": (F.dropout, lambda shape: (fa.rand(*shape) + 1).half()),
    "Gamma": (lambda a: D.Gamma(a, 1.0).sample(), lambda shape: fa.rand(*shape) + 0.5),
}


@pytest.mark.parametrize("in_dim", [0, -1])
@pytest.mark.parametrize("shape", [(), (7,), (100, 3)])
@pytest.mark.parametrize("name", PARAMETERS)
def test_the_same_numbers_for_other_parameters(
    name: str, shape: tuple[int, ...], in_dim: int
) -> None:
    """Each row as the call gives it alone, from the same seed; in one call for all rows."""
    draw, make = PARAMETERS[name]
    fa.manual_seed(0)
    x = make((4, *shape))
    fa.func.vmap_fallback_counts(reset=True)
    fa.manual_seed(7)
    got = vmap(draw, in_dim, randomness="same")(x.movedim(0, in_dim))
    state = fa.get_rng_state()
    assert not fa.func.vmap_fallback_counts()
    for row, value in zip(got, x, strict=True):
        fa.manual_seed(7)
        assert row.tolist() == draw(value).tolist()
        assert fa.equal(state, fa.get_rng_state())


def test_the_same_numbers_in_nested_batches() -> None:
    x = fa.rand(2, 3, 50)

    def run(outer: str, inner: str) -> fa.Tensor:
        with fa.func.vmap_fallback("quiet"):
            return vmap(vmap(fa.bernoulli, randomness=inner), randomness=outer)(0 * x + 0.5)

    kept = run("same", "same")
    assert (kept == kept[0, 0]).all()
    kept = run("different", "same")
    assert (kept == kept[:, :1]).all() and not fa.equal(kept[0], kept[1])
    kept = run("same", "different")
    assert (kept == kept[:1]).all() and not fa.equal(kept[0, 0], kept[0, 1])
