"""Probability distributions, transforms, constraints and divergences, under torch's names."""

from __future__ import annotations

import sys
from typing import Any

from facula.distributions import (  # noqa: F401
    _kl_cross,
    _kl_same,
    bernoulli,
    categorical,
    cauchy,
    constraint_registry,
    constraints,
    dirichlet,
    distribution,
    exp_family,
    exponential,
    extreme_value,
    gamma,
    independent,
    kl,
    mixture_same_family,
    multivariate_normal,
    normal,
    poisson,
    relaxed,
    transformed_distribution,
    transforms,
    uniform,
    utils,
    von_mises,
    wishart,
)
from facula.distributions.bernoulli import Bernoulli, Binomial, Geometric, NegativeBinomial
from facula.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from facula.distributions.cauchy import Cauchy, HalfCauchy, StudentT
from facula.distributions.constraint_registry import biject_to, transform_to
from facula.distributions.dirichlet import Beta, Dirichlet, Kumaraswamy
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.exponential import Exponential, Laplace
from facula.distributions.extreme_value import GeneralizedPareto, Gumbel, Pareto, Weibull
from facula.distributions.gamma import Chi2, FisherSnedecor, Gamma, InverseGamma
from facula.distributions.independent import Independent
from facula.distributions.kl import kl_divergence, register_kl
from facula.distributions.mixture_same_family import MixtureSameFamily
from facula.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from facula.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from facula.distributions.poisson import Poisson
from facula.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from facula.distributions.uniform import ContinuousBernoulli, Uniform
from facula.distributions.von_mises import VonMises
from facula.distributions.wishart import LKJCholesky, Wishart

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

# torch has a module for each distribution; here a family shares one, which has those names too.
_MODULES: dict[Any, str] = {
    bernoulli: "binomial geometric negative_binomial",
    categorical: "multinomial one_hot_categorical",
    cauchy: "half_cauchy studentT",
    dirichlet: "beta kumaraswamy",
    exponential: "laplace",
    extreme_value: "generalized_pareto gumbel pareto weibull",
    gamma: "chi2 fishersnedecor inverse_gamma",
    multivariate_normal: "lowrank_multivariate_normal",
    normal: "half_normal log_normal logistic_normal",
    relaxed: "relaxed_bernoulli relaxed_categorical",
    uniform: "continuous_bernoulli",
    wishart: "lkj_cholesky",
}
for _module, _names in _MODULES.items():
    for _name in _names.split():
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
