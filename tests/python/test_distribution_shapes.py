"""Distributions as objects: shapes, expansion, validation, printing, copies."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import facula.distributions as dist
import pytest
from facula.distributions import constraints

T = fa.tensor
TRIL = [[1.2, 0.0], [0.3, 0.9]]

# Each of batch shape (2,).
MADE: dict[str, Callable[[], Any]] = {
    "Bernoulli": lambda: dist.Bernoulli(T([0.2, 0.7])),
    "Beta": lambda: dist.Beta(T([0.5, 2.0]), 1.5),
    "Binomial": lambda: dist.Binomial(5, T([0.2, 0.7])),
    "Categorical": lambda: dist.Categorical(T([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])),
    "Cauchy": lambda: dist.Cauchy(T([0.0, 1.0]), 2.0),
    "Chi2": lambda: dist.Chi2(T([1.0, 4.0])),
    "ContinuousBernoulli": lambda: dist.ContinuousBernoulli(T([0.2, 0.7])),
    "Dirichlet": lambda: dist.Dirichlet(T([[0.5, 1.0, 2.0], [3.0, 1.0, 1.0]])),
    "Exponential": lambda: dist.Exponential(T([0.5, 2.0])),
    "FisherSnedecor": lambda: dist.FisherSnedecor(T([3.0, 4.0]), 5.0),
    "Gamma": lambda: dist.Gamma(T([0.5, 2.0]), 3.0),
    "GeneralizedPareto": lambda: dist.GeneralizedPareto(T([0.0, 1.0]), 2.0, 0.1),
    "Geometric": lambda: dist.Geometric(logits=T([0.5, -2.0])),
    "Gumbel": lambda: dist.Gumbel(T([0.0, 1.0]), 2.0),
    "HalfCauchy": lambda: dist.HalfCauchy(T([1.0, 2.0])),
    "HalfNormal": lambda: dist.HalfNormal(T([1.0, 2.0])),
    "Independent": lambda: dist.Independent(dist.Normal(fa.zeros(2, 3), 1.0), 1),
    "InverseGamma": lambda: dist.InverseGamma(T([2.5, 3.0]), 1.0),
    "Kumaraswamy": lambda: dist.Kumaraswamy(T([0.5, 2.0]), 3.0),
    "LKJCholesky": lambda: dist.LKJCholesky(3, T([0.5, 2.0])),
    "Laplace": lambda: dist.Laplace(T([0.0, 1.0]), 2.0),
    "LogNormal": lambda: dist.LogNormal(T([0.0, 1.0]), 0.5),
    "LogisticNormal": lambda: dist.LogisticNormal(fa.zeros(2, 3), 0.5),
    "LowRankMultivariateNormal": lambda: dist.LowRankMultivariateNormal(
        fa.zeros(2, 3), fa.ones(3, 1), fa.ones(3)
    ),
    "MixtureSameFamily": lambda: dist.MixtureSameFamily(
        dist.Categorical(T([0.3, 0.7])), dist.Normal(fa.zeros(2, 2), 1.0)
    ),
    "Multinomial": lambda: dist.Multinomial(4, T([[0.2, 0.8], [0.5, 0.5]])),
    "MultivariateNormal": lambda: dist.MultivariateNormal(fa.zeros(2, 2), scale_tril=T(TRIL)),
    "NegativeBinomial": lambda: dist.NegativeBinomial(3.5, T([0.2, 0.7])),
    "Normal": lambda: dist.Normal(T([0.0, 1.0]), 2.0),
    "OneHotCategorical": lambda: dist.OneHotCategorical(T([[0.2, 0.8], [0.5, 0.5]])),
    "OneHotCategoricalStraightThrough": lambda: dist.OneHotCategoricalStraightThrough(
        logits=fa.zeros(2, 3)
    ),
    "Pareto": lambda: dist.Pareto(T([1.0, 2.0]), 5.0),
    "Poisson": lambda: dist.Poisson(T([0.5, 7.0])),
    "RelaxedBernoulli": lambda: dist.RelaxedBernoulli(T(0.7), T([0.2, 0.7])),
    "RelaxedOneHotCategorical": lambda: dist.RelaxedOneHotCategorical(
        T(0.7), T([[0.2, 0.8], [0.5, 0.5]])
    ),
    "StudentT": lambda: dist.StudentT(T([3.0, 5.0])),
    "TransformedDistribution": lambda: dist.TransformedDistribution(
        dist.Normal(T([0.0, 1.0]), 2.0), [dist.AffineTransform(1.0, 2.0), dist.TanhTransform()]
    ),
    "Uniform": lambda: dist.Uniform(T([0.0, 1.0]), 3.0),
    "VonMises": lambda: dist.VonMises(T([0.0, 1.0]), 2.0),
    "Weibull": lambda: dist.Weibull(T([1.0, 2.0]), 1.5),
    "Wishart": lambda: dist.Wishart(T([4.0, 5.0]), scale_tril=T(TRIL)),
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    fa.manual_seed(0)


def test_every_distribution_is_here() -> None:
    abstract = {"Distribution", "ExponentialFamily"}
    found = {
        name
        for name in dist.__all__
        if isinstance(getattr(dist, name), type)
        and issubclass(getattr(dist, name), dist.Distribution)
    }
    assert found - abstract == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_shapes(name: str) -> None:
    d = MADE[name]()
    assert d.batch_shape == (2,) and isinstance(d.batch_shape, fa.Size)
    for shape in ((), (3,), (4, 3)):
        x = d.sample(shape)
        assert x.shape == shape + d.batch_shape + d.event_shape
        assert d.log_prob(x).shape == (*shape, 2)
        if d.has_rsample:
            assert d.rsample(shape).shape == x.shape
    for moment in ("mean", "variance", "stddev"):
        try:
            value = getattr(d, moment)
        except NotImplementedError as error:
            assert str(error)
        else:
            whole = d.batch_shape if name == "Categorical" else d.batch_shape + d.event_shape
            assert value.shape == whole
    try:
        assert d.entropy().shape == (2,)
    except NotImplementedError as error:
        assert str(error)


@pytest.mark.parametrize("name", MADE)
def test_expand(name: str) -> None:
    d = MADE[name]()
    x = d.sample()
    wanted = d.log_prob(x)
    for shape in ((2,), (3, 2), (4, 1, 2)):
        more = d.expand(shape)
        assert type(more) is type(d) and more.batch_shape == shape
        assert more.event_shape == d.event_shape
        assert more.sample((5,)).shape == (5, *shape, *d.event_shape)
        fa.testing.assert_close(more.log_prob(x), wanted.expand(shape))
        again = more.expand((2, *shape))
        fa.testing.assert_close(again.log_prob(x), wanted.expand((2, *shape)))
        with contextlib.suppress(NotImplementedError):
            fa.testing.assert_close(more.mean, d.mean.expand(more.mean.shape), equal_nan=True)
    with pytest.raises(RuntimeError):
        d.expand((3,))


@pytest.mark.parametrize("name", MADE)
def test_copies(name: str) -> None:
    d = MADE[name]()
    x = d.sample()
    d.log_prob(x)  # what is kept goes along
    for again in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d)):
        assert repr(again) == repr(d)
        assert fa.equal(again.log_prob(x), d.log_prob(x))


@pytest.mark.parametrize("name", MADE)
def test_parameters_have_gradients(name: str) -> None:
    """log_prob reaches every parameter that is a tensor."""
    x = MADE[name]().sample()
    d = MADE[name]()  # without attributes made of others
    for parameter in d.arg_constraints:
        value = d.__dict__.get(parameter)
        if not fa.is_tensor(value) or parameter == "total_count":
            continue
        own = value.detach().clone().requires_grad_()
        kept = {k: v for k, v in d.__dict__.items() if k in d.arg_constraints and k != parameter}
        extra = {"LKJCholesky": {"dim": 3}}.get(name, {})
        made = type(d)(**{parameter: own, **kept, **extra}, validate_args=False)
        made.log_prob(x).sum().backward()
        if name == "Uniform":
            continue
        assert own.grad is not None and own.grad.isfinite().all(), parameter


@pytest.mark.parametrize("name", MADE)
def test_values_are_checked(name: str) -> None:
    d = MADE[name]()
    if name not in ("Chi2", "Gamma"):  # which make tensors of numbers, as in torch
        with pytest.raises(ValueError, match="must be a Tensor, not float"):
            d.log_prob(0.5)
    with pytest.raises(ValueError, match=r"not broadcastable|must match event_shape"):
        d.log_prob(fa.zeros((7, *tuple(d.event_shape))))
    nan = fa.full(tuple(d.batch_shape + d.event_shape), fa.nan)
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(nan)


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: dist.Normal(0.0, -1.0), "scale.*GreaterThan"),
    (lambda: dist.Normal(T([0.0, fa.nan]), 1.0), r"loc.*shape \(2,\).*Real"),
    (lambda: dist.Normal("0", 1.0), "must be tensors or numbers, not str"),
    (lambda: dist.Bernoulli(1.5), "probs.*Interval"),
    (lambda: dist.Bernoulli(), "Either `probs` or `logits`"),
    (lambda: dist.Bernoulli(0.5, 0.0), "not both"),
    (lambda: dist.Gamma(0.0, 1.0), "concentration"),
    (lambda: dist.Categorical(T([-0.2, 1.2])), "probs.*Simplex"),
    (lambda: dist.Categorical(T(0.3)), "at least one-dimensional"),
    (lambda: dist.Uniform(2.0, 1.0), "low"),
    (lambda: dist.Binomial(-1, T(0.5)), "total_count"),
    (lambda: dist.Geometric(0.0), "probs.*positive"),
    (lambda: dist.Dirichlet(T(1.0)), "at least one-dimensional"),
    (lambda: dist.Beta(1.0, -1.0), "concentration0"),
    (lambda: dist.MultivariateNormal(fa.zeros(2)), "Exactly one of"),
    (
        lambda: dist.MultivariateNormal(fa.zeros(2), -fa.eye(2)),
        "covariance_matrix.*PositiveDefinite",
    ),
    (lambda: dist.MultivariateNormal(fa.zeros(2), fa.ones(2)), "at least two-dimensional"),
    (lambda: dist.LowRankMultivariateNormal(fa.zeros(3), fa.ones(2, 1), fa.ones(3)), "3 x m"),
    (lambda: dist.LowRankMultivariateNormal(fa.zeros(3), fa.ones(3, 1), fa.ones(2)), "cov_diag"),
    (lambda: dist.Wishart(T(0.5), fa.eye(2)), "greater than ndim - 1 = 1"),
    (lambda: dist.LKJCholesky(1), "integer greater than or equal to 2. Found dim=1"),
    (lambda: dist.Independent(dist.Normal(0.0, 1.0), 1), "1 vs 0"),
    (lambda: dist.Multinomial(-1, T([0.5, 0.5])), "at least 0, not -1"),
    (
        lambda: dist.MixtureSameFamily(dist.Normal(0.0, 1.0), dist.Normal(fa.zeros(2), 1.0)),
        "Categorical",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Categorical(fa.ones(3)), dist.Normal(fa.zeros(2), 1.0)),
        "3 categories",
    ),
]


@pytest.mark.parametrize("make, text", BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_parameters_are_checked(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){text}"):
        make()


def test_an_inhomogeneous_total_count() -> None:
    with pytest.raises(NotImplementedError, match="inhomogeneous total_count"):
        dist.Multinomial(T([1, 2]), T([0.5, 0.5]))
    d = dist.Binomial(T([1.0, 2.0]), T([0.5, 0.5]))
    for call in (d.entropy, d.enumerate_support):
        with pytest.raises(NotImplementedError, match="Inhomogeneous total count"):
            call()


@pytest.fixture
def default() -> Iterator[None]:
    yield
    dist.Distribution.set_default_validate_args(True)


def test_validate_args(default: None) -> None:
    assert dist.Normal(0.0, -1.0, validate_args=False).scale == -1
    loose = dist.Exponential(1.0, validate_args=False)
    assert loose.log_prob(T(-1.0)) == 1 and loose.expand((2,)).log_prob(T(-1.0)).shape == (2,)
    dist.Distribution.set_default_validate_args(False)
    assert dist.Normal(0.0, -1.0).scale == -1
    with pytest.raises(ValueError, match="scale"):
        dist.Normal(0.0, -1.0, validate_args=True)
    dist.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="scale"):
        dist.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="True or False, not 3"):
        dist.Distribution.set_default_validate_args(3)


def test_subclasses_of_users() -> None:
    class Shifted(dist.Normal):
        def __init__(self, loc: Any) -> None:
            super().__init__(loc + 1, fa.ones_like(loc))

    with pytest.raises(NotImplementedError, match="must also define a custom"):
        Shifted(fa.zeros(2)).expand((3, 2))

    class Better(Shifted):
        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            return super().expand(batch_shape, self._get_checked_instance(Better, _instance))

    assert type(Better(fa.zeros(2)).expand((3, 2))) is Better

    class Bare(dist.Distribution):
        def __init__(self) -> None:
            super().__init__((2,))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        bare = Bare()
    assert "has no arg_constraints" in str(seen[0].message)
    for name in ("mean", "variance", "support"):
        with pytest.raises(NotImplementedError, match=f"Bare has no {name}"):
            getattr(bare, name)
    for call in (bare.entropy, bare.rsample, lambda: bare.cdf(T(0.0)), lambda: bare.expand((2,))):
        with pytest.raises(NotImplementedError, match="Bare has no"):
            call()
    with pytest.warns(UserWarning, match="has no support"):
        bare._validate_sample(fa.zeros(2))


def test_repr() -> None:
    assert repr(dist.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(dist.Normal(fa.zeros(3), 1.0)) == (
        "Normal(loc: facula.Size([3]), scale: facula.Size([3]))"
    )
    assert repr(dist.Bernoulli(logits=fa.zeros(2))) == "Bernoulli(logits: facula.Size([2]))"
    whole = dist.Independent(dist.Normal(fa.zeros(3), 1.0), 1)
    assert repr(whole) == f"Independent({dist.Normal(fa.zeros(3), 1.0)}, 1)"


def test_enumerate_support() -> None:
    values = dist.Bernoulli(T([0.2, 0.7])).enumerate_support()
    assert values.tolist() == [[0, 0], [1, 1]]
    assert dist.Bernoulli(T([0.2, 0.7])).enumerate_support(expand=False).tolist() == [[0], [1]]
    assert dist.Binomial(2, T([0.5])).enumerate_support().tolist() == [[0], [1], [2]]
    d = dist.Categorical(fa.ones(2, 3))
    assert d.log_prob(d.enumerate_support()).exp().sum(0).tolist() == pytest.approx([1, 1])
    with pytest.raises(NotImplementedError, match="Poisson has no enumerate_support"):
        dist.Poisson(1.0).enumerate_support()
    with pytest.raises(NotImplementedError, match="cartesian product"):
        dist.Independent(dist.Bernoulli(fa.ones(2) / 2), 1).enumerate_support()


def test_independent() -> None:
    base = dist.Normal(fa.zeros(4, 3, 2), 1.0)
    x = base.sample()
    for n in range(4):
        d = dist.Independent(base, n)
        assert d.event_shape == (4, 3, 2)[3 - n :] and d.batch_shape == (4, 3, 2)[: 3 - n]
        want = base.log_prob(x)
        for _ in range(n):
            want = want.sum(-1)
        fa.testing.assert_close(d.log_prob(x), want)
        assert d.support.event_dim == n and d.has_rsample


def test_sample_n_is_of_yesterday() -> None:
    with pytest.warns(UserWarning, match="sample_n"):
        assert dist.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_lazy_attributes_have_gradients() -> None:
    probs = T([0.3, 0.6]).requires_grad_()
    d = dist.Bernoulli(probs)
    with fa.no_grad():
        logits = d.logits
    logits.sum().backward()
    fa.testing.assert_close(probs.grad, 1 / (probs * (1 - probs)).detach())
    assert d.logits is logits
    assert isinstance(type(d).logits, dist.utils.lazy_property)


def test_numbers_and_dtypes() -> None:
    assert dist.Normal(0, 1).loc.dtype == fa.get_default_dtype()
    assert dist.Normal(0, T(1.0, dtype=fa.float64)).loc.dtype == fa.float64
    assert dist.Normal(fa.zeros(3, 1), fa.ones(2)).batch_shape == (3, 2)
    with pytest.raises(RuntimeError, match="broadcast"):
        dist.Normal(fa.zeros(3), fa.ones(2))


def test_ends_of_ranges() -> None:
    inf = fa.inf
    assert dist.Uniform(0.0, 1.0).log_prob(T([0.0, 1.0])).tolist() == [0, -inf]
    assert dist.Bernoulli(T([0.0, 1.0])).log_prob(T([0.0, 1.0])).abs().max() < 1e-6
    assert dist.Geometric(1.0).log_prob(T(0.0)) == 0
    assert dist.Poisson(0.0).log_prob(T(0.0)) == 0
    assert dist.Multinomial(2, logits=T([0.0, -inf])).log_prob(T([2.0, 0.0])) == 0
    assert dist.Binomial(3, T(0.0)).log_prob(T(0.0)) == 0
    assert dist.Binomial(3, T(1.0)).log_prob(T(2.0)) == -inf
    assert dist.NegativeBinomial(0, T(0.5)).log_prob(T(0.0)) == 0
    assert dist.Exponential(1.0).log_prob(T(0.0)) == 0
    assert dist.Categorical(T([0.0, 1.0])).entropy() < 1e-5
    assert dist.VonMises(0.0, 1e4).log_prob(T(0.0)).isfinite()


def test_vectors_of_matrices() -> None:
    tril = fa.tensor([[2.0, 0.5], [1.0, 3.0]])
    vec = dist.utils.tril_matrix_to_vec(tril)
    assert vec.tolist() == [2, 1, 3]
    assert dist.utils.vec_to_tril_matrix(vec).tolist() == [[2, 0], [1, 3]]
    for diag in (-2, -1, 0, 1):
        m = fa.arange(16.0).reshape(4, 4).tril(diag)
        again = dist.utils.vec_to_tril_matrix(dist.utils.tril_matrix_to_vec(m, diag), diag)
        assert fa.equal(again, m)
    with pytest.raises(ValueError, match="4 elements"):
        dist.utils.vec_to_tril_matrix(fa.zeros(4))
    with pytest.raises(ValueError, match="diag"):
        dist.utils.tril_matrix_to_vec(tril, 2)


def test_names_of_modules_and_laziness() -> None:
    code = (
        "import sys, facula as fa; assert 'facula.distributions' not in sys.modules;"
        "from facula.distributions.beta import Beta;"
        "from facula.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal;"
        "from facula.distributions.studentT import StudentT;"
        "import facula.distributions.kl, facula.distributions.constraint_registry;"
        "assert Beta is fa.distributions.Beta"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    code = (
        "from facula import as_torch; as_torch.install();"
        "import torch; from torch.distributions import Normal, constraints;"
        "from torch.distributions.normal import Normal as N; from torch.distributions.kl import"
        " kl_divergence; assert N is Normal; print(torch.distributions.Gamma(1.0, 1.0).sample())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_constraints_of_classes() -> None:
    """A class says of its support whether it is discrete and how large events are."""
    for name in MADE:
        support = getattr(dist, name).support
        d = MADE[name]()
        if name not in ("Independent", "TransformedDistribution", "MixtureSameFamily"):
            assert support.event_dim == len(d.event_shape) == d.support.event_dim, name
            assert bool(support.is_discrete) == bool(d.support.is_discrete), name
    assert constraints.is_dependent(dist.Pareto.support)
